/* dense.c: losses with one target per row, without pairs; sums over all rows.
 *
 * focal_loss     Lin et al. 2017: with x the logit, p = sigmoid(x), y = 1 at the label and else 0,
 *               q = 1-p at y = 1 and p elsewhere, a = alpha at y = 1, else 1-alpha:
 *               a q^gamma bce(x, y)
 * logistic_loss  w bce(x, t)                        d/dx = w (p - t)
 * cross_entropy  log sum exp(x) - x[label]          d/dx = softmax(x) - y
 * giou_loss      w (1 - GIoU), Rezatofighi et al. 2019, with areas of union and hull of at least
 *               eps; where eps replaces an area, that area has no gradient
 *
 * with bce(x, t) = -t log p - (1-t) log(1-p). Void rows give 0 and get 0. */
#include <math.h>
#include <string.h>

#include <detrgraph/heads.h>

#include "kernels/ref/ref.h"

static double bce(double x, double t)
{
    return (x > 0 ? x : 0) - x * t + log1p(exp(-fabs(x)));
}

static double logistic(double x)
{
    return 1 / (1 + exp(-x));
}

static double power(double x, double y)
{
    return y == 2 ? x * x : pow(x, y);
}

/* ---- focal_loss: logits [..,C] label [..] -> loss -------------------------------------------- */

static double focal_term(const dg_focal_attr *f, double x, bool y, double *slope)
{
    double wrong = logistic(y ? -x : x), loss = bce(x, y), a = y ? f->alpha : 1 - f->alpha;

    *slope = a * power(wrong, f->gamma) * (f->gamma * (1 - wrong) * loss + wrong) * (y ? -1 : 1);
    return a * power(wrong, f->gamma) * loss;
}

/* The operands from `first` on are logits and label. dlogits: NULL, or receives scale * slope. */
static double focal_terms(const dg_args *a, int first, double scale, real *dlogits)
{
    int64_t c = width(a, first);
    double total = 0, slope;

    for (int64_t n = 0; n < elements(a, first); n++) {
        int32_t label = in_i32(a, first + 1)[n / c];

        slope = 0;
        if (label >= 0)
            total += focal_term(a->attr, in(a, first)[n], label == n % c, &slope);
        if (dlogits)
            dlogits[n] = (real)(scale * slope);
    }
    return total;
}

static int focal_loss(const dg_args *a)
{
    out(a, DG_FOCAL_LOSS_LOSS)[0] = (real)focal_terms(a, DG_FOCAL_LOSS_LOGITS, 0, NULL);
    return 0;
}

/* dloss logits label -> dlogits */
static int focal_loss_grad(const dg_args *a)
{
    focal_terms(a, DG_FOCAL_LOSS_GRAD_LOGITS, in(a, DG_FOCAL_LOSS_GRAD_DLOSS)[0],
                out(a, DG_FOCAL_LOSS_GRAD_DLOGITS));
    return 0;
}

/* ---- logistic_loss: x t w -> loss ------------------------------------------------------------ */

static int logistic_loss(const dg_args *a)
{
    double total = 0;

    for (int64_t n = 0; n < elements(a, DG_LOGISTIC_LOSS_X); n++)
        if (in(a, DG_LOGISTIC_LOSS_W)[n] != 0)
            total += in(a, DG_LOGISTIC_LOSS_W)[n] *
                     bce(in(a, DG_LOGISTIC_LOSS_X)[n], in(a, DG_LOGISTIC_LOSS_T)[n]);
    out(a, DG_LOGISTIC_LOSS_LOSS)[0] = (real)total;
    return 0;
}

