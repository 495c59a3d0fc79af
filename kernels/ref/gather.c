/* gather.c: rows picked by their numbers.
 *
 *     gather      y[b,q,:] = x[b, index[b,q], :]      x [B,S,D]
 *     embedding   y[n,:]   = table[index[n], :]       table [V,D]
 *
 * The gradients add up the rows that picked an entry, in rising order. A number outside the
 * table picks a row of zeros and receives no gradient; nor does an embedding's padding row. */
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
    int64_t s = dim(a, 0, 1), q = dim(a, 1, 1), d = dim(a, 0, 2);

    for (int64_t b = 0; b < dim(a, 0, 0); b++)
        pick(in(a, 0) + b * s * d, s, in_i32(a, 1) + b * q, q, d, out(a, 2) + b * q * d);
    return 0;
}

static int gather_grad(const dg_args *a)
{
    int64_t s = dim(a, 2, 1), q = dim(a, 1, 1), d = dim(a, 2, 2);

    for (int64_t b = 0; b < dim(a, 2, 0); b++)
        give_back(in(a, 0) + b * q * d, in_i32(a, 1) + b * q, q, d, out(a, 2) + b * s * d, s, -1);
    return 0;
}

static int embedding(const dg_args *a)
{
    pick(in(a, 0), dim(a, 0, 0), in_i32(a, 1), elements(a, 1), dim(a, 0, 1), out(a, 2));
    return 0;
}

static int embedding_grad(const dg_args *a)
{
    const index_attr *f = a->attr;

    give_back(in(a, 0), in_i32(a, 1), elements(a, 1), dim(a, 2, 1), out(a, 2), dim(a, 2, 0),
              f->padding);
    return 0;
}

DG_REF(gather, NULL, gather);
DG_REF(gather_grad, NULL, gather_grad);
DG_REF(embedding, NULL, embedding);
DG_REF(embedding_grad, NULL, embedding_grad);
