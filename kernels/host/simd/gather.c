/* gather.c: rows picked by their numbers; rules as in kernels/ref/gather.c. */
#include "kernels/host/simd/simd.h"

/* y[n,:] = table[index[n],:], tables of `size` rows, one for every `each` numbers. */
typedef struct pick {
    const char    *table;
    const int32_t *index;
    char          *y;
    int64_t        size, each, bytes; /* of a row */
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
    int64_t bytes = width(a, 0) * (int64_t)dg_dtype_size(a->t[0].dtype);
    pick    p = { a->t[0].data, a->t[1].data, a->t[2].data, size, each, bytes };

    parallel(a, elements(a, 1), width(a, 0), pick_body, &p);
    return 0;
}

static int gather(const dg_args *a)
{
    return run_pick(a, a->t[0].shape.d[1], a->t[1].shape.d[1]);
}

static int embedding(const dg_args *a)
{
    return run_pick(a, a->t[0].shape.d[0], elements(a, 1));
}

/* dy index -> dx [B,S,D]: one image after the other, its rows in rising order. */
ALWAYS void give_back(const dg_args *a, int64_t b, bool low)
{
    int64_t        s = a->t[2].shape.d[1], q = a->t[1].shape.d[1], d = a->t[2].shape.d[2];
    const int32_t *index = (const int32_t *)a->t[1].data + b * q;
    size_t         size = low ? 2 : 4;

    memset((char *)a->t[2].data + (size_t)(b * s * d) * size, 0, (size_t)(s * d) * size);
    for (int64_t i = 0; i < q; i++) {
        int64_t to = (b * s + index[i]) * d, from = (b * q + i) * d;

        if (index[i] < 0 || index[i] >= s)
            continue;
        for (int64_t k = 0; k < d; k += W) {
            int64_t w = min64(d - k, W);

            st_n(a->t[2].data, to + k,
                 ld_n(a->t[2].data, to + k, w, low) + ld_n(a->t[0].data, from + k, w, low), w, low);
        }
    }
}

static void grad_body(void *ctx, int64_t begin, int64_t end, int thread)
{
    const dg_args *a = ctx;

    (void)thread;
    for (int64_t b = begin; b < end; b++)
        if (is_low(a, 2))
            give_back(a, b, true);
        else
            give_back(a, b, false);
}

static int gather_grad(const dg_args *a)
{
    dg_args copy = *a;

    parallel(a, a->t[2].shape.d[0], elements(a, 2) / a->t[2].shape.d[0], grad_body, &copy);
    return 0;
}

DG_SIMD(gather, NULL, gather);
DG_SIMD(gather_grad, NULL, gather_grad);
DG_SIMD(embedding, NULL, embedding);
