/* loss.c: classification loss and matching cost; formulas as in kernels/ref/loss.c and match.c. One
 * exponential per element: with e = exp(-|x|), sigmoid(x) is 1/(1+e) or e/(1+e), and log(1 +
 * exp(-|x|)) follows from e. Classes of a row are summed in f32, rows in double, in order. */
#include "kernels/host/simd/vmath.h"

/* p = sigmoid(x) and q = 1 - p, both without cancellation; soft = log(1 + exp(-|x|)). */
ALWAYS void logistic(vf x, vf *p, vf *q, vf *soft)
{
    vf e = vf_exp(-vf_abs(x)), big = vf_inverse(1.0f + e), small = e * big;
    vm positive = vf_le(vf_set(0), x);

    *p = vf_pick(positive, big, small);
    *q = vf_pick(positive, small, big);
    *soft = vf_log1p_unit(e);
}

ALWAYS vf power(vf x, float y)
{
    if (y == 2)
        return x * x;
    return y == 0 ? vf_set(1) : vf_exp(vf_log(x) * y);
}

/* ---- class_loss: logits [B,Q,C] labels [B,M] query gt? iou? [B,P] dn? ------------------------ */

typedef struct call {
    const dg_args *a;
    const dg_tensor *t; /* the operands from logits on */
    int64_t q, c, m, p, live;
    float alpha, gamma, scale; /* scale: dloss */
    int64_t kind;
    float *dlogits; /* or NULL */
    double *sum;    /* [B*Q] */
    int32_t *pair;  /* [B*Q], index of the query's pair; -1: none */
} call;

/* Loss terms of W logits, and their derivatives; target: lanes where y is 1. */
ALWAYS vf terms(const call *k, vf x, vm target, float iou, vf *slope)
{
    vf p, q, soft, s, bce, wrong, w;

    logistic(x, &p, &q, &soft);
    if (k->kind == DG_CLASS_ALIGNED) /* iou is IoU^(1-alpha) here */
        s = vf_max(vf_set(0.01f), power(p, k->alpha) * iou);
    else
        s = vf_set(k->kind == DG_CLASS_FOCAL ? 1.0f : iou);
    s = vf_pick(target, s, vf_set(0));
    bce = vf_fnma(x, s, vf_max(vf_set(0), x)) + soft;
    if (k->kind == DG_CLASS_ALIGNED) {
        w = power(p, k->gamma);
        *slope = vf_pick(target, p - s, w * vf_fma(k->gamma * q, bce, p));
        return vf_pick(target, bce, w * bce);
    }
    if (k->kind == DG_CLASS_VARIFOCAL) {
        w = vf_pick(target, s, k->alpha * power(p, k->gamma));
        *slope = w * (p - s);
        return w * bce;
    }
    if (k->kind == DG_CLASS_QUALITY) {
        vf off = p - s, size = vf_abs(off), grown;

        w = power(size, k->gamma);
        grown = k->gamma == 2 ? 2.0f * size : k->gamma * w / vf_max(size, vf_set(1e-30f));
        grown = vf_pick(vf_lt(off, vf_set(0)), -grown, grown);
        *slope = vf_fma(grown * p * q, bce, w * off);
        return w * bce;
    }
    wrong = vf_pick(target, q, p);
    w = vf_pick(target, vf_set(k->alpha), vf_set(1 - k->alpha)) * power(wrong, k->gamma);
    *slope = vf_pick(target, -w, w) * vf_fma(k->gamma * (1.0f - wrong), bce, wrong);
    return w * bce;
}

static void pairs_of(const call *k, int64_t b)
{
    const int32_t *query = k->t[DG_CLASS_LOSS_QUERY].data, *gt = k->t[DG_CLASS_LOSS_GT].data;

    for (int64_t i = 0; i < k->q; i++)
        k->pair[b * k->q + i] = -1;
    for (int64_t n = b * k->p; n < (b + 1) * k->p; n++) {
        int64_t j = gt ? gt[n] : n - b * k->p;

        if (query[n] >= 0 && query[n] < k->q && j >= 0 && j < k->m)
            k->pair[b * k->q + query[n]] = (int32_t)(n - b * k->p);
    }
}

