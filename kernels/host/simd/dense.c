/* dense.c: focal loss of every logit; the formula is in kernels/ref/dense.c. One exponential per
 * element, as in loss.c; classes of a row are summed in f32, rows in double, in order. */
#include <detrgraph/heads.h>

#include "kernels/host/simd/vmath.h"

typedef struct call {
    const float *x;
    const int32_t *label;
    float *dx;   /* or NULL */
    double *sum; /* of each row */
    int64_t c;
    float alpha, gamma, scale;
} call;

ALWAYS vf power(vf x, float y)
{
    if (y == 2)
        return x * x;
    return y == 0 ? vf_set(1) : vf_exp(vf_log(x) * y);
}

/* Terms of W logits, and their derivatives; target: lanes where y is 1. */
ALWAYS vf terms(const call *k, vf x, vm target, vf *slope)
{
    vf e = vf_exp(-vf_abs(x)), big = vf_inverse(1.0f + e), small = e * big;
    vm positive = vf_le(vf_set(0), x);
    vf p = vf_pick(positive, big, small), q = vf_pick(positive, small, big);
    vf bce = vf_max(vf_set(0), x) - vf_pick(target, x, vf_set(0)) + vf_log1p_unit(e);
    vf wrong = vf_pick(target, q, p), right = vf_pick(target, p, q);
    vf w = vf_pick(target, vf_set(k->alpha), vf_set(1 - k->alpha)) * power(wrong, k->gamma);

    *slope = vf_pick(target, -w, w) * vf_fma(k->gamma * right, bce, wrong);
    return w * bce;
}

static void rows_body(void *ctx, int64_t begin, int64_t end, int thread)
{
    const call *k = ctx;

    (void)thread;
    for (int64_t r = begin; r < end; r++) {
        float label = (float)k->label[r];
        vf sum = { 0 }, slope;

        for (int64_t i = 0; i < k->c; i += W) {
            int64_t at = r * k->c + i, w = min64(k->c - i, W);
            vm target = vf_eq(vf_count() + (float)i, vf_set(label));
            vf loss = terms(k, vf_load_n(k->x + at, w), target, &slope);

            sum += vf_keep(loss, w, vf_set(0));
            if (k->dx)
                vf_store_n(k->dx + at, label < 0 ? vf_set(0) : slope * k->scale, w);
        }
        k->sum[r] = label < 0 ? 0 : (double)vf_sum(sum);
    }
}

/* The operands from `first` on are logits and label. */
static double run_rows(const dg_args *a, int first, float scale, float *dx)
{
    const dg_focal_attr *f = a->attr;
    int64_t n = elements(a, first + 1);
    double total = 0;
    call k = { .x = a->t[first].data,
               .label = a->t[first + 1].data,
               .dx = dx,
               .sum = a->workspace,
               .c = width(a, first),
               .alpha = (float)f->alpha,
               .gamma = (float)f->gamma,
               .scale = scale };

    parallel(a, n, 4 * k.c, rows_body, &k);
    for (int64_t r = 0; r < n; r++)
        total += k.sum[r];
    return total;
}

static int prepare_loss(dg_prepare *p)
{
    p->workspace_bytes =
        (size_t)dg_shape_elements(p->t[DG_FOCAL_LOSS_LABEL].shape) * sizeof(double);
    return 0;
}

static int prepare_grad(dg_prepare *p)
{
    p->workspace_bytes =
        (size_t)dg_shape_elements(p->t[DG_FOCAL_LOSS_GRAD_LABEL].shape) * sizeof(double);
    return 0;
}

static int focal_loss(const dg_args *a)
{
    *(float *)a->t[DG_FOCAL_LOSS_LOSS].data = (float)run_rows(a, DG_FOCAL_LOSS_LOGITS, 0, NULL);
    return 0;
}

/* dloss logits label -> dlogits */
static int focal_loss_grad(const dg_args *a)
{
    (void)run_rows(a, DG_FOCAL_LOSS_GRAD_LOGITS,
                   *(const float *)a->t[DG_FOCAL_LOSS_GRAD_DLOSS].data,
                   a->t[DG_FOCAL_LOSS_GRAD_DLOGITS].data);
    return 0;
}

DG_SIMD(focal_loss, prepare_loss, focal_loss);
DG_SIMD(focal_loss_grad, prepare_grad, focal_loss_grad);
