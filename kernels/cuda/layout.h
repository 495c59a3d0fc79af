/* layout.h: where elements of operands are that repeat, are exchanged or are cut out. */
#ifndef DG_KERNELS_CUDA_LAYOUT_H
#define DG_KERNELS_CUDA_LAYOUT_H

#include "kernels/cuda/device.h"

enum { MAX_PLACES = 3 };

/* Axes of a list of elements, last one fastest, and the step of each operand along each axis. */
typedef struct layout {
    int32_t rank;
    uint32_t d[DG_MAX_DIMS];
    int64_t step[MAX_PLACES][DG_MAX_DIMS];
} layout;

/* Offset of element n in operand i. The number of elements is below 2^32: division in 32 bits is
 * several times faster. */
DEVICE int64_t place(const layout *l, int i, int64_t n)
{
    uint32_t rest = (uint32_t)n;
    int64_t at = 0;

    for (int k = l->rank - 1; k > 0; k--) {
        at += rest % l->d[k] * l->step[i][k];
        rest /= l->d[k];
    }
    return l->rank ? at + rest * l->step[i][0] : at;
}

/* Appends an axis, or makes the last one longer if all operands go on as one. */
static inline void layout_axis(layout *l, int64_t d, int places, const int64_t *step)
{
    bool one = l->rank > 0;

    for (int i = 0; i < places; i++)
        one = one && l->step[i][l->rank - 1] == step[i] * d;
    if (d == 1)
        return;
    if (!one) {
        l->rank++;
        l->d[l->rank - 1] = 1;
    }
    l->d[l->rank - 1] *= (uint32_t)d;
    for (int i = 0; i < places; i++)
        l->step[i][l->rank - 1] = step[i];
}

/* Operands from..from+places-1 broadcast to operand o. */
static inline layout layout_of(const dg_args *a, int o, int places, int from)
{
    const dg_shape *y = &a->t[o].shape;
    layout l = { .rank = 0 };

    for (int axis = 0; axis < y->rank; axis++) {
        int64_t step[MAX_PLACES] = { 0 };

        for (int i = 0; i < places; i++) {
            const dg_shape *x = &a->t[from + i].shape;
            int own = axis - (y->rank - x->rank);

            if (own < 0 || x->d[own] == 1)
                continue;
            step[i] = 1;
            for (int k = own + 1; k < x->rank; k++)
                step[i] *= x->d[k];
        }
        layout_axis(&l, y->d[axis], places, step);
    }
    return l;
}

#endif
