/* reduce.c: twins of the second half of kernels/ref/shape.c: sums and maxima over axes.
 *
 * What is reduced to one output is cut into slices by its size alone, and an output's slices are
 * joined in their order, so the order of a sum is always the same. Where the last axis is reduced,
 * the lanes of a warp share a slice. Else a lane has an output of its own, so that lanes read
 * neighbours together: a thread reduces all of a short output; of a long one the warps of a block
 * have every eighth element of a slice. */
#include "kernels/cuda/device.h"
#include "kernels/cuda/layout.h"

enum {
    WARP_SLICE = 2048,
    SHORT = 64, /* elements of an output that one thread reduces */
    WARPS = DG_CUDA_THREADS / DG_CUDA_WARP,
    BLOCK_SLICE = WARPS * 32,
    MOST_SLICES = 256,
    FEW = 4096,        /* partial results that one block joins */
    MOST_GROUPS = 4096 /* of 32 outputs; where there are more, threads are many enough */
};
_Static_assert((int)DG_CUDA_CALLS *(int)MOST_GROUPS <= (int)DG_CUDA_COUNTERS,
               "a launch's calls have their own");

typedef struct reduction {
    const real *x;
    wide *partial; /* [slices][outputs] */
    wide *sum;     /* one of the two */
    real *most;
    int32_t *counter;
    int64_t outputs, reduced, slice, slices;
    layout kept, gone; /* place 0: in x, of an output, and of an element that is reduced to it */
} reduction;

/* Sums, or maxima in which NaN wins. */
DEVICE wide combine(const reduction *p, wide a, wide b)
{
    if (p->sum)
        return a + b;
    return b > a || b != b ? b : a;
}

DEVICE wide nothing(const reduction *p)
{
    return p->sum ? 0 : minus_infinity();
}

DEVICE wide warp_combine(const reduction *p, wide v)
{
    for (int mask = DG_CUDA_WARP / 2; mask; mask /= 2)
        v = combine(p, v, shuffle_xor(v, mask));
    return v;
}

/* Elements k, k + by, ... of a slice of an output. */
DEVICE wide reduce_slice(const reduction *p, int64_t output, int64_t number, int64_t k, int64_t by)
{
    int64_t at = place(&p->kept, 0, output), begin = number * p->slice, end = begin + p->slice;
    wide v = nothing(p);

    end = end < p->reduced ? end : p->reduced;
    for (int64_t n = begin + k; n < end; n += by)
        v = combine(p, v, get(p->x[at + place(&p->gone, 0, n)]));
    return v;
}

DEVICE void finish(const reduction *p, int64_t output, wide v)
{
    if (p->sum)
        p->sum[output] = v;
    if (p->most)
        p->most[output] = put(v);
}

/* The slices of an output, by a warp. */
DEVICE void join_slices(const reduction *p, int64_t output)
{
    wide v = nothing(p);

    for (int64_t k = lane_id(); k < p->slices; k += DG_CUDA_WARP)
        v = combine(p, v, p->partial[k * p->outputs + output]);
    v = warp_combine(p, v);
    if (lane_id() == 0)
        finish(p, output, v);
}

/* Shared memory: a number. */
KERNEL_MANY(reduce_by_warps, reduction)
{
    for (int64_t w = first() / DG_CUDA_WARP; w < p->outputs * p->slices;
         w += step() / DG_CUDA_WARP) {
        int64_t output = w / p->slices, number = w % p->slices;
        wide v = warp_combine(p, reduce_slice(p, output, number, lane_id(), DG_CUDA_WARP));

        if (lane_id() == 0 && p->slices == 1)
            finish(p, output, v);
        else if (lane_id() == 0)
            p->partial[number * p->outputs + output] = v;
    }
    if (p->counter && last_of(p->counter, grid_size(), (int32_t *)shared_memory()))
        for (int64_t output = warp_id(); output < p->outputs; output += WARPS)
            join_slices(p, output);
}

