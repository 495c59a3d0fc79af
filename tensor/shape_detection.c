/* shape_detection.c: shapes of target ops: labels [B,M], boxes [B,M,4], count [B]; pairs query, gt
 * [B,P]. */
#include "tensor/rules.h"

static bool is_boxes(dg_shape s)
{
    return s.rank == 3 && s.d[2] == 4;
}

/* labels [B,M], boxes [B,M,4], count [B] */
static int want_targets(dg_infer *s, dg_shape labels, dg_shape boxes, dg_shape count)
{
    if (!is_boxes(boxes) || !dg_shape_equal(labels, DG_SHAPE(boxes.d[0], boxes.d[1])) ||
        !dg_shape_equal(count, DG_SHAPE(boxes.d[0])))
        return dg_infer_fail(s, "targets must be labels [B,M], boxes [B,M,4], count [B]");
    return 0;
}

/* labels boxes count most u_label u_class u_sign u_size -> dn_labels dn_boxes dn query gt */
int dg_shape_denoise(dg_infer *s)
{
    const dg_denoise_attr *a = s->attr;
    int rc = want_targets(s, s->in[0], s->in[1], s->in[2]);

    if (rc)
        return rc;
    int64_t b = s->in[1].d[0], m = s->in[1].d[1], n = a->capacity;
    dg_shape flat = DG_SHAPE(b, n), boxes = DG_SHAPE(b, n, 4);

    if (a->count < 1 || a->classes < 1 || n % 2 || n < 2 * a->count || n < 2 * m)
        return dg_infer_fail(
            s, "capacity %lld must be even and hold 2 x %lld queries and 2 x %lld targets",
            (long long)n, (long long)a->count, (long long)m);
    if (s->in[3].rank != 0 || !dg_shape_equal(s->in[4], flat) || !dg_shape_equal(s->in[5], flat) ||
        !dg_shape_equal(s->in[6], boxes) || !dg_shape_equal(s->in[7], boxes))
        return dg_infer_fail(s, "most must be [], the draws [B,%lld] twice and [B,%lld,4] twice",
                             (long long)n, (long long)n);
    s->out[0] = flat;
    s->out[1] = boxes;
    s->out[2] = DG_SHAPE(4);
    s->out[3] = s->out[4] = DG_SHAPE(b, n / 2);
    return 0;
}

/* logits boxes labels tboxes count -> cost [B,M,Q] */
int dg_shape_match_cost(dg_infer *s)
{
    dg_shape logits = s->in[0], boxes = s->in[1];
    int rc = want_targets(s, s->in[2], s->in[3], s->in[4]);

    if (rc)
        return rc;
    if (logits.rank != 3 || !is_boxes(boxes) || logits.d[0] != boxes.d[0] ||
        logits.d[1] != boxes.d[1] || boxes.d[0] != s->in[3].d[0])
        return dg_infer_fail(
            s, "predictions must be logits [B,Q,C] and boxes [B,Q,4], of the targets' batch");
    s->out[0] = DG_SHAPE(boxes.d[0], s->in[3].d[1], boxes.d[1]);
    return 0;
}

int dg_shape_match(dg_infer *s)
{
    const index_attr *a = s->attr;
    dg_shape cost = s->in[0];

    if (cost.rank != 3 || !dg_shape_equal(s->in[1], DG_SHAPE(cost.d[0])))
        return dg_infer_fail(s, "cost must be [B,M,Q], count [B]");
    if (a->n < 1 || cost.d[2] % a->n)
        return dg_infer_fail(s, "%lld queries are not %lld equal groups", (long long)cost.d[2],
                             (long long)a->n);
    s->out[0] = DG_SHAPE(cost.d[0], a->n * cost.d[1]);
    return 0;
}

static bool ends_in_four(dg_shape s)
{
    return s.rank >= 1 && s.d[s.rank - 1] == 4;
}

/* d box -> y */
int dg_shape_box_decode(dg_infer *s)
{
    if (!ends_in_four(s->in[0]) || !dg_shape_equal(s->in[0], s->in[1]))
        return dg_infer_fail(s, "deltas and boxes must both be [..,4]");
    return dg_shape_copy(s, 0, 0);
}

/* dy d box -> dd? dbox? */
int dg_shape_box_decode_grad(dg_infer *s)
{
    if (!ends_in_four(s->in[0]) || !dg_shape_equal(s->in[0], s->in[1]) ||
        !dg_shape_equal(s->in[0], s->in[2]))
        return dg_infer_fail(s, "dy, deltas and boxes must all be [..,4]");
    return dg_shape_copy(s, 0, 0) + dg_shape_copy(s, 1, 0);
}

