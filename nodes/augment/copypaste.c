/* copypaste.c: <augment.copypaste>: objects of a further image are pasted (Ghiasi et al. 2021):
 * the pixels of their masks, or, if the loader reads none, of their boxes. */
#include "nodes/augment/family.h"

#include <math.h>

typedef struct conf {
    DG_AUGMENT_FIELDS;
    double share, least, larger, cover;
    int64_t most;
} conf;

enum { PLACES = 10 /* tried for an object that would cover another */ };

static const dg_attr attrs[] = {
    DG_AUGMENT_ATTRS(conf, 0.5),
    DG_NUM(conf, share, 0.5, 0, 1, "probability of each object of the further image"),
    DG_INT(conf, most, 10, 1, 1000, "most objects that are pasted into one image"),
    DG_NUM(conf, least, 0.8, 0.01, 100, "smallest factor of an object's size"),
    DG_NUM(conf, larger, 1.25, 0.01, 100, "largest factor of an object's size"),
    DG_NUM(conf, cover, 0.3, 0, 0.99, "largest share of an object that a pasted one may cover"),
    { 0 },
};

static void check(dg_check *k, const void *self)
{
    const conf *c = self;

    dg_augment_check(k, &c->until, NULL);
    if (c->least > c->larger)
        dg_check_fail(k, "least", "augment-range", "is more than larger=\"%g\"", c->larger);
}

/* One object alone: its image is its box, its box is the image. */
static int cut_out(dg_sample *one, const dg_sample *from, int i, dg_diag *d)
{
    const dg_box b = from->objects[i].box;
    const int x = (int)fmax(0, floor(b.x1)), y = (int)fmax(0, floor(b.y1));
    const int x2 = (int)fmin(from->image.w, ceil(b.x2)), y2 = (int)fmin(from->image.h, ceil(b.y2));
    int rc = dg_augment_copy(one, from, 0, d);

    if (rc || x2 - x < 1 || y2 - y < 1)
        return rc ? rc : 1;
    one->objects[0] = from->objects[i];
    if (dg_augment_masks(from))
        one->masks[0] = from->masks[i];
    one->n_objects = 1;
    return dg_augment_crop(one, x, y, x2 - x, y2 - y, d);
}

/* True if the object at (x, y) leaves enough of all others. */
static bool leaves_enough(const conf *c, const dg_sample *sm, const dg_patch *p)
{
    for (int i = 0; i < sm->n_objects; i++)
        if (dg_augment_covered(sm, i, p) > c->cover)
            return false;
    return true;
}

static void paste_pixels(dg_image *to, const dg_image *from, const dg_patch *p)
{
    for (int y = 0; y < p->h; y++)
        for (int x = 0; x < p->w; x++)
            if (!p->on || p->on[(ptrdiff_t)y * p->w + x])
                for (int k = 0; k < 3; k++)
                    to->rgb[3 * ((ptrdiff_t)(p->y + y) * to->w + p->x + x) + k] =
                        from->rgb[3 * ((ptrdiff_t)y * p->w + x) + k];
}

static int paste(const conf *c, dg_sample *sm, dg_sample *one, dg_draw *r, dg_diag *d)
{
    const double f = dg_draw_range(r, c->least, c->larger);
    const int w = (int)(one->image.w * f + 0.5), h = (int)(one->image.h * f + 0.5);
    const dg_mask *masks;
    dg_image whole = sm->image;
    dg_patch p = { 0, 0, w, h, NULL };
    int part_w, part_h, rc = 0;

    dg_sample_part(sm, &part_w, &part_h); /* not into the filling of an image */
    if (w < 1 || h < 1 || w > part_w || h > part_h)
        return 0; /* such an object does not fit into this image */
    DG_TRY(dg_sample_resize(one, w, h, d));
    masks = dg_augment_masks(one);
    p.on = masks ? masks[0].on : NULL;
    for (int i = 0; i < PLACES; i++) {
        p.x = (int)dg_draw_below(r, part_w - w + 1);
        p.y = (int)dg_draw_below(r, part_h - h + 1);
        if (!leaves_enough(c, sm, &p))
            continue;
        dg_augment_unmask(sm, &p);
        paste_pixels(&whole, &one->image, &p);
        return dg_augment_lay(sm, one, p.x, p.y, 0, d);
    }
out:
    return rc;
}

static int item(const void *self, dg_sample *sm, dg_draw *r, const dg_clock *clock, dg_diag *d)
{
    const conf *c = self;
    dg_sample other, one;
    int64_t left = c->most;
    int rc = 0;

    if (!DG_AUGMENT_ON(c, r, clock))
        return 0;
    DG_TRY(dg_sample_further(&other, sm, r, d));
    for (int i = 0; i < other.n_objects && left; i++) {
        if (dg_draw_uniform(r) >= c->share || !dg_augment_takes(sm, sm->n_objects + 1))
            continue;
        rc = cut_out(&one, &other, i, d);
        if (rc == 1)
            continue; /* it has no pixel */
        if (rc)
            goto out;
        DG_TRY(paste(c, sm, &one, r, d));
        left--;
    }
    rc = 0;
    dg_augment_trim(sm, 0);
out:
    return rc;
}

const dg_node_class dg_node_augment_copypaste = {
    DG_AUGMENT_CLASS(conf, dg_augment_further_ports),
    .name = "augment.copypaste",
    .brief = "Pastes objects of a further image.",
    .doc = "The further image is drawn from the loader's data set, and changed by the nodes before "
           "this one. Its objects keep their proportions and are pasted at drawn places, by their "
           "masks if the loader reads masks, else as rectangles. Objects that do not fit, would "
           "cover another one, or be more than the batch takes (max_objects) are left out.",
};
