/* deform.c: twins of kernels/ref/deform.c, which has the formulas.
 *
 * Forward: a thread for a few channels of a query, 16 bytes of value, or for one. Backward, for
 * off, weight and ref: a block for a query, its warps share the heads and the lanes the channels.
 * For value: a block for a head and a few channels of an image, with all rows of value, or a part
 * of them, as integers in shared memory. Integer sums do not depend on their order, so atomics give
 * the same bits every time.
 *
 * The integers are fixed-point numbers. No sum of a head exceeds the sum over its queries of
 * max|dy| * sum|weight|, so a power of two above that is given to the highest bit. What is lost is
 * below 2^-30 of it per addend (f64: 2^-62). Where it is not finite, neither is the gradient. */
#include "kernels/cuda/device.h"

enum { CHANNELS = 4, FIXED_BITS = 8 * (int)sizeof(fixed) - 2 };

typedef struct deform {
    const real *value, *dy;
    const wide *ref, *off, *weight;
    real *y;
    wide *dvalue, *dref, *doff, *dweight;
    int64_t batch, s, n, heads, d, points, part; /* part: rows of value in a block */
    bool discrete;
    int32_t levels, h[DG_MAX_LEVELS], w[DG_MAX_LEVELS], of_level[DG_MAX_LEVELS];
} deform;

/* Where a point of a query reads: four rows of value, or one. */
typedef struct spot {
    int64_t row; /* of value: of the pixel (left, top) */
    int32_t left, top, w, h;
    wide right, below; /* shares of the neighbours to the right and below */
    int32_t taps;      /* 0, 1 or 4 */
    wide points;       /* of the level */
} spot;

DEVICE int32_t cell(double location, int32_t size, int32_t h)
{
    double at = location * size + 0.5;

    return !(at > 0) ? 0 : at > h - 1 ? h - 1 : (int32_t)at;
}

DEVICE spot spot_of(const deform *p, const wide *ref, const wide *off, int64_t point)
{
    spot o;
    int64_t begin = 0;
    int level = 0;
    wide u, v;

    for (; point >= p->of_level[level]; level++) {
        point -= p->of_level[level];
        begin += (int64_t)p->h[level] * p->w[level];
    }
    o.w = p->w[level];
    o.h = p->h[level];
    o.points = (wide)p->of_level[level];
    o.right = o.below = 0;
    o.left = o.top = o.taps = 0;
    o.row = begin;
    if (p->discrete) { /* in double: a pixel is chosen */
        double n = p->of_level[level];

        o.left = cell((double)ref[0] + (double)off[0] / n * (double)ref[2] * 0.5, o.w, o.h);
        o.top = cell((double)ref[1] + (double)off[1] / n * (double)ref[3] * 0.5, o.h, o.h);
        o.taps = 1;
        o.row += (int64_t)o.top * o.w + o.left;
        return o;
    }
    u = (ref[0] + off[0] / o.points * ref[2] * (wide)0.5) * (wide)o.w - (wide)0.5;
    v = (ref[1] + off[1] / o.points * ref[3] * (wide)0.5) * (wide)o.h - (wide)0.5;
    if (!(u >= -1 && u < (wide)o.w && v >= -1 && v < (wide)o.h))
        return o; /* all neighbours are outside, or the location is NaN */
    o.left = (int32_t)floor(u);
    o.top = (int32_t)floor(v);
    o.right = u - (wide)o.left;
    o.below = v - (wide)o.top;
    o.taps = 4;
    o.row += (int64_t)o.top * o.w + o.left;
    return o;
}

/* Row of tap k = 2 * down + right; -1: outside. */
DEVICE int64_t tap_row(const spot *o, int k)
{
    int32_t x = o->left + k % 2, y = o->top + k / 2;

    if (k >= o->taps || x < 0 || x >= o->w || y < 0 || y >= o->h)
        return -1;
    return o->row + (int64_t)(k / 2) * o->w + k % 2;
}

DEVICE wide share_x(const spot *o, int k)
{
    return k % 2 ? o->right : 1 - o->right;
}

DEVICE wide share_y(const spot *o, int k)
{
    return k / 2 ? o->below : 1 - o->below;
}

