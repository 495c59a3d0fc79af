/* mosaic.c: <augment.mosaic>: four images in one (Bochkovskiy et al. 2020, section 3.3).
 *
 * The result has sides of 2 * size pixels. Each image is resized to a longer side of `size`, and
 * its corner touches a crossing point that is drawn near the middle; what reaches outside is cut,
 * the rest is gray. */
#include "nodes/augment/family.h"

typedef struct conf {
    DG_AUGMENT_FIELDS;
    int64_t size, fill;
    double centre, visible;
} conf;

static const dg_attr attrs[] = {
    DG_AUGMENT_ATTRS(conf, 0.5),
    DG_INT(conf, size, 320, 16, DG_IMAGE_MAX_SIDE / 4,
           "longer side of each of the four images, in pixels; the result has twice as many"),
    DG_NUM(conf, centre, 0.5, 0, 1,
           "the crossing is drawn from `centre` to 2 - `centre` times `size`"),
    DG_INT(conf, fill, 114, 0, 255, "gray where there is no image"),
    DG_NUM(conf, visible, 0.1, 0, 1, "objects of which less is left inside are dropped"),
    { 0 },
};

static void check(dg_check *k, const void *self)
{
    dg_augment_check(k, &((const conf *)self)->until, NULL);
}

static int item(const void *self, dg_sample *sm, dg_draw *r, const dg_clock *clock, dg_diag *d)
{
    const conf *c = self;
    const int side = 2 * (int)c->size;
    dg_sample all, part;
    int x, y, rc = 0;

    if (!DG_AUGMENT_ON(c, r, clock))
        return 0;
    x = (int)((double)c->size * dg_draw_range(r, c->centre, 2 - c->centre));
    y = (int)((double)c->size * dg_draw_range(r, c->centre, 2 - c->centre));
    DG_TRY(dg_augment_canvas(&all, sm, side, side, (uint8_t)c->fill, d));
    for (int i = 0; i < 4; i++) {
        if (i)
            DG_TRY(dg_sample_further(&part, sm, r, d));
        else
            DG_TRY(dg_augment_copy(&part, sm, 0, d));
        DG_TRY(dg_augment_fit(&part, (double)c->size, d));
        DG_TRY(dg_augment_lay(&all, &part, i % 2 ? x : x - part.image.w,
                              i / 2 ? y : y - part.image.h, DG_AUGMENT_WHOLE, d));
    }
    dg_augment_trim(&all, c->visible);
    if (dg_augment_takes(&all, all.n_objects))
        *sm = all;
out:
    return rc;
}

const dg_node_class dg_node_augment_mosaic = {
    DG_AUGMENT_CLASS(conf, dg_augment_further_ports),
    .name = "augment.mosaic",
    .brief = "Puts four images into one.",
    .doc = "The three further images are drawn from the loader's data set, and changed by the "
           "nodes before this one. An image that would get more objects than the batch takes "
           "(max_objects) stays as it is.",
};
