/* mask_loss.c: twins of kernels/ref/mask_loss.c, which has the formulas. A block for a pair, or for
 * a query and a target; pixels of targets are chosen in double, as everywhere. */
#include "kernels/cuda/total.h"

/* Pairs (mask_loss), or queries and targets (mask_cost). */
typedef struct losses {
    const real *x, *points, *cost, *dce, *ddice;
    const int32_t *masks, *query, *gt, *count;
    real *y, *dx;
    double *ce, *dice; /* of each pair */
    int64_t batch, p, n, m, q, layers, h, w;
    double ce_weight, dice_weight;
} losses;

DEVICE int64_t nearest(wide at, int64_t size)
{
    double pixel = rint((double)at * (double)size - 0.5);

    return !(pixel > 0) ? 0 : pixel > (double)(size - 1) ? size - 1 : (int64_t)pixel;
}

/* The pixel of target m of image b nearest to a point: 0 or 1. */
DEVICE int target_at(const losses *p, int64_t b, int64_t m, const real *point)
{
    int64_t x = nearest(get(point[0]), p->w), y = nearest(get(point[1]), p->h);
    int64_t at = ((b * p->layers + m / 32) * p->h + y) * p->w + x;

    return (int)((uint32_t)p->masks[at] >> (m % 32) & 1u);
}

DEVICE wide surprise(wide x)
{
    return (x < 0 ? -x : 0) + log1p(exp(-fabs(x)));
}

DEVICE wide sigmoid(wide x)
{
    return 1 / (1 + exp(-x));
}

typedef struct sums {
    wide ce, both, ours, theirs;
} sums;

/* Of n logits and points and target m of image b, for every thread of the block. */
DEVICE sums sums_of(const losses *p, int64_t b, int64_t m, const real *x, const real *points,
                    wide *shared)
{
    sums s = { 0, 0, 0, 0 };

    for (int64_t i = thread_id(); i < p->n; i += block_size()) {
        int t = target_at(p, b, m, points + 2 * i);
        wide v = get(x[i]), own = sigmoid(v);

        s.ce += surprise(t ? v : -v);
        s.both += t ? own : 0;
        s.ours += own;
        s.theirs += (wide)t;
    }
    s.ce = block_sum(s.ce, shared);
    s.both = block_sum(s.both, shared);
    s.ours = block_sum(s.ours, shared);
    s.theirs = block_sum(s.theirs, shared);
    return s;
}

DEVICE wide dice_of(const sums *s)
{
    return 1 - (2 * s->both + 1) / (s->ours + s->theirs + 1);
}

/* Shared memory: BLOCK_SUM_BYTES. */
KERNEL(mask_cost_kernel, losses)
{
    for (int64_t n = block_id(); n < p->batch * p->m * p->q; n += grid_size()) {
        int64_t row = n / p->q, b = row / p->m, query = b * p->q + n % p->q;
        wide cost = get(p->cost[n]);

        if (row % p->m < p->count[b]) {
            sums s = sums_of(p, b, row % p->m, p->x + query * p->n, p->points + b * p->n * 2,
                             (wide *)shared_memory());

            cost += (wide)p->ce_weight * s.ce / (wide)p->n + (wide)p->dice_weight * dice_of(&s);
        }
        if (thread_id() == 0)
            p->y[n] = put(cost);
    }
}

static int mask_cost(const dg_cuda_call *c)
{
    const dg_args *a = c->a;
    const mask_attr *f = (const mask_attr *)a->attr;
    losses p = { .x = reals(a, DG_MASK_COST_X),
                 .points = reals(a, DG_MASK_COST_POINTS),
                 .cost = reals(a, DG_MASK_COST_COST),
                 .masks = ints(a, DG_MASK_COST_MASKS) };
    dg_cuda_grid g = grid_of(elements(a, DG_MASK_COST_COST) * DG_CUDA_THREADS);

    p.count = ints(a, DG_MASK_COST_COUNT);
    p.y = reals(a, DG_MASK_COST_Y);
    p.batch = dim(a, DG_MASK_COST_COST, 0);
    p.m = dim(a, DG_MASK_COST_COST, 1);
    p.q = dim(a, DG_MASK_COST_COST, 2);
    p.n = dim(a, DG_MASK_COST_X, 2);
    p.layers = dim(a, DG_MASK_COST_MASKS, 1);
    p.h = dim(a, DG_MASK_COST_MASKS, 2);
    p.w = dim(a, DG_MASK_COST_MASKS, 3);
    p.ce_weight = f->ce_weight;
    p.dice_weight = f->dice_weight;
    g.shared = BLOCK_SUM_BYTES;
    return LAUNCH(c, mask_cost_kernel, g, &p);
}

/* ---- mask_loss and its gradient -------------------------------------------------------------- */

