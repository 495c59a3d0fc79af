/* total.h: one sum over a long list, in two stages: each block stores its part, then one block adds
 * the parts. The number of blocks depends on the list's length alone. Parts are doubles: squares of
 * large gradients do not fit f32. */
#ifndef DG_KERNELS_CUDA_TOTAL_H
#define DG_KERNELS_CUDA_TOTAL_H

#include "kernels/cuda/device.h"

typedef struct total {
    const double *parts;
    real *to;
    int64_t n;
    bool root; /* to receives the square root of the sum */
} total;

enum { BLOCK_TOTAL_BYTES = DG_CUDA_THREADS / DG_CUDA_WARP * sizeof(double) };

/* The sum over a block, for thread 0; shared: BLOCK_TOTAL_BYTES, once in a kernel. */
DEVICE double block_total(double v, double *shared)
{
    double sum = 0;

    for (int mask = DG_CUDA_WARP / 2; mask; mask /= 2)
        v += shuffle_xor(v, mask);
    if (lane_id() == 0)
        shared[warp_id()] = v;
    barrier();
    for (int w = 0; w < block_size() / DG_CUDA_WARP; w++)
        sum += shared[w];
    return sum;
}

/* Shared memory: BLOCK_TOTAL_BYTES. */
KERNEL_MANY(total_kernel, total)
{
    double sum = 0;

    for (int64_t i = thread_id(); i < p->n; i += block_size())
        sum += p->parts[i];
    sum = block_total(sum, (double *)shared_memory());
    if (thread_id() == 0)
        *p->to = put((wide)(p->root ? sqrt(sum) : sum));
}

/* The blocks that share n elements. */
static inline dg_cuda_grid grid_of_total(int64_t n)
{
    const int64_t each = 8 * DG_CUDA_THREADS, most = 2048;
    int64_t blocks = parts(n, each);
    dg_cuda_grid g = { blocks < most ? blocks : most, DG_CUDA_THREADS, BLOCK_TOTAL_BYTES };

    return g;
}

static inline int enqueue_total(const dg_cuda_call *c, const double *parts, int64_t n, real *to,
                                bool root)
{
    const dg_cuda_grid one = { 1, DG_CUDA_THREADS, BLOCK_TOTAL_BYTES };
    total t = { .parts = parts, .to = to, .n = n, .root = root };

    return LAUNCH_MANY(c, total_kernel, one, &t);
}

#endif
