/* gather.c: picks rows by index; rules as in kernels/ref/gather.c. */
#include "kernels/host/simd/simd.h"

/* y[n,:] = table[index[n],:]. Each run of `each` indices has its own table of `size` rows. */
typedef struct pick {
    const char *table;
    const int32_t *index;
    char *y;
    int64_t size, each, bytes; /* bytes: per row */
} pick;

static void pick_body(void *ctx, int64_t begin, int64_t end, int thread)
{
    const pick *p = ctx;

    (void)thread;
    for (int64_t n = begin; n < end; n++)
        if (p->index[n] >= 0 && p->index[n] < p->size)
            memcpy(p->y + n * p->bytes, p->table + (n / p->each * p->size + p->index[n]) * p->bytes,
                   (size_t)p->bytes);
        else
            memset(p->y + n * p->bytes, 0, (size_t)p->bytes);
}

static int run_pick(const dg_args *a, int64_t size, int64_t each)
{
    int64_t bytes = width(a, DG_GATHER_X) * (int64_t)dg_dtype_size(a->t[DG_GATHER_X].dtype);
    pick p = { a->t[DG_GATHER_X].data,
               a->t[DG_GATHER_INDEX].data,
               a->t[DG_GATHER_Y].data,
               size,
               each,
               bytes };

    parallel(a, elements(a, DG_GATHER_INDEX), width(a, DG_GATHER_X), pick_body, &p);
    return 0;
}

static int gather(const dg_args *a)
{
    return run_pick(a, a->t[DG_GATHER_X].shape.d[1], a->t[DG_GATHER_INDEX].shape.d[1]);
}

static int embedding(const dg_args *a)
{
    return run_pick(a, a->t[DG_EMBEDDING_TABLE].shape.d[0], elements(a, DG_EMBEDDING_INDEX));
}

/* dy index -> dx [B,S,D]: one image, its rows in ascending order. */
ALWAYS void scatter_rows(const dg_args *a, int64_t b, bool low)
{
    int64_t s = a->t[DG_GATHER_GRAD_DX].shape.d[1], q = a->t[DG_GATHER_GRAD_INDEX].shape.d[1],
            d = a->t[DG_GATHER_GRAD_DX].shape.d[2];
    const int32_t *index = (const int32_t *)a->t[DG_GATHER_GRAD_INDEX].data + b * q;
    size_t size = low ? 2 : 4;

    memset((char *)a->t[DG_GATHER_GRAD_DX].data + (size_t)(b * s * d) * size, 0,
           (size_t)(s * d) * size);
    for (int64_t i = 0; i < q; i++) {
        int64_t to = (b * s + index[i]) * d, from = (b * q + i) * d;

        if (index[i] < 0 || index[i] >= s)
            continue;
        for (int64_t k = 0; k < d; k += W) {
            int64_t w = min64(d - k, W);

            st_n(a->t[DG_GATHER_GRAD_DX].data, to + k,
                 ld_n(a->t[DG_GATHER_GRAD_DX].data, to + k, w, low) +
                     ld_n(a->t[DG_GATHER_GRAD_DY].data, from + k, w, low),
                 w, low);
        }
    }
}

static void grad_body(void *ctx, int64_t begin, int64_t end, int thread)
{
    const dg_args *a = ctx;

    (void)thread;
    for (int64_t b = begin; b < end; b++)
        if (is_low(a, DG_GATHER_GRAD_DX))
            scatter_rows(a, b, true);
        else
            scatter_rows(a, b, false);
}

static int gather_grad(const dg_args *a)
{
    dg_args copy = *a;

    parallel(a, a->t[DG_GATHER_GRAD_DX].shape.d[0],
             elements(a, DG_GATHER_GRAD_DX) / a->t[DG_GATHER_GRAD_DX].shape.d[0], grad_body, &copy);
    return 0;
}

DG_SAME_PLACE(DG_GATHER_X, DG_EMBEDDING_TABLE);
DG_SAME_PLACE(DG_GATHER_INDEX, DG_EMBEDDING_INDEX);
DG_SAME_PLACE(DG_GATHER_Y, DG_EMBEDDING_Y);
DG_SIMD(gather, NULL, gather);
DG_SIMD(gather_grad, NULL, gather_grad);
DG_SIMD(embedding, NULL, embedding);
