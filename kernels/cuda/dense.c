/* dense.c: twins of kernels/ref/dense.c, which has the formulas. Sums are cut by their length and
 * joined by total.h. */
#include <detrgraph/heads.h>

#include "kernels/cuda/total.h"

static int prepare_parts(dg_prepare *p)
{
    p->workspace_bytes =
        (size_t)grid_of_total(dg_shape_elements(p->t[0].shape)).blocks * sizeof(double);
    return 0;
}

DEVICE wide bce(wide x, wide t)
{
    return larger(x, 0) - x * t + log1p(exp(-fabs(x)));
}

DEVICE wide logistic(wide x)
{
    return 1 / (1 + exp(-x));
}

DEVICE wide power(wide x, double y)
{
    return y == 2 ? x * x : y == 0 ? 1 : pow(x, (wide)y);
}

/* ---- focal_loss and logistic_loss ------------------------------------------------------------ */

typedef struct elements_of {
    const real *dloss, *x, *t, *w;
    const int32_t *label;
    real *dx;
    double *parts, alpha, gamma;
    int64_t n, c;
} elements_of;

DEVICE wide focal_term(const elements_of *p, int64_t n, wide *slope)
{
    int32_t label = p->label[(uint32_t)n / (uint32_t)p->c];
    bool y = label == (int32_t)((uint32_t)n % (uint32_t)p->c);
    wide x = get(p->x[n]), wrong = logistic(y ? -x : x), loss = bce(x, (wide)y);
    wide a = (wide)(y ? p->alpha : 1 - p->alpha) * power(wrong, p->gamma);

    *slope = a * ((wide)p->gamma * (1 - wrong) * loss + wrong);
    *slope = label < 0 ? 0 : y ? -*slope : *slope;
    return label < 0 ? 0 : a * loss;
}

/* Shared memory: BLOCK_TOTAL_BYTES. */
KERNEL(focal_kernel, elements_of)
{
    double sum = 0;
    wide slope;

    for (int64_t n = first(); n < p->n; n += step())
        sum += (double)focal_term(p, n, &slope);
    sum = block_total(sum, (double *)shared_memory());
    if (thread_id() == 0)
        p->parts[block_id()] = sum;
}

KERNEL(focal_grad_kernel, elements_of)
{
    for (int64_t n = first(); n < p->n; n += step()) {
        wide slope;

        (void)focal_term(p, n, &slope);
        p->dx[n] = put(get(*p->dloss) * slope);
    }
}

KERNEL(logistic_kernel, elements_of)
{
    double sum = 0;

    for (int64_t n = first(); n < p->n; n += step())
        if (get(p->w[n]) != 0)
            sum += (double)(get(p->w[n]) * bce(get(p->x[n]), get(p->t[n])));
    sum = block_total(sum, (double *)shared_memory());
    if (thread_id() == 0)
        p->parts[block_id()] = sum;
}

KERNEL(logistic_grad_kernel, elements_of)
{
    for (int64_t n = first(); n < p->n; n += step()) {
        wide w = get(p->w[n]), slope = logistic(get(p->x[n])) - get(p->t[n]);

        p->dx[n] = put(w == 0 ? 0 : get(*p->dloss) * w * slope);
    }
}

static elements_of focal_of(const dg_args *a, int x)
{
    const dg_focal_attr *f = (const dg_focal_attr *)a->attr;
    elements_of p = { .x = reals(a, x), .label = ints(a, x + 1) };

    p.parts = (double *)a->workspace;
    p.alpha = f->alpha;
    p.gamma = f->gamma;
    p.n = elements(a, x);
    p.c = dim(a, x, -1);
    return p;
}

static int focal_loss(const dg_cuda_call *c)
{
    elements_of p = focal_of(c->a, DG_FOCAL_LOSS_LOGITS);
    dg_cuda_grid g = grid_of_total(p.n);
    int rc = LAUNCH(c, focal_kernel, g, &p);

    return rc ? rc : enqueue_total(c, p.parts, g.blocks, reals(c->a, DG_FOCAL_LOSS_LOSS), false);
}

