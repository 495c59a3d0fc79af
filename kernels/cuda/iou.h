/* iou.h: twin of kernels/ref/iou.h, in double: assignments and suppression hang on it; and the best
 * of a block's numbers. */
#ifndef DG_KERNELS_CUDA_IOU_H
#define DG_KERNELS_CUDA_IOU_H

#include "kernels/cuda/device.h"

typedef struct sides {
    double x0, y0, x1, y1, area;
} sides;

DEVICE sides sides_of(const real *box)
{
    double w = (double)get(box[2]), h = (double)get(box[3]);
    sides s;

    s.x0 = (double)get(box[0]) - 0.5 * w;
    s.y0 = (double)get(box[1]) - 0.5 * h;
    s.x1 = (double)get(box[0]) + 0.5 * w;
    s.y1 = (double)get(box[1]) + 0.5 * h;
    s.area = w * h;
    return s;
}

DEVICE double iou_of(const sides *a, const sides *b)
{
    double w = (a->x1 < b->x1 ? a->x1 : b->x1) - (a->x0 > b->x0 ? a->x0 : b->x0);
    double h = (a->y1 < b->y1 ? a->y1 : b->y1) - (a->y0 > b->y0 ? a->y0 : b->y0);

    return w <= 0 || h <= 0 ? 0 : w * h / (a->area + b->area - w * h);
}

DEVICE bool has_area(const real *box)
{
    return get(box[2]) > 0 && get(box[3]) > 0;
}

/* A number and its index; -1: there is none. */
typedef struct contender {
    double value;
    int32_t of;
} contender;

/* Largest value first, equal ones by the lower number. */
DEVICE contender better_of(contender a, contender b)
{
    bool first =
        a.of >= 0 && (b.of < 0 || a.value > b.value || (a.value == b.value && a.of < b.of));

    return first ? a : b;
}

enum { BLOCK_BEST_BYTES = DG_CUDA_THREADS / DG_CUDA_WARP * sizeof(contender) };

/* The best of a block, for every thread; shared: BLOCK_BEST_BYTES, free again afterwards. */
DEVICE contender block_best(contender own, contender *shared)
{
    contender best;

    for (int mask = DG_CUDA_WARP / 2; mask; mask /= 2) {
        contender other;

        other.value = shuffle_xor(own.value, mask);
        other.of = shuffle_xor(own.of, mask);
        own = better_of(own, other);
    }
    if (lane_id() == 0)
        shared[warp_id()] = own;
    barrier();
    best = shared[0];
    for (int w = 1; w < block_size() / DG_CUDA_WARP; w++)
        best = better_of(best, shared[w]);
    barrier();
    return best;
}

#endif
