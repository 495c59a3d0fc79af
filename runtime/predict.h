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

/* Detects on one batch of images after another, prepared as the first evaluation prepares its
 * images; used by one thread. */
typedef struct dg_predictor dg_predictor;
int dg_predictor_open(dg_predictor **p, dg_run *run, bool ema, dg_diag *d) DG_MUST_USE;
void dg_predictor_close(dg_predictor **p);
const dg_dataset *dg_predictor_names(const dg_predictor *p); /* like dg_prediction.names */
int dg_predictor_room(const dg_predictor *p);                /* images that can still be added */
/* Adds an image to the batch: the file `path`, or n encoded bytes that are called so. An image that
 * cannot be read (-DG_EINPUT, -DG_EIO) leaves the batch as it was. */
int dg_predictor_add(dg_predictor *p, const char *path, const void *bytes, size_t n, dg_diag *d)
    DG_MUST_USE;
/* Detects on the added images, calls take for each of them in their order, and empties the batch,
 * also if it fails. */
int dg_predictor_compute(dg_predictor *p, double threshold, dg_prediction_fn *take, void *ctx,
                         dg_diag *d) DG_MUST_USE;

/* Detects on image files, prepared as the first evaluation prepares its images; calls take once per
 * file, in their order. A file that cannot be read is left out; the call then fails in the end. */
int dg_run_predict(dg_run *run, const char *const *paths, int n, double threshold, bool ema,
                   dg_prediction_fn *take, void *ctx, dg_diag *d) DG_MUST_USE;

#endif