KERNEL(deform_kernel, deform)
{
    int64_t width = p->heads * p->d;

    for (int64_t n = first(); n < p->batch * p->n * width; n += step()) {
        int64_t q = (uint32_t)n / (uint32_t)width, c = (uint32_t)n % (uint32_t)width;
        int64_t head = (uint32_t)c / (uint32_t)p->d, at = (q * p->heads + head) * p->points;
        const real *value = p->value + (uint32_t)q / (uint32_t)p->n * p->s * width + c;
        wide sum = 0;

        for (int64_t k = 0; k < p->points; k++) {
            spot o = spot_of(p, p->ref + q * 4, p->off + (at + k) * 2, k);
            wide sample = 0;

            for (int tap = 0; tap < 4; tap++) {
                int64_t row = tap_row(&o, tap);

                if (row >= 0)
                    sample += share_x(&o, tap) * share_y(&o, tap) * get(value[row * width]);
            }
            sum += p->weight[at + k] * sample;
        }
        p->y[n] = put(sum);
    }
}

/* A thread for a pack of channels of one head: places are computed once for all of them. */
KERNEL(deform_packs_kernel, deform)
{
    int64_t width = p->heads * p->d / PACK, of_head = p->d / PACK;

    for (int64_t n = first(); n < p->batch * p->n * width; n += step()) {
        int64_t q = (uint32_t)n / (uint32_t)width, c = (uint32_t)n % (uint32_t)width;
        int64_t head = (uint32_t)c / (uint32_t)of_head, at = (q * p->heads + head) * p->points;
        const sixteen *value =
            (const sixteen *)p->value + (uint32_t)q / (uint32_t)p->n * p->s * width + c;
        wide sum[PACK] = { 0 };
        sixteen y;

        for (int64_t k = 0; k < p->points; k++) {
            spot o = spot_of(p, p->ref + q * 4, p->off + (at + k) * 2, k);
            wide sample[PACK] = { 0 };

            for (int tap = 0; tap < 4; tap++) {
                int64_t row = tap_row(&o, tap);

                if (row < 0)
                    continue;
                y = value[row * width];
                for (int i = 0; i < PACK; i++)
                    sample[i] += share_x(&o, tap) * share_y(&o, tap) * get(y.v[i]);
            }
            for (int i = 0; i < PACK; i++)
                sum[i] += p->weight[at + k] * sample[i];
        }
        for (int i = 0; i < PACK; i++)
            y.v[i] = put(sum[i]);
        ((sixteen *)p->y)[n] = y;
    }
}

/* value is operand i; ref, off and weight follow. */
static deform deform_of(const dg_args *a, int i)
{
    const deform_attr *f = (const deform_attr *)a->attr;
    deform p = { .value = reals(a, i),
                 .ref = wides(a, i + 1),
                 .off = wides(a, i + 2),
                 .weight = wides(a, i + 3) };

    p.batch = dim(a, i, 0);
    p.s = dim(a, i, 1);
    p.n = dim(a, i + 1, 1);
    p.heads = f->heads;
    p.d = dim(a, i, 2) / f->heads;
    p.points = elements(a, i + 3) / (p.batch * p.n * p.heads);
    p.discrete = f->discrete != 0;
    p.levels = (int32_t)f->n_levels;
    for (int64_t l = 0; l < f->n_levels; l++) {
        p.h[l] = (int32_t)f->h[l];
        p.w[l] = (int32_t)f->w[l];
        p.of_level[l] = (int32_t)f->points[l];
    }
    return p;
}

static int deform_attention(const dg_cuda_call *c)
{
    deform p = deform_of(c->a, DG_DEFORM_ATTENTION_VALUE);

    p.y = reals(c->a, DG_DEFORM_ATTENTION_Y);
    return p.d % PACK
               ? LAUNCH(c, deform_kernel, grid_of(p.batch * p.n * p.heads * p.d), &p)
               : LAUNCH(c, deform_packs_kernel, grid_of(p.batch * p.n * p.heads * p.d / PACK), &p);
}

/* ---- gradient -------------------------------------------------------------------------------- */

