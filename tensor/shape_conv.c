/* shape_conv.c: shapes of convolution and matrix product.
 *     conv2d    x [B,H,W,I], w [O,I,kh,kw], b [O] -> y [B,(H+2p-kh)/s+1,(W+2p-kw)/s+1,O]
 *     packed    k [O,kh,kw,I], as devices want w; conv_packed: res like y
 *     matmul    a [M,K] b [K,N] or a [G,M,K] b [G,K,N], either transposed in the last two;
 *               c [N]
 *     matmul_act: the same; y has the shape of res, which has as many numbers as the product */
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

/* ---- packed kernels -------------------------------------------------------------------------- */

dg_shape dg_packed_shape(dg_shape w)
{
    return DG_SHAPE(w.d[0], w.d[2], w.d[3], w.d[1]);
}

static dg_shape unpacked(dg_shape k)
{
    return DG_SHAPE(k.d[0], k.d[3], k.d[1], k.d[2]);
}

int dg_shape_pack_kernel(dg_infer *s)
{
    if (s->in[0].rank != 4)
        return dg_infer_fail(s, "w must be [O,I,kh,kw]");
    s->out[0] = dg_packed_shape(s->in[0]);
    return 0;
}

int dg_shape_unpack_kernel(dg_infer *s)
{
    if (s->in[0].rank != 4)
        return dg_infer_fail(s, "k must be [O,kh,kw,I]");
    s->out[0] = unpacked(s->in[0]);
    return 0;
}

int dg_shape_fold_norm(dg_infer *s)
{
    int rc = dg_shape_pack_kernel(s);

    for (int i = 1; i < 5 && rc == 0; i++)
        if (s->in[i].rank != 1 || s->in[i].d[0] != s->in[0].d[0])
            return dg_infer_fail(s, "s, b, mean and var must be [%lld]", (long long)s->in[0].d[0]);
    s->out[1] = DG_SHAPE(s->out[0].d[0]);
    return rc;
}

/* As of the op whose w is k unpacked. */
static int infer_unpacked(dg_infer *s, const void *attr, int (*rule)(dg_infer *s))
{
    dg_shape in[] = { s->in[0], s->in[1], s->n_in > 2 ? s->in[2] : (dg_shape){ .rank = -1 } };
    dg_infer plain = *s;

    if (in[1].rank != 4)
        return dg_infer_fail(s, "k must be [O,kh,kw,I]");
    in[1] = unpacked(in[1]);
    plain.in = in;
    plain.attr = attr;
    return rule(&plain);
}

int dg_shape_conv_packed(dg_infer *s)
{
    int rc = infer_unpacked(s, &((const conv_act_attr *)s->attr)->conv, dg_shape_conv2d);

    if (rc == 0 && s->in[3].rank >= 0 && !dg_shape_equal(s->in[3], s->out[0]))
        return dg_infer_fail(s, "the residual must have the shape of the result");
    return rc;
}

int dg_shape_conv_packed_dx(dg_infer *s)
{
    return infer_unpacked(s, s->attr, dg_shape_conv2d_dx);
}

int dg_shape_conv_packed_dw(dg_infer *s)
{
    int rc = dg_shape_conv2d_dw(s);

    if (rc == 0)
        s->out[0] = dg_packed_shape(s->out[0]);
    return rc;
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

int dg_shape_matmul_act(dg_infer *s)
{
    dg_shape res = s->in[3];
    int rc = dg_shape_matmul(s); /* whose attributes come first */

    if (rc || res.rank < 0)
        return rc;
    if (dg_shape_elements(res) != dg_shape_elements(s->out[0]))
        return dg_infer_fail(s, "the residual must have as many numbers as the product");
    s->out[0] = res;
    return 0;
}
