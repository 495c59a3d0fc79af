/* shape_heads.c: shapes of the ops of <detrgraph/heads.h>. */
#include <detrgraph/heads.h>

#include "tensor/rules.h"

static bool ends_in_four(dg_shape s)
{
    return s.rank >= 1 && s.d[s.rank - 1] == 4;
}

static dg_shape without_last(dg_shape s)
{
    s.rank--;
    return s;
}

static bool is_list(dg_shape s, int64_t batch, int64_t n)
{
    return dg_shape_equal(s, DG_SHAPE(batch, n));
}

/* ---- boxes ----------------------------------------------------------------------------------- */

int dg_shape_anchor_grid(dg_infer *s)
{
    const dg_anchor_attr *a = s->attr;
    int64_t n = 0;

    if (s->in[0].rank != 2 || s->in[0].d[1] != 2)
        return dg_infer_fail(s, "size must be [B,2]");
    if (a->n_levels < 1 || a->n_levels > DG_MAX_LEVELS || a->ratios < 1 ||
        a->ratios > DG_MAX_RATIOS || a->octaves < 1)
        return dg_infer_fail(s, "%lld levels, %lld ratios, %lld octaves", (long long)a->n_levels,
                             (long long)a->ratios, (long long)a->octaves);
    for (int64_t l = 0; l < a->n_levels; l++) {
        if (a->h[l] < 1 || a->w[l] < 1 || a->stride[l] < 1)
            return dg_infer_fail(s, "level %lld has %lldx%lld cells of %lld pixels", (long long)l,
                                 (long long)a->h[l], (long long)a->w[l], (long long)a->stride[l]);
        n += a->h[l] * a->w[l] * a->ratios * a->octaves;
    }
    if (n > INT32_MAX)
        return dg_infer_fail(s, "%lld boxes", (long long)n);
    s->out[0] = DG_SHAPE(n, 4);
    s->out[1] = DG_SHAPE(s->in[0].d[0], n);
    return 0;
}

int dg_shape_delta_decode(dg_infer *s)
{
    if (!ends_in_four(s->in[0]) || !dg_shape_equal(s->in[0], s->in[1]))
        return dg_infer_fail(s, "deltas and boxes must both be [..,4]");
    return dg_shape_copy(s, 0, 0);
}

int dg_shape_delta_decode_grad(dg_infer *s)
{
    if (!ends_in_four(s->in[0]) || !dg_shape_equal(s->in[0], s->in[1]) ||
        !dg_shape_equal(s->in[0], s->in[2]))
        return dg_infer_fail(s, "dy, deltas and boxes must all be [..,4]");
    return dg_shape_copy(s, 0, 0);
}

/* ---- assignment ------------------------------------------------------------------------------ */

/* boxes [N,4] or, if they may be images' own, [B,N,4]; valid [B,N]; tboxes [B,M,4]; count [B] */
static int want_assignment(dg_infer *s, bool own, int64_t *batch, int64_t *n)
{
    dg_shape boxes = s->in[0], valid = s->in[1], t = s->in[2];

    if (t.rank != 3 || t.d[2] != 4 || !dg_shape_equal(s->in[3], DG_SHAPE(t.d[0])))
        return dg_infer_fail(s, "targets must be boxes [B,M,4], count [B]");
    if (!ends_in_four(boxes) || (boxes.rank != 2 && !(own && boxes.rank == 3)) ||
        (boxes.rank == 3 && boxes.d[0] != t.d[0]))
        return dg_infer_fail(s, own ? "boxes must be [N,4] or [B,N,4]" : "boxes must be [N,4]");
    *batch = t.d[0];
    *n = boxes.d[boxes.rank - 2];
    if (valid.rank >= 0 && !is_list(valid, *batch, *n))
        return dg_infer_fail(s, "valid must be [%lld,%lld]", (long long)*batch, (long long)*n);
    return 0;
}

int dg_shape_iou_assign(dg_infer *s)
{
    int64_t batch = 0, n = 0;
    int rc = want_assignment(s, true, &batch, &n);

    if (rc == 0)
        s->out[0] = DG_SHAPE(batch, n);
    return rc;
}

static int64_t sum_of(const int64_t *n, int64_t levels)
{
    int64_t sum = 0;

    for (int64_t l = 0; l < levels; l++) {
        if (n[l] < 1)
            return -1;
        sum += n[l];
    }
    return sum;
}

