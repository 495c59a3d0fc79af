/* ranks.c: twins of kernels/ref/ranks.c. */
#include "kernels/cuda/device.h"

typedef struct packing {
    const real *x;
    const int32_t *x_i32, *counts;
    real *y;
    int32_t *y_i32;         /* one of the two */
    int64_t ranks, n, each; /* n: rows of a rank */
} packing;

/* Row of x that comes to row `to` of y; -1: zeros. */
DEVICE int64_t source_of(const packing *p, int64_t to)
{
    for (int64_t r = 0; r < p->ranks; r++) {
        int64_t count = p->counts[r], live = count < 0 ? 0 : count > p->n ? p->n : count;

        if (to < live)
            return r * p->n + to;
        to -= live;
    }
    return -1;
}

KERNEL(pack_kernel, packing)
{
    for (int64_t i = first(); i < p->ranks * p->n * p->each; i += step()) {
        int64_t from = source_of(p, i / p->each), k = i % p->each;

        if (p->y)
            p->y[i] = from < 0 ? put(0) : p->x[from * p->each + k];
        else
            p->y_i32[i] = from < 0 ? 0 : p->x_i32[from * p->each + k];
    }
}

static int pack(const dg_cuda_call *c, packing p)
{
    int64_t all = dim(c->a, DG_PACK_ROWS_X, 0);

    p.counts = ints(c->a, DG_PACK_ROWS_COUNTS);
    p.ranks = elements(c->a, DG_PACK_ROWS_COUNTS);
    p.n = all / p.ranks;
    p.each = elements(c->a, DG_PACK_ROWS_X) / all;
    return LAUNCH(c, pack_kernel, grid_of(elements(c->a, DG_PACK_ROWS_X)), &p);
}

static int pack_rows(const dg_cuda_call *c)
{
    packing p = { .x = reals(c->a, DG_PACK_ROWS_X), .y = reals(c->a, DG_PACK_ROWS_Y) };

    return pack(c, p);
}

static int pack_rows_i32(const dg_cuda_call *c)
{
    packing p = { .x_i32 = ints(c->a, DG_PACK_ROWS_I32_X),
                  .y_i32 = ints(c->a, DG_PACK_ROWS_I32_Y) };

    return pack(c, p);
}

DG_SAME_PLACE(DG_PACK_ROWS_X, DG_PACK_ROWS_I32_X);
DG_SAME_PLACE(DG_PACK_ROWS_COUNTS, DG_PACK_ROWS_I32_COUNTS);
DG_CUDA(pack_rows, NULL, pack_rows);
DG_CUDA(pack_rows_i32, NULL, pack_rows_i32);
