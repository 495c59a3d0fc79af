/* predict_video.h: `predict` on the frames of a video or camera. */
#ifndef DG_CLI_PREDICT_VIDEO_H
#define DG_CLI_PREDICT_VIDEO_H

#include <stdatomic.h>

#include "cli/predict_out.h"

typedef struct dg_predict_clip {
    const char *name;
    int64_t stride, most; /* every how many frames one is looked at; how many at most, 0: all */
    double threshold;
    dg_predict_names names;
    dg_predict_format format;
    bool prints;        /* what is found, to standard output */
    int *number;        /* of images before, and frames; updated */
    int64_t *printed;   /* as for dg_predict_print */
    atomic_bool *ended; /* true: no more frames */
    const char *film;   /* path of the video with boxes; NULL: none */
    const char *lines;  /* path of JSON lines; NULL: none */
} dg_predict_clip;

/* If it fails, what was found before is printed and written. */
int dg_predict_video(dg_predict_clip *c, dg_detector *detector, dg_diag *d) DG_MUST_USE;

#endif