static int focal_loss_grad(const dg_cuda_call *c)
{
    elements_of p = focal_of(c->a, DG_FOCAL_LOSS_GRAD_LOGITS);

    p.dloss = reals(c->a, DG_FOCAL_LOSS_GRAD_DLOSS);
    p.dx = reals(c->a, DG_FOCAL_LOSS_GRAD_DLOGITS);
    return LAUNCH(c, focal_grad_kernel, grid_of(p.n), &p);
}

static elements_of logistic_of(const dg_args *a, int x)
{
    elements_of p = { .x = reals(a, x), .t = reals(a, x + 1), .w = reals(a, x + 2) };

    p.parts = (double *)a->workspace;
    p.n = elements(a, x);
    return p;
}

static int logistic_loss(const dg_cuda_call *c)
{
    elements_of p = logistic_of(c->a, DG_LOGISTIC_LOSS_X);
    dg_cuda_grid g = grid_of_total(p.n);
    int rc = LAUNCH(c, logistic_kernel, g, &p);

    return rc ? rc : enqueue_total(c, p.parts, g.blocks, reals(c->a, DG_LOGISTIC_LOSS_LOSS), false);
}

static int logistic_loss_grad(const dg_cuda_call *c)
{
    elements_of p = logistic_of(c->a, DG_LOGISTIC_LOSS_GRAD_X);

    p.dloss = reals(c->a, DG_LOGISTIC_LOSS_GRAD_DLOSS);
    p.dx = reals(c->a, DG_LOGISTIC_LOSS_GRAD_DX);
    return LAUNCH(c, logistic_grad_kernel, grid_of(p.n), &p);
}

/* ---- cross_entropy --------------------------------------------------------------------------- */

typedef struct entropies {
    const real *dloss, *x;
    const int32_t *label;
    real *dx, *loss;
    int32_t *right, *hits; /* hits [rows] */
    double *parts;         /* [rows] */
    int64_t rows, c;
} entropies;

/* The largest of a row, by a warp, its place, and the sum of exp(x - largest), for every lane. */
DEVICE wide largest_of(const entropies *p, int64_t row, int64_t *most, wide *sum)
{
    const real *x = p->x + row * p->c;
    wide top = minus_infinity(), own = 0;
    int32_t at = (int32_t)p->c;

    for (int64_t k = lane_id(); k < p->c; k += DG_CUDA_WARP)
        top = larger(top, get(x[k]));
    top = warp_max(top);
    for (int64_t k = lane_id(); k < p->c; k += DG_CUDA_WARP) {
        at = k < at && get(x[k]) == top ? (int32_t)k : at;
        own += exp(get(x[k]) - top);
    }
    for (int mask = DG_CUDA_WARP / 2; mask; mask /= 2) {
        int32_t other = shuffle_xor(at, mask);

        at = other < at ? other : at;
    }
    *most = at;
    *sum = warp_sum(own);
    return top;
}

/* A warp for a row. */
KERNEL(entropy_kernel, entropies)
{
    for (int64_t row = first() / DG_CUDA_WARP; row < p->rows; row += step() / DG_CUDA_WARP) {
        int32_t label = p->label[row];
        int64_t most;
        wide sum, top = largest_of(p, row, &most, &sum);
        bool counts = label >= 0 && label < p->c;

        if (lane_id() == 0) {
            p->parts[row] = counts ? (double)(top - get(p->x[row * p->c + label]) + log(sum)) : 0;
            p->hits[row] = counts && label == most;
        }
    }
}

/* One block. Shared memory: a number. */
KERNEL(right_kernel, entropies)
{
    int32_t *shared = (int32_t *)shared_memory();

    if (thread_id() == 0)
        *shared = 0;
    barrier();
    for (int64_t i = thread_id(); i < p->rows; i += block_size())
        (void)atomic_add(shared, p->hits[i]);
    barrier();
    if (thread_id() == 0)
        *p->right = *shared;
}

