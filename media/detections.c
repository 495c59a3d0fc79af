/* detections.c: reads COCO's result files,
 * [{"image_id":..,"category_id":..,"bbox":[x,y,w,h],"score":..}, ...]. */
#include "media/coco.h"

#include <stddef.h>
#include <string.h>

#include "base/file.h"
#include "media/records.h"

typedef struct raw_detection {
    int64_t image, category;
    double box[4], score;
} raw_detection;

static const dg_json_field fields[] = {
    { "image_id", DG_JSON_ID, true, offsetof(raw_detection, image) },
    { "category_id", DG_JSON_ID, true, offsetof(raw_detection, category) },
    { "bbox", DG_JSON_BOX, true, offsetof(raw_detection, box) },
    { "score", DG_JSON_REAL, true, offsetof(raw_detection, score) },
    { 0 },
};

typedef struct reading {
    dg_found *out;
    int64_t cap, n_unknown, first_unknown;
    const dg_coco *truth;
    const char *name;
    dg_diag *d;
} reading;

static int take_detection(void *ctx, dg_json_reader *r, const void *record, uint32_t has,
                          size_t offset)
{
    reading *t = ctx;
    const raw_detection *x = record;
    const int image = dg_coco_find_image(t->truth, x->image),
              label = dg_coco_find_class(t->truth, x->category);

    (void)has;
    if (image < 0)
        return dg_json_fail_at(r, offset, "detections-image",
                               "this detection has image_id %lld, but %s has no such image",
                               (long long)x->image, dg_coco_path(t->truth));
    if (label < 0) {
        if (t->n_unknown++ == 0)
            t->first_unknown = x->category;
        return 0;
    }
    if (t->out->n == t->cap) {
        const int64_t cap = t->cap ? 2 * t->cap : 256;
        dg_detection *grown = dg_try_alloc((size_t)cap * sizeof *grown);

        if (!grown)
            return dg_fail(t->d, DG_EMEMORY, (dg_where){ t->name, 0, 0, NULL }, "coco-memory",
                           "no memory for more than %lld detections", (long long)t->cap);
        if (t->out->n)
            memcpy(grown, t->out->items, (size_t)t->out->n * sizeof *grown);
        dg_free(t->out->items);
        t->out->items = grown;
        t->cap = cap;
    }
    t->out->items[t->out->n++] = (dg_detection){ .image = image,
                                                 .label = label,
                                                 .x = x->box[0],
                                                 .y = x->box[1],
                                                 .w = x->box[2],
                                                 .h = x->box[3],
                                                 .score = x->score };
    return 0;
}

int dg_detections_parse(dg_found *out, const char *text, size_t n, const char *name,
                        const dg_coco *truth, dg_diag *d)
{
    const dg_section list = { .noun = "detection", .fields = fields, .take = take_detection };
    reading t = { .out = out, .truth = truth, .name = name, .d = d };
    dg_arena *a = dg_arena_open();
    int rc;

    *out = (dg_found){ 0 };
    DG_TRY(dg_records_read(text, n, name, &list, 1, a, &t, d));
    if (t.n_unknown)
        dg_warn(d, (dg_where){ name, 0, 0, NULL }, "detections-category",
                "%lld detection%s left out: %s has no category %lld%s", (long long)t.n_unknown,
                t.n_unknown > 1 ? "s" : "", dg_coco_path(truth), (long long)t.first_unknown,
                t.n_unknown > 1 ? " (the first of them)" : "");
out:
    dg_arena_close(&a);
    if (rc < 0)
        dg_detections_free(out);
    return rc;
}

int dg_detections_read(dg_found *out, const char *path, const dg_coco *truth, dg_diag *d)
{
    dg_mapping m = { 0 };
    int rc;

    *out = (dg_found){ 0 };
    DG_TRY(dg_file_map(&m, path, d));
    DG_TRY(dg_detections_parse(out, (const char *)m.p, m.n, path, truth, d));
out:
    dg_file_unmap(&m);
    return rc;
}

void dg_detections_free(dg_found *x)
{
    dg_free(x->items);
    *x = (dg_found){ 0 };
}
