/* shape_norm.c: shapes of batch norm (statistics over all axes but the last, [C]) and layer norm
 * (over the last axis: scale and shift [D], statistics per row). */
#include "tensor/rules.h"

static bool is_vector(dg_shape v, int64_t n)
{
    return v.rank == 1 && v.d[0] == n;
}

/* Inputs first..last-1 must be [C], with C the last axis of x. */
static int want_channels(dg_infer *s, dg_shape x, int first, int last)
{
    int64_t c = x.rank > 0 ? x.d[x.rank - 1] : 0;

    if (x.rank < 2)
        return dg_infer_fail(s, "x must have at least two axes");
    for (int i = first; i < last; i++)
        if (!is_vector(s->in[i], c))
            return dg_infer_fail(s,
                                 "scale, shift and statistics must be [%lld], the last axis of x",
                                 (long long)c);
    return 0;
}

static int want_residual(dg_infer *s, dg_shape x, dg_shape res)
{
    return res.rank < 0 || dg_shape_equal(x, res)
               ? 0
               : dg_infer_fail(s, "the residual must have the shape of x");
}

int dg_shape_batch_norm(dg_infer *s)
{
    int rc = want_channels(s, s->in[0], 1, 3);

    if (rc == 0)
        rc = want_residual(s, s->in[0], s->in[3]);
    s->out[0] = s->in[0];
    s->out[1] = s->out[2] = s->in[1];
    return rc;
}

int dg_shape_batch_norm_fixed(dg_infer *s)
{
    int rc = want_channels(s, s->in[0], 1, 5);

    if (rc == 0)
        rc = want_residual(s, s->in[0], s->in[5]);
    s->out[0] = s->in[0];
    return rc;
}

/* dy x? y? s b mean var res? -> dx ds? db? dres? */
int dg_shape_batch_norm_grad(dg_infer *s)
{
    const norm_attr *a = s->attr;
    dg_shape dy = s->in[0];
    int rc;

    DG_TRY(want_channels(s, dy, 3, 7));
    for (int i = 1; i <= 2; i++)
        if (s->in[i].rank >= 0 && !dg_shape_equal(s->in[i], dy))
            DG_TRY(dg_infer_fail(s, "x and y must have the shape of dy"));
    DG_TRY(want_residual(s, dy, s->in[7]));
    if (s->in[1].rank < 0 && (!a->fixed || a->act == DG_ACT_SILU))
        DG_TRY(dg_infer_fail(s, "x is needed"));
    if (s->in[2].rank < 0 && a->act == DG_ACT_RELU && (!a->plain || s->in[1].rank < 0))
        DG_TRY(dg_infer_fail(s, "y is needed"));
out:
    s->out[0] = s->out[3] = dy;
    s->out[1] = s->out[2] = s->in[3];
    return rc;
}

/* more is added to dy */
int dg_shape_batch_norm_sum_grad(dg_infer *s)
{
    return dg_shape_equal(s->in[8], s->in[0]) ? dg_shape_batch_norm_grad(s)
                                              : dg_infer_fail(s, "more must have the shape of dy");
}

/* ---- statistics of several ranks ------------------------------------------------------------- */

static int want_scalar(dg_infer *s, int i, const char *what)
{
    return s->in[i].rank <= 0 ? 0 : dg_infer_fail(s, "%s must be one number", what);
}

/* x live? -> stats [1,2C+1]: means, sums of squares about them, number of rows */
int dg_shape_batch_stats(dg_infer *s)
{
    int rc = want_channels(s, s->in[0], 1, 1);

    if (rc == 0)
        rc = want_scalar(s, 1, "live");
    if (rc == 0)
        s->out[0] = DG_SHAPE(1, 2 * s->in[0].d[s->in[0].rank - 1] + 1);
    return rc;
}

