/* update.c: twins of kernels/ref/update.c, which has the formulas. */
#include "kernels/cuda/total.h"

typedef struct addition {
    const dg_control *control;
    const real *x;
    real *g;
    int64_t n;
} addition;

KERNEL(accumulate_kernel, addition)
{
    bool more = p->control->accumulated != 0;

    for (int64_t n = first(); n < p->n; n += step())
        p->g[n] = put((more ? get(p->g[n]) : 0) + get(p->x[n]));
}

static int accumulate(const dg_cuda_call *c)
{
    addition p = { .control = c->a->control,
                   .x = reals(c->a, DG_ACCUMULATE_X),
                   .g = reals(c->a, DG_ACCUMULATE_G),
                   .n = elements(c->a, DG_ACCUMULATE_G) };

    return LAUNCH(c, accumulate_kernel, grid_of(p.n), &p);
}

/* ---- ramp ------------------------------------------------------------------------------------ */

typedef struct slope {
    const dg_control *control;
    real *y;
    int64_t steps;
    double before, last, after;
} slope;

KERNEL(ramp_kernel, slope)
{
    int64_t now = p->control->step;
    double y = p->after;

    if (now < p->steps - 1)
        y = p->before + (double)now * ((p->last - p->before) / (double)(p->steps - 1));
    else if (now < p->steps)
        y = p->steps == 1 ? p->before : p->last;
    if (first() == 0)
        *p->y = put((wide)y);
}

static int ramp(const dg_cuda_call *c)
{
    const dg_cuda_grid one = { 1, DG_CUDA_WARP, 0 };
    const ramp_attr *f = (const ramp_attr *)c->a->attr;
    slope p = { .control = c->a->control, .y = reals(c->a, DG_RAMP_Y) };

    p.steps = f->steps;
    p.before = f->before;
    p.last = f->last;
    p.after = f->after;
    return LAUNCH(c, ramp_kernel, one, &p);
}

/* ---- norm ------------------------------------------------------------------------------------ */

typedef struct squares {
    const real *g;
    double *parts;
    int64_t n;
} squares;

/* Shared memory: BLOCK_TOTAL_BYTES. */
KERNEL(squares_kernel, squares)
{
    double sum = 0;

    for (int64_t n = first(); n < p->n; n += step())
        sum += (double)get(p->g[n]) * (double)get(p->g[n]);
    sum = block_total(sum, (double *)shared_memory());
    if (thread_id() == 0)
        p->parts[block_id()] = sum;
}

static int prepare_norm(dg_prepare *p)
{
    p->workspace_bytes =
        (size_t)grid_of_total(dg_shape_elements(p->t[DG_GRAD_NORM_G].shape)).blocks *
        sizeof(double);
    return 0;
}

static int grad_norm(const dg_cuda_call *c)
{
    squares p = { .g = reals(c->a, DG_GRAD_NORM_G),
                  .parts = (double *)c->a->workspace,
                  .n = elements(c->a, DG_GRAD_NORM_G) };
    dg_cuda_grid g = grid_of_total(p.n);
    int rc = LAUNCH(c, squares_kernel, g, &p);

    return rc ? rc : enqueue_total(c, p.parts, g.blocks, reals(c->a, DG_GRAD_NORM_NORM), true);
}

/* ---- finite ---------------------------------------------------------------------------------- */

typedef struct finiteness {
    const real *x; /* NULL: begins with 1 */
    int32_t *ok;
    int64_t n;
} finiteness;

KERNEL(finite_kernel, finiteness)
{
    if (!p->x) {
        *p->ok = 1;
        return;
    }
    for (int64_t n = first(); n < p->n; n += step())
        if (!(fabs(get(p->x[n])) < (wide)INFINITY))
            atomic_and(p->ok, 0);
}

static int all_finite(const dg_cuda_call *c)
{
    const dg_cuda_grid one = { 1, DG_CUDA_WARP, 0 };
    finiteness p = { .ok = ints(c->a, c->a->n - 1) };
    int rc = LAUNCH(c, finite_kernel, one, &p);

    for (int i = 0; i < c->a->n - 1 && rc == 0; i++) {
        p.x = reals(c->a, i);
        p.n = elements(c->a, i);
        rc = LAUNCH(c, finite_kernel, grid_of(p.n), &p);
    }
    return rc;
}

/* ---- AdamW ----------------------------------------------------------------------------------- */

enum { MOST_RANGES = 64, ELEMENTS = 8 * DG_CUDA_THREADS /* of a block */ };

/* Ranges of a launch; a block has a part of one of them. */
typedef struct adamw_step {
    const dg_control *control;
    const real *g, *norm;
    const int32_t *ok;
    real *w, *m, *v, *e;
    double beta1, beta2, eps, clip;
    int64_t n_ranges;
    struct {
        int64_t begin, end, first_block;
        int32_t group;
        float unused; /* no padding is copied */
        double weight_decay;
    } ranges[MOST_RANGES];
} adamw_step;