/* The target of pair b*P + j; -1: the pair is void. */
DEVICE int64_t target_of(const losses *p, int64_t pair)
{
    int64_t m = p->gt ? p->gt[pair] : pair % p->p;

    return p->query[pair] < 0 || m < 0 || m >= 32 * p->layers ? -1 : m;
}

/* Shared memory: BLOCK_SUM_BYTES. */
KERNEL(mask_loss_kernel, losses)
{
    for (int64_t pair = block_id(); pair < p->batch * p->p; pair += grid_size()) {
        int64_t m = target_of(p, pair);
        wide ce = 0, dice = 0;

        if (m >= 0) {
            sums s = sums_of(p, pair / p->p, m, p->x + pair * p->n, p->points + pair * p->n * 2,
                             (wide *)shared_memory());

            ce = s.ce / (wide)p->n;
            dice = dice_of(&s);
        }
        if (thread_id() == 0) {
            p->ce[pair] = (double)ce;
            p->dice[pair] = (double)dice;
        }
    }
}

/* Shared memory: BLOCK_SUM_BYTES. */
KERNEL(mask_loss_grad_kernel, losses)
{
    wide dce = p->dce ? get(*p->dce) : 0, ddice = p->ddice ? get(*p->ddice) : 0;

    for (int64_t pair = block_id(); pair < p->batch * p->p; pair += grid_size()) {
        int64_t m = target_of(p, pair);
        sums s = { 0, 0, 0, 0 };

        if (m >= 0)
            s = sums_of(p, pair / p->p, m, p->x + pair * p->n, p->points + pair * p->n * 2,
                        (wide *)shared_memory());
        for (int64_t i = thread_id(); i < p->n; i += block_size()) {
            int64_t at = pair * p->n + i;
            wide top = 2 * s.both + 1, bottom = s.ours + s.theirs + 1, own, t;

            p->dx[at] = put(0);
            if (m < 0)
                continue;
            own = sigmoid(get(p->x[at]));
            t = (wide)target_at(p, pair / p->p, m, p->points + 2 * at);
            p->dx[at] = put(dce * (own - t) / (wide)p->n +
                            ddice * (top - 2 * t * bottom) / (bottom * bottom) * own * (1 - own));
        }
    }
}

/* The operands of mask_loss begin at i: x masks query gt? points. */
static losses losses_of(const dg_args *a, int i)
{
    losses p = { .x = reals(a, i), .points = reals(a, i + 4) };

    p.masks = ints(a, i + 1);
    p.query = ints(a, i + 2);
    p.gt = ints(a, i + 3);
    p.batch = dim(a, i, 0);
    p.p = dim(a, i, 1);
    p.n = dim(a, i, 2);
    p.layers = dim(a, i + 1, 1);
    p.h = dim(a, i + 1, 2);
    p.w = dim(a, i + 1, 3);
    return p;
}

/* Workspace: ce, then dice of each pair. */
static int prepare(dg_prepare *p)
{
    p->workspace_bytes =
        2 * (size_t)dg_shape_elements(p->t[DG_MASK_LOSS_QUERY].shape) * sizeof(double);
    return 0;
}

static int mask_loss(const dg_cuda_call *c)
{
    losses p = losses_of(c->a, DG_MASK_LOSS_X);
    int64_t pairs = p.batch * p.p;
    dg_cuda_grid g = grid_of(pairs * DG_CUDA_THREADS);
    int rc;

    p.ce = (double *)c->a->workspace;
    p.dice = p.ce + pairs;
    g.shared = BLOCK_SUM_BYTES;
    rc = LAUNCH(c, mask_loss_kernel, g, &p);
    rc = rc ? rc : enqueue_total(c, p.ce, pairs, reals(c->a, DG_MASK_LOSS_CE), false);
    return rc ? rc : enqueue_total(c, p.dice, pairs, reals(c->a, DG_MASK_LOSS_DICE), false);
}

static int mask_loss_grad(const dg_cuda_call *c)
{
    losses p = losses_of(c->a, DG_MASK_LOSS_GRAD_X);
    dg_cuda_grid g = grid_of(p.batch * p.p * DG_CUDA_THREADS);

    p.dce = reals(c->a, DG_MASK_LOSS_GRAD_DCE);
    p.ddice = reals(c->a, DG_MASK_LOSS_GRAD_DDICE);
    p.dx = reals(c->a, DG_MASK_LOSS_GRAD_DX);
    g.shared = BLOCK_SUM_BYTES;
    return LAUNCH(c, mask_loss_grad_kernel, g, &p);
}

DG_CUDA(mask_cost, NULL, mask_cost);
DG_CUDA(mask_loss, prepare, mask_loss);
DG_CUDA(mask_loss_grad, NULL, mask_loss_grad);