int dg_shape_atss_assign(dg_infer *s)
{
    enum { MOST_NEAREST = 32 };
    const dg_atss_attr *a = s->attr;
    int64_t batch = 0, n = 0;
    int rc = want_assignment(s, false, &batch, &n);

    if (rc)
        return rc;
    if (a->n_levels < 1 || a->n_levels > DG_MAX_LEVELS || sum_of(a->n, a->n_levels) != n ||
        s->in[1].rank < 0 || a->nearest < 1 || a->nearest > MOST_NEAREST)
        return dg_infer_fail(s, "the %lld nearest of %lld levels with %lld valid or void boxes",
                             (long long)a->nearest, (long long)a->n_levels, (long long)n);
    s->out[0] = s->out[2] = DG_SHAPE(batch, n);
    s->out[1] = without_last(s->in[2]);
    return 0;
}

/* ---- samples and lists ----------------------------------------------------------------------- */

static int want_keys(dg_infer *s)
{
    if (s->in[0].rank != 2 || !dg_shape_equal(s->in[0], s->in[1]) ||
        !dg_shape_equal(s->in[0], s->in[2]))
        return dg_infer_fail(s, "gt and both keys must be [B,N]");
    return 0;
}

int dg_shape_sample_rows(dg_infer *s)
{
    const dg_sample_attr *a = s->attr;

    if (a->n < 1 || a->most < 0 || a->most > a->n)
        return dg_infer_fail(s, "%lld rows with up to %lld positives", (long long)a->n,
                             (long long)a->most);
    s->out[0] = DG_SHAPE(s->in[0].d[0], a->n);
    s->out[1] = DG_SHAPE(s->in[0].d[0], 2);
    return want_keys(s);
}

int dg_shape_query_rows(dg_infer *s)
{
    const dg_query_attr *a = s->attr;

    if (a->least < 0 || a->capacity < 1 || a->least > a->capacity)
        return dg_infer_fail(s, "%lld to %lld queries", (long long)a->least,
                             (long long)a->capacity);
    s->out[0] = s->out[1] = s->out[2] = DG_SHAPE(s->in[0].d[0], a->capacity);
    s->out[3] = DG_SHAPE(4);
    return want_keys(s);
}

int dg_shape_level_topk(dg_infer *s)
{
    const dg_level_topk_attr *a = s->attr;
    int64_t k = 0;

    if (a->n_levels < 1 || a->n_levels > DG_MAX_LEVELS || a->k < 1)
        return dg_infer_fail(s, "the %lld best of each of %lld levels", (long long)a->k,
                             (long long)a->n_levels);
    if (s->in[0].rank != 2 || sum_of(a->n, a->n_levels) != s->in[0].d[1])
        return dg_infer_fail(s, "x must be [B,%lld], the levels' elements together",
                             (long long)sum_of(a->n, a->n_levels));
    for (int64_t l = 0; l < a->n_levels; l++)
        k += a->n[l] < a->k ? a->n[l] : a->k;
    s->out[0] = DG_SHAPE(s->in[0].d[0], k);
    return 0;
}

int dg_shape_pick_i32(dg_infer *s)
{
    if (s->in[0].rank != 2 || s->in[1].rank != 2 || s->in[0].d[0] != s->in[1].d[0])
        return dg_infer_fail(s, "x must be [B,S], index [B,Q]");
    return dg_shape_copy(s, 0, 1);
}

static int want_scored(dg_infer *s)
{
    const dg_nms_attr *a = s->attr;
    dg_shape boxes = s->in[0];

    if (boxes.rank != 3 || boxes.d[2] != 4 || !is_list(s->in[1], boxes.d[0], boxes.d[1]) ||
        !is_list(s->in[2], boxes.d[0], boxes.d[1]))
        return dg_infer_fail(s, "boxes must be [B,N,4], score and group [B,N]");
    if (a->n < 1)
        return dg_infer_fail(s, "%lld rows to keep", (long long)a->n);
    s->out[0] = DG_SHAPE(boxes.d[0], a->n);
    return 0;
}

int dg_shape_nms(dg_infer *s)
{
    s->out[1] = DG_SHAPE(s->in[0].d[0]);
    return want_scored(s);
}

int dg_shape_soft_nms(dg_infer *s)
{
    int rc = want_scored(s);

    s->out[1] = s->out[0];
    s->out[2] = DG_SHAPE(s->in[0].d[0]);
    return rc;
}