KERNEL(entropy_grad_kernel, entropies)
{
    for (int64_t row = first() / DG_CUDA_WARP; row < p->rows; row += step() / DG_CUDA_WARP) {
        int32_t label = p->label[row];
        int64_t most;
        wide sum, top = largest_of(p, row, &most, &sum), scale = get(*p->dloss);
        bool counts = label >= 0 && label < p->c;

        for (int64_t k = lane_id(); k < p->c; k += DG_CUDA_WARP) {
            wide slope = exp(get(p->x[row * p->c + k]) - top) / sum - (k == label ? 1 : 0);

            p->dx[row * p->c + k] = put(counts ? scale * slope : 0);
        }
    }
}

static entropies entropies_of(const dg_args *a, int x)
{
    entropies p = { .x = reals(a, x), .label = ints(a, x + 1) };

    p.rows = elements(a, x + 1);
    p.c = dim(a, x, -1);
    p.parts = (double *)a->workspace;
    p.hits = (int32_t *)(p.parts + p.rows);
    return p;
}

static int prepare_entropy(dg_prepare *p)
{
    p->workspace_bytes = (size_t)dg_shape_elements(p->t[DG_CROSS_ENTROPY_LABEL].shape) *
                         (sizeof(double) + sizeof(int32_t));
    return 0;
}

static int cross_entropy(const dg_cuda_call *c)
{
    entropies p = entropies_of(c->a, DG_CROSS_ENTROPY_LOGITS);
    const dg_cuda_grid one = { 1, DG_CUDA_THREADS, sizeof(int32_t) };
    int rc;

    p.right = ints(c->a, DG_CROSS_ENTROPY_RIGHT);
    rc = LAUNCH(c, entropy_kernel, grid_of_warps(p.rows), &p);
    rc = rc ? rc : LAUNCH(c, right_kernel, one, &p);
    return rc ? rc : enqueue_total(c, p.parts, p.rows, reals(c->a, DG_CROSS_ENTROPY_LOSS), false);
}

static int cross_entropy_grad(const dg_cuda_call *c)
{
    entropies p = entropies_of(c->a, DG_CROSS_ENTROPY_GRAD_LOGITS);

    p.dloss = reals(c->a, DG_CROSS_ENTROPY_GRAD_DLOSS);
    p.dx = reals(c->a, DG_CROSS_ENTROPY_GRAD_DLOGITS);
    return LAUNCH(c, entropy_grad_kernel, grid_of_warps(p.rows), &p);
}

/* ---- giou_loss, in double: gradients differ where two corners are equal ---------------------- */

typedef struct weighted {
    const real *dloss, *boxes, *targets, *w;
    real *dboxes;
    double *parts, eps;
    int64_t n;
} weighted;

typedef struct spans {
    double a[4], b[4];
    double inner[2], hull[2], cut, both, all;
} spans;

DEVICE double least(double x, double y)
{
    return x < y ? x : y;
}

DEVICE double most(double x, double y)
{
    return x > y ? x : y;
}

DEVICE spans spans_of(const real *box, const real *target)
{
    spans s;

    for (int k = 0; k < 2; k++) {
        double c = (double)get(box[k]), side = (double)get(box[k + 2]), tc = (double)get(target[k]),
               tside = (double)get(target[k + 2]);

        s.a[k] = c - 0.5 * side;
        s.a[k + 2] = c + 0.5 * side;
        s.b[k] = tc - 0.5 * tside;
        s.b[k + 2] = tc + 0.5 * tside;
        s.inner[k] = most(0, least(s.a[k + 2], s.b[k + 2]) - most(s.a[k], s.b[k]));
        s.hull[k] = most(0, most(s.a[k + 2], s.b[k + 2]) - least(s.a[k], s.b[k]));
    }
    s.cut = s.inner[0] * s.inner[1];
    s.both = (double)get(box[2]) * (double)get(box[3]) +
             (double)get(target[2]) * (double)get(target[3]) - s.cut;
    s.all = s.hull[0] * s.hull[1];
    return s;
}

