/* shape_pool.c: pooling, upsampling, gathering rows, selection. Maps are [B,H,W,C]. */
#include "tensor/rules.h"

static int want_map(dg_infer *s)
{
    const pool_attr *a = s->attr;

    if (s->in[0].rank != 4)
        return dg_infer_fail(s, "the input must be [B,H,W,C]");
    if (a->size < 1 || a->stride < 1 || a->pad < 0 || a->pad >= a->size)
        return dg_infer_fail(s, "size %lld, stride %lld, pad %lld", (long long)a->size,
                             (long long)a->stride, (long long)a->pad);
    return 0;
}

/* at: for every output, the position of the maximum in its window, row-major */
int dg_shape_max_pool(dg_infer *s)
{
    const pool_attr *a = s->attr;
    dg_shape x = s->in[0];
    int rc = want_map(s);

    if (rc)
        return rc;
    int64_t h = dg_window(x.d[1], a->size, a->stride, a->pad),
            w = dg_window(x.d[2], a->size, a->stride, a->pad);

    if (h < 1 || w < 1 || a->size > 15)
        return dg_infer_fail(s, "a window of %lld (at most 15) does not fit into %lldx%lld",
                             (long long)a->size, (long long)x.d[1], (long long)x.d[2]);
    s->out[0] = s->out[1] = DG_SHAPE(x.d[0], h, w, x.d[3]);
    return 0;
}

/* ceil mode without padding; a last window that would begin outside is dropped */
int dg_shape_avg_pool(dg_infer *s)
{
    const pool_attr *a = s->attr;
    dg_shape x = s->in[0];
    int rc = want_map(s);

    if (rc)
        return rc;
    for (int i = 1; i <= 2; i++) {
        int64_t rest = x.d[i] > a->size ? x.d[i] - a->size : 0,
                n = (rest + a->stride - 1) / a->stride + 1;

        x.d[i] = (n - 1) * a->stride >= x.d[i] ? n - 1 : n;
    }
    s->out[0] = x;
    return 0;
}

int dg_shape_upsample(dg_infer *s)
{
    const pool_attr *a = s->attr;
    dg_shape x = s->in[0];
    int rc = want_map(s);

    if (rc)
        return rc;
    s->out[0] = DG_SHAPE(x.d[0], x.d[1] * a->size, x.d[2] * a->size, x.d[3]);
    return 0;
}

/* dy and other operands of the output's shape -> the pooled map of h x w */
int dg_shape_pool_grad(dg_infer *s)
{
    const pool_attr *a = s->attr;
    dg_shape dy = s->in[0];
    int rc = want_map(s);

    if (rc == 0 && (a->h < 1 || a->w < 1))
        rc = dg_infer_fail(s, "the input was %lldx%lld", (long long)a->h, (long long)a->w);
    if (rc == 0)
        s->out[0] = DG_SHAPE(dy.d[0], a->h, a->w, dy.d[3]);
    return rc;
}

int dg_shape_gather(dg_infer *s)
{
    dg_shape x = s->in[0], index = s->in[1];

    if (x.rank != 3 || index.rank != 2 || x.d[0] != index.d[0])
        return dg_infer_fail(s, "x must be [B,S,D], index [B,Q]");
    s->out[0] = DG_SHAPE(x.d[0], index.d[1], x.d[2]);
    return 0;
}

int dg_shape_gather_grad(dg_infer *s)
{
    const index_attr *a = s->attr;
    dg_shape dy = s->in[0], index = s->in[1];

    if (dy.rank != 3 || index.rank != 2 || dy.d[0] != index.d[0] || dy.d[1] != index.d[1] ||
        a->n < 1)
        return dg_infer_fail(s, "dy must be [B,Q,D], index [B,Q]");
    s->out[0] = DG_SHAPE(dy.d[0], a->n, dy.d[2]);
    return 0;
}

int dg_shape_embedding(dg_infer *s)
{
    dg_shape table = s->in[0], o = s->in[1];

    if (table.rank != 2 || o.rank >= DG_MAX_DIMS)
        return dg_infer_fail(s, "the table must be [V,D], the index of rank %d at most",
                             DG_MAX_DIMS - 1);
    o.d[o.rank++] = table.d[1];
    s->out[0] = o;
    return 0;
}

int dg_shape_embedding_grad(dg_infer *s)
{
    const index_attr *a = s->attr;
    dg_shape dy = s->in[0], index = s->in[1];

    if (dy.rank != index.rank + 1 || a->n < 1)
        return dg_infer_fail(s, "dy must be the index's shape and a width");
    s->out[0] = DG_SHAPE(a->n, dy.d[dy.rank - 1]);
    return 0;
}

int dg_shape_topk(dg_infer *s)
{
    const index_attr *a = s->attr;
    dg_shape x = s->in[0];

    if (x.rank != 2 && x.rank != 3)
        return dg_infer_fail(s, "x must be [B,S] or [B,S,C]");
    int64_t n = x.d[1] * (x.rank == 3 ? x.d[2] : 1);
    if (a->n < 1 || a->n > n || n > INT32_MAX)
        return dg_infer_fail(s, "the %lld largest of %lld", (long long)a->n, (long long)n);
    s->out[0] = DG_SHAPE(x.d[0], a->n);
    return 0;
}