/* all [R,2C+1] -> mean var n */
int dg_shape_join_stats(dg_infer *s)
{
    if (s->in[0].rank != 2 || s->in[0].d[1] < 3 || s->in[0].d[1] % 2 == 0)
        return dg_infer_fail(s, "the statistics of every rank must be a row of 2 C + 1");
    s->out[0] = s->out[1] = DG_SHAPE((s->in[0].d[1] - 1) / 2);
    s->out[2] = DG_SCALAR;
    return 0;
}

/* x s b mean var n live? res? -> y */
int dg_shape_batch_norm_sync(dg_infer *s)
{
    int rc;

    DG_TRY(want_channels(s, s->in[0], 1, 5));
    DG_TRY(want_scalar(s, 5, "n"));
    DG_TRY(want_scalar(s, 6, "live"));
    DG_TRY(want_residual(s, s->in[0], s->in[7]));
out:
    s->out[0] = s->in[0];
    return rc;
}

/* dy x y? s b mean var ..; y is needed where ReLU's gate cannot be read from x */
static int want_gradient(dg_infer *s, int live, int res)
{
    const norm_attr *a = s->attr;
    dg_shape dy = s->in[0];
    int rc;

    DG_TRY(want_channels(s, dy, 3, 7));
    for (int i = 1; i <= 2; i++)
        if (s->in[i].rank >= 0 && !dg_shape_equal(s->in[i], dy))
            DG_TRY(dg_infer_fail(s, "x and y must have the shape of dy"));
    if (s->in[2].rank < 0 && a->act == DG_ACT_RELU && !a->plain)
        DG_TRY(dg_infer_fail(s, "y is needed"));
    DG_TRY(want_scalar(s, live, "live"));
    DG_TRY(want_residual(s, dy, s->in[res]));
out:
    return rc;
}

/* dy x y? s b mean var live? res? -> sums [2,C] ds? db? dres? */
int dg_shape_batch_norm_sums(dg_infer *s)
{
    int rc = want_gradient(s, 7, 8);

    if (rc == 0)
        s->out[0] = DG_SHAPE(2, s->in[3].d[0]);
    s->out[1] = s->out[2] = s->in[3];
    s->out[3] = s->in[0];
    return rc;
}

/* dy x y? s b mean var n sums live? res? -> dx */
int dg_shape_batch_norm_dx(dg_infer *s)
{
    int rc;

    DG_TRY(want_gradient(s, 9, 10));
    DG_TRY(want_scalar(s, 7, "n"));
    if (!dg_shape_equal(s->in[8], DG_SHAPE(2, s->in[3].d[0])))
        DG_TRY(dg_infer_fail(s, "sums must be two rows of the channels"));
out:
    s->out[0] = s->in[0];
    return rc;
}

/* ---- layer norm ------------------------------------------------------------------------------ */

static dg_shape rows(dg_shape x)
{
    x.rank--;
    return x;
}

static int want_width(dg_infer *s, dg_shape x, dg_shape scale, dg_shape shift)
{
    if (x.rank < 1 || !is_vector(scale, x.d[x.rank - 1]) || !is_vector(shift, x.d[x.rank - 1]))
        return dg_infer_fail(s, "scale and shift must be [%lld], the last axis of x",
                             x.rank ? (long long)x.d[x.rank - 1] : 0LL);
    return 0;
}

int dg_shape_layer_norm(dg_infer *s)
{
    int rc = want_width(s, s->in[0], s->in[1], s->in[2]);

    if (rc == 0) {
        s->out[0] = s->in[0];
        s->out[1] = s->out[2] = rows(s->in[0]);
    }
    return rc;
}

/* dy x s mean rstd -> dx ds? db? */
int dg_shape_layer_norm_grad(dg_infer *s)
{
    int rc = want_width(s, s->in[1], s->in[2], s->in[2]);

    if (rc == 0 &&
        (!dg_shape_equal(s->in[0], s->in[1]) || !dg_shape_equal(s->in[3], rows(s->in[1])) ||
         !dg_shape_equal(s->in[4], s->in[3])))
        rc = dg_infer_fail(s, "dy must have the shape of x, mean and rstd one entry a row");
    s->out[0] = s->in[1];
    s->out[1] = s->out[2] = s->in[2];
    return rc;
}