/* x [..,4] -> y [..,4n], or x [..,2] -> y [..,2n] */
int dg_shape_sine_embed(dg_infer *s)
{
    const sine_attr *a = s->attr;
    dg_shape x = s->in[0];

    if ((!ends_in_four(x) && (x.rank < 1 || x.d[x.rank - 1] != 2)) || a->n < 2 || a->n % 2)
        return dg_infer_fail(s, "boxes must be [..,4], and %lld values of a coordinate even",
                             (long long)a->n);
    s->out[0] = x;
    s->out[0].d[x.rank - 1] *= a->n;
    return 0;
}

/* dy y -> dx */
int dg_shape_sine_embed_grad(dg_infer *s)
{
    const sine_attr *a = s->attr;
    dg_shape y = s->in[1];
    int64_t each = y.rank < 1 || a->n < 2 ? 0 : y.d[y.rank - 1] / a->n;

    if ((each != 2 && each != 4) || y.d[y.rank - 1] != each * a->n || !dg_shape_equal(s->in[0], y))
        return dg_infer_fail(s, "dy and y must be [..,%lld]", (long long)(4 * a->n));
    s->out[0] = y;
    s->out[0].d[y.rank - 1] = each;
    return 0;
}

/* query [B,P]; gt the same, or absent: then P = M */
static int want_pairs(dg_infer *s, int64_t batch, dg_shape query, dg_shape gt, int64_t m)
{
    if (query.rank != 2 || query.d[0] != batch)
        return dg_infer_fail(s, "query must be [B,P]");
    if (gt.rank >= 0 ? !dg_shape_equal(gt, query) : query.d[1] != m)
        return dg_infer_fail(s,
                             "gt must have the shape of query; without it, query must be [B,%lld]",
                             (long long)m);
    return 0;
}

static int check_box_loss(dg_infer *s, const dg_shape *in)
{
    if (!is_boxes(in[0]) || !is_boxes(in[1]) || in[0].d[0] != in[1].d[0])
        return dg_infer_fail(s, "boxes must be [B,Q,4], target boxes [B,M,4]");
    return want_pairs(s, in[0].d[0], in[2], in[3], in[1].d[1]);
}

/* boxes tboxes query gt? -> l1 giou iou */
int dg_shape_box_loss(dg_infer *s)
{
    int rc = check_box_loss(s, s->in);

    s->out[0] = s->out[1] = DG_SCALAR;
    s->out[2] = s->in[2];
    return rc;
}

/* dl1? dgiou? boxes tboxes query gt? -> dboxes */
int dg_shape_box_loss_grad(dg_infer *s)
{
    int rc = check_box_loss(s, s->in + 2);

    s->out[0] = s->in[2];
    return rc;
}

/* logits labels query gt? iou? dn? */
static int check_class_loss(dg_infer *s, const dg_shape *in)
{
    const dg_class_loss_attr *a = s->attr;

    if (in[0].rank != 3 || in[1].rank != 2 || in[1].d[0] != in[0].d[0])
        return dg_infer_fail(s, "logits must be [B,Q,C], labels [B,M]");
    if (a->focal < DG_CLASS_VARIFOCAL || a->focal > DG_CLASS_QUALITY)
        return dg_infer_fail(s, "kind %lld of loss", (long long)a->focal);
    if (a->focal == DG_CLASS_FOCAL ? in[4].rank >= 0 : !dg_shape_equal(in[4], in[2]))
        return dg_infer_fail(s,
                             "focal loss takes no IoU; the others take that of every pair, [B,P]");
    if (in[5].rank >= 0 && !dg_shape_equal(in[5], DG_SHAPE(4)))
        return dg_infer_fail(s, "dn must be [4]");
    return want_pairs(s, in[0].d[0], in[2], in[3], in[1].d[1]);
}

int dg_shape_class_loss(dg_infer *s)
{
    s->out[0] = DG_SCALAR;
    return check_class_loss(s, s->in);
}

int dg_shape_class_loss_grad(dg_infer *s)
{
    s->out[0] = s->in[1];
    if (s->in[0].rank != 0)
        return dg_infer_fail(s, "dloss must be a scalar");
    return check_class_loss(s, s->in + 1);
}

/* logits boxes -> labels [B,K], scores [B,K], boxes [B,K,4] */
int dg_shape_detect(dg_infer *s)
{
    const index_attr *a = s->attr;
    dg_shape logits = s->in[0], boxes = s->in[1];

    if (logits.rank != 3 || !is_boxes(boxes) || logits.d[0] != boxes.d[0] ||
        logits.d[1] != boxes.d[1])
        return dg_infer_fail(s, "logits must be [B,Q,C], boxes [B,Q,4]");
    if (a->n < 1 || a->n > logits.d[1] * logits.d[2] || logits.d[1] * logits.d[2] > INT32_MAX)
        return dg_infer_fail(s, "the %lld best of %lld", (long long)a->n,
                             (long long)(logits.d[1] * logits.d[2]));
    s->out[0] = s->out[1] = DG_SHAPE(logits.d[0], a->n);
    s->out[2] = DG_SHAPE(logits.d[0], a->n, 4);
    return 0;
}