/* ---- features of regions --------------------------------------------------------------------- */

static int want_rois(dg_infer *s, dg_shape rois)
{
    const dg_roi_attr *a = s->attr;

    if (rois.rank != 3 || rois.d[2] != 4)
        return dg_infer_fail(s, "regions must be [B,R,4]");
    if (a->size < 1 || !(a->finest > 0) || a->n_levels < 1 || a->n_levels > DG_MAX_LEVELS)
        return dg_infer_fail(s, "%lld cells a side, %lld levels", (long long)a->size,
                             (long long)a->n_levels);
    return 0;
}

int dg_shape_roi_align(dg_infer *s)
{
    const dg_roi_attr *a = s->attr;
    int rc = want_rois(s, s->in[0]);

    if (rc)
        return rc;
    if (s->n_in != 1 + a->n_levels)
        return dg_infer_fail(s, "%d maps for %lld levels", s->n_in - 1, (long long)a->n_levels);
    for (int i = 1; i < s->n_in; i++)
        if (s->in[i].rank != 4 || s->in[i].d[0] != s->in[0].d[0] || s->in[i].d[3] != s->in[1].d[3])
            return dg_infer_fail(s, "maps must be [B,H,W,C] with the regions' B and one C");
    s->out[0] = DG_SHAPE(s->in[0].d[0], s->in[0].d[1], s->in[1].d[3] * a->size * a->size);
    return 0;
}

int dg_shape_roi_align_grad(dg_infer *s)
{
    const dg_roi_attr *a = s->attr;
    dg_shape dy = s->in[0];
    int rc = want_rois(s, s->in[1]);

    if (rc)
        return rc;
    if (dy.rank != 3 || dy.d[0] != s->in[1].d[0] || dy.d[1] != s->in[1].d[1] ||
        dy.d[2] % (a->size * a->size) || a->h < 1 || a->w < 1 || a->level < 0 ||
        a->level >= a->n_levels)
        return dg_infer_fail(s, "dy must be [B,R,C*%lld] of a map's regions",
                             (long long)(a->size * a->size));
    s->out[0] = DG_SHAPE(dy.d[0], a->h, a->w, dy.d[2] / (a->size * a->size));
    return 0;
}

/* ---- losses ---------------------------------------------------------------------------------- */

/* logits [..,C], label [..] from operand i on */
static int want_labels(dg_infer *s, int i)
{
    if (s->in[i].rank < 1 || !dg_shape_equal(without_last(s->in[i]), s->in[i + 1]))
        return dg_infer_fail(s, "logits must be [..,C], labels [..]");
    return 0;
}

int dg_shape_label_loss(dg_infer *s)
{
    for (int i = 0; i < s->n_out; i++)
        s->out[i] = DG_SCALAR;
    return want_labels(s, 0);
}

int dg_shape_label_loss_grad(dg_infer *s)
{
    s->out[0] = s->in[1];
    return s->in[0].rank ? dg_infer_fail(s, "dloss must be a scalar") : want_labels(s, 1);
}

static int want_alike(dg_infer *s, int i)
{
    if (!dg_shape_equal(s->in[i], s->in[i + 1]) || !dg_shape_equal(s->in[i], s->in[i + 2]))
        return dg_infer_fail(s, "logits, targets and weights must have one shape");
    return 0;
}

int dg_shape_logistic_loss(dg_infer *s)
{
    s->out[0] = DG_SCALAR;
    return want_alike(s, 0);
}

int dg_shape_logistic_loss_grad(dg_infer *s)
{
    s->out[0] = s->in[1];
    return s->in[0].rank ? dg_infer_fail(s, "dloss must be a scalar") : want_alike(s, 1);
}

static int want_weighted(dg_infer *s, int i)
{
    if (!ends_in_four(s->in[i]) || !dg_shape_equal(s->in[i], s->in[i + 1]) ||
        !dg_shape_equal(without_last(s->in[i]), s->in[i + 2]))
        return dg_infer_fail(s, "boxes and targets must be [..,4], weights [..]");
    return 0;
}

int dg_shape_giou_loss(dg_infer *s)
{
    s->out[0] = DG_SCALAR;
    return want_weighted(s, 0);
}

int dg_shape_giou_loss_grad(dg_infer *s)
{
    s->out[0] = s->in[1];
    return s->in[0].rank ? dg_infer_fail(s, "dloss must be a scalar") : want_weighted(s, 1);
}
