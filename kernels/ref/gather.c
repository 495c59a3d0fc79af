/* gather.c: picks rows by index.
 *
 *     gather      y[b,q,:] = x[b, index[b,q], :]      x [B,S,D]
 *     embedding   y[n,:]   = table[index[n], :]       table [V,D]
 *
 * The gradients add up the rows that picked an entry, in ascending order. An index outside the
 * table picks a row of zeros and has no gradient, as has an embedding's padding row. */
#include <string.h>

#include "kernels/ref/ref.h"

static void pick(const real *table, int64_t size, const int32_t *index, int64_t n, int64_t d,
                 real *y)
{
    for (int64_t q = 0; q < n; q++)
        if (index[q] >= 0 && index[q] < size)
            memcpy(y + q * d, table + index[q] * d, (size_t)d * sizeof(real));
        else
            memset(y + q * d, 0, (size_t)d * sizeof(real));
}

static void give_back(const real *dy, const int32_t *index, int64_t n, int64_t d, real *dtable,
                      int64_t size, int64_t padding)
{
    memset(dtable, 0, (size_t)(size * d) * sizeof(real));
    for (int64_t q = 0; q < n; q++)
        if (index[q] >= 0 && index[q] < size && index[q] != padding)
            for (int64_t k = 0; k < d; k++)
                dtable[index[q] * d + k] += dy[q * d + k];
}

static int gather(const dg_args *a)
{
    int64_t s = dim(a, DG_GATHER_X, 1), q = dim(a, DG_GATHER_INDEX, 1), d = dim(a, DG_GATHER_X, 2);

    for (int64_t b = 0; b < dim(a, DG_GATHER_X, 0); b++)
        pick(in(a, DG_GATHER_X) + b * s * d, s, in_i32(a, DG_GATHER_INDEX) + b * q, q, d,
             out(a, DG_GATHER_Y) + b * q * d);
    return 0;
}

static int gather_grad(const dg_args *a)
{
    int64_t s = dim(a, DG_GATHER_GRAD_DX, 1), q = dim(a, DG_GATHER_GRAD_INDEX, 1),
            d = dim(a, DG_GATHER_GRAD_DX, 2);

    for (int64_t b = 0; b < dim(a, DG_GATHER_GRAD_DX, 0); b++)
        give_back(in(a, DG_GATHER_GRAD_DY) + b * q * d, in_i32(a, DG_GATHER_GRAD_INDEX) + b * q, q,
                  d, out(a, DG_GATHER_GRAD_DX) + b * s * d, s, -1);
    return 0;
}

static int embedding(const dg_args *a)
{
    pick(in(a, DG_EMBEDDING_TABLE), dim(a, DG_EMBEDDING_TABLE, 0), in_i32(a, DG_EMBEDDING_INDEX),
         elements(a, DG_EMBEDDING_INDEX), dim(a, DG_EMBEDDING_TABLE, 1), out(a, DG_EMBEDDING_Y));
    return 0;
}

static int embedding_grad(const dg_args *a)
{
    const index_attr *f = a->attr;

    give_back(in(a, DG_EMBEDDING_GRAD_DY), in_i32(a, DG_EMBEDDING_GRAD_INDEX),
              elements(a, DG_EMBEDDING_GRAD_INDEX), dim(a, DG_EMBEDDING_GRAD_DTABLE, 1),
              out(a, DG_EMBEDDING_GRAD_DTABLE), dim(a, DG_EMBEDDING_GRAD_DTABLE, 0), f->padding);
    return 0;
}

DG_REF(gather, NULL, gather);
DG_REF(gather_grad, NULL, gather_grad);
DG_REF(embedding, NULL, embedding);
DG_REF(embedding_grad, NULL, embedding_grad);
