/* stored.h: operands of products, which may be stored as `real` or as `wide`, and their places in
 * workspace. */
#ifndef DG_KERNELS_CUDA_STORED_H
#define DG_KERNELS_CUDA_STORED_H

#include "kernels/cuda/device.h"

DEVICE wide load(const void *p, int64_t is_real, int64_t n)
{
    return is_real ? get(((const real *)p)[n]) : ((const wide *)p)[n];
}

DEVICE void store(void *p, int64_t is_real, int64_t n, wide v)
{
    if (is_real)
        ((real *)p)[n] = put(v);
    else
        ((wide *)p)[n] = v;
}

/* So that what follows begins at a multiple of 256 bytes, as the library wants it. */
static inline size_t aligned_bytes(int64_t n)
{
    return ((size_t)n + 255) & ~(size_t)255;
}

typedef struct rows_of_bias {
    const wide *bias;
    wide *y;
    int64_t size, n;
} rows_of_bias;

KERNEL(bias_kernel, rows_of_bias)
{
    for (int64_t n = first(); n < p->size; n += step())
        p->y[n] = p->bias[n % p->n];
}

/* A product; in f64, where the library adds no bias, y begins as the bias. */
static inline int enqueue_product(const dg_cuda_call *c, dg_cuda_product *p, const void *a,
                                  const void *b, const void *bias, void *y)
{
    rows_of_bias rows = { (const wide *)bias, (wide *)y, p->batch * p->m * p->n, p->n };
    int rc = 0;

    if (p->bias && DG_CUDA_REAL == DG_F64) {
        p->bias = 0;
        p->add = 1;
        rc = LAUNCH(c, bias_kernel, grid_of(rows.size), &rows);
        bias = NULL;
    }
    return rc ? rc : c->queue->product(c->queue, p, a, b, bias, y);
}

#endif