/* The gradients of one point by its weight and its location, for every lane. */
DEVICE void point_slopes(const deform *p, const spot *o, const real *dy, const real *value,
                         wide weight, wide *sample, wide *by_x, wide *by_y)
{
    wide s = 0, x = 0, y = 0;

    for (int tap = 0; tap < 4; tap++) {
        int64_t row = tap_row(o, tap);
        wide dot = 0;

        for (int64_t i = lane_id(); i < p->d && row >= 0; i += DG_CUDA_WARP)
            dot += get(dy[i]) * get(value[row * p->heads * p->d + i]);
        s += dot * share_x(o, tap) * share_y(o, tap);
        x += (tap % 2 ? dot : -dot) * share_y(o, tap);
        y += (tap / 2 ? dot : -dot) * share_x(o, tap);
    }
    *sample = warp_sum(s);
    *by_x = p->discrete ? 0 : warp_sum(x) * weight * (wide)o->w;
    *by_y = p->discrete ? 0 : warp_sum(y) * weight * (wide)o->h;
}

/* A block for a query. Shared memory: dref of each head. */
KERNEL(queries_kernel, deform)
{
    wide *dref = (wide *)shared_memory();
    int64_t q = block_id(), width = p->heads * p->d;
    const wide *ref = p->ref + q * 4;

    for (int64_t head = warp_id(); head < p->heads; head += block_size() / DG_CUDA_WARP) {
        const real *dy = p->dy + q * width + head * p->d,
                   *value = p->value + q / p->n * p->s * width + head * p->d;
        wide sum_x = 0, sum_y = 0, sum_w = 0, sum_h = 0;

        for (int64_t k = 0; k < p->points; k++) {
            int64_t at = (q * p->heads + head) * p->points + k;
            const wide *off = p->off + at * 2;
            spot o = spot_of(p, ref, off, k);
            wide sample, x, y;

            point_slopes(p, &o, dy, value, p->weight[at], &sample, &x, &y);
            sum_x += x;
            sum_y += y;
            sum_w += x * off[0] / o.points * (wide)0.5;
            sum_h += y * off[1] / o.points * (wide)0.5;
            if (lane_id() == 0 && p->doff) {
                p->doff[at * 2] = x * ref[2] / o.points * (wide)0.5;
                p->doff[at * 2 + 1] = y * ref[3] / o.points * (wide)0.5;
            }
            if (lane_id() == 0 && p->dweight)
                p->dweight[at] = sample;
        }
        if (lane_id() == 0) {
            dref[head * 4] = sum_x;
            dref[head * 4 + 1] = sum_y;
            dref[head * 4 + 2] = sum_w;
            dref[head * 4 + 3] = sum_h;
        }
    }
    barrier();
    if (thread_id() < 4 && p->dref) {
        wide sum = 0;

        for (int64_t head = 0; head < p->heads; head++)
            sum += dref[head * 4 + thread_id()];
        p->dref[q * 4 + thread_id()] = sum;
    }
}

/* The most that a sum over queries of a head can be, for channels c0..c1-1. */
DEVICE wide bound_of(const deform *p, int64_t b, int64_t head, int64_t c0, int64_t c1, wide *shared)
{
    wide bound = 0;

    for (int64_t n = thread_id(); n < p->n; n += block_size()) {
        int64_t q = b * p->n + n;
        const real *dy = p->dy + (q * p->heads + head) * p->d;
        const wide *weight = p->weight + (q * p->heads + head) * p->points;
        wide most = 0, weights = 0;

        for (int64_t c = c0; c < c1; c++)
            most = fabs(get(dy[c])) <= most ? most : fabs(get(dy[c])); /* NaN stays */
        for (int64_t k = 0; k < p->points; k++)
            weights += fabs(weight[k]);
        bound += most * weights;
    }
    return block_sum(bound, shared);
}

/* A power of two; bound * it is below 2^FIXED_BITS. */
DEVICE wide scale_of(wide bound)
{
    int exponent;

    (void)frexp(bound, &exponent);
    exponent = exponent < -60 ? -60 : exponent;
    return ldexp((wide)1, FIXED_BITS - exponent - 1);
}

