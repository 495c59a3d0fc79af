/* norm.c: twins of the batch norms of kernels/ref/norm.c, which has the formulas, but for what
 * statistics.c has. norm.h tells how rows are summed.
 *
 * A thread's mean and sum of squares are taken about its first element and joined as those of ranks
 * are: no cancellation however far the mean is from 0, and x is read once. */
#include "kernels/cuda/norm.h"

DEVICE wide activate(int64_t act, wide z)
{
    return act == DG_ACT_RELU ? (z < 0 ? 0 : z) : act == DG_ACT_SILU ? z / (1 + exp(-z)) : z;
}

DEVICE wide slope_at(int64_t act, wide z, wide y)
{
    if (act == DG_ACT_SILU) {
        wide q = 1 / (1 + exp(-z));

        return q * (1 + z * (1 - q));
    }
    return (wide)(act != DG_ACT_RELU || y > 0);
}

DEVICE wide rstd_of(const norm_call *p, int64_t k)
{
    return 1 / sqrt(p->var[k] + (wide)p->eps);
}

/* ---- statistics ------------------------------------------------------------------------------ */

typedef struct spread {
    wide n, mean, square; /* square: sum of squares about the mean */
} spread;

DEVICE spread join(spread a, spread b)
{
    wide n = a.n + b.n, d = b.mean - a.mean;

    if (n > 0) {
        a.mean += d * (b.n / n);
        a.square += b.square + d * d * (a.n * b.n / n);
    }
    a.n = n;
    return a;
}

DEVICE spread spread_of_rows(const norm_call *p, int64_t begin, int64_t end, int64_t k)
{
    wide about = begin < end ? get(p->x[begin * p->c + k]) : 0, sum = 0, square = 0, n = 0;
    spread s;

    for (int64_t r = begin; r < end; r += WARPS) {
        wide d = get(p->x[r * p->c + k]) - about;

        sum += d;
        square += d * d;
        n += 1;
    }
    s.n = n;
    s.mean = n > 0 ? about + sum / n : 0;
    s.square = n > 0 ? square - sum * (sum / n) : 0;
    return s;
}

DEVICE spread warp_join(spread s)
{
    for (int mask = 1; mask < DG_CUDA_WARP; mask *= 2) {
        spread other;

        other.n = shuffle_xor(s.n, mask);
        other.mean = shuffle_xor(s.mean, mask);
        other.square = shuffle_xor(s.square, mask);
        s = lane_id() & mask ? join(other, s) : join(s, other);
    }
    return s;
}

DEVICE void join_stats_of(const norm_call *p, int64_t group)
{
    for (int i = warp_id(); i < DG_CUDA_WARP && group * DG_CUDA_WARP + i < p->c; i += WARPS) {
        int64_t k = group * DG_CUDA_WARP + i;
        spread s = { 0, 0, 0 }, other;

        for (int64_t n = lane_id(); n < p->slices; n += DG_CUDA_WARP) {
            other.n = p->partial[(n * 3) * p->c + k];
            other.mean = p->partial[(n * 3 + 1) * p->c + k];
            other.square = p->partial[(n * 3 + 2) * p->c + k];
            s = join(s, other);
        }
        s = warp_join(s);
        if (lane_id() != 0)
            continue;
        if (p->to_sums) { /* batch_stats: mean, square, n */
            p->to_sums[k] = s.mean;
            p->to_sums[p->c + k] = s.square;
            p->to_sums[2 * p->c] = (wide)live_rows(p); /* all write the same number */
        } else {
            p->to_mean[k] = s.mean;
            p->to_var[k] = s.square / s.n;
        }
    }
}

