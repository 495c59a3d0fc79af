/* results.c: writes detections as a COCO result file, a list of
 * {"image_id":..,"category_id":..,"bbox":[x,y,w,h],"score":..}, with masks also
 * "segmentation":{"size":[h,w],"counts":".."} */
#include <detrgraph/node.h>

#include <inttypes.h>

#include <detrgraph/data.h>

#include "base/file.h"
#include "base/str.h"
#include "media/rle.h"

/* Box to a hundredth of a pixel, as usual in COCO result files; score exactly. */
static int add(dg_str *s, const dg_detection *t, const dg_rle *mask, int64_t image,
               int64_t category, dg_diag *d)
{
    char *counts = mask ? dg_rle_text(mask) : NULL;

    if (mask && !counts)
        return dg_fail(d, DG_EMEMORY, DG_NOWHERE, "image-memory", "no memory to write a mask");
    dg_str_fmt(s,
               "{\"image_id\":%" PRId64 ",\"category_id\":%" PRId64
               ",\"bbox\":[%.2f,%.2f,%.2f,%.2f],\"score\":",
               image, category, t->x, t->y, t->w, t->h);
    dg_str_json_real(s, t->score);
    if (mask) {
        dg_str_fmt(s, ",\"segmentation\":{\"size\":[%d,%d],\"counts\":", mask->h, mask->w);
        dg_str_json(s, counts);
        dg_str_add(s, "}");
    }
    dg_str_add(s, "}");
    dg_free(counts);
    return 0;
}

int dg_results_write(const char *path, const dg_detection *detections, int64_t n,
                     const int64_t *image_ids, const dg_coco_class *classes, dg_diag *d)
{
    return dg_results_write_masks(path, detections, NULL, n, image_ids, classes, d);
}

int dg_results_write_masks(const char *path, const dg_detection *detections, const dg_rle *masks,
                           int64_t n, const int64_t *image_ids, const dg_coco_class *classes,
                           dg_diag *d)
{
    dg_outfile *f = NULL;
    dg_str s = { 0 };
    int rc;

    DG_TRY(dg_outfile_open(&f, path, d));
    dg_str_add(&s, "[");
    for (int64_t i = 0; i < n; i++) {
        dg_str_add(&s, i ? ",\n" : "\n");
        DG_TRY(add(&s, &detections[i], masks ? &masks[i] : NULL, image_ids[detections[i].image],
                   classes[detections[i].label].id, d));
        if (s.n > 1 << 20) {
            DG_TRY(dg_outfile_write(f, s.s, s.n, d));
            s.n = 0;
        }
    }
    dg_str_add(&s, "\n]\n");
    DG_TRY(dg_outfile_write(f, s.s, s.n, d));
    DG_TRY(dg_outfile_commit(f, d));
out:
    dg_outfile_close(&f);
    dg_str_free(&s);
    return rc;
}

int dg_dataset_write_names(const char *path, const dg_dataset *data, const int64_t *seen,
                           dg_diag *d)
{
    dg_str text = { 0 };
    int rc;

    for (int i = 0; i < data->n_items; i++) {
        dg_item_info info;

        data->info(data->self, i, &info);
        if (seen[i])
            dg_str_fmt(&text, "%s\n", info.name ? info.name : "");
    }
    rc = dg_file_write(path, text.s ? text.s : "", text.n, d);
    dg_str_free(&text);
    return rc;
}
