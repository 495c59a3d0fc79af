/* predict_out.h: what `predict` prints of an image, and the files it writes beside the pictures. */
#ifndef DG_CLI_PREDICT_OUT_H
#define DG_CLI_PREDICT_OUT_H

#include <detrgraph/detect.h>

#include "base/arena.h"
#include "base/str.h"

typedef enum dg_predict_format {
    DG_PREDICT_TEXT,
    DG_PREDICT_JSON,  /* a list with an object per image */
    DG_PREDICT_LINES, /* the same objects, one a line */
    DG_PREDICT_COCO,  /* COCO's results: a list with an object per detection */
} dg_predict_format;

typedef struct dg_predict_names { /* the detector's classes */
    const dg_coco_class *v;
    int n;
} dg_predict_names;

/* NULL: it is not known */
const char *dg_predict_class(dg_predict_names names, int label);

typedef struct dg_predict_frame { /* of a video */
    int64_t number;
    double seconds;
} dg_predict_frame;

/* Appends image number `number`, from 0. frame NULL: it is no frame. n: detections written before,
 * for commas; updated. */
void dg_predict_print(dg_str *out, dg_predict_format format, const dg_detected *p,
                      dg_predict_names names, int number, const dg_predict_frame *frame, int64_t *n,
                      double threshold);

/* Draws masks and boxes on a copy of the image, the best on top; enlarged as dg_draw_picture
 * does. */
int dg_predict_draw(dg_image *out, dg_scratch *s, const dg_detected *p, dg_predict_names names,
                    int min_side, dg_diag *d) DG_MUST_USE;

/* FOLDER/labels/STEM.txt: a line "CLASS CX CY W H SCORE" per detection, in shares of the image. */
int dg_predict_labels(const dg_detected *p, const char *folder, const char *stem, dg_diag *d)
    DG_MUST_USE;
/* FOLDER/crops/CLASS/STEM-N.png: the part of the image in each box. */
int dg_predict_crops(const dg_detected *p, dg_predict_names names, const char *folder,
                     const char *stem, dg_diag *d) DG_MUST_USE;

/* The files that a word stands for: a folder's images and videos, a pattern's files, the lines of a
 * .txt list, or the file or camera itself. */
int dg_predict_find(dg_arena *a, const char *word, int *n, const char *const **paths, dg_diag *d)
    DG_MUST_USE;

#endif