KERNEL(stats_kernel, norm_call)
{
    wide *shared = (wide *)shared_memory();
    int64_t groups = parts(p->c, DG_CUDA_WARP), slice = block_id() / groups;
    int64_t group = block_id() % groups, k = group * DG_CUDA_WARP + lane_id(), all = live_rows(p);
    int64_t size = parts(p->rows, p->slices),
            end = (slice + 1) * size < all ? (slice + 1) * size : all;
    int64_t begin = slice * size + warp_id();
    spread s = spread_of_rows(p, begin, k < p->c ? end : begin, k < p->c ? k : 0), other;

    shared[thread_id() * 3] = s.n;
    shared[thread_id() * 3 + 1] = s.mean;
    shared[thread_id() * 3 + 2] = s.square;
    barrier();
    for (int w = 1; w < WARPS && warp_id() == 0; w++) {
        const wide *at = shared + (w * DG_CUDA_WARP + lane_id()) * 3;

        other.n = at[0];
        other.mean = at[1];
        other.square = at[2];
        s = join(s, other);
    }
    if (warp_id() == 0 && k < p->c) {
        p->partial[(slice * 3) * p->c + k] = s.n;
        p->partial[(slice * 3 + 1) * p->c + k] = s.mean;
        p->partial[(slice * 3 + 2) * p->c + k] = s.square;
    }
    if (last_of(p->counter + group, p->slices, flag_of(3)))
        join_stats_of(p, group);
}

static int enqueue_stats(const dg_cuda_call *c, norm_call *p)
{
    p->counter = counters(c, parts(p->c, DG_CUDA_WARP));
    return LAUNCH(c, stats_kernel, grid_of_slices(p, 3), p);
}

/* ---- y --------------------------------------------------------------------------------------- */

/* What a channel's elements are computed with. */
typedef struct channel {
    wide mean, rstd, s, b;
} channel;

DEVICE channel channel_of(const norm_call *p, int64_t k)
{
    channel c;

    c.mean = p->mean[k];
    c.rstd = rstd_of(p, k);
    c.s = p->s[k];
    c.b = p->b[k];
    return c;
}

DEVICE real applied(const norm_call *p, const channel *c, real x, wide res)
{
    wide z = (get(x) - c->mean) * c->rstd * c->s + c->b;

    return put(activate(p->act, p->res ? z + res : z));
}

KERNEL(apply_kernel, norm_call)
{
    int64_t live = live_rows(p) * p->c;

    for (int64_t n = first(); n < p->rows * p->c; n += step()) {
        channel c = channel_of(p, (uint32_t)n % (uint32_t)p->c);

        p->out[n] = n < live ? applied(p, &c, p->x[n], p->res ? get(p->res[n]) : 0) : put(0);
    }
}

/* A thread has a pack of channels; where its next ones are the same, it keeps what it knows of
 * them. */
KERNEL(apply_packs_kernel, norm_call)
{
    int64_t live = live_rows(p) * p->c / PACK, all = p->rows * p->c / PACK;
    bool known = false, same = step() * PACK % p->c == 0;
    channel c[PACK];

    for (int64_t n = first(); n < all; n += step()) {
        sixteen x, res;

        if (!known)
            for (int i = 0; i < PACK; i++)
                c[i] = channel_of(p, (int64_t)((uint32_t)(n * PACK) % (uint32_t)p->c) + i);
        known = same;
        x = res = ((const sixteen *)p->x)[n];
        if (p->res)
            res = ((const sixteen *)p->res)[n];
        for (int i = 0; i < PACK; i++)
            x.v[i] = n < live ? applied(p, &c[i], x.v[i], get(res.v[i])) : put(0);
        ((sixteen *)p->out)[n] = x;
    }
}

static int enqueue_apply(const dg_cuda_call *c, const norm_call *p)
{
    return p->c % PACK ? LAUNCH(c, apply_kernel, grid_of(p->rows * p->c), p)
                       : LAUNCH(c, apply_packs_kernel, grid_of(p->rows * p->c / PACK), p);
}

static int batch_norm(const dg_cuda_call *c)
{
    const dg_args *a = c->a;
    norm_call p = norm_of(a, DG_BATCH_NORM_X, (const norm_attr *)a->attr);
    int rc;

    p.x = reals(a, DG_BATCH_NORM_X);
    p.s = wides(a, DG_BATCH_NORM_S);
    p.b = wides(a, DG_BATCH_NORM_B);
    p.res = reals(a, DG_BATCH_NORM_RES);
    p.out = reals(a, DG_BATCH_NORM_Y);
    p.mean = p.to_mean = wides(a, DG_BATCH_NORM_MEAN);
    p.var = p.to_var = wides(a, DG_BATCH_NORM_VAR);
    rc = enqueue_stats(c, &p);
    return rc ? rc : enqueue_apply(c, &p);
}

