/* iou.h: IoU of boxes (cx, cy, w, h); 0 where they do not intersect, so never 0/0. */
#ifndef DG_KERNELS_REF_IOU_H
#define DG_KERNELS_REF_IOU_H

#include "kernels/ref/ref.h"

typedef struct sides {
    double x0, y0, x1, y1, area;
} sides;

static inline sides sides_of(const real *box)
{
    double w = box[2], h = box[3];

    return (sides){ .x0 = box[0] - 0.5 * w,
                    .y0 = box[1] - 0.5 * h,
                    .x1 = box[0] + 0.5 * w,
                    .y1 = box[1] + 0.5 * h,
                    .area = w * h };
}

static inline double iou_of(const sides *a, const sides *b)
{
    double w = (a->x1 < b->x1 ? a->x1 : b->x1) - (a->x0 > b->x0 ? a->x0 : b->x0);
    double h = (a->y1 < b->y1 ? a->y1 : b->y1) - (a->y0 > b->y0 ? a->y0 : b->y0);

    return w <= 0 || h <= 0 ? 0 : w * h / (a->area + b->area - w * h);
}

static inline bool has_area(const real *box)
{
    return box[2] > 0 && box[3] > 0;
}

#endif
