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

/* In f64 the library adds no bias and knows no activation. */
typedef struct around_product {
    const wide *bias, *res;
    wide *y;
    int64_t size, n;
} around_product;

KERNEL(begin_kernel, around_product)
{
    for (int64_t n = first(); n < p->size; n += step())
        p->y[n] = p->bias[n % p->n] + (p->res ? p->res[n] : 0);
}

KERNEL(relu_kernel, around_product)
{
    for (int64_t n = first(); n < p->size; n += step())
        p->y[n] = p->y[n] < 0 ? 0 : p->y[n];
}

static inline int enqueue_multiplied(const dg_cuda_call *c, const dg_cuda_product *what,
                                     const dg_cuda_multiplied *at)
{
    dg_cuda_product p = *what;
    dg_cuda_multiplied own = *at;
    around_product rows = { (const wide *)at->bias, (const wide *)at->res, (wide *)at->y,
                            p.batch * p.m * p.n, p.n };
    int rc = 0;

    if (DG_CUDA_REAL != DG_F64)
        return c->queue->product(c->queue, what, at);
    if (p.bias) {
        p.bias = 0;
        p.add = 1;
        own.bias = NULL;
        own.res = own.y;
        rc = LAUNCH(c, begin_kernel, grid_of(rows.size), &rows);
    }
    p.act = DG_ACT_NONE;
    rc = rc ? rc : c->queue->product(c->queue, &p, &own);
    return rc || !what->act ? rc : LAUNCH(c, relu_kernel, grid_of(rows.size), &rows);
}

/* To y, if p->add. */
static inline int enqueue_product(const dg_cuda_call *c, const dg_cuda_product *p, const void *a,
                                  const void *b, const void *bias, void *y)
{
    const dg_cuda_multiplied at = { a, b, bias, p->add ? y : NULL, y };

    return enqueue_multiplied(c, p, &at);
}

#endif
