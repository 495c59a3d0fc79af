/* my.node: scales every channel of a feature map by a learned factor.
 *     y[b,h,w,c] = gain[c] x[b,h,w,c]
 * Touvron et al. 2021 (LayerScale). */
#include <detrgraph/plugin.h>

/* The attributes of the element; the engine fills it from the table below. */
typedef struct conf {
    double start;
} conf;

/* Letters are dimensions; a letter has the same size in all ports. */
enum { X };
enum { Y };
static const dg_port ports[] = {
    DG_IN("x", "f[B,H,W,C]", "a feature map, channels last"),
    DG_OUT("y", "f[B,H,W,C]", "the same, every channel scaled"),
    { 0 },
};

/* member, default, minimum, maximum, description */
static const dg_attr attrs[] = {
    DG_NUM(conf, start, 1, -10, 10, "factor of every channel before training"),
    { 0 },
};

/* Builds the forward computation; the engine differentiates it, plans its memory and runs it. */
static void lower(dg_build *b, const void *self, const dg_val in[], dg_val out[])
{
    const conf *c = self;
    int64_t channels = dg_dim(b, in[X], -1);
    dg_val gain = dg_param(b, "gain", DG_SHAPE(channels), dg_init_const(c->start));

    out[Y] = dg_mul(b, in[X], gain);
}

static const dg_node_class node_class = {
    DG_NODE_CLASS,
    .name = "my.node",
    .role = DG_ROLE_ENCODER,
    .brief = "Scales every channel by a learned factor.",
    .ports = ports,
    .attrs = attrs,
    .conf_size = sizeof(conf),
    .lower = lower,
};

DG_PLUGIN("my_node", "1.0", &node_class);