static int batch_norm_fixed(const dg_cuda_call *c)
{
    const dg_args *a = c->a;
    norm_call p = norm_of(a, DG_BATCH_NORM_FIXED_X, (const norm_attr *)a->attr);

    p.x = reals(a, DG_BATCH_NORM_FIXED_X);
    p.s = wides(a, DG_BATCH_NORM_FIXED_S);
    p.b = wides(a, DG_BATCH_NORM_FIXED_B);
    p.mean = wides(a, DG_BATCH_NORM_FIXED_MEAN);
    p.var = wides(a, DG_BATCH_NORM_FIXED_VAR);
    p.res = reals(a, DG_BATCH_NORM_FIXED_RES);
    p.out = reals(a, DG_BATCH_NORM_FIXED_Y);
    return enqueue_apply(c, &p);
}

static int batch_norm_sync(const dg_cuda_call *c)
{
    const dg_args *a = c->a;
    norm_call p = norm_of(a, DG_BATCH_NORM_SYNC_X, &((const sync_attr *)a->attr)->norm);

    p.x = reals(a, DG_BATCH_NORM_SYNC_X);
    p.s = wides(a, DG_BATCH_NORM_SYNC_S);
    p.b = wides(a, DG_BATCH_NORM_SYNC_B);
    p.mean = wides(a, DG_BATCH_NORM_SYNC_MEAN);
    p.var = wides(a, DG_BATCH_NORM_SYNC_VAR);
    p.live = ints(a, DG_BATCH_NORM_SYNC_LIVE);
    p.res = reals(a, DG_BATCH_NORM_SYNC_RES);
    p.out = reals(a, DG_BATCH_NORM_SYNC_Y);
    return enqueue_apply(c, &p);
}

static int batch_stats(const dg_cuda_call *c)
{
    norm_call p = norm_of(c->a, DG_BATCH_STATS_X, NULL);

    p.x = reals(c->a, DG_BATCH_STATS_X);
    p.live = ints(c->a, DG_BATCH_STATS_LIVE);
    p.to_sums = wides(c->a, DG_BATCH_STATS_STATS);
    return enqueue_stats(c, &p);
}

/* ---- gradients ------------------------------------------------------------------------------- */

/* The gradient before the norm of an element; *h: the normalised x. */
DEVICE wide upstream_of(const norm_call *p, const channel *c, wide dy, wide x, wide y, wide res,
                        wide *h)
{
    wide z = 0;

    *h = p->x ? (x - c->mean) * c->rstd : 0;
    if (p->act == DG_ACT_SILU || (p->act == DG_ACT_RELU && !p->y))
        z = *h * c->s + c->b + (p->res ? res : 0);
    return dy * slope_at(p->act, z, p->y ? y : z);
}

/* Of element i. */
DEVICE wide upstream(const norm_call *p, const channel *c, int64_t i, wide *h)
{
    return upstream_of(p, c, get(p->dy[i]) + (p->more ? get(p->more[i]) : 0),
                       p->x ? get(p->x[i]) : 0, p->y ? get(p->y[i]) : 0,
                       p->res ? get(p->res[i]) : 0, h);
}

KERNEL(sums_kernel, norm_call)
{
    int64_t groups = parts(p->c, DG_CUDA_WARP), slice = block_id() / groups;
    int64_t group = block_id() % groups, k = group * DG_CUDA_WARP + lane_id(), all = live_rows(p);
    int64_t size = parts(p->rows, p->slices),
            end = (slice + 1) * size < all ? (slice + 1) * size : all;
    wide sum_g = 0, sum_gh = 0, h;
    channel c = channel_of(p, k < p->c ? k : 0);

    for (int64_t r = slice * size + warp_id(); r < end && k < p->c; r += WARPS) {
        wide g = upstream(p, &c, r * p->c + k, &h);

        sum_g += g;
        sum_gh += g * h;
    }
    join_sums(p, slice, group, sum_g, sum_gh);
}

