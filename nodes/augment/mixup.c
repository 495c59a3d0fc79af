/* mixup.c: <augment.mixup>: a further image shines through (Zhang et al. 2018; for detection, Zhang
 * et al. 2019, Bag of Freebies). The objects of both count in full.
 *
 * The share of the first image is drawn from Beta(alpha, alpha). A draw of it from two uniform ones
 * is (1 + sqrt(1 - U^(2 / (2 alpha - 1))) cos(2 pi V)) / 2, for alpha > 1/2 (Ulrich 1984; Devroye
 * 1986, IX.4.1). */
#include "nodes/augment/family.h"

#include <math.h>

typedef struct conf {
    DG_AUGMENT_FIELDS;
    double alpha;
} conf;

static const dg_attr attrs[] = {
    DG_AUGMENT_ATTRS(conf, 0.15),
    DG_NUM(conf, alpha, 32, 1, 1e4,
           "the images' shares are drawn from Beta(alpha, alpha): 32 gives about half of each, 1 "
           "any share"),
    { 0 },
};

static void check(dg_check *k, const void *self)
{
    dg_augment_check(k, &((const conf *)self)->until, NULL);
}

static double draw_share(double alpha, dg_draw *r)
{
    const double pi = 3.14159265358979323846;
    const double u = dg_draw_uniform(r), v = dg_draw_uniform(r);

    return 0.5 * (1 + sqrt(1 - pow(u, 2 / (2 * alpha - 1))) * cos(2 * pi * v));
}

static int item(const void *self, dg_sample *sm, dg_draw *r, const dg_clock *clock, dg_diag *d)
{
    const conf *c = self;
    int64_t share;
    dg_sample other;
    double fit;
    int x, y, rc = 0;

    if (!DG_AUGMENT_ON(c, r, clock))
        return 0;
    share = llrint(draw_share(c->alpha, r) * DG_AUGMENT_WHOLE);
    DG_TRY(dg_sample_further(&other, sm, r, d));
    if (!dg_augment_takes(sm, sm->n_objects + other.n_objects))
        return 0;
    fit = fmin((double)sm->image.w / other.image.w, (double)sm->image.h / other.image.h);
    DG_TRY(dg_sample_resize(&other, (int)fmax(1, fit * other.image.w),
                            (int)fmax(1, fit * other.image.h), d));
    x = (int)dg_draw_below(r, sm->image.w - other.image.w + 1);
    y = (int)dg_draw_below(r, sm->image.h - other.image.h + 1);
    DG_TRY(dg_augment_lay(sm, &other, x, y, DG_AUGMENT_WHOLE - share, d));
    dg_augment_part(sm, 0, 0); /* it may lie over the filling of the first */
    dg_augment_trim(sm, 0);
out:
    return rc;
}

const dg_node_class dg_node_augment_mixup = {
    DG_AUGMENT_CLASS(conf, dg_augment_further_ports),
    .name = "augment.mixup",
    .brief = "Blends a further image into each, with the objects of both.",
    .doc = "The further image is drawn from the loader's data set, changed by the nodes before "
           "this one, made as large as fits, and laid at a drawn place. An image that would get "
           "more objects than the batch takes (max_objects) stays as it is.",
};
