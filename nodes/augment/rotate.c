/* rotate.c: <augment.rotate>: turns by a drawn angle, or by quarters.
 *
 * Sines and cosines are rounded to 1/65536 and positions computed in integers, so that every
 * machine gives the same pixels and a quarter turn only moves them. */
#include "nodes/augment/family.h"

#include <math.h>
#include <string.h>

typedef struct conf {
    DG_AUGMENT_FIELDS;
    double degrees, visible;
    int64_t fill, box;
    bool quarters;
} conf;

enum { CORNERS, ELLIPSE }; /* box */

static const dg_attr attrs[] = {
    DG_AUGMENT_ATTRS(conf, 0.5),
    DG_NUM(conf, degrees, 10, 0, 180, "the angle is drawn from -degrees to degrees"),
    DG_BOOL(conf, quarters, false,
            "turn by 90, 180 or 270 degrees instead; the sides change places with the image's"),
    DG_ENUM(conf, box, CORNERS, "corners|ellipse",
            "the new box holds the old one's corners, which never cuts an object, or the ellipse "
            "in it, which is closer to round ones; objects with masks get their mask's box"),
    DG_INT(conf, fill, 114, 0, 255, "gray where there is no image"),
    DG_NUM(conf, visible, 0.1, 0, 1, "objects of which less is left inside are dropped"),
    { 0 },
};

static void check(dg_check *k, const void *self)
{
    dg_augment_check(k, &((const conf *)self)->until, NULL);
}

enum { ONE = 1 << 16 };

typedef struct turn {
    int64_t c, s; /* cosine, sine, times ONE */
    int w, h;     /* of the result */
} turn;

/* A place in the image before the turn, in 1/ONE of a pixel; whole numbers are centres of pixels.
 */
typedef struct place {
    int64_t x, y;
} place;

static place from(const turn *t, const dg_image *in, int x, int y)
{
    const int64_t dx = 2 * x + 1 - t->w, dy = 2 * y + 1 - t->h; /* from the centre, halves */

    return (place){ ((t->c * dx + t->s * dy) + (int64_t)(in->w - 1) * ONE) >> 1,
                    ((t->c * dy - t->s * dx) + (int64_t)(in->h - 1) * ONE) >> 1 };
}

static int64_t channel(const dg_image *in, int64_t x, int64_t y, int k, int64_t fill)
{
    return x < 0 || y < 0 || x >= in->w || y >= in->h ? fill : in->rgb[3 * (y * in->w + x) + k];
}

static void turn_pixels(dg_image *out, const dg_image *in, const turn *t, int64_t fill)
{
    for (int y = 0; y < t->h; y++)
        for (int x = 0; x < t->w; x++) {
            const place p = from(t, in, x, y);
            const int64_t ix = p.x >> 16, iy = p.y >> 16, fx = p.x & (ONE - 1),
                          fy = p.y & (ONE - 1);

            for (int k = 0; k < 3; k++) {
                int64_t upper = channel(in, ix, iy, k, fill) * (ONE - fx) +
                                channel(in, ix + 1, iy, k, fill) * fx,
                        lower = channel(in, ix, iy + 1, k, fill) * (ONE - fx) +
                                channel(in, ix + 1, iy + 1, k, fill) * fx;
                int64_t v = upper * (ONE - fy) + lower * fy;

                out->rgb[3 * ((ptrdiff_t)y * t->w + x) + k] =
                    (uint8_t)((v + (int64_t)ONE * ONE / 2) / ONE / ONE);
            }
        }
}

static int turn_mask(dg_mask *m, dg_scratch *s, const turn *t, dg_diag *d)
{
    const dg_image size = { m->w, m->h, NULL };
    uint8_t *on = dg_scratch_alloc(s, (size_t)t->w * (size_t)t->h);

    if (!on)
        return dg_fail(d, DG_EMEMORY, DG_NOWHERE, "image-memory",
                       "no memory for a mask of %d x %d pixels", t->w, t->h);
    for (int y = 0; y < t->h; y++)
        for (int x = 0; x < t->w; x++) {
            const place p = from(t, &size, x, y);
            const int64_t ix = (p.x + ONE / 2) >> 16, iy = (p.y + ONE / 2) >> 16;

            on[(ptrdiff_t)y * t->w + x] =
                ix >= 0 && iy >= 0 && ix < m->w && iy < m->h && m->on[(ptrdiff_t)iy * m->w + ix];
        }
    *m = (dg_mask){ t->w, t->h, on };
    return 0;
}

