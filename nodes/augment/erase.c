/* erase.c: <augment.erase>: a drawn rectangle is painted over (Zhong et al. 2020, Random Erasing).
 */
#include "nodes/augment/family.h"

#include <math.h>

typedef struct conf {
    DG_AUGMENT_FIELDS;
    double least, most, aspect, visible;
    int64_t count, fill;
    bool noise;
} conf;

static const dg_attr attrs[] = {
    DG_AUGMENT_ATTRS(conf, 0.5),
    DG_INT(conf, count, 1, 1, 1000, "rectangles"),
    DG_NUM(conf, least, 0.02, 0, 1, "smallest share of the image that a rectangle covers"),
    DG_NUM(conf, most, 0.2, 0, 1, "largest share of the image that a rectangle covers"),
    DG_NUM(conf, aspect, 3.3, 1, 100, "largest aspect ratio of a rectangle"),
    DG_INT(conf, fill, 114, 0, 255, "gray of the rectangles"),
    DG_BOOL(conf, noise, false, "draw the colour of each pixel instead"),
    DG_NUM(conf, visible, 0.3, 0, 1, "objects of which a rectangle leaves less are dropped"),
    { 0 },
};

static void check(dg_check *k, const void *self)
{
    const conf *c = self;

    dg_augment_check(k, &c->until, NULL);
    if (c->least > c->most)
        dg_check_fail(k, "least", "augment-range", "is more than most=\"%g\"", c->most);
}

/* The aspect ratio is drawn on a logarithmic scale: as often low as wide. */
static dg_patch draw_patch(const conf *c, const dg_image *im, dg_draw *r)
{
    const double area = dg_draw_range(r, c->least, c->most) * im->w * im->h;
    const double ratio = exp(dg_draw_range(r, -log(c->aspect), log(c->aspect)));
    const double w = fmin(im->w, rint(sqrt(area * ratio))),
                 h = fmin(im->h, rint(sqrt(area / ratio)));
    dg_patch p = { 0, 0, (int)w, (int)h, NULL };

    p.x = (int)dg_draw_below(r, im->w - p.w + 1);
    p.y = (int)dg_draw_below(r, im->h - p.h + 1);
    return p;
}

static void paint(const conf *c, dg_image *im, const dg_patch *p, dg_draw *r)
{
    for (int y = p->y; y < p->y + p->h; y++)
        for (int k = 3 * p->x; k < 3 * (p->x + p->w); k++)
            im->rgb[3 * (ptrdiff_t)y * im->w + k] =
                (uint8_t)(c->noise ? dg_draw_below(r, 256) : c->fill);
}

static int item(const void *self, dg_sample *sm, dg_draw *r, const dg_clock *clock, dg_diag *d)
{
    const conf *c = self;

    (void)d;
    if (!DG_AUGMENT_ON(c, r, clock))
        return 0;
    for (int64_t i = 0; i < c->count; i++) {
        const dg_patch p = draw_patch(c, &sm->image, r);

        for (int k = sm->n_objects - 1; k >= 0; k--)
            if (1 - dg_augment_covered(sm, k, &p) < c->visible)
                dg_augment_drop(sm, k);
        dg_augment_unmask(sm, &p);
        paint(c, &sm->image, &p, r);
    }
    return 0;
}

const dg_node_class dg_node_augment_erase = {
    DG_AUGMENT_CLASS(conf, dg_augment_ports),
    .name = "augment.erase",
    .brief = "Paints over drawn rectangles.",
    .doc = "Boxes keep their size; an object that is nearly covered is dropped.",
};
