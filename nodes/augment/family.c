/* family.c: see family.h. */
#include "nodes/augment/family.h"

#include <math.h>
#include <string.h>

const dg_port dg_augment_ports[] = {
    DG_IN("in", "picks", "the sampler's picks"),
    DG_OUT("out", "samples", "augmented images with their objects"),
    { 0 },
};

const dg_port dg_augment_further_ports[] = {
    DG_IN("in", "picks", "the sampler's picks"),
    DG_OUT_FLAGS("out", "samples", DG_PORT_FURTHER, "augmented images with their objects"),
    { 0 },
};

const dg_rule dg_augment_rules[] = {
    { DG_RULE_VALUE, .to = "out", .when = "seed=rank", .why = "draws on each rank for itself" },
    { DG_RULE_CORRELATED, .from = "in", .when = "seed=shared",
      .why = "draws the same numbers on every rank" },
    { 0 },
};

bool dg_augment_on(double p, const dg_when *until, dg_draw *r, const dg_clock *clock)
{
    return !dg_reached(until, clock) && dg_draw_uniform(r) < p;
}

void dg_augment_check(dg_check *k, const dg_when *until, const char *step)
{
    static const char better[] = "say a step, an epoch or a share of the run, like \"epoch 71\" or "
                                 "\"90 %\"";

    if (until->unit == DG_MINUTES && step)
        dg_check_fail(k, NULL, "augment-until", "until=\"%g min\" of <%s>: %s", until->n, step,
                      better);
    else if (until->unit == DG_MINUTES)
        dg_check_fail(k, "until", "augment-until", "%s", better);
}

/* ---- lists of objects ------------------------------------------------------------------------ */

dg_mask *dg_augment_masks(const dg_sample *sm)
{
    return sm->size > offsetof(dg_sample, masks) ? sm->masks : NULL;
}

static int no_memory(dg_diag *d, int n)
{
    return dg_fail(d, DG_EMEMORY, DG_NOWHERE, "out-of-memory", "no memory for %d objects", n);
}

int dg_augment_copy(dg_sample *out, const dg_sample *sm, int more, dg_diag *d)
{
    const dg_mask *masks = dg_augment_masks(sm);
    const size_t n = (size_t)sm->n_objects, room = n + (size_t)more + 1;
    dg_object *objects = dg_scratch_alloc(sm->scratch, room * sizeof *objects);
    dg_mask *copies = dg_scratch_alloc(sm->scratch, room * sizeof *copies);

    if (!objects || !copies)
        return no_memory(d, (int)room);
    if (n)
        memcpy(objects, sm->objects, n * sizeof *objects);
    if (n && masks)
        memcpy(copies, masks, n * sizeof *copies);
    *out = *sm;
    out->objects = objects;
    if (sm->size > offsetof(dg_sample, masks))
        out->masks = masks || more ? copies : NULL;
    return 0;
}

int dg_augment_canvas(dg_sample *out, const dg_sample *sm, int w, int h, uint8_t gray, dg_diag *d)
{
    int rc = dg_augment_copy(out, sm, 0, d);

    if (!rc)
        rc = dg_image_new(&out->image, sm->scratch, w, h, d);
    if (rc)
        return rc;
    memset(out->image.rgb, gray, 3 * (size_t)w * (size_t)h);
    out->n_objects = 0;
    dg_augment_part(out, 0, 0);
    return 0;
}

void dg_augment_part(dg_sample *sm, int w, int h)
{
    if (sm->size <= offsetof(dg_sample, part_h)) /* code of an older version made it */
        return;
    sm->part_w = w;
    sm->part_h = h;
}

void dg_augment_drop(dg_sample *sm, int i)
{
    dg_mask *masks = dg_augment_masks(sm);
    const size_t behind = (size_t)(--sm->n_objects - i);

    memmove(sm->objects + i, sm->objects + i + 1, behind * sizeof *sm->objects);
    if (masks)
        memmove(masks + i, masks + i + 1, behind * sizeof *masks);
}

bool dg_augment_takes(const dg_sample *sm, int n)
{
    const dg_further *f = sm->size > offsetof(dg_sample, further) ? sm->further : NULL;

    return !f || !f->most_objects || n <= f->most_objects;
}

/* ---- geometry -------------------------------------------------------------------------------- */

static double clamp(double v, double most)
{
    return fmax(0, fmin(v, most));
}

static double area(dg_box b)
{
    return fmax(0, b.x2 - b.x1) * fmax(0, b.y2 - b.y1);
}

static dg_box cut(dg_box b, double w, double h)
{
    return (dg_box){ clamp(b.x1, w), clamp(b.y1, h), clamp(b.x2, w), clamp(b.y2, h) };
}

void dg_augment_trim(dg_sample *sm, double least)
{
    for (int i = sm->n_objects - 1; i >= 0; i--) {
        const dg_box whole = sm->objects[i].box, b = cut(whole, sm->image.w, sm->image.h);

        sm->objects[i].box = b;
        if (b.x2 - b.x1 < 1 || b.y2 - b.y1 < 1 || area(b) < least * area(whole))
            dg_augment_drop(sm, i);
    }
}

int dg_augment_crop(dg_sample *sm, int x, int y, int w, int h, dg_diag *d)
{
    dg_sample before;
    int rc = dg_augment_copy(&before, sm, 0, d);

    if (!rc)
        rc = dg_sample_crop(sm, x, y, w, h, d);
    for (int i = 0; i < sm->n_objects && !rc; i++) {
        const dg_box b = before.objects[i].box;

        sm->objects[i].box = cut((dg_box){ b.x1 - x, b.y1 - y, b.x2 - x, b.y2 - y }, w, h);
    }
    return rc;
}