static int enqueue_sums(const dg_cuda_call *c, norm_call *p)
{
    p->counter = counters(c, parts(p->c, DG_CUDA_WARP));
    return LAUNCH(c, sums_kernel, grid_of_slices(p, 2), p);
}

/* dx from the gradient before the norm; all: elements of a channel. */
DEVICE real dx_of(const norm_call *p, const channel *c, int64_t k, wide g, wide h, wide all)
{
    if (p->sums)
        g -= (p->sums[k] + h * p->sums[p->c + k]) / all;
    return put(g * (c->s * c->rstd));
}

/* dx and dres, each if wanted. */
KERNEL(dx_kernel, norm_call)
{
    int64_t live = live_rows(p) * p->c;
    wide all = p->n ? *p->n : (wide)p->rows;

    for (int64_t n = first(); n < p->rows * p->c; n += step()) {
        int64_t k = (uint32_t)n % (uint32_t)p->c;
        channel c = channel_of(p, k);
        wide h = 0, g = n < live ? upstream(p, &c, n, &h) : 0;

        if (p->dres)
            p->dres[n] = put(g);
        if (p->out)
            p->out[n] = n < live ? dx_of(p, &c, k, g, h, all) : put(0);
    }
}

KERNEL(dx_packs_kernel, norm_call)
{
    int64_t live = live_rows(p) * p->c / PACK, size = p->rows * p->c / PACK;
    bool known = false, same = step() * PACK % p->c == 0;
    wide all = p->n ? *p->n : (wide)p->rows;
    channel c[PACK];

    for (int64_t n = first(); n < size; n += step()) {
        int64_t k = (uint32_t)(n * PACK) % (uint32_t)p->c;
        sixteen dy = ((const sixteen *)p->dy)[n], more = dy, x = dy, y = dy, res = dy, dx, dres;

        if (!known)
            for (int i = 0; i < PACK; i++)
                c[i] = channel_of(p, k + i);
        known = same;
        if (p->more)
            more = ((const sixteen *)p->more)[n];
        if (p->x)
            x = ((const sixteen *)p->x)[n];
        if (p->y)
            y = ((const sixteen *)p->y)[n];
        if (p->res)
            res = ((const sixteen *)p->res)[n];
        for (int i = 0; i < PACK; i++) {
            wide h, d = get(dy.v[i]) + (p->more ? get(more.v[i]) : 0);
            wide g = upstream_of(p, &c[i], d, get(x.v[i]), get(y.v[i]), get(res.v[i]), &h);

            dres.v[i] = n < live ? put(g) : put(0);
            dx.v[i] = n < live ? dx_of(p, &c[i], k + i, g, h, all) : put(0);
        }
        if (p->dres)
            ((sixteen *)p->dres)[n] = dres;
        if (p->out)
            ((sixteen *)p->out)[n] = dx;
    }
}

static int enqueue_dx(const dg_cuda_call *c, const norm_call *p)
{
    return p->c % PACK ? LAUNCH(c, dx_kernel, grid_of(p->rows * p->c), p)
                       : LAUNCH(c, dx_packs_kernel, grid_of(p->rows * p->c / PACK), p);
}

/* The operands dy x y s b mean var, at the same places in all four ops. */
static norm_call gradient_of(const dg_args *a)
{
    norm_call p = norm_of(a, DG_BATCH_NORM_GRAD_DY, (const norm_attr *)a->attr);

    p.dy = reals(a, DG_BATCH_NORM_GRAD_DY);
    p.x = reals(a, DG_BATCH_NORM_GRAD_X);
    p.y = reals(a, DG_BATCH_NORM_GRAD_Y);
    p.s = wides(a, DG_BATCH_NORM_GRAD_S);
    p.b = wides(a, DG_BATCH_NORM_GRAD_B);
    p.mean = wides(a, DG_BATCH_NORM_GRAD_MEAN);
    p.var = wides(a, DG_BATCH_NORM_GRAD_VAR);
    return p;
}

