/* shape_conv.c: shapes of convolution and matrix product.
 *     conv2d    x [B,H,W,I], w [O,I,kh,kw], b [O] -> y [B,(H+2p-kh)/s+1,(W+2p-kw)/s+1,O]
 *     conv2d_norm: the same without a bias, and s, b, mean, var [O], res like y
 *     matmul    a [M,K] b [K,N] or a [G,M,K] b [G,K,N], either transposed in the last two;
 *               c [N] */
#include "tensor/rules.h"

int64_t dg_window(int64_t n, int64_t size, int64_t stride, int64_t pad)
{
    return n + 2 * pad < size ? 0 : (n + 2 * pad - size) / stride + 1;
}

int dg_shape_conv2d(dg_infer *s)
{
    const conv_attr *a = s->attr;
    dg_shape x = s->in[0], w = s->in[1], b = s->in[2];

    if (x.rank != 4 || w.rank != 4)
        return dg_infer_fail(s, "x must be [B,H,W,I] and w [O,I,kh,kw]");
    if (x.d[3] != w.d[1])
        return dg_infer_fail(s, "x has %lld channels, w expects %lld", (long long)x.d[3],
                             (long long)w.d[1]);
    if (a->stride < 1 || a->pad < 0)
        return dg_infer_fail(s, "stride %lld must be at least 1, pad %lld at least 0",
                             (long long)a->stride, (long long)a->pad);
    if (b.rank >= 0 && (b.rank != 1 || b.d[0] != w.d[0]))
        return dg_infer_fail(s, "the bias must be [%lld]", (long long)w.d[0]);

    int64_t h = dg_window(x.d[1], w.d[2], a->stride, a->pad),
            v = dg_window(x.d[2], w.d[3], a->stride, a->pad);

    if (h < 1 || v < 1)
        return dg_infer_fail(s, "a %lldx%lld kernel does not fit into %lldx%lld with pad %lld",
                             (long long)w.d[2], (long long)w.d[3], (long long)x.d[1],
                             (long long)x.d[2], (long long)a->pad);
    s->out[0] = DG_SHAPE(x.d[0], h, v, w.d[0]);
    return 0;
}

int dg_shape_conv2d_norm(dg_infer *s)
{
    dg_shape res = s->in[6];
    int rc = dg_shape_conv2d(s); /* which wants s to be like a bias */

    for (int i = 3; i < 6 && rc == 0; i++)
        if (!dg_shape_equal(s->in[i], s->in[2]))
            return dg_infer_fail(s, "b, mean and var must be [%lld], as s",
                                 (long long)s->in[2].d[0]);
    if (rc == 0 && res.rank >= 0 && !dg_shape_equal(res, s->out[0]))
        return dg_infer_fail(s, "the residual must have the shape of the result");
    return rc;
}

int dg_shape_conv2d_dx(dg_infer *s)
{
    const conv_attr *a = s->attr;
    dg_shape dy = s->in[0], w = s->in[1];

    if (dy.rank != 4 || w.rank != 4 || dy.d[3] != w.d[0] || a->stride < 1 || a->pad < 0 ||
        dg_window(a->h, w.d[2], a->stride, a->pad) != dy.d[1] ||
        dg_window(a->w, w.d[3], a->stride, a->pad) != dy.d[2])
        return dg_infer_fail(s, "dy is not the output of a convolution of a %lldx%lld map with w",
                             (long long)a->h, (long long)a->w);
    s->out[0] = DG_SHAPE(dy.d[0], a->h, a->w, w.d[1]);
    return 0;
}

int dg_shape_conv2d_dw(dg_infer *s)
{
    const conv_attr *a = s->attr;
    dg_shape x = s->in[0], dy = s->in[1];

    if (x.rank != 4 || dy.rank != 4 || x.d[0] != dy.d[0] || a->stride < 1 || a->pad < 0 ||
        a->h < 1 || a->w < 1 || dg_window(x.d[1], a->h, a->stride, a->pad) != dy.d[1] ||
        dg_window(x.d[2], a->w, a->stride, a->pad) != dy.d[2])
        return dg_infer_fail(s,
                             "dy is not the output of a convolution of x with a %lldx%lld kernel",
                             (long long)a->h, (long long)a->w);
    s->out[0] = DG_SHAPE(dy.d[3], x.d[3], a->h, a->w);
    return 0;
}

int dg_shape_matmul(dg_infer *s)
{
    const matmul_attr *t = s->attr;
    dg_shape a = s->in[0], b = s->in[1], c = s->in[2];
    int r = a.rank;

    if (r != b.rank || (r != 2 && r != 3))
        return dg_infer_fail(s, "a and b must both be matrices, or both stacks of them");
    if (r == 3 && a.d[0] != b.d[0])
        return dg_infer_fail(s, "stacks of %lld and %lld matrices", (long long)a.d[0],
                             (long long)b.d[0]);

    int64_t m = a.d[r - (t->trans_a ? 1 : 2)], k = a.d[r - (t->trans_a ? 2 : 1)];
    int64_t l = b.d[r - (t->trans_b ? 1 : 2)], n = b.d[r - (t->trans_b ? 2 : 1)];

    if (k != l)
        return dg_infer_fail(s, "a has %lld columns, b has %lld rows", (long long)k, (long long)l);
    if (c.rank >= 0 && (c.rank != 1 || c.d[0] != n))
        return dg_infer_fail(s, "the bias must be [%lld]", (long long)n);
    s->out[0] = r == 2 ? DG_SHAPE(m, n) : DG_SHAPE(a.d[0], m, n);
    return 0;
}
