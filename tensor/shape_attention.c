/* shape_attention.c: shapes of attention and deformable attention.
 *     attention           q [B,N,D], k v [B,S,D], dn [4] -> y [B,N,D], lse [B,heads,N]
 *     deform_attention    value [B,S,D], ref [B,N,4], off [B,N,heads*P*2], weight [B,N,heads,P]
 *                         -> y [B,N,D] */
#include "tensor/rules.h"

static int check_attention(dg_infer *s, dg_shape q, dg_shape k, dg_shape v, dg_shape dn)
{
    const attention_attr *a = s->attr;

    if (q.rank != 3 || k.rank != 3 || q.d[0] != k.d[0] || q.d[2] != k.d[2] || !dg_shape_equal(k, v))
        return dg_infer_fail(s, "q must be [B,N,D], k and v [B,S,D]");
    if (a->heads < 1 || q.d[2] % a->heads)
        return dg_infer_fail(s, "%lld heads do not divide a width of %lld", (long long)a->heads,
                             (long long)q.d[2]);
    if (dn.rank >= 0 && (dn.rank != 1 || dn.d[0] != 4))
        return dg_infer_fail(s, "dn must be [4]");
    if (dn.rank >= 0 && (q.d[1] != k.d[1] || a->capacity < 0 || a->capacity > q.d[1]))
        return dg_infer_fail(
            s, "with dn, N = S = capacity + queries; found N %lld, S %lld, capacity %lld",
            (long long)q.d[1], (long long)k.d[1], (long long)a->capacity);
    return 0;
}

int dg_shape_attention(dg_infer *s)
{
    const attention_attr *a = s->attr;
    int rc = check_attention(s, s->in[0], s->in[1], s->in[2], s->in[3]);

    if (rc == 0) {
        s->out[0] = s->in[0];
        s->out[1] = DG_SHAPE(s->in[0].d[0], a->heads, s->in[0].d[1]);
    }
    return rc;
}

/* dy q k v y lse dn? -> dq dk dv */
int dg_shape_attention_grad(dg_infer *s)
{
    const attention_attr *a = s->attr;
    int rc = check_attention(s, s->in[1], s->in[2], s->in[3], s->in[6]);

    if (rc)
        return rc;
    if (!dg_shape_equal(s->in[0], s->in[1]) || !dg_shape_equal(s->in[4], s->in[1]) ||
        !dg_shape_equal(s->in[5], DG_SHAPE(s->in[1].d[0], a->heads, s->in[1].d[1])))
        return dg_infer_fail(s, "dy and y must have the shape of q, lse [B,heads,N]");
    for (int i = 0; i < 3; i++)
        s->out[i] = s->in[1 + i];
    return 0;
}

static int check_deform(dg_infer *s, dg_shape value, dg_shape ref, dg_shape off, dg_shape weight)
{
    const deform_attr *a = s->attr;
    int64_t cells = 0, points = 0;

    if (a->n_levels < 1 || a->n_levels > DG_MAX_LEVELS || a->heads < 1)
        return dg_infer_fail(s, "1 to %d levels and at least one head are needed", DG_MAX_LEVELS);
    for (int l = 0; l < a->n_levels; l++) {
        if (a->h[l] < 1 || a->w[l] < 1 || a->points[l] < 1)
            return dg_infer_fail(s, "level %d has %lldx%lld cells and %lld points", l,
                                 (long long)a->h[l], (long long)a->w[l], (long long)a->points[l]);
        if (a->discrete && a->h[l] != a->w[l])
            return dg_infer_fail(s,
                                 "discrete sampling clamps x and y alike and needs square maps; "
                                 "level %d is %lldx%lld",
                                 l, (long long)a->h[l], (long long)a->w[l]);
        cells += a->h[l] * a->w[l];
        points += a->points[l];
    }
    if (value.rank != 3 || value.d[1] != cells || value.d[2] % a->heads)
        return dg_infer_fail(s, "value must be [B,%lld,D] with D a multiple of %lld",
                             (long long)cells, (long long)a->heads);
    if (ref.rank != 3 || ref.d[0] != value.d[0] || ref.d[2] != 4)
        return dg_infer_fail(s, "ref must be [B,N,4]");
    if (!dg_shape_equal(off, DG_SHAPE(ref.d[0], ref.d[1], a->heads * points * 2)))
        return dg_infer_fail(s, "off must be [B,N,%lld]", (long long)(a->heads * points * 2));
    if (!dg_shape_equal(weight, DG_SHAPE(ref.d[0], ref.d[1], a->heads, points)))
        return dg_infer_fail(s, "weight must be [B,N,%lld,%lld]", (long long)a->heads,
                             (long long)points);
    return 0;
}

int dg_shape_deform(dg_infer *s)
{
    int rc = check_deform(s, s->in[0], s->in[1], s->in[2], s->in[3]);

    if (rc == 0)
        s->out[0] = DG_SHAPE(s->in[0].d[0], s->in[1].d[1], s->in[0].d[2]);
    return rc;
}

/* dy value ref off weight -> dvalue dref doff dweight */
int dg_shape_deform_grad(dg_infer *s)
{
    int rc = check_deform(s, s->in[1], s->in[2], s->in[3], s->in[4]);

    if (rc == 0 && !dg_shape_equal(s->in[0], DG_SHAPE(s->in[1].d[0], s->in[2].d[1], s->in[1].d[2])))
        rc = dg_infer_fail(s, "dy must be [B,N,D]");
    for (int i = 0; i < 4; i++)
        s->out[i] = s->in[1 + i];
    return rc;
}
