/* gather.c: twins of kernels/ref/gather.c. In the gradients a warp has a row of the table: it looks
 * through the indices in their order, 32 at a time, and adds up the rows that named it. So sums go
 * in ascending order, as in the reference, without atomics. */
#include "kernels/cuda/device.h"

typedef struct picks {
    const real *x; /* picked from, or dy */
    const int32_t *index;
    real *y;                   /* picked, or dx */
    int64_t batch, size, n, d; /* size: rows of a table; n: indices of a table */
    int64_t padding;
} picks;

KERNEL(pick_kernel, picks)
{
    for (int64_t i = first(); i < p->batch * p->n * p->d; i += step()) {
        int64_t q = (uint32_t)i / (uint32_t)p->d, k = (uint32_t)i % (uint32_t)p->d;
        int64_t b = (uint32_t)q / (uint32_t)p->n, row = p->index[q];

        p->y[i] = row >= 0 && row < p->size ? p->x[(b * p->size + row) * p->d + k] : put(0);
    }
}

KERNEL(give_back_kernel, picks)
{
    int64_t groups = parts(p->d, DG_CUDA_WARP);

    for (int64_t w = first() / DG_CUDA_WARP; w < p->batch * p->size * groups;
         w += step() / DG_CUDA_WARP) {
        int64_t k = w % groups * DG_CUDA_WARP + lane_id(), row = w / groups % p->size;
        int64_t b = w / groups / p->size;
        wide sum = 0;

        for (int64_t q0 = 0; q0 < p->n; q0 += DG_CUDA_WARP) {
            int64_t q = q0 + lane_id();
            bool mine = q < p->n && row != p->padding && p->index[b * p->n + q] == row;

            for (uint32_t named = ballot(mine); named; named &= named - 1) {
                int64_t from = b * p->n + q0 + count_zeros_below(named);

                if (k < p->d)
                    sum += get(p->x[from * p->d + k]);
            }
        }
        if (k < p->d)
            p->y[(b * p->size + row) * p->d + k] = put(sum);
    }
}

static int enqueue_give_back(const dg_cuda_call *c, const picks *p)
{
    return LAUNCH(c, give_back_kernel,
                  grid_of_warps(p->batch * p->size * parts(p->d, DG_CUDA_WARP)), p);
}

static int gather(const dg_cuda_call *c)
{
    picks p = { .x = reals(c->a, DG_GATHER_X),
                .index = ints(c->a, DG_GATHER_INDEX),
                .y = reals(c->a, DG_GATHER_Y),
                .batch = dim(c->a, DG_GATHER_X, 0),
                .size = dim(c->a, DG_GATHER_X, 1),
                .n = dim(c->a, DG_GATHER_INDEX, 1),
                .d = dim(c->a, DG_GATHER_X, 2) };

    return LAUNCH(c, pick_kernel, grid_of(p.batch * p.n * p.d), &p);
}

static int gather_grad(const dg_cuda_call *c)
{
    picks p = { .x = reals(c->a, DG_GATHER_GRAD_DY),
                .index = ints(c->a, DG_GATHER_GRAD_INDEX),
                .y = reals(c->a, DG_GATHER_GRAD_DX),
                .batch = dim(c->a, DG_GATHER_GRAD_DX, 0),
                .size = dim(c->a, DG_GATHER_GRAD_DX, 1),
                .n = dim(c->a, DG_GATHER_GRAD_INDEX, 1),
                .d = dim(c->a, DG_GATHER_GRAD_DX, 2),
                .padding = -1 };

    return enqueue_give_back(c, &p);
}

static int embedding(const dg_cuda_call *c)
{
    picks p = { .x = reals(c->a, DG_EMBEDDING_TABLE),
                .index = ints(c->a, DG_EMBEDDING_INDEX),
                .y = reals(c->a, DG_EMBEDDING_Y),
                .batch = 1,
                .size = dim(c->a, DG_EMBEDDING_TABLE, 0),
                .n = elements(c->a, DG_EMBEDDING_INDEX),
                .d = dim(c->a, DG_EMBEDDING_TABLE, 1) };

    return LAUNCH(c, pick_kernel, grid_of(p.n * p.d), &p);
}

static int embedding_grad(const dg_cuda_call *c)
{
    const index_attr *f = (const index_attr *)c->a->attr;
    picks p = { .x = reals(c->a, DG_EMBEDDING_GRAD_DY),
                .index = ints(c->a, DG_EMBEDDING_GRAD_INDEX),
                .y = reals(c->a, DG_EMBEDDING_GRAD_DTABLE),
                .batch = 1,
                .size = dim(c->a, DG_EMBEDDING_GRAD_DTABLE, 0),
                .n = elements(c->a, DG_EMBEDDING_GRAD_INDEX),
                .d = dim(c->a, DG_EMBEDDING_GRAD_DTABLE, 1),
                .padding = f->padding };

    return enqueue_give_back(c, &p);
}

DG_CUDA(gather, NULL, gather);
DG_CUDA(gather_grad, NULL, gather_grad);
DG_CUDA(embedding, NULL, embedding);
DG_CUDA(embedding_grad, NULL, embedding_grad);