KERNEL_MANY(join_kernel, reduction)
{
    for (int64_t output = first() / DG_CUDA_WARP; output < p->outputs;
         output += step() / DG_CUDA_WARP)
        join_slices(p, output);
}

KERNEL_MANY(reduce_by_threads, reduction)
{
    for (int64_t n = first(); n < p->outputs; n += step())
        finish(p, n, reduce_slice(p, n, 0, 0, 1));
}

/* A block for 32 outputs and a slice; the last one of those outputs joins the slices. Shared
 * memory: a number for each thread, and one. */
KERNEL_MANY(reduce_by_blocks, reduction)
{
    wide *shared = (wide *)shared_memory();
    int64_t groups = parts(p->outputs, DG_CUDA_WARP), number = block_id() / groups;
    int64_t group = block_id() % groups, output = group * DG_CUDA_WARP + lane_id();
    wide v = output < p->outputs ? reduce_slice(p, output, number, warp_id(), WARPS) : 0;

    shared[thread_id()] = v;
    barrier();
    for (int w = 1; w < WARPS && warp_id() == 0; w++)
        v = combine(p, v, shared[w * DG_CUDA_WARP + lane_id()]);
    if (warp_id() == 0 && output < p->outputs)
        p->partial[number * p->outputs + output] = v;
    if (last_of(p->counter + group, p->slices, (int32_t *)(shared + DG_CUDA_THREADS)))
        for (int64_t k = warp_id(); k < DG_CUDA_WARP && group * DG_CUDA_WARP + k < p->outputs;
             k += WARPS)
            join_slices(p, group * DG_CUDA_WARP + k);
}

/* x is operand 0, y operand 1; axes: a bit for each axis that is reduced. Returns whether the last
 * axis is. */
static bool split(const dg_shape *x, int64_t axes, layout *kept, layout *gone, int64_t *outputs,
                  int64_t *reduced)
{
    *outputs = *reduced = 1;
    for (int k = 0; k < x->rank; k++) {
        int64_t steps = 1, *n = axes >> k & 1 ? reduced : outputs;

        for (int i = k + 1; i < x->rank; i++)
            steps *= x->d[i];
        layout_axis(axes >> k & 1 ? gone : kept, x->d[k], 1, &steps);
        *n *= x->d[k];
    }
    return gone->rank > 0 && gone->step[0][gone->rank - 1] == 1;
}

static reduction reduction_of(const dg_tensor *t, const void *attr, bool *by_warps)
{
    const axes_attr *f = (const axes_attr *)attr;
    reduction r = { .x = (const real *)t[DG_SUM_X].data };

    *by_warps = split(&t[DG_SUM_X].shape, f->axes, &r.kept, &r.gone, &r.outputs, &r.reduced);
    r.slice = *by_warps                                         ? WARP_SLICE
              : r.reduced <= SHORT                              ? SHORT
              : r.reduced <= (int64_t)MOST_SLICES * BLOCK_SLICE ? BLOCK_SLICE
                                                                : parts(r.reduced, MOST_SLICES);
    r.slices = parts(r.reduced, r.slice);
    return r;
}

static int prepare(dg_prepare *p)
{
    bool by_warps;
    reduction r = reduction_of(p->t, p->attr, &by_warps);

    p->workspace_bytes = (size_t)(r.outputs * r.slices) * sizeof(wide);
    return 0;
}

static int by_blocks(const dg_cuda_call *c, reduction *r)
{
    int64_t groups = parts(r->outputs, DG_CUDA_WARP);
    const dg_cuda_grid g = { groups * r->slices, DG_CUDA_THREADS,
                             (DG_CUDA_THREADS + 1) * sizeof(wide) };

    r->counter = counters(c, groups);
    return LAUNCH_MANY(c, reduce_by_blocks, g, r);
}