int dg_augment_fit(dg_sample *sm, double longer, dg_diag *d)
{
    const double w = sm->image.w, h = sm->image.h, f = longer / fmax(w, h);

    return dg_sample_resize(sm, (int)fmax(1, w * f + 0.5), (int)fmax(1, h * f + 0.5), d);
}

/* Where an image of w x h pixels at (x, y) and a canvas overlap, in the canvas. */
static dg_patch overlap(const dg_image *canvas, int x, int y, int w, int h)
{
    const int x1 = x > 0 ? x : 0, y1 = y > 0 ? y : 0;
    const int x2 = x + w < canvas->w ? x + w : canvas->w;
    const int y2 = y + h < canvas->h ? y + h : canvas->h;

    return (dg_patch){ x1, y1, x2 > x1 ? x2 - x1 : 0, y2 > y1 ? y2 - y1 : 0, NULL };
}

static void lay_pixels(const dg_image *to, const dg_image *from, int x, int y, int64_t weight)
{
    const dg_patch p = overlap(to, x, y, from->w, from->h);

    for (int row = p.y; row < p.y + p.h; row++) {
        uint8_t *a = to->rgb + 3 * ((ptrdiff_t)row * to->w + p.x);
        const uint8_t *b = from->rgb + 3 * ((ptrdiff_t)(row - y) * from->w + p.x - x);

        for (int k = 0; k < 3 * p.w; k++)
            a[k] = (uint8_t)((a[k] * (DG_AUGMENT_WHOLE - weight) + b[k] * weight +
                              DG_AUGMENT_WHOLE / 2) /
                             DG_AUGMENT_WHOLE);
    }
}

/* The mask at (x, y) of one as large as the canvas. */
static int lay_mask(dg_mask *out, dg_scratch *s, const dg_image *canvas, const dg_mask *m, int x,
                    int y, dg_diag *d)
{
    const dg_patch p = overlap(canvas, x, y, m->w, m->h);
    const size_t bytes = (size_t)canvas->w * (size_t)canvas->h;
    uint8_t *on = dg_scratch_alloc(s, bytes);

    if (!on)
        return dg_fail(d, DG_EMEMORY, DG_NOWHERE, "image-memory",
                       "no memory for a mask of %d x %d pixels", canvas->w, canvas->h);
    memset(on, 0, bytes);
    for (int row = p.y; p.w && row < p.y + p.h; row++)
        memcpy(on + (ptrdiff_t)row * canvas->w + p.x, m->on + (ptrdiff_t)(row - y) * m->w + p.x - x,
               (size_t)p.w);
    *out = (dg_mask){ canvas->w, canvas->h, on };
    return 0;
}

int dg_augment_lay(dg_sample *sm, const dg_sample *part, int x, int y, int64_t weight, dg_diag *d)
{
    const dg_mask *masks = dg_augment_masks(part), *own = dg_augment_masks(sm);
    const bool masked = (masks || own) && (masks || !part->n_objects) && (own || !sm->n_objects);
    dg_sample all;
    int rc = dg_augment_copy(&all, sm, part->n_objects, d);

    lay_pixels(&sm->image, &part->image, x, y, weight);
    for (int i = 0; !rc && i < part->n_objects; i++) {
        const dg_box b = part->objects[i].box;
        const int k = sm->n_objects + i;

        all.objects[k] = part->objects[i];
        all.objects[k].box = (dg_box){ b.x1 + x, b.y1 + y, b.x2 + x, b.y2 + y };
        if (masked)
            rc = lay_mask(&all.masks[k], sm->scratch, &sm->image, &masks[i], x, y, d);
    }
    if (rc)
        return rc;
    sm->objects = all.objects;
    if (sm->size > offsetof(dg_sample, masks))
        sm->masks = masked ? all.masks : NULL;
    sm->n_objects += part->n_objects;
    return 0;
}

/* ---- covering -------------------------------------------------------------------------------- */

static bool in_patch(const dg_patch *p, int x, int y)
{
    return x >= p->x && y >= p->y && x < p->x + p->w && y < p->y + p->h &&
           (!p->on || p->on[(ptrdiff_t)(y - p->y) * p->w + x - p->x]);
}

/* Shares are of the pixels of a mask in the box, which is around them. */
static double mask_covered(const dg_mask *m, dg_box b, const dg_patch *p)
{
    const dg_box in = cut(b, m->w, m->h);
    const int x2 = (int)ceil(in.x2), y2 = (int)ceil(in.y2);
    int64_t whole = 0, covered = 0;

    for (int y = (int)in.y1; y < y2; y++)
        for (int x = (int)in.x1; x < x2; x++)
            if (m->on[(ptrdiff_t)y * m->w + x]) {
                whole++;
                covered += in_patch(p, x, y);
            }
    return whole ? (double)covered / (double)whole : 0;
}

double dg_augment_covered(const dg_sample *sm, int i, const dg_patch *p)
{
    const dg_mask *masks = dg_augment_masks(sm);
    const dg_box b = sm->objects[i].box;
    const dg_box both = { fmax(b.x1, p->x), fmax(b.y1, p->y), fmin(b.x2, p->x + p->w),
                          fmin(b.y2, p->y + p->h) };

    if (!(area(both) > 0)) /* masks, too, are in their boxes */
        return 0;
    return masks ? mask_covered(&masks[i], b, p) : area(both) / area(b);
}

void dg_augment_unmask(dg_sample *sm, const dg_patch *p)
{
    dg_mask *masks = dg_augment_masks(sm);

    for (int i = 0; masks && i < sm->n_objects; i++)
        for (int y = p->y; y < p->y + p->h; y++)
            for (int x = p->x; x < p->x + p->w; x++)
                if (in_patch(p, x, y))
                    masks[i].on[(ptrdiff_t)y * masks[i].w + x] = 0;
}