static void row(const call *k, int64_t r)
{
    int64_t b = r / k->q, n = b * k->p + k->pair[r], j;
    const int32_t *gt = k->t[DG_CLASS_LOSS_GT].data, *labels = k->t[DG_CLASS_LOSS_LABELS].data;
    const float *iou = k->t[DG_CLASS_LOSS_IOU].data,
                *x = (const float *)k->t[DG_CLASS_LOSS_LOGITS].data + r * k->c;
    float label = -1, target_iou = 0;
    vf sum = { 0 }, slope;

    k->sum[r] = 0;
    if (r % k->q >= k->live) {
        if (k->dlogits)
            memset(k->dlogits + r * k->c, 0, (size_t)k->c * sizeof(float));
        return;
    }
    if (k->pair[r] >= 0) {
        j = gt ? gt[n] : k->pair[r];
        label = (float)labels[b * k->m + j];
        target_iou = iou ? iou[n] : 0;
        if (k->kind == DG_CLASS_ALIGNED)
            target_iou = powf(target_iou, 1 - k->alpha);
    }
    for (int64_t i = 0; i < k->c; i += W) {
        int64_t w = min64(k->c - i, W);
        vm target = vf_eq(vf_count() + (float)i, vf_set(label));
        vf loss =
            terms(k, w == W ? vf_load(x + i) : vf_load_n(x + i, w), target, target_iou, &slope);

        sum += w == W ? loss : vf_keep(loss, w, vf_set(0));
        if (k->dlogits)
            vf_store_n(k->dlogits + r * k->c + i, slope * k->scale, w);
    }
    k->sum[r] = (double)vf_sum(sum);
}

static void body(void *ctx, int64_t begin, int64_t end, int thread)
{
    (void)thread;
    for (int64_t r = begin; r < end; r++)
        row(ctx, r);
}

static double run_class(const dg_args *a, int first, float scale, float *dlogits)
{
    const dg_class_loss_attr *f = a->attr;
    const dg_tensor *t = a->t + first;
    call k = { .a = a,
               .t = t,
               .alpha = (float)f->alpha,
               .gamma = (float)f->gamma,
               .kind = f->focal,
               .scale = scale,
               .dlogits = dlogits };
    int64_t n;
    double total = 0;

    k.q = t[DG_CLASS_LOSS_LOGITS].shape.d[1];
    k.c = t[DG_CLASS_LOSS_LOGITS].shape.d[2];
    k.m = t[DG_CLASS_LOSS_LABELS].shape.d[1];
    k.p = t[DG_CLASS_LOSS_QUERY].shape.d[1];
    k.live = t[DG_CLASS_LOSS_DN].data ? ((const int32_t *)t[DG_CLASS_LOSS_DN].data)[2] : k.q;
    n = t[DG_CLASS_LOSS_LOGITS].shape.d[0] * k.q;
    k.sum = a->workspace;
    k.pair = (int32_t *)(k.sum + n);
    for (int64_t b = 0; b < t[DG_CLASS_LOSS_LOGITS].shape.d[0]; b++)
        pairs_of(&k, b);
    parallel(a, n, 4 * k.c, body, &k);
    for (int64_t r = 0; r < n; r++)
        total += k.sum[r];
    return total;
}

static int prepare(dg_prepare *p, const dg_shape *logits)
{
    p->workspace_bytes = (size_t)(logits->d[0] * logits->d[1]) * (sizeof(double) + sizeof(int32_t));
    return 0;
}

static int prepare_loss(dg_prepare *p)
{
    return prepare(p, &p->t[DG_CLASS_LOSS_LOGITS].shape);
}

static int prepare_loss_grad(dg_prepare *p)
{
    return prepare(p, &p->t[DG_CLASS_LOSS_GRAD_LOGITS].shape);
}

static int class_loss(const dg_args *a)
{
    *(float *)a->t[DG_CLASS_LOSS_LOSS].data = (float)run_class(a, DG_CLASS_LOSS_LOGITS, 0, NULL);
    return 0;
}

/* dloss logits labels query gt? iou? dn? -> dlogits */
static int class_loss_grad(const dg_args *a)
{
    run_class(a, DG_CLASS_LOSS_GRAD_LOGITS, *(const float *)a->t[DG_CLASS_LOSS_GRAD_DLOSS].data,
              a->t[DG_CLASS_LOSS_GRAD_DLOGITS].data);
    return 0;
}

/* ---- match_cost ------------------------------------------------------------------------------ */
/* logits [B,Q,C] boxes [B,Q,4] labels [B,M] tboxes [B,M,4] count [B] -> cost [B,M,Q] */

ALWAYS vf ratio(vf x, vf y)
{
    return vf_pick(vm_and(vf_eq(x, vf_set(0)), vf_eq(y, vf_set(0))), vf_set(0), x / y);
}

/* GIoU of W boxes (cx, cy, w, h) with one box. */
ALWAYS vf giou(const vf a[4], const float *b)
{
    vf zero = vf_set(0), aw = 0.5f * vf_max(zero, a[2]), ah = 0.5f * vf_max(zero, a[3]);
    vf bw = 0.5f * vf_max(zero, vf_set(b[2])), bh = 0.5f * vf_max(zero, vf_set(b[3]));
    vf ax1 = a[0] - aw, ay1 = a[1] - ah, ax2 = a[0] + aw, ay2 = a[1] + ah;
    vf bx1 = b[0] - bw, by1 = b[1] - bh, bx2 = b[0] + bw, by2 = b[1] + bh;
    vf inner = vf_max(zero, vf_min(ax2, bx2) - vf_max(ax1, bx1)) *
               vf_max(zero, vf_min(ay2, by2) - vf_max(ay1, by1));
    vf hull = (vf_max(ax2, bx2) - vf_min(ax1, bx1)) * (vf_max(ay2, by2) - vf_min(ay1, by1));
    vf both = (ax2 - ax1) * (ay2 - ay1) + (bx2 - bx1) * (by2 - by1) - inner;

    return ratio(inner, both) - ratio(hull - both, hull);
}