/* The box around the turned box, or around the ellipse in it. */
static dg_box turn_box(dg_box b, const turn *t, const dg_image *in, bool ellipse)
{
    const double c = (double)t->c / ONE, s = (double)t->s / ONE;
    const double dx = (b.x1 + b.x2 - in->w) / 2, dy = (b.y1 + b.y2 - in->h) / 2;
    const double x = c * dx - s * dy + t->w / 2.0, y = s * dx + c * dy + t->h / 2.0;
    const double w = (b.x2 - b.x1) / 2, h = (b.y2 - b.y1) / 2;
    const double rx = ellipse ? hypot(c * w, s * h) : fabs(c * w) + fabs(s * h);
    const double ry = ellipse ? hypot(s * w, c * h) : fabs(s * w) + fabs(c * h);

    return (dg_box){ x - rx, y - ry, x + rx, y + ry };
}

/* The part of a box that its mask needs; the box, if the mask has no pixel. */
static dg_box box_of(const dg_mask *m, dg_box b)
{
    int x1 = m->w, y1 = m->h, x2 = 0, y2 = 0;

    for (int y = 0; y < m->h; y++)
        for (int x = 0; x < m->w; x++)
            if (m->on[(ptrdiff_t)y * m->w + x]) {
                x1 = x < x1 ? x : x1;
                x2 = x >= x2 ? x + 1 : x2;
                y1 = y < y1 ? y : y1;
                y2 = y + 1;
            }
    if (!y2)
        return b;
    return (dg_box){ fmax(b.x1, x1), fmax(b.y1, y1), fmin(b.x2, x2), fmin(b.y2, y2) };
}

static turn draw_turn(const conf *c, const dg_image *im, dg_draw *r)
{
    static const int64_t sines[] = { ONE, 0, -ONE, 0 };
    const double pi = 3.14159265358979323846;
    const double angle = dg_draw_range(r, -c->degrees, c->degrees) * pi / 180;
    const int quarter = c->quarters ? (int)dg_draw_below(r, 3) : 0;

    if (!c->quarters)
        return (turn){ llrint(cos(angle) * ONE), llrint(sin(angle) * ONE), im->w, im->h };
    return (turn){ sines[quarter + 1], sines[quarter], quarter == 1 ? im->w : im->h,
                   quarter == 1 ? im->h : im->w };
}

static int item(const void *self, dg_sample *sm, dg_draw *r, const dg_clock *clock, dg_diag *d)
{
    const conf *c = self;
    dg_mask *masks = dg_augment_masks(sm);
    dg_image whole = sm->image;
    turn t;
    int rc = 0;

    if (!DG_AUGMENT_ON(c, r, clock))
        return 0;
    t = draw_turn(c, &whole, r);
    DG_TRY(dg_image_new(&sm->image, sm->scratch, t.w, t.h, d));
    dg_augment_part(sm, 0, 0); /* not an upright rectangle */
    turn_pixels(&sm->image, &whole, &t, c->fill);
    for (int i = 0; i < sm->n_objects; i++) {
        dg_box *b = &sm->objects[i].box;

        *b = turn_box(*b, &t, &whole, c->box == ELLIPSE);
        if (masks) {
            DG_TRY(turn_mask(&masks[i], sm->scratch, &t, d));
            *b = box_of(&masks[i], *b);
        }
    }
    dg_augment_trim(sm, c->visible);
out:
    return rc;
}

const dg_node_class dg_node_augment_rotate = {
    DG_AUGMENT_CLASS(conf, dg_augment_ports),
    .name = "augment.rotate",
    .brief = "Turns the image by a drawn angle.",
};