/* dloss x t w -> dx */
static int logistic_loss_grad(const dg_args *a)
{
    double scale = in(a, DG_LOGISTIC_LOSS_GRAD_DLOSS)[0];

    for (int64_t n = 0; n < elements(a, DG_LOGISTIC_LOSS_GRAD_X); n++) {
        double w = in(a, DG_LOGISTIC_LOSS_GRAD_W)[n], t = in(a, DG_LOGISTIC_LOSS_GRAD_T)[n];
        double slope = logistic(in(a, DG_LOGISTIC_LOSS_GRAD_X)[n]) - t;

        out(a, DG_LOGISTIC_LOSS_GRAD_DX)[n] = (real)(w == 0 ? 0 : scale * w * slope);
    }
    return 0;
}

/* ---- cross_entropy: logits [..,C] label [..] -> loss right ----------------------------------- */

/* log sum exp(x), and the place of the largest, the first of equal ones. */
static double log_sum_exp(const real *x, int64_t c, int64_t *most)
{
    double sum;

    *most = 0;
    for (int64_t k = 1; k < c; k++)
        *most = x[k] > x[*most] ? k : *most;
    sum = exp((double)x[0] - x[*most]);
    for (int64_t k = 1; k < c; k++)
        sum += exp((double)x[k] - x[*most]);
    return x[*most] + log(sum);
}

static int cross_entropy(const dg_args *a)
{
    int64_t c = width(a, DG_CROSS_ENTROPY_LOGITS), most;
    double total = 0;
    int32_t right = 0;

    for (int64_t n = 0; n < elements(a, DG_CROSS_ENTROPY_LABEL); n++) {
        const real *x = in(a, DG_CROSS_ENTROPY_LOGITS) + n * c;
        int32_t label = in_i32(a, DG_CROSS_ENTROPY_LABEL)[n];

        if (label < 0 || label >= c)
            continue;
        total += log_sum_exp(x, c, &most) - x[label];
        right += label == most;
    }
    out(a, DG_CROSS_ENTROPY_LOSS)[0] = (real)total;
    out_i32(a, DG_CROSS_ENTROPY_RIGHT)[0] = right;
    return 0;
}

/* dloss logits label -> dlogits */
static int cross_entropy_grad(const dg_args *a)
{
    int64_t c = width(a, DG_CROSS_ENTROPY_GRAD_LOGITS), most;
    double scale = in(a, DG_CROSS_ENTROPY_GRAD_DLOSS)[0];

    for (int64_t n = 0; n < elements(a, DG_CROSS_ENTROPY_GRAD_LABEL); n++) {
        const real *x = in(a, DG_CROSS_ENTROPY_GRAD_LOGITS) + n * c;
        int32_t label = in_i32(a, DG_CROSS_ENTROPY_GRAD_LABEL)[n];
        bool is_void = label < 0 || label >= c;
        double all = is_void ? 0 : log_sum_exp(x, c, &most);

        for (int64_t k = 0; k < c; k++)
            out(a, DG_CROSS_ENTROPY_GRAD_DLOGITS)[n * c + k] =
                (real)(is_void ? 0 : scale * (exp(x[k] - all) - (k == label)));
    }
    return 0;
}

/* ---- giou_loss: boxes tboxes [..,4] w [..] -> loss ------------------------------------------- */

typedef struct spans {
    double a[4], b[4];        /* x0 y0 x1 y1 of the box, of its target */
    double inner[2], hull[2]; /* sides of intersection and hull */
    double cut, both, all;    /* areas: intersection, union, hull */
} spans;

static double least(double x, double y)
{
    return x < y ? x : y;
}

static double most(double x, double y)
{
    return x > y ? x : y;
}

static spans spans_of(const real *box, const real *target)
{
    spans s;

    for (int k = 0; k < 2; k++) {
        s.a[k] = box[k] - 0.5 * box[k + 2];
        s.a[k + 2] = box[k] + 0.5 * box[k + 2];
        s.b[k] = target[k] - 0.5 * target[k + 2];
        s.b[k + 2] = target[k] + 0.5 * target[k + 2];
        s.inner[k] = most(0, least(s.a[k + 2], s.b[k + 2]) - most(s.a[k], s.b[k]));
        s.hull[k] = most(0, most(s.a[k + 2], s.b[k + 2]) - least(s.a[k], s.b[k]));
    }
    s.cut = s.inner[0] * s.inner[1];
    s.both = (double)box[2] * box[3] + (double)target[2] * target[3] - s.cut;
    s.all = s.hull[0] * s.hull[1];
    return s;
}

