/* mask_loss.c: losses of masks at points, with the target masks there. Cheng et al. 2022
 * (Mask2Former), Kirillov et al. 2020 (PointRend).
 *
 * masks i32 [B,L,H,W]: bit m mod 32 of plane m div 32 is the mask of target m. t[n] is the target's
 * pixel nearest to point n; points on an edge between pixels take the even one. With x the logit,
 * s = sigmoid(x), N points:
 *
 *     ce(x, t)   = mean over n of bce(x, t)
 *     dice(x, t) = 1 - (2 sum(s t) + 1) / (sum(s) + sum(t) + 1)
 *
 *  mask_cost   y[b,m,q] = cost[b,m,q] + ce_weight ce + dice_weight dice of query q's logits
 *              x [B,Q,N] and target m at points [B,N,2]; unchanged past the image's count
 *  mask_loss   the sums of ce and dice over pairs: x [B,P,N], points [B,P,N,2]; query, gt? [B,P]
 *              name the pairs as in loss.c */
#include <math.h>
#include <string.h>

#include "kernels/ref/ref.h"

static int64_t nearest(double at, int64_t size)
{
    double pixel = rint(at * (double)size - 0.5); /* to even */

    return !(pixel > 0) ? 0 : pixel > (double)(size - 1) ? size - 1 : (int64_t)pixel;
}

/* The masks of images: layers, height, width. */
typedef struct planes {
    const int32_t *bits;
    int64_t l, h, w;
} planes;

static planes planes_of(const dg_args *a, int i)
{
    return (planes){ in_i32(a, i), dim(a, i, 1), dim(a, i, 2), dim(a, i, 3) };
}

/* The pixel of target m of image b nearest to a point: 0 or 1. */
static int target_at(const planes *p, int64_t b, int64_t m, const real *point)
{
    int64_t x = nearest((double)point[0], p->w), y = nearest((double)point[1], p->h);

    return (int)((uint32_t)p->bits[((b * p->l + m / 32) * p->h + y) * p->w + x] >> (m % 32) & 1u);
}

/* -log sigmoid(x) */
static double surprise(double x)
{
    return (x < 0 ? -x : 0) + log1p(exp(-fabs(x)));
}

static double sigmoid(double x)
{
    return 1 / (1 + exp(-x));
}

/* ---- mask_cost: cost x masks count points -> y ----------------------------------------------- */

/* Workspace: the target's pixel at each point, [B,M,N]; then of each thread: sigmoid and surprise
 * of a query's logits. */
static size_t targets_bytes(const dg_shape *cost, int64_t n)
{
    return ((size_t)(cost->d[0] * cost->d[1] * n) + 7) / 8 * 8;
}

static int prepare_cost(dg_prepare *p)
{
    int64_t n = p->t[DG_MASK_COST_X].shape.d[2];

    p->workspace_bytes = targets_bytes(&p->t[DG_MASK_COST_COST].shape, n) +
                         (size_t)(p->threads > 1 ? p->threads : 1) * 2 * (size_t)n * sizeof(double);
    return 0;
}

static void cost_rows(const dg_args *a, int64_t begin, int64_t end, int thread)
{
    const mask_attr *f = a->attr;
    int64_t m = dim(a, DG_MASK_COST_COST, 1), q = dim(a, DG_MASK_COST_COST, 2),
            n = dim(a, DG_MASK_COST_X, 2);
    const uint8_t *targets = a->workspace;
    double *p = (double *)(void *)((char *)a->workspace +
                                   targets_bytes(&a->t[DG_MASK_COST_COST].shape, n)) +
                thread * 2 * n;
    double *loss = p + n;

    for (int64_t query = begin; query < end; query++) { /* query = b*Q + q */
        int64_t b = query / q, count = in_i32(a, DG_MASK_COST_COUNT)[b];
        const real *x = in(a, DG_MASK_COST_X) + query * n;
        double ours = 0;

        for (int64_t i = 0; i < n && count > 0; i++) {
            p[i] = sigmoid(x[i]);
            loss[i] = surprise(x[i]);
            ours += p[i];
        }
        for (int64_t j = 0; j < m; j++) {
            const uint8_t *t = targets + (b * m + j) * n;
            int64_t at = (b * m + j) * q + query % q;
            double ce = 0, both = 0, theirs = 0, cost = in(a, DG_MASK_COST_COST)[at];

            for (int64_t i = 0; i < n && j < count; i++) {
                ce += loss[i] + (t[i] ? 0 : x[i]);
                both += t[i] ? p[i] : 0;
                theirs += t[i];
            }
            if (j < count)
                cost += f->ce_weight * ce / (double)n +
                        f->dice_weight * (1 - (2 * both + 1) / (ours + theirs + 1));
            out(a, DG_MASK_COST_Y)[at] = (real)cost;
        }
    }
}

