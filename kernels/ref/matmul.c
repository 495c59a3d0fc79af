/* matmul.c: matrix products.
 *
 *     y[..,m,n] = c[n] + sum over k of a'[..,m,k] * b'[..,k,n]
 *
 * matmul_act: relu(y + res), or without relu; res and y have as many numbers as the product, in the
 * same order.
 *
 * a' is a, or a with its last two axes exchanged (trans_a); the same for b'. The leading axes of a
 * and b are equal, or one of them has none and is shared. A vector a is one row. */
#include <string.h>

#include "kernels/ref/product.h"

typedef struct sizes {
    int64_t batch, m, n, k;
    int64_t a_batch, b_batch; /* elements between matrices; 0: shared */
    bool trans_a, trans_b;
} sizes;

/* Size of an axis, counted from the last (1); 1 if absent. */
static int64_t last(const dg_tensor *t, int axis)
{
    return t->shape.rank >= axis ? t->shape.d[t->shape.rank - axis] : 1;
}

static sizes sizes_of(const dg_tensor *t, const void *attr)
{
    const matmul_attr *f = attr;
    sizes s = { .m = last(&t[0], 2), .k = last(&t[0], 1) };

    s.trans_a = f->trans_a;
    s.trans_b = f->trans_b;
    if (s.trans_a) {
        s.m = last(&t[0], 1);
        s.k = last(&t[0], 2);
    }
    s.n = last(&t[1], s.trans_b ? 2 : 1);
    int64_t n_a = dg_shape_elements(t[0].shape) / (s.m * s.k),
            n_b = dg_shape_elements(t[1].shape) / (s.n * s.k);

    s.batch = n_a > n_b ? n_a : n_b;
    s.a_batch = n_a > 1 ? s.m * s.k : 0;
    s.b_batch = n_b > 1 ? s.n * s.k : 0;
    if (n_b == 1 && !s.trans_a) { /* with a shared b, all rows of a form one matrix */
        s.m *= s.batch;
        s.batch = 1;
    }
    return s;
}

static int prepare(dg_prepare *p)
{
    const matmul_attr *f = p->attr;

    p->workspace_bytes =
        f->trans_b ? (size_t)dg_shape_elements(p->t[DG_MATMUL_B].shape) * sizeof(real) : 0;
    return 0;
}

static void product_rows(const dg_args *a, int64_t begin, int64_t end, int thread)
{
    sizes s = sizes_of(a->t, a->attr);
    const bool more = a->n > DG_MATMUL_ACT_Y;
    const real *b = s.trans_b ? a->workspace : in(a, DG_MATMUL_B), *bias = in(a, DG_MATMUL_C),
               *res = more ? in(a, DG_MATMUL_ACT_RES) : NULL;
    real *y = out(a, more ? DG_MATMUL_ACT_Y : DG_MATMUL_Y);

    (void)thread;
    while (begin < end) { /* rows begin..stop-1 are in one matrix of the batch */
        int64_t batch = begin / s.m, m = begin % s.m;
        int64_t stop = (batch + 1) * s.m < end ? (batch + 1) * s.m : end;
        const real *from = in(a, DG_MATMUL_A) + batch * s.a_batch;

        for (int64_t row = begin; row < stop; row++)
            if (bias)
                memcpy(y + row * s.n, bias, (size_t)s.n * sizeof(real));
            else
                memset(y + row * s.n, 0, (size_t)s.n * sizeof(real));
        for (int64_t i = begin * s.n; i < stop * s.n && res; i++)
            y[i] += res[i];
        product(stop - begin, s.n, s.k,
                s.trans_a ? (product_a){ from + m, 1, s.m } : (product_a){ from + m * s.k, s.k, 1 },
                b + batch * s.b_batch, s.n, y + begin * s.n, s.n);
        for (int64_t i = begin * s.n; i < stop * s.n && more; i++)
            y[i] = (real)act(((const matmul_act_attr *)a->attr)->act, y[i]);
        begin = stop;
    }
}

static int matmul(const dg_args *a)
{
    sizes s = sizes_of(a->t, a->attr);

    if (s.trans_b) { /* [..,n,k] -> [..,k,n] */
        const real *b = in(a, DG_MATMUL_B);
        real *t = a->workspace;

        for (int64_t first = 0; first < elements(a, DG_MATMUL_B); first += s.n * s.k)
            for (int64_t n = 0; n < s.n; n++)
                for (int64_t k = 0; k < s.k; k++)
                    t[first + k * s.n + n] = b[first + n * s.k + k];
    }
    parallel(a, s.batch * s.m, product_rows);
    return 0;
}

DG_SAME_PLACE(DG_MATMUL_C, DG_MATMUL_ACT_C);
DG_REF(matmul, prepare, matmul);
DG_REF(matmul_act, prepare, matmul);