static double one_less_giou(const spans *s, double eps)
{
    double both = most(s->both, eps), all = most(s->all, eps);

    return 1 - (s->cut / both - (all - both) / all);
}

static int giou_loss(const dg_args *a)
{
    const affine_attr *f = a->attr;
    double total = 0;

    for (int64_t n = 0; n < elements(a, DG_GIOU_LOSS_W); n++) {
        double w = in(a, DG_GIOU_LOSS_W)[n];
        spans s = spans_of(in(a, DG_GIOU_LOSS_BOXES) + n * 4, in(a, DG_GIOU_LOSS_TBOXES) + n * 4);

        total += w == 0 ? 0 : w * one_less_giou(&s, f->a);
    }
    out(a, DG_GIOU_LOSS_LOSS)[0] = (real)total;
    return 0;
}

/* Derivative of max(x, y) by x: 1/2 at equality. */
static double share(double x, double y)
{
    return x > y ? 1 : x == y ? 0.5 : 0;
}

/* d (1 - GIoU) / d (cx, cy, w, h) = d (2 - I/U - U/H), from its corners. */
static void giou_slope(const real *box, const spans *s, double eps, double slope[4])
{
    double both = most(s->both, eps), all = most(s->all, eps), corner[4];
    double by_both = s->both > eps ? s->cut / (both * both) - 1 / all : 0,
           by_all = s->all > eps ? both / (all * all) : 0, by_cut = -1 / both - by_both;

    for (int k = 0; k < 4; k++) {
        int axis = k % 2;
        double out = k < 2 ? -1 : 1; /* in which direction the corner moves outwards */
        double inner = s->inner[axis] > 0 ? share(-out * s->a[k], -out * s->b[k]) : 0,
               hull = share(out * s->a[k], out * s->b[k]);

        corner[k] = out * (by_cut * inner * s->inner[1 - axis] + by_all * hull * s->hull[1 - axis]);
    }
    for (int k = 0; k < 2; k++) {
        slope[k] = corner[k] + corner[k + 2];
        slope[k + 2] = 0.5 * (corner[k + 2] - corner[k]) + by_both * box[3 - k];
    }
}

/* dloss boxes tboxes w -> dboxes */
static int giou_loss_grad(const dg_args *a)
{
    const affine_attr *f = a->attr;
    double scale = in(a, DG_GIOU_LOSS_GRAD_DLOSS)[0];

    for (int64_t n = 0; n < elements(a, DG_GIOU_LOSS_GRAD_W); n++) {
        const real *box = in(a, DG_GIOU_LOSS_GRAD_BOXES) + n * 4;
        double w = in(a, DG_GIOU_LOSS_GRAD_W)[n], slope[4];
        spans s = spans_of(box, in(a, DG_GIOU_LOSS_GRAD_TBOXES) + n * 4);

        giou_slope(box, &s, f->a, slope);
        for (int k = 0; k < 4; k++)
            out(a, DG_GIOU_LOSS_GRAD_DBOXES)[n * 4 + k] = (real)(w == 0 ? 0 : scale * w * slope[k]);
    }
    return 0;
}

DG_REF(focal_loss, NULL, focal_loss);
DG_REF(focal_loss_grad, NULL, focal_loss_grad);
DG_REF(logistic_loss, NULL, logistic_loss);
DG_REF(logistic_loss_grad, NULL, logistic_loss_grad);
DG_REF(cross_entropy, NULL, cross_entropy);
DG_REF(cross_entropy_grad, NULL, cross_entropy_grad);
DG_REF(giou_loss, NULL, giou_loss);
DG_REF(giou_loss_grad, NULL, giou_loss_grad);