static int mask_cost(const dg_args *a)
{
    planes masks = planes_of(a, DG_MASK_COST_MASKS);
    int64_t m = dim(a, DG_MASK_COST_COST, 1), n = dim(a, DG_MASK_COST_X, 2);
    uint8_t *targets = a->workspace;

    for (int64_t i = 0; i < dim(a, DG_MASK_COST_COST, 0) * m * n; i++) {
        int64_t b = i / n / m;

        if (i / n % m < in_i32(a, DG_MASK_COST_COUNT)[b])
            targets[i] = (uint8_t)target_at(&masks, b, i / n % m,
                                            in(a, DG_MASK_COST_POINTS) + (b * n + i % n) * 2);
    }
    parallel(a, dim(a, DG_MASK_COST_X, 0) * dim(a, DG_MASK_COST_X, 1), cost_rows);
    return 0;
}

/* ---- mask_loss: x masks query gt? points -> ce dice ------------------------------------------ */

/* The operands from `first` on are those of mask_loss. */
typedef struct pairs {
    int64_t p, n;
    planes masks;
    const real *x, *points;
    const int32_t *query, *gt;
} pairs;

static pairs pairs_of(const dg_args *a, int first)
{
    return (pairs){
        .p = dim(a, first, 1),
        .n = dim(a, first, 2),
        .masks = planes_of(a, first + 1),
        .x = in(a, first),
        .points = in(a, first + 4),
        .query = in_i32(a, first + 2),
        .gt = in_i32(a, first + 3),
    };
}

/* The target of pair b*P + j; -1: the pair is void. */
static int64_t target_of(const pairs *l, int64_t pair)
{
    int64_t m = l->gt ? l->gt[pair] : pair % l->p;

    return l->query[pair] < 0 || m < 0 || m >= 32 * l->masks.l ? -1 : m;
}

typedef struct sums {
    double ce, both, ours, theirs;
} sums;

static sums sums_of(const pairs *l, int64_t m, int64_t pair)
{
    sums s = { 0 };

    for (int64_t at = pair * l->n; at < (pair + 1) * l->n; at++) {
        int t = target_at(&l->masks, pair / l->p, m, l->points + 2 * at);

        s.ce += surprise(t ? l->x[at] : -l->x[at]);
        s.both += t ? sigmoid(l->x[at]) : 0;
        s.ours += sigmoid(l->x[at]);
        s.theirs += t;
    }
    return s;
}

static int mask_loss(const dg_args *a)
{
    pairs l = pairs_of(a, DG_MASK_LOSS_X);
    double ce = 0, dice = 0;

    for (int64_t pair = 0; pair < elements(a, DG_MASK_LOSS_QUERY); pair++) {
        int64_t m = target_of(&l, pair);

        if (m < 0)
            continue;
        sums s = sums_of(&l, m, pair);

        ce += s.ce / (double)l.n;
        dice += 1 - (2 * s.both + 1) / (s.ours + s.theirs + 1);
    }
    out(a, DG_MASK_LOSS_CE)[0] = (real)ce;
    out(a, DG_MASK_LOSS_DICE)[0] = (real)dice;
    return 0;
}

/* ---- mask_loss_grad: dce? ddice? x masks query gt? points -> dx ------------------------------ */

static int mask_loss_grad(const dg_args *a)
{
    pairs l = pairs_of(a, DG_MASK_LOSS_GRAD_X);
    double dce = has(a, DG_MASK_LOSS_GRAD_DCE) ? in(a, DG_MASK_LOSS_GRAD_DCE)[0] : 0,
           ddice = has(a, DG_MASK_LOSS_GRAD_DDICE) ? in(a, DG_MASK_LOSS_GRAD_DDICE)[0] : 0;
    real *dx = out(a, DG_MASK_LOSS_GRAD_DX);

    memset(dx, 0, (size_t)elements(a, DG_MASK_LOSS_GRAD_DX) * sizeof *dx);
    for (int64_t pair = 0; pair < elements(a, DG_MASK_LOSS_GRAD_QUERY); pair++) {
        int64_t m = target_of(&l, pair);

        if (m < 0)
            continue;
        sums s = sums_of(&l, m, pair);
        double top = 2 * s.both + 1, bottom = s.ours + s.theirs + 1;

        for (int64_t at = pair * l.n; at < (pair + 1) * l.n; at++) {
            int t = target_at(&l.masks, pair / l.p, m, l.points + 2 * at);
            double p = sigmoid(l.x[at]), by_p = (top - 2 * t * bottom) / (bottom * bottom);

            dx[at] = (real)(dce * (p - t) / (double)l.n + ddice * by_p * p * (1 - p));
        }
    }
    return 0;
}

DG_REF(mask_cost, prepare_cost, mask_cost);
DG_REF(mask_loss, NULL, mask_loss);
DG_REF(mask_loss_grad, NULL, mask_loss_grad);