/* Shared memory: BLOCK_TOTAL_BYTES. */
KERNEL(giou_kernel, weighted)
{
    double sum = 0;

    for (int64_t n = first(); n < p->n; n += step()) {
        double w = (double)get(p->w[n]);
        spans s = spans_of(p->boxes + n * 4, p->targets + n * 4);
        double both = most(s.both, p->eps), all = most(s.all, p->eps);

        sum += w == 0 ? 0 : w * (1 - (s.cut / both - (all - both) / all));
    }
    sum = block_total(sum, (double *)shared_memory());
    if (thread_id() == 0)
        p->parts[block_id()] = sum;
}

DEVICE double share(double x, double y)
{
    return x > y ? 1 : x == y ? 0.5 : 0;
}

/* Of two numbers, without an index: an array that is indexed by a variable lies in local memory. */
DEVICE double of_axis(const double *v, int axis)
{
    return axis ? v[1] : v[0];
}

/* A thread for a box and an axis. */
KERNEL(giou_grad_kernel, weighted)
{
    for (int64_t i = first(); i < p->n * 2; i += step()) {
        int64_t n = i / 2;
        int axis = (int)(i % 2);
        const real *box = p->boxes + n * 4;
        spans s = spans_of(box, p->targets + n * 4);
        double both = most(s.both, p->eps), all = most(s.all, p->eps), corner[2];
        double by_both = s.both > p->eps ? s.cut / (both * both) - 1 / all : 0,
               by_all = s.all > p->eps ? both / (all * all) : 0, by_cut = -1 / both - by_both;
        double w = (double)get(p->w[n]), scale = w == 0 ? 0 : w * (double)get(*p->dloss);

        for (int end = 0; end < 2; end++) {
            double out = end ? 1 : -1, own = of_axis(s.a + 2 * end, axis),
                   its = of_axis(s.b + 2 * end, axis);
            double inner = of_axis(s.inner, axis) > 0 ? share(-out * own, -out * its) : 0;

            corner[end] = out * (by_cut * inner * of_axis(s.inner, 1 - axis) +
                                 by_all * share(out * own, out * its) * of_axis(s.hull, 1 - axis));
        }
        double centre = corner[0] + corner[1],
               side = 0.5 * (corner[1] - corner[0]) + by_both * (double)get(box[3 - axis]);

        p->dboxes[n * 4 + axis] = put((wide)(w == 0 ? 0 : scale * centre));
        p->dboxes[n * 4 + axis + 2] = put((wide)(w == 0 ? 0 : scale * side));
    }
}

static weighted weighted_of(const dg_args *a, int boxes)
{
    weighted p = { .boxes = reals(a, boxes) };

    p.targets = reals(a, boxes + 1);
    p.w = reals(a, boxes + 2);
    p.parts = (double *)a->workspace;
    p.eps = ((const affine_attr *)a->attr)->a;
    p.n = elements(a, boxes + 2);
    return p;
}

static int giou_loss(const dg_cuda_call *c)
{
    weighted p = weighted_of(c->a, DG_GIOU_LOSS_BOXES);
    dg_cuda_grid g = grid_of_total(p.n);
    int rc = LAUNCH(c, giou_kernel, g, &p);

    return rc ? rc : enqueue_total(c, p.parts, g.blocks, reals(c->a, DG_GIOU_LOSS_LOSS), false);
}

static int giou_loss_grad(const dg_cuda_call *c)
{
    weighted p = weighted_of(c->a, DG_GIOU_LOSS_GRAD_BOXES);

    p.dloss = reals(c->a, DG_GIOU_LOSS_GRAD_DLOSS);
    p.dboxes = reals(c->a, DG_GIOU_LOSS_GRAD_DBOXES);
    return LAUNCH(c, giou_grad_kernel, grid_of(p.n * 2), &p);
}

DG_CUDA(focal_loss, prepare_parts, focal_loss);
DG_CUDA(focal_loss_grad, NULL, focal_loss_grad);
DG_CUDA(logistic_loss, prepare_parts, logistic_loss);
DG_CUDA(logistic_loss_grad, NULL, logistic_loss_grad);
DG_CUDA(cross_entropy, prepare_entropy, cross_entropy);
DG_CUDA(cross_entropy_grad, NULL, cross_entropy_grad);
DG_CUDA(giou_loss, prepare_parts, giou_loss);
DG_CUDA(giou_loss_grad, NULL, giou_loss_grad);