/* Shared memory: the sums of a block, then part * CHANNELS integers. */
KERNEL(values_kernel, deform)
{
    wide *sums = (wide *)shared_memory();
    fixed *total = (fixed *)(sums + DG_CUDA_THREADS / DG_CUDA_WARP);
    int64_t groups = parts(p->d, CHANNELS), cuts = parts(p->s, p->part), number = block_id();
    int64_t begin = number % cuts * p->part, c0 = number / cuts % groups * CHANNELS;
    int64_t head = number / cuts / groups % p->heads, b = number / cuts / groups / p->heads;
    int64_t end = begin + p->part < p->s ? begin + p->part : p->s;
    int64_t c1 = c0 + CHANNELS < p->d ? c0 + CHANNELS : p->d;
    wide bound = bound_of(p, b, head, c0, c1, sums), scale = scale_of(bound);
    bool lost = !(bound < (wide)INFINITY);

    for (int64_t i = thread_id(); i < (end - begin) * CHANNELS; i += block_size())
        total[i] = 0;
    barrier();
    for (int64_t e = thread_id(); e < p->n * p->points && !lost; e += block_size()) {
        int64_t q = b * p->n + e / p->points,
                at = (q * p->heads + head) * p->points + e % p->points;
        const real *dy = p->dy + (q * p->heads + head) * p->d;
        spot o = spot_of(p, p->ref + q * 4, p->off + at * 2, e % p->points);

        for (int tap = 0; tap < 4; tap++) {
            int64_t row = tap_row(&o, tap);
            wide share = p->weight[at] * share_x(&o, tap) * share_y(&o, tap) * scale;

            for (int64_t c = c0; c < c1 && row >= begin && row < end; c++)
                atomic_add_fixed(&total[(row - begin) * CHANNELS + c - c0],
                                 (fixed)rint(share * get(dy[c])));
        }
    }
    barrier();
    for (int64_t i = thread_id(); i < (end - begin) * CHANNELS; i += block_size()) {
        int64_t row = b * p->s + begin + i / CHANNELS, c = c0 + i % CHANNELS;

        if (c < c1)
            p->dvalue[(row * p->heads + head) * p->d + c] =
                lost ? (wide)NAN : (wide)total[i] / scale;
    }
}

static int enqueue_values(const dg_cuda_call *c, deform p)
{
    size_t head = BLOCK_SUM_BYTES, each = CHANNELS * sizeof(fixed);
    int64_t most = (int64_t)((c->queue->shared_limit - head) / each);
    dg_cuda_grid g = { p.batch * p.heads * parts(p.d, CHANNELS), DG_CUDA_THREADS, 0 };

    p.part = p.s < most ? p.s : parts(p.s, parts(p.s, most));
    g.blocks *= parts(p.s, p.part);
    g.shared = head + (size_t)p.part * each;
    return LAUNCH(c, values_kernel, g, &p);
}

static int deform_attention_grad(const dg_cuda_call *c)
{
    deform p = deform_of(c->a, DG_DEFORM_ATTENTION_GRAD_VALUE);
    dg_cuda_grid queries = { p.batch * p.n, DG_CUDA_THREADS, (size_t)p.heads * 4 * sizeof(wide) };
    int rc = 0;

    p.dy = reals(c->a, DG_DEFORM_ATTENTION_GRAD_DY);
    p.dvalue = wides(c->a, DG_DEFORM_ATTENTION_GRAD_DVALUE);
    p.dref = wides(c->a, DG_DEFORM_ATTENTION_GRAD_DREF);
    p.doff = wides(c->a, DG_DEFORM_ATTENTION_GRAD_DOFF);
    p.dweight = wides(c->a, DG_DEFORM_ATTENTION_GRAD_DWEIGHT);
    if (p.dref || p.doff || p.dweight)
        rc = LAUNCH(c, queries_kernel, queries, &p);
    return rc || !p.dvalue ? rc : enqueue_values(c, p);
}

DG_CUDA(deform_attention, NULL, deform_attention);
DG_CUDA(deform_attention_grad, NULL, deform_attention_grad);
