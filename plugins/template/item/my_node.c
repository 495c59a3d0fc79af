/* my.node: erases a random rectangle of every image, so that a detector does not rely on one part
 * of an object. DeVries & Taylor 2017 (Cutout). Objects are left unchanged. */
#include <detrgraph/plugin.h>

#include <string.h>

/* The attributes of the element; the engine fills it from the table below. */
typedef struct conf {
    double p, most;
    int64_t gray;
} conf;

static const dg_port ports[] = {
    DG_IN("in", "picks", "what the sampler picked"),
    DG_OUT("out", "samples", "images with a hole"),
    { 0 },
};

/* member, default, minimum, maximum, description */
static const dg_attr attrs[] = {
    DG_NUM(conf, p, 0.5, 0, 1, "probability of a hole"),
    DG_NUM(conf, most, 0.4, 0, 1, "longest side of the hole, of the image's"),
    DG_INT(conf, gray, 114, 0, 255, "what the hole is filled with"),
    { 0 },
};

/* Called on many threads: a function of the sample and its draws only, with no state between
 * calls. */
static int item(const void *self, dg_sample *sm, dg_draw *draw, const dg_clock *clock, dg_diag *d)
{
    const conf *c = self;
    int w = (int)(sm->image.w * c->most * dg_draw_uniform(draw));
    int h = (int)(sm->image.h * c->most * dg_draw_uniform(draw));
    int x = (int)dg_draw_below(draw, sm->image.w - w + 1);
    int y = (int)dg_draw_below(draw, sm->image.h - h + 1);

    (void)clock;
    (void)d;
    if (dg_draw_uniform(draw) >= c->p)
        return 0;
    for (int row = y; row < y + h; row++)
        memset(&sm->image.rgb[((int64_t)row * sm->image.w + x) * 3], (int)c->gray, (size_t)w * 3);
    return 0;
}

static const dg_node_class node_class = {
    DG_NODE_CLASS,
    .name = "my.node",
    .role = DG_ROLE_AUGMENT,
    .brief = "Hides a random rectangle of every image.",
    .ports = ports,
    .attrs = attrs,
    .conf_size = sizeof(conf),
    .item = item,
};

DG_PLUGIN("my_node", "1.0", &node_class);
