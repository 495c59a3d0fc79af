/* results.c: writes detections as a COCO result file, a list of
 * {"image_id":..,"category_id":..,"bbox":[x,y,w,h],"score":..} */
#include <inttypes.h>

#include <detrgraph/data.h>

#include "base/file.h"
#include "base/str.h"

/* Box to a hundredth of a pixel, as usual in COCO result files; score exactly. */
static void add(dg_str *s, const dg_detection *t, int64_t image, int64_t category)
{
    dg_str_fmt(s,
               "{\"image_id\":%" PRId64 ",\"category_id\":%" PRId64
               ",\"bbox\":[%.2f,%.2f,%.2f,%.2f],\"score\":",
               image, category, t->x, t->y, t->w, t->h);
    dg_str_json_real(s, t->score);
    dg_str_add(s, "}");
}

int dg_results_write(const char *path, const dg_detection *detections, int64_t n,
                     const int64_t *image_ids, const dg_coco_class *classes, dg_diag *d)
{
    dg_outfile *f = NULL;
    dg_str s = { 0 };
    int rc;

    DG_TRY(dg_outfile_open(&f, path, d));
    dg_str_add(&s, "[");
    for (int64_t i = 0; i < n; i++) {
        dg_str_add(&s, i ? ",\n" : "\n");
        add(&s, &detections[i], image_ids[detections[i].image], classes[detections[i].label].id);
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
