/* predict.h: detections on image files, outside any data set. */
#ifndef DG_RUNTIME_PREDICT_H
#define DG_RUNTIME_PREDICT_H

#include <detrgraph/node.h>
#include <detrgraph/run.h>

typedef struct dg_prediction {
    const char *path;
    const dg_image *image; /* as read, upright */
    int n;
    const struct dg_mark *marks; /* best first, in pixels of the image */
    /* the evaluation's data, for class names; NULL if it cannot be opened */
    const dg_dataset *names;
    const dg_rle *masks; /* of the marks; NULL: the model gives none */
} dg_prediction;
typedef int dg_prediction_fn(void *ctx, const dg_prediction *p, dg_diag *d);

/* Detects on image files, prepared as the first evaluation prepares its images; calls take once per
 * file, in their order. A file that cannot be read is left out; the call then fails in the end. */
int dg_run_predict(dg_run *run, const char *const *paths, int n, double threshold, bool ema,
                   dg_prediction_fn *take, void *ctx, dg_diag *d) DG_MUST_USE;

#endif
