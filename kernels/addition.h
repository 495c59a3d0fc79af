/* addition.h: reduces the arrays of several ranks elementwise, in rank order. */
#ifndef DG_KERNELS_ADDITION_H
#define DG_KERNELS_ADDITION_H

#include "kernels/comm.h"

typedef struct dg_addition {
    dg_dtype type; /* f32, f64 or i32 */
    dg_reduce op;
    const void *const *from; /* one array per rank */
    int ranks;
    void *const *to; /* receives the result: n_to arrays, which may be among `from` */
    int n_to;
} dg_addition;

/* Reduces elements begin..end-1. */
void dg_add_up(const dg_addition *a, size_t begin, size_t end);

#endif
