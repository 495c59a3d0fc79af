/* addition.h: the values of several ranks, joined in the order of ranks. */
#ifndef DG_KERNELS_ADDITION_H
#define DG_KERNELS_ADDITION_H

#include "kernels/comm.h"

typedef struct dg_addition {
    dg_dtype           type; /* f32, f64, i32 */
    dg_reduce          op;
    const void *const *from; /* one array a rank */
    int                ranks;
    void *const       *to;   /* where the result goes: one array, or several; may be those of from */
    int                n_to;
} dg_addition;

/* Elements begin..end-1. */
void dg_add_up(const dg_addition *a, size_t begin, size_t end);

#endif