/* Of one element; lr and the others are the same for all of a range. */
DEVICE void update(const adamw_step *p, int64_t n, wide keep, wide lr, wide clip, wide by_bias2,
                   wide decay)
{
    wide grad = get(p->g[n]) * clip, beta1 = (wide)p->beta1, beta2 = (wide)p->beta2;
    wide mean = beta1 * get(p->m[n]) + (wide)(1 - p->beta1) * grad;
    wide square = beta2 * get(p->v[n]) + (wide)(1 - p->beta2) * grad * grad;
    wide w = get(p->w[n]) * keep - lr * mean / (sqrt(square * by_bias2) + (wide)p->eps);

    p->m[n] = put(mean);
    p->v[n] = put(square);
    p->w[n] = put(w);
    if (p->e)
        p->e[n] = put(decay * get(p->e[n]) + (1 - decay) * get(p->w[n]));
}

KERNEL(adamw_kernel, adamw_step)
{
    const dg_control *c = p->control;
    int r = 0;
    double clip = p->clip > 0 && p->norm ? p->clip / ((double)get(*p->norm) + 1e-6) : 1, lr;
    int64_t begin, end;

    if (!*p->ok)
        return;
    while (r + 1 < p->n_ranges && p->ranges[r + 1].first_block <= block_id())
        r++;
    begin = p->ranges[r].begin + (block_id() - p->ranges[r].first_block) * ELEMENTS;
    end = begin + ELEMENTS < p->ranges[r].end ? begin + ELEMENTS : p->ranges[r].end;
    lr = c->lr[p->ranges[r].group];
    clip = clip < 1 ? clip : 1;
    for (int64_t n = begin + thread_id(); n < end; n += block_size())
        update(p, n, (wide)(1 - lr * p->ranges[r].weight_decay), (wide)(lr / c->bias1), (wide)clip,
               (wide)(1 / c->bias2), (wide)c->ema_decay);
}

/* The ranges from r on that a launch takes; returns the first that it does not. */
static int64_t fill_ranges(adamw_step *p, const adamw_attr *f, int64_t r, dg_cuda_grid *g)
{
    g->blocks = p->n_ranges = 0;
    for (; r < f->n_ranges && p->n_ranges < MOST_RANGES; r++) {
        int64_t n = f->ranges[r].end - f->ranges[r].begin, i = p->n_ranges;

        if (n <= 0)
            continue;
        p->ranges[i].begin = f->ranges[r].begin;
        p->ranges[i].end = f->ranges[r].end;
        p->ranges[i].first_block = g->blocks;
        p->ranges[i].group = (int32_t)f->ranges[r].group;
        p->ranges[i].weight_decay = f->ranges[r].weight_decay;
        p->n_ranges++;
        g->blocks += parts(n, ELEMENTS);
    }
    return r;
}

static int adamw(const dg_cuda_call *c)
{
    const dg_args *a = c->a;
    const adamw_attr *f = (const adamw_attr *)a->attr;
    dg_cuda_grid g = { 0, DG_CUDA_THREADS, 0 };
    adamw_step p = { .control = a->control,
                     .g = reals(a, DG_ADAMW_G),
                     .norm = reals(a, DG_ADAMW_NORM),
                     .ok = ints(a, DG_ADAMW_OK),
                     .w = reals(a, DG_ADAMW_W),
                     .m = reals(a, DG_ADAMW_M),
                     .v = reals(a, DG_ADAMW_V),
                     .e = reals(a, DG_ADAMW_E),
                     .beta1 = f->beta1,
                     .beta2 = f->beta2,
                     .eps = f->eps,
                     .clip = f->clip };
    int rc = 0;

    for (int64_t r = 0; r < f->n_ranges && rc == 0;) {
        r = fill_ranges(&p, f, r, &g);
        rc = g.blocks ? LAUNCH(c, adamw_kernel, g, &p) : 0;
    }
    return rc;
}

typedef struct average {
    const dg_control *control;
    const int32_t *ok;
    const real *w;
    real *e;
    int64_t begin, end;
} average;

KERNEL(ema_kernel, average)
{
    wide decay = (wide)p->control->ema_decay, rest = (wide)(1 - p->control->ema_decay);

    for (int64_t n = p->begin + first(); n < p->end && *p->ok; n += step())
        p->e[n] = put(decay * get(p->e[n]) + rest * get(p->w[n]));
}

static int ema(const dg_cuda_call *c)
{
    const ema_attr *f = (const ema_attr *)c->a->attr;
    average p = { .control = c->a->control,
                  .ok = ints(c->a, DG_EMA_OK),
                  .w = reals(c->a, DG_EMA_W),
                  .e = reals(c->a, DG_EMA_E),
                  .begin = f->begin,
                  .end = f->end ? f->end : elements(c->a, DG_EMA_E) };

    return LAUNCH(c, ema_kernel, grid_of(p.end - p.begin), &p);
}

DG_CUDA(ramp, NULL, ramp);
DG_CUDA(accumulate, NULL, accumulate);
DG_CUDA(grad_norm, prepare_norm, grad_norm);
DG_CUDA(finite, NULL, all_finite);
DG_CUDA(adamw, NULL, adamw);
DG_CUDA(ema, NULL, ema);
