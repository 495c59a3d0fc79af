/* detections.c: reads COCO's result files,
 * [{"image_id":..,"category_id":..,"bbox":[x,y,w,h],"score":..}, ...], with masks also
 * "segmentation". */
#include "media/coco.h"

#include <stddef.h>
#include <string.h>

#include "base/file.h"
#include "media/records.h"
#include "media/rle.h"

typedef struct raw_detection {
    int64_t image, category;
    double box[4], score;
    size_t mask;
} raw_detection;

static const dg_json_field fields[] = {
    { "image_id", DG_JSON_ID, true, offsetof(raw_detection, image) },
    { "category_id", DG_JSON_ID, true, offsetof(raw_detection, category) },
    { "bbox", DG_JSON_BOX, true, offsetof(raw_detection, box) },
    { "score", DG_JSON_REAL, true, offsetof(raw_detection, score) },
    { 0 },
};

static const dg_json_field mask_fields[] = {
    { "image_id", DG_JSON_ID, true, offsetof(raw_detection, image) },
    { "category_id", DG_JSON_ID, true, offsetof(raw_detection, category) },
    { "bbox", DG_JSON_BOX, false, offsetof(raw_detection, box) },
    { "score", DG_JSON_REAL, true, offsetof(raw_detection, score) },
    { "segmentation", DG_JSON_PLACE, false, offsetof(raw_detection, mask) },
    { 0 },
};

typedef struct reading {
    dg_found *out;
    int64_t cap, n_read, n_unknown, first_unknown;
    const dg_coco *truth;
    const char *text, *name;
    size_t n;
    bool masks;
    dg_diag *d;
} reading;

/* Room for one more detection. */
static int grow(reading *t)
{
    const int64_t cap = t->cap ? 2 * t->cap : 256;
    const size_t n = (size_t)t->out->n;
    dg_detection *items = dg_try_alloc((size_t)cap * sizeof *items);
    dg_rle *masks = t->masks ? dg_try_alloc((size_t)cap * sizeof *masks) : NULL;

    if (!items || (t->masks && !masks)) {
        dg_free(items);
        dg_free(masks);
        return dg_fail(t->d, DG_EMEMORY, (dg_where){ t->name, 0, 0, NULL }, "coco-memory",
                       "no memory for more than %lld detections", (long long)t->cap);
    }
    if (n)
        memcpy(items, t->out->items, n * sizeof *items);
    if (n && masks)
        memcpy(masks, t->out->masks, n * sizeof *masks);
    dg_free(t->out->items);
    dg_free(t->out->masks);
    t->out->items = items;
    t->out->masks = masks;
    t->cap = cap;
    return 0;
}

static int take_mask(const reading *t, dg_rle *out, size_t at, int image)
{
    const dg_coco_image *im = dg_coco_image_at(t->truth, image);
    const dg_mask_text from = { .text = t->text,
                                .n = t->n,
                                .at = at,
                                .name = t->name,
                                .noun = "detection",
                                .id = t->n_read,
                                .w = im->w,
                                .h = im->h,
                                .d = t->d };

    return dg_mask_read(out, &from);
}

static int take_detection(void *ctx, dg_json_reader *r, const void *record, uint32_t has,
                          size_t offset)
{
    reading *t = ctx;
    const raw_detection *x = record;
    const int image = dg_coco_find_image(t->truth, x->image),
              label = dg_coco_find_class(t->truth, x->category);
    const size_t at = dg_mask_place(t->text, t->n, x->mask);
    int rc = 0;

    (void)has;
    t->n_read++;
    if (image < 0)
        return dg_json_fail_at(r, offset, "detections-image",
                               "this detection has image_id %lld, but %s has no such image",
                               (long long)x->image, dg_coco_path(t->truth));
    if (label < 0) {
        if (t->n_unknown++ == 0)
            t->first_unknown = x->category;
        return 0;
    }
    if (t->out->n == t->cap && grow(t) < 0)
        return -DG_EMEMORY;
    if (t->masks && !at)
        return dg_json_fail_at(r, offset, "mask-missing",
                               "this detection has no mask, no \"segmentation\"");
    if (t->masks)
        rc = take_mask(t, &t->out->masks[t->out->n], at, image);
    if (rc < 0)
        return rc;
    t->out->items[t->out->n++] = (dg_detection){ .image = image,
                                                 .label = label,
                                                 .x = x->box[0],
                                                 .y = x->box[1],
                                                 .w = x->box[2],
                                                 .h = x->box[3],
                                                 .score = x->score };
    return 0;
}

static int parse(dg_found *out, const char *text, size_t n, const char *name, const dg_coco *truth,
                 bool masks, dg_diag *d)
{
    const dg_section list = { .noun = "detection",
                              .fields = masks ? mask_fields : fields,
                              .drop = masks ? "segmentation" : NULL,
                              .take = take_detection };
    reading t = {
        .out = out, .truth = truth, .text = text, .name = name, .n = n, .masks = masks, .d = d
    };
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

int dg_detections_parse(dg_found *out, const char *text, size_t n, const char *name,
                        const dg_coco *truth, dg_diag *d)
{
    return parse(out, text, n, name, truth, false, d);
}

static int read_file(dg_found *out, const char *path, const dg_coco *truth, bool masks, dg_diag *d)
{
    dg_mapping m = { 0 };
    int rc;

    *out = (dg_found){ 0 };
    DG_TRY(dg_file_map(&m, path, d));
    DG_TRY(parse(out, (const char *)m.p, m.n, path, truth, masks, d));
out:
    dg_file_unmap(&m);
    return rc;
}

int dg_detections_read(dg_found *out, const char *path, const dg_coco *truth, dg_diag *d)
{
    return read_file(out, path, truth, false, d);
}

int dg_detections_read_masks(dg_found *out, const char *path, const dg_coco *truth, dg_diag *d)
{
    return read_file(out, path, truth, true, d);
}

void dg_detections_free(dg_found *x)
{
    for (int64_t i = 0; x->masks && i < x->n; i++)
        dg_rle_free(&x->masks[i]);
    dg_free(x->masks);
    dg_free(x->items);
    *x = (dg_found){ 0 };
}
