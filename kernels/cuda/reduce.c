/* reduce.c: twins of the second half of kernels/ref/shape.c: sums and maxima over axes.
 *
 * What is reduced to one output is cut into slices by its size alone; a warp or a thread reduces a
 * slice, then a warp an output's slices. So the order of a sum is always the same. Where the last
 * axis is reduced, the lanes of a warp share a slice; else each lane has an output of its own. Both
 * read neighbours together. */
#include "kernels/cuda/device.h"
#include "kernels/cuda/layout.h"

enum { WARP_SLICE = 2048, THREAD_SLICE = 64 };

typedef struct reduction {
    const real *x;
    wide *partial; /* [slices][outputs] */
    wide *sum;     /* one of the two */
    real *most;
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

KERNEL(reduce_by_warps, reduction)
{
    for (int64_t w = first() / DG_CUDA_WARP; w < p->outputs * p->slices;
         w += step() / DG_CUDA_WARP) {
        int64_t output = w / p->slices, number = w % p->slices;
        wide v = warp_combine(p, reduce_slice(p, output, number, lane_id(), DG_CUDA_WARP));

        if (lane_id() == 0)
            p->partial[number * p->outputs + output] = v;
    }
}

KERNEL(reduce_by_threads, reduction)
{
    for (int64_t n = first(); n < p->outputs * p->slices; n += step())
        p->partial[n] = reduce_slice(p, n % p->outputs, n / p->outputs, 0, 1);
}

KERNEL(reduce_slices, reduction)
{
    for (int64_t output = first() / DG_CUDA_WARP; output < p->outputs;
         output += step() / DG_CUDA_WARP) {
        wide v = nothing(p);

        for (int64_t k = lane_id(); k < p->slices; k += DG_CUDA_WARP)
            v = combine(p, v, p->partial[k * p->outputs + output]);
        v = warp_combine(p, v);
        if (lane_id() == 0 && p->sum)
            p->sum[output] = v;
        if (lane_id() == 0 && p->most)
            p->most[output] = put(v);
    }
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
    r.slice = *by_warps ? WARP_SLICE : THREAD_SLICE;
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

static int reduce(const dg_cuda_call *c, wide *sum, real *most)
{
    bool by_warps;
    reduction r = reduction_of(c->a->t, c->a->attr, &by_warps);
    int64_t n = r.outputs * r.slices;
    int rc;

    r.partial = (wide *)c->a->workspace;
    r.sum = sum;
    r.most = most;
    rc = by_warps ? LAUNCH(c, reduce_by_warps, grid_of_warps(n), &r)
                  : LAUNCH(c, reduce_by_threads, grid_of(n), &r);
    return rc ? rc : LAUNCH(c, reduce_slices, grid_of_warps(r.outputs), &r);
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

KERNEL(reduce_i32_kernel, reduction_i32)
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
    return LAUNCH(c, reduce_i32_kernel, grid_of_warps(r.outputs), &r);
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
DG_CUDA(sum, prepare, sum);
DG_CUDA(reduce_max, prepare, reduce_max);
DG_CUDA(sum_i32, NULL, sum_i32);
DG_CUDA(reduce_max_i32, NULL, reduce_max_i32);