ALWAYS vf class_cost(vf x, const match_attr *f)
{
    float alpha = (float)f->alpha, gamma = (float)f->gamma, eps = (float)f->eps;
    vf p, q, soft, log_p, log_q;

    logistic(x, &p, &q, &soft);
    log_p = eps > 0 ? vf_log(p + eps) : vf_min(vf_set(0), x) - soft;
    log_q = eps > 0 ? vf_log(q + eps) : vf_min(vf_set(0), -x) - soft;
    return (1 - alpha) * power(p, gamma) * log_q - alpha * power(q, gamma) * log_p;
}

static void cost_row(const dg_args *a, int64_t r)
{
    const match_attr *f = a->attr;
    int64_t q = a->t[DG_MATCH_COST_LOGITS].shape.d[1], c = a->t[DG_MATCH_COST_LOGITS].shape.d[2],
            m = a->t[DG_MATCH_COST_LABELS].shape.d[1], b = r / m;
    int32_t label = ((const int32_t *)a->t[DG_MATCH_COST_LABELS].data)[r];
    const float *target = (const float *)a->t[DG_MATCH_COST_TBOXES].data + 4 * r,
                *logits = a->t[DG_MATCH_COST_LOGITS].data;
    float *cost = (float *)a->t[DG_MATCH_COST_COST].data + r * q;

    if (r % m >= ((const int32_t *)a->t[DG_MATCH_COST_COUNT].data)[b]) {
        memset(cost, 0, (size_t)q * sizeof(float));
        return;
    }
    for (int64_t i = 0; i < q; i += W) {
        int64_t w = min64(q - i, W);
        const float *box = (const float *)a->t[DG_MATCH_COST_BOXES].data + (b * q + i) * 4;
        float lane[5][W] = { { 0 } };
        vf v[5], l1 = { 0 }, class = { 0 };

        for (int64_t k = 0; k < w; k++) {
            for (int n = 0; n < 4; n++)
                lane[n][k] = box[4 * k + n];
            lane[4][k] = label >= 0 && label < c ? logits[(b * q + i + k) * c + label] : 0;
        }
        for (int n = 0; n < 5; n++)
            v[n] = vf_load(lane[n]);
        for (int n = 0; n < 4; n++)
            l1 += vf_abs(v[n] - target[n]);
        if (label >= 0 && label < c)
            class = class_cost(v[4], f);
        vf_store_n(cost + i,
                   (float)f->class_weight * class + (float)f->l1_weight * l1 -
                       (float)f->giou_weight * giou(v, target),
                   w);
    }
}

static void cost_body(void *ctx, int64_t begin, int64_t end, int thread)
{
    (void)thread;
    for (int64_t r = begin; r < end; r++)
        cost_row(ctx, r);
}

static int match_cost(const dg_args *a)
{
    dg_args copy = *a;

    parallel(a, elements(a, DG_MATCH_COST_LABELS), 8 * a->t[DG_MATCH_COST_LOGITS].shape.d[1],
             cost_body, &copy);
    return 0;
}

DG_SAME_PLACE(DG_CLASS_LOSS_LABELS, DG_CLASS_LOSS_GRAD_LABELS - DG_CLASS_LOSS_GRAD_LOGITS);
DG_SAME_PLACE(DG_CLASS_LOSS_QUERY, DG_CLASS_LOSS_GRAD_QUERY - DG_CLASS_LOSS_GRAD_LOGITS);
DG_SAME_PLACE(DG_CLASS_LOSS_GT, DG_CLASS_LOSS_GRAD_GT - DG_CLASS_LOSS_GRAD_LOGITS);
DG_SAME_PLACE(DG_CLASS_LOSS_IOU, DG_CLASS_LOSS_GRAD_IOU - DG_CLASS_LOSS_GRAD_LOGITS);
DG_SAME_PLACE(DG_CLASS_LOSS_DN, DG_CLASS_LOSS_GRAD_DN - DG_CLASS_LOSS_GRAD_LOGITS);
DG_SIMD(class_loss, prepare_loss, class_loss);
DG_SIMD(class_loss_grad, prepare_loss_grad, class_loss_grad);
DG_SIMD(match_cost, NULL, match_cost);