static int by_warps_of(const dg_cuda_call *c, reduction *r)
{
    int64_t n = r->outputs * r->slices;
    dg_cuda_grid g = grid_of_warps(n);
    int rc;

    g.shared = sizeof(wide);
    r->counter = r->slices > 1 && n <= FEW ? counters(c, 1) : NULL;
    rc = LAUNCH_MANY(c, reduce_by_warps, g, r);
    if (rc || r->counter || r->slices == 1)
        return rc;
    return LAUNCH_MANY(c, join_kernel, grid_of_warps(r->outputs), r);
}

static int reduce(const dg_cuda_call *c, wide *sum, real *most)
{
    bool by_warps;
    reduction r = reduction_of(c->a->t, c->a->attr, &by_warps);

    r.partial = (wide *)c->a->workspace;
    r.sum = sum;
    r.most = most;
    if (by_warps)
        return by_warps_of(c, &r);
    if (r.reduced > SHORT && parts(r.outputs, DG_CUDA_WARP) <= MOST_GROUPS)
        return by_blocks(c, &r);
    r.slice = r.reduced;
    return LAUNCH_MANY(c, reduce_by_threads, grid_of(r.outputs), &r);
}

static int sum(const dg_cuda_call *c)
{
    return reduce(c, wides(c->a, DG_SUM_Y), NULL);
}

static int reduce_max(const dg_cuda_call *c)
{
    return reduce(c, NULL, reals(c->a, DG_REDUCE_MAX_Y));
}

/* ---- integers: counts and flags, a warp for an output ---------------------------------------- */

typedef struct reduction_i32 {
    const int32_t *x;
    int32_t *y;
    int64_t outputs, reduced;
    layout kept, gone;
    bool maximum;
} reduction_i32;

KERNEL_MANY(reduce_i32_kernel, reduction_i32)
{
    for (int64_t output = first() / DG_CUDA_WARP; output < p->outputs;
         output += step() / DG_CUDA_WARP) {
        int64_t at = place(&p->kept, 0, output);
        int32_t v = p->maximum ? INT32_MIN : 0;

        for (int64_t n = lane_id(); n < p->reduced; n += DG_CUDA_WARP) {
            int32_t x = p->x[at + place(&p->gone, 0, n)];

            v = !p->maximum ? v + x : x > v ? x : v;
        }
        for (int mask = DG_CUDA_WARP / 2; mask; mask /= 2) {
            int32_t x = shuffle_xor(v, mask);

            v = !p->maximum ? v + x : x > v ? x : v;
        }
        if (lane_id() == 0)
            p->y[output] = v;
    }
}

static int reduce_i32(const dg_cuda_call *c, bool maximum)
{
    const axes_attr *f = (const axes_attr *)c->a->attr;
    reduction_i32 r = { .x = ints(c->a, DG_SUM_I32_X),
                        .y = ints(c->a, DG_SUM_I32_Y),
                        .maximum = maximum };

    split(&c->a->t[DG_SUM_I32_X].shape, f->axes, &r.kept, &r.gone, &r.outputs, &r.reduced);
    return LAUNCH_MANY(c, reduce_i32_kernel, grid_of_warps(r.outputs), &r);
}

static int sum_i32(const dg_cuda_call *c)
{
    return reduce_i32(c, false);
}

static int reduce_max_i32(const dg_cuda_call *c)
{
    return reduce_i32(c, true);
}

DG_SAME_PLACE(DG_SUM_X, DG_REDUCE_MAX_X);
DG_SAME_PLACE(DG_SUM_I32_X, DG_REDUCE_MAX_I32_X);
DG_SAME_PLACE(DG_SUM_I32_Y, DG_REDUCE_MAX_I32_Y);
DG_CUDA_JOINED(sum, prepare, sum, DG_JOIN_SIDE);
DG_CUDA_JOINED(reduce_max, prepare, reduce_max, DG_JOIN_SIDE);
DG_CUDA_JOINED(sum_i32, NULL, sum_i32, DG_JOIN_SIDE);
DG_CUDA_JOINED(reduce_max_i32, NULL, reduce_max_i32, DG_JOIN_SIDE);