/* Workspace: slices, and the two sums. */
static int prepare_grad(dg_prepare *p)
{
    int rc = prepare_slices(p);

    p->workspace_bytes += (size_t)(2 * p->t[0].shape.d[p->t[0].shape.rank - 1]) * sizeof(wide);
    return rc;
}

/* dx: the place of dx, before ds? db? dres?. */
static int enqueue_gradients(const dg_cuda_call *c, const real *more, int dx)
{
    const dg_args *a = c->a;
    norm_call p = gradient_of(a);
    int rc = 0;

    p.more = more;
    p.res = reals(a, DG_BATCH_NORM_GRAD_RES);
    p.out = reals(a, dx);
    p.ds = wides(a, dx + 1);
    p.db = wides(a, dx + 2);
    p.dres = reals(a, dx + 3);
    p.to_sums = p.partial + 3 * p.c * p.slices;
    if (!p.fixed || p.ds || p.db)
        rc = enqueue_sums(c, &p);
    p.sums = p.fixed ? NULL : p.to_sums;
    return rc ? rc : enqueue_dx(c, &p);
}

static int batch_norm_grad(const dg_cuda_call *c)
{
    return enqueue_gradients(c, NULL, DG_BATCH_NORM_GRAD_DX);
}

static int batch_norm_sum_grad(const dg_cuda_call *c)
{
    return enqueue_gradients(c, reals(c->a, DG_BATCH_NORM_SUM_GRAD_MORE),
                             DG_BATCH_NORM_SUM_GRAD_DX);
}

static int batch_norm_sums(const dg_cuda_call *c)
{
    const dg_args *a = c->a;
    norm_call p = gradient_of(a);
    int rc;

    p.live = ints(a, DG_BATCH_NORM_SUMS_LIVE);
    p.res = reals(a, DG_BATCH_NORM_SUMS_RES);
    p.to_sums = wides(a, DG_BATCH_NORM_SUMS_SUMS);
    p.ds = wides(a, DG_BATCH_NORM_SUMS_DS);
    p.db = wides(a, DG_BATCH_NORM_SUMS_DB);
    p.dres = reals(a, DG_BATCH_NORM_SUMS_DRES);
    rc = enqueue_sums(c, &p);
    return rc || !p.dres ? rc : enqueue_dx(c, &p);
}

static int batch_norm_dx(const dg_cuda_call *c)
{
    const dg_args *a = c->a;
    norm_call p = gradient_of(a);

    p.n = wides(a, DG_BATCH_NORM_DX_N);
    p.sums = wides(a, DG_BATCH_NORM_DX_SUMS);
    p.live = ints(a, DG_BATCH_NORM_DX_LIVE);
    p.res = reals(a, DG_BATCH_NORM_DX_RES);
    p.out = reals(a, DG_BATCH_NORM_DX_DX);
    return enqueue_dx(c, &p);
}

DG_SAME_PLACE(DG_BATCH_NORM_GRAD_RES, DG_BATCH_NORM_SUM_GRAD_RES);
DG_SAME_PLACE(DG_BATCH_NORM_GRAD_VAR, DG_BATCH_NORM_SUMS_VAR);
DG_SAME_PLACE(DG_BATCH_NORM_GRAD_VAR, DG_BATCH_NORM_DX_VAR);
DG_CUDA(batch_norm, prepare_slices, batch_norm);
DG_CUDA(batch_norm_fixed, NULL, batch_norm_fixed);
DG_CUDA(batch_norm_grad, prepare_grad, batch_norm_grad);
DG_CUDA(batch_norm_sum_grad, prepare_grad, batch_norm_sum_grad);
DG_CUDA(batch_stats, prepare_slices, batch_stats);
DG_CUDA(batch_norm_sync, NULL, batch_norm_sync);
DG_CUDA(batch_norm_sums, prepare_slices, batch_norm_sums);
DG_CUDA(batch_norm_dx, NULL, batch_norm_dx);
