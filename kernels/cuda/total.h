/* total.h: one sum over a long list, in two stages: each block stores its part, then one block adds
 * the parts. The number of blocks depends on the list's length alone. */
#ifndef DG_KERNELS_CUDA_TOTAL_H
#define DG_KERNELS_CUDA_TOTAL_H

#include "kernels/cuda/device.h"

typedef struct total {
    const wide *parts;
    real *to;
    int64_t n;
    bool root; /* to receives the square root of the sum */
} total;

/* Shared memory: BLOCK_SUM_BYTES. */
KERNEL(total_kernel, total)
{
    wide sum = 0;

    for (int64_t i = thread_id(); i < p->n; i += block_size())
        sum += p->parts[i];
    sum = block_sum(sum, (wide *)shared_memory());
    if (thread_id() == 0)
        *p->to = put(p->root ? sqrt(sum) : sum);
}

/* The blocks that share n elements. */
static inline dg_cuda_grid grid_of_total(int64_t n)
{
    const int64_t each = 8 * DG_CUDA_THREADS, most = 2048;
    int64_t blocks = parts(n, each);
    dg_cuda_grid g = { blocks < most ? blocks : most, DG_CUDA_THREADS, BLOCK_SUM_BYTES };

    return g;
}

static inline int enqueue_total(const dg_cuda_call *c, const wide *parts, int64_t n, real *to,
                                bool root)
{
    const dg_cuda_grid one = { 1, DG_CUDA_THREADS, BLOCK_SUM_BYTES };
    total t = { .parts = parts, .to = to, .n = n, .root = root };

    return LAUNCH(c, total_kernel, one, &t);
}

#endif
