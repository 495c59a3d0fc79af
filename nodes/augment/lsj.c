/* lsj.c: <augment.lsj>: large-scale jitter (Ghiasi et al. 2021): the image is made as large as fits
 * a square, times a drawn factor; then the square is cut out of it, or filled with gray. A batch
 * that keeps proportions takes the gray for padding. */
#include "nodes/augment/family.h"

typedef struct conf {
    DG_AUGMENT_FIELDS;
    int64_t size, fill;
    double least, most, visible;
} conf;

static const dg_attr attrs[] = {
    DG_AUGMENT_ATTRS(conf, 1),
    DG_INT(conf, size, 640, 16, DG_IMAGE_MAX_SIDE / 2, "side of the square, in pixels"),
    DG_NUM(conf, least, 0.1, 0.01, 16, "smallest factor"),
    DG_NUM(conf, most, 2, 0.01, 16, "largest factor"),
    DG_INT(conf, fill, 114, 0, 255, "gray where there is no image"),
    DG_NUM(conf, visible, 0.1, 0, 1, "objects of which less is left inside are dropped"),
    { 0 },
};

static void check(dg_check *k, const void *self)
{
    const conf *c = self;

    dg_augment_check(k, &c->until, NULL);
    if (c->least > c->most)
        dg_check_fail(k, "least", "augment-range", "is more than most=\"%g\"", c->most);
    if ((double)c->size * c->most > DG_IMAGE_MAX_SIDE / 2)
        dg_check_fail(k, "most", "augment-range",
                      "times size=\"%lld\" is more than %d, the most pixels of a side",
                      (long long)c->size, DG_IMAGE_MAX_SIDE / 2);
}

static int item(const void *self, dg_sample *sm, dg_draw *r, const dg_clock *clock, dg_diag *d)
{
    const conf *c = self;
    const int side = (int)c->size;
    dg_sample all;
    int x, y, w, h, rc = 0;

    if (!DG_AUGMENT_ON(c, r, clock))
        return 0;
    DG_TRY(dg_augment_fit(sm, (double)side * dg_draw_range(r, c->least, c->most), d));
    /* a larger image is cut at a drawn place; a smaller one lies in the upper left corner */
    x = (int)dg_draw_below(r, (sm->image.w > side ? sm->image.w - side : 0) + 1);
    y = (int)dg_draw_below(r, (sm->image.h > side ? sm->image.h - side : 0) + 1);
    DG_TRY(dg_augment_canvas(&all, sm, side, side, (uint8_t)c->fill, d));
    DG_TRY(dg_augment_lay(&all, sm, -x, -y, DG_AUGMENT_WHOLE, d));
    dg_sample_part(sm, &w, &h);
    dg_augment_part(&all, w - x < side ? w - x : side, h - y < side ? h - y : side);
    dg_augment_trim(&all, c->visible);
    *sm = all;
out:
    return rc;
}

const dg_node_class dg_node_augment_lsj = {
    DG_AUGMENT_CLASS(conf, dg_augment_ports),
    .name = "augment.lsj",
    .brief = "Large-scale jitter: a drawn scale, then a square that is cut out or filled up.",
};
