/* set.c: a drawn data set without files, for plans, batches and metrics. */
#include "check/check_internal.h"

#include <string.h>

enum { MOST = 6 }; /* most objects per item */

typedef struct set {
    dg_dataset ds;
    const dg_trial *t;
    dg_item_info *infos;
    dg_coco_annotation *truths;
    int64_t *first; /* truths of item i: first[i] .. first[i+1]-1 */
} set;

static const dg_coco_class classes[DG_DRAWN_CLASSES] = { { 1, "disc" },
                                                         { 3, "square" },
                                                         { 7, "ring" } };

static void info(void *self, int item, dg_item_info *out)
{
    const set *s = self;

    *out = s->infos[item];
}

static int sample(void *self, int item, dg_sample *out, dg_scratch *scratch, dg_diag *d)
{
    const set *s = self;
    const dg_item_info *i = &s->infos[item];
    dg_rng r = dg_rng_begin(dg_rng_named(s->t->seed, "pixels"), (uint64_t)item, 0);
    int rc;

    *out = (dg_sample){ .size = sizeof *out,
                        .item = item,
                        .image_id = i->id,
                        .path = i->name,
                        .orig_w = i->w,
                        .orig_h = i->h,
                        .n_objects = i->n_objects,
                        .objects = dg_scratch_alloc(scratch, MOST * sizeof(dg_object)),
                        .scratch = scratch };
    rc = out->objects ? dg_image_new(&out->image, scratch, i->w, i->h, d) : -DG_EMEMORY;
    for (int k = 0; rc == 0 && k < 3 * i->w * i->h; k++)
        out->image.rgb[k] = (uint8_t)dg_rng_u32(&r);
    for (int k = 0; rc == 0 && k < i->n_objects; k++) {
        const dg_coco_annotation *a = &s->truths[s->first[item] + k];

        out->objects[k] =
            (dg_object){ { a->x, a->y, a->x + a->w, a->y + a->h }, a->label, false, a->area };
    }
    return rc;
}

static void close_set(void *self)
{
    (void)self; /* the arena owns it */
}

static void draw_infos(set *s, unsigned other)
{
    static const dg_size sizes[] = { { 64, 48 }, { 48, 64 }, { 96, 96 }, { 33, 120 }, { 7, 5 } };
    dg_rng size =
        dg_rng_begin(dg_rng_named(s->t->seed, other & DG_OTHER_SIZES ? "other sizes" : "sizes"), 0,
                     0);
    dg_rng objects =
        dg_rng_begin(dg_rng_named(s->t->seed,
                                  other & DG_OTHER_OBJECTS ? "other objects" : "objects"),
                     0, 0);

    for (int i = 0; i < s->ds.n_items; i++) {
        dg_size at = sizes[dg_rng_below(&size, sizeof sizes / sizeof *sizes)];

        s->infos[i] = (dg_item_info){ 100 + 7 * i, dg_printf(s->t->arena, "drawn/%d.jpg", i),
                                      (int)at.w, (int)at.h, (int)dg_rng_below(&objects, MOST + 1) };
        s->first[i + 1] = s->first[i] + s->infos[i].n_objects;
    }
}

static void draw_truths(set *s)
{
    dg_rng r = dg_rng_begin(dg_rng_named(s->t->seed, "boxes"), 0, 0);

    for (int i = 0; i < s->ds.n_items; i++)
        for (int64_t k = s->first[i]; k < s->first[i + 1]; k++) {
            double w = dg_rng_range(&r, 2, s->infos[i].w), h = dg_rng_range(&r, 2, s->infos[i].h);

            s->truths[k] = (dg_coco_annotation){ k + 1,
                                                 i,
                                                 (int)dg_rng_below(&r, DG_DRAWN_CLASSES),
                                                 dg_rng_range(&r, 0, s->infos[i].w - w),
                                                 dg_rng_range(&r, 0, s->infos[i].h - h),
                                                 w,
                                                 h,
                                                 w * h,
                                                 false,
                                                 false };
        }
}

const dg_dataset *dg_trial_data(const dg_trial *t, int n, unsigned other)
{
    set *s = DG_NEW(t->arena, set);

    s->t = t;
    s->infos = DG_NEW_N(t->arena, n + 1, dg_item_info);
    s->first = DG_NEW_N(t->arena, n + 1, int64_t);
    s->ds = (dg_dataset){ .size = sizeof s->ds,
                          .n_items = n,
                          .n_classes = DG_DRAWN_CLASSES,
                          .classes = classes,
                          .name = "drawn data",
                          .digest = t->seed + other,
                          .self = s,
                          .info = info,
                          .sample = sample,
                          .close = close_set };
    draw_infos(s, other);
    s->truths = DG_NEW_N(t->arena, s->first[n] + 1, dg_coco_annotation);
    draw_truths(s);
    s->ds.truths = s->truths;
    s->ds.n_truths = s->first[n];
    return &s->ds;
}
