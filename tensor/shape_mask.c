/* shape_mask.c: shapes of depthwise convolution and of masks at points: map [B,H,W,D], q [B,Q,D],
 * masks i32 [B,L,H,W], a bit of a plane for each target. */
#include "tensor/rules.h"

static bool is_kernel(dg_shape w, int64_t channels)
{
    return w.rank == 4 && w.d[0] == channels && w.d[1] == 1 && w.d[2] == w.d[3] && w.d[2] % 2;
}

/* x w b? -> y */
int dg_shape_depthwise_conv(dg_infer *s)
{
    dg_shape x = s->in[0], w = s->in[1], b = s->in[2];

    if (x.rank != 4 || !is_kernel(w, x.d[3]))
        return dg_infer_fail(s, "x must be [B,H,W,C] and w [C,1,k,k], k odd");
    if (b.rank >= 0 && !dg_shape_equal(b, DG_SHAPE(x.d[3])))
        return dg_infer_fail(s, "the bias must be [%lld]", (long long)x.d[3]);
    return dg_shape_copy(s, 0, 0);
}

/* x dy -> dw */
int dg_shape_depthwise_conv_dw(dg_infer *s)
{
    const depthwise_attr *a = s->attr;
    dg_shape x = s->in[0];

    if (x.rank != 4 || !dg_shape_equal(x, s->in[1]) || a->size < 1 || a->size % 2 == 0)
        return dg_infer_fail(s, "x and dy must both be [B,H,W,C], and the kernel's side odd");
    s->out[0] = DG_SHAPE(x.d[3], 1, a->size, a->size);
    return 0;
}

static int check_sample(dg_infer *s, const dg_shape *in)
{
    dg_shape map = in[0], q = in[1], points = in[2];

    if (map.rank != 4 || q.rank != 3 || q.d[0] != map.d[0] || q.d[2] != map.d[3])
        return dg_infer_fail(s, "map must be [B,H,W,D], q [B,Q,D]");
    if (points.rank != 4 || points.d[0] != map.d[0] || points.d[3] != 2 ||
        !dg_shape_equal(in[3], DG_SHAPE(points.d[0], points.d[1])))
        return dg_infer_fail(s, "points must be [B,P,N,2], query [B,P]");
    return 0;
}

/* map q points query -> y */
int dg_shape_mask_sample(dg_infer *s)
{
    int rc = check_sample(s, s->in);

    if (rc == 0)
        s->out[0] = DG_SHAPE(s->in[2].d[0], s->in[2].d[1], s->in[2].d[2]);
    return rc;
}

/* dy map q points query -> dmap? dq? */
int dg_shape_mask_sample_grad(dg_infer *s)
{
    dg_shape dy = s->in[0], points = s->in[3];
    int rc = check_sample(s, s->in + 1);

    if (rc)
        return rc;
    if (!dg_shape_equal(dy, DG_SHAPE(points.d[0], points.d[1], points.d[2])))
        return dg_infer_fail(s, "dy must be [B,P,N]");
    return dg_shape_copy(s, 0, 1) + dg_shape_copy(s, 1, 2);
}

static int want_masks(dg_infer *s, dg_shape masks, int64_t batch, int64_t targets)
{
    if (masks.rank != 4 || masks.d[0] != batch || 32 * masks.d[1] < targets)
        return dg_infer_fail(s, "masks must be [B,L,H,W], a plane for 32 of %lld targets",
                             (long long)targets);
    return 0;
}

/* cost x masks count points -> y */
int dg_shape_mask_cost(dg_infer *s)
{
    dg_shape cost = s->in[0], x = s->in[1];

    if (cost.rank != 3 || x.rank != 3 || x.d[0] != cost.d[0] || x.d[1] != cost.d[2] || x.d[2] < 1)
        return dg_infer_fail(s, "cost must be [B,M,Q], x [B,Q,N]");
    if (!dg_shape_equal(s->in[3], DG_SHAPE(cost.d[0])) ||
        !dg_shape_equal(s->in[4], DG_SHAPE(cost.d[0], x.d[2], 2)))
        return dg_infer_fail(s, "count must be [B], points [B,N,2]");
    return want_masks(s, s->in[2], cost.d[0], cost.d[1]) + dg_shape_copy(s, 0, 0);
}

static int check_loss(dg_infer *s, const dg_shape *in)
{
    dg_shape x = in[0];

    if (x.rank != 3 || x.d[2] < 1 || !dg_shape_equal(in[4], DG_SHAPE(x.d[0], x.d[1], x.d[2], 2)))
        return dg_infer_fail(s, "x must be [B,P,N], points [B,P,N,2]");
    if (!dg_shape_equal(in[2], DG_SHAPE(x.d[0], x.d[1])) ||
        (in[3].rank >= 0 && !dg_shape_equal(in[3], in[2])))
        return dg_infer_fail(s, "query must be [B,P], and gt, if there is one");
    return want_masks(s, in[1], x.d[0], in[3].rank < 0 ? x.d[1] : 1);
}

/* x masks query gt? points -> ce dice */
int dg_shape_mask_loss(dg_infer *s)
{
    s->out[0] = s->out[1] = DG_SCALAR;
    return check_loss(s, s->in);
}

/* dce? ddice? x masks query gt? points -> dx */
int dg_shape_mask_loss_grad(dg_infer *s)
{
    s->out[0] = s->in[2];
    return check_loss(s, s->in + 2);
}
