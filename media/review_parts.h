/* review_parts.h: what review.c finds and review_json.c writes. */
#ifndef DG_MEDIA_REVIEW_PARTS_H
#define DG_MEDIA_REVIEW_PARTS_H

#include <detrgraph/node.h>

#include "base/arena.h"

enum { DG_REVIEW_POINTS = 101, DG_REVIEW_MATRIX = 100, DG_REVIEW_WORST = 24 };

typedef struct dg_review_class {
    int64_t truths, hits,
        found; /* found: detections at the threshold; hits: those that are right */
    double best_f1, best_threshold; /* NaN: no detection is right at any */
} dg_review_class;

typedef struct dg_review_image {
    int item;
    int64_t truths, missed, wrong, confused; /* wrong: on nothing; confused: of another class */
} dg_review_image;

typedef struct dg_review_parts {
    dg_arena *arena;
    const dg_dataset *data;
    dg_review *sums;
    double precision[DG_REVIEW_POINTS], recall[DG_REVIEW_POINTS]; /* at thresholds 0, 0.01, .. 1 */
    dg_review_class *classes;
    /* [classes + 1][classes + 1]: truth, then what was found; the last is nothing. NULL: too many
     */
    int64_t *matrix;
    dg_review_image *images; /* worst first */
    int n_images;
} dg_review_parts;

int dg_review_json(const char *path, const dg_review_parts *r, int64_t step, dg_diag *d)
    DG_MUST_USE;

#endif
