/* deform.c: multi-scale deformable attention, Zhu et al. 2021, equation 3, in RT-DETR's
 * parametrisation.
 *
 * value [B,S,heads*d]: the maps of all levels one after another, row-major; ref [B,N,4] = (x, y, w,
 * h); off [B,N,heads,P,2]; weight [B,N,heads,P]; the P points are those of level 0, then of level
 * 1, ...
 *     location = ref.xy + off / points(level) * ref.wh / 2
 *     y[b,n,h] = sum over points p of weight[p] * sample(level(p), location(p))   [B,N,heads*d]
 *
 * sample, bilinear: pixel (u, v) = location * (w, h) - 1/2 between its four neighbours, those
 * outside the map being 0. Discrete: the pixel trunc(location * (w, h) + 1/2), both coordinates
 * clamped to 0..h-1 (the maps are square); the location gets no gradient. */
#include <math.h>
#include <string.h>

#include "kernels/ref/ref.h"

/* The rows of value that a point reads (-1: outside), their weights, and d weight / d location. */
typedef struct taps {
    int n;
    int64_t row[4];
    double share[4], by_x[4], by_y[4];
} taps;

static double share_of(int64_t tap, double fraction)
{
    return tap ? fraction : 1 - fraction;
}

static taps bilinear(double x, double y, int64_t w, int64_t h, int64_t first)
{
    taps t = { 0 };
    double u = x * (double)w - 0.5, v = y * (double)h - 0.5;

    if (!(u >= -1 && u < (double)w && v >= -1 && v < (double)h))
        return t; /* all neighbours are outside, or the location is NaN */
    int64_t left = (int64_t)floor(u), top = (int64_t)floor(v);
    double fu = u - (double)left, fv = v - (double)top;

    for (int64_t dy = 0; dy < 2; dy++)
        for (int64_t dx = 0; dx < 2; dx++) {
            if (left + dx < 0 || left + dx >= w || top + dy < 0 || top + dy >= h)
                continue;
            t.row[t.n] = first + (top + dy) * w + left + dx;
            t.share[t.n] = share_of(dx, fu) * share_of(dy, fv);
            t.by_x[t.n] = (dx ? 1 : -1) * share_of(dy, fv) * (double)w;
            t.by_y[t.n] = (dy ? 1 : -1) * share_of(dx, fu) * (double)h;
            t.n++;
        }
    return t;
}

static int64_t cell(double location, int64_t size, int64_t h)
{
    double at = location * (double)size + 0.5;

    return !(at > 0) ? 0 : at > (double)(h - 1) ? h - 1 : (int64_t)at;
}

static taps nearest(double x, double y, int64_t w, int64_t h, int64_t first)
{
    return (taps){ .n = 1, .row = { first + cell(y, h, h) * w + cell(x, w, h) }, .share = { 1 } };
}

/* Walks the points level by level; level and first (row of its map) follow p. */
typedef struct walk {
    const deform_attr *f;
    int64_t level, left, first;
} walk;

static walk walk_begin(const deform_attr *f)
{
    return (walk){ .f = f, .left = f->points[0] };
}

static taps walk_next(walk *w, const real *ref, const real *off)
{
    const deform_attr *f = w->f;

    while (w->left == 0) {
        w->first += f->h[w->level] * f->w[w->level];
        w->left = f->points[++w->level];
    }
    w->left--;

    double n = (double)f->points[w->level];
    double x = ref[0] + off[0] / n * ref[2] * 0.5, y = ref[1] + off[1] / n * ref[3] * 0.5;

    return (f->discrete ? nearest : bilinear)(x, y, f->w[w->level], f->h[w->level], w->first);
}

typedef struct sizes {
    int64_t s, n, width, heads, d, points;
} sizes;

/* value, ref, off, weight are operands i, i+1, i+2, i+3. */
static sizes sizes_of(const dg_args *a, int i)
{
    const deform_attr *f = a->attr;
    sizes z = { .s = dim(a, i, 1), .n = dim(a, i + 1, 1), .heads = f->heads };

    z.width = dim(a, i, 2);
    z.d = z.width / z.heads;
    z.points = elements(a, i + 3) / (dim(a, i, 0) * z.n * z.heads);
    return z;
}

static int prepare(dg_prepare *p)
{
    p->workspace_bytes = (size_t)(p->threads > 1 ? p->threads : 1) *
                         (size_t)p->t[DG_DEFORM_ATTENTION_VALUE].shape.d[2] * sizeof(double);
    return 0;
}

static void deform_queries(const dg_args *a, int64_t begin, int64_t end, int thread)
{
    sizes z = sizes_of(a, DG_DEFORM_ATTENTION_VALUE);
    double *sum = (double *)a->workspace + thread * z.width;

    for (int64_t q = begin; q < end; q++) { /* q = b*N + n */
        memset(sum, 0, (size_t)z.width * sizeof(double));
        for (int64_t head = 0; head < z.heads; head++) {
            const real *value =
                in(a, DG_DEFORM_ATTENTION_VALUE) + q / z.n * z.s * z.width + head * z.d;
            const real *off = in(a, DG_DEFORM_ATTENTION_OFF) + (q * z.heads + head) * z.points * 2;
            const real *weight =
                in(a, DG_DEFORM_ATTENTION_WEIGHT) + (q * z.heads + head) * z.points;
            walk w = walk_begin(a->attr);

            for (int64_t p = 0; p < z.points; p++) {
                taps t = walk_next(&w, in(a, DG_DEFORM_ATTENTION_REF) + q * 4, off + p * 2);

                for (int k = 0; k < t.n; k++)
                    for (int64_t i = 0; i < z.d; i++)
                        sum[head * z.d + i] +=
                            weight[p] * t.share[k] * value[t.row[k] * z.width + i];
            }
        }
        for (int64_t i = 0; i < z.width; i++)
            out(a, DG_DEFORM_ATTENTION_Y)[q * z.width + i] = (real)sum[i];
    }
}

static int deform_attention(const dg_args *a)
{
    parallel(a, dim(a, DG_DEFORM_ATTENTION_REF, 0) * dim(a, DG_DEFORM_ATTENTION_REF, 1),
             deform_queries);
    return 0;
}

/* ---- gradient: dy value ref off weight -> dvalue? dref? doff? dweight? ----------------------- */

/* Gradients of queries begin..end-1: dref, doff, dweight. */
static void grad_queries(const dg_args *a, int64_t begin, int64_t end, int thread)
{
    const deform_attr *f = a->attr;
    sizes z = sizes_of(a, DG_DEFORM_ATTENTION_GRAD_VALUE);

    (void)thread;
    for (int64_t q = begin; q < end; q++) {
        const real *ref = in(a, DG_DEFORM_ATTENTION_GRAD_REF) + q * 4;
        double dref[4] = { 0 };

        for (int64_t head = 0; head < z.heads; head++) {
            const real *dy = in(a, DG_DEFORM_ATTENTION_GRAD_DY) + q * z.width + head * z.d;
            const real *value =
                in(a, DG_DEFORM_ATTENTION_GRAD_VALUE) + q / z.n * z.s * z.width + head * z.d;
            int64_t first = (q * z.heads + head) * z.points;
            walk w = walk_begin(f);

            for (int64_t at = first; at < first + z.points; at++) {
                const real *off = in(a, DG_DEFORM_ATTENTION_GRAD_OFF) + at * 2;
                taps t = walk_next(&w, ref, off);
                double n = (double)f->points[w.level], sample = 0;
                double lx = 0, ly = 0; /* d loss / d location */

                for (int k = 0; k < t.n; k++) {
                    double dot = 0; /* dy . value of this tap */

                    for (int64_t i = 0; i < z.d; i++)
                        dot += (double)dy[i] * value[t.row[k] * z.width + i];
                    sample += dot * t.share[k];
                    lx += in(a, DG_DEFORM_ATTENTION_GRAD_WEIGHT)[at] * dot * t.by_x[k];
                    ly += in(a, DG_DEFORM_ATTENTION_GRAD_WEIGHT)[at] * dot * t.by_y[k];
                }
                dref[0] += lx;
                dref[1] += ly;
                dref[2] += lx * off[0] / n * 0.5;
                dref[3] += ly * off[1] / n * 0.5;
                if (has(a, DG_DEFORM_ATTENTION_GRAD_DOFF)) {
                    out(a, DG_DEFORM_ATTENTION_GRAD_DOFF)[at * 2] = (real)(lx * ref[2] / n * 0.5);
                    out(a, DG_DEFORM_ATTENTION_GRAD_DOFF)[at * 2 + 1] =
                        (real)(ly * ref[3] / n * 0.5);
                }
                if (has(a, DG_DEFORM_ATTENTION_GRAD_DWEIGHT))
                    out(a, DG_DEFORM_ATTENTION_GRAD_DWEIGHT)[at] = (real)sample;
            }
        }
        for (int i = 0; i < 4 && has(a, DG_DEFORM_ATTENTION_GRAD_DREF); i++)
            out(a, DG_DEFORM_ATTENTION_GRAD_DREF)[q * 4 + i] = (real)dref[i];
    }
}

/* dvalue for one head of one image: sums over all queries in ascending order. */
static void grad_values(const dg_args *a, int64_t begin, int64_t end, int thread)
{
    sizes z = sizes_of(a, DG_DEFORM_ATTENTION_GRAD_VALUE);

    (void)thread;
    for (int64_t owner = begin; owner < end; owner++) { /* owner = b*heads + head */
        int64_t b = owner / z.heads, head = owner % z.heads;
        real *dvalue = out(a, DG_DEFORM_ATTENTION_GRAD_DVALUE) + b * z.s * z.width + head * z.d;

        for (int64_t s = 0; s < z.s; s++)
            memset(dvalue + s * z.width, 0, (size_t)z.d * sizeof(real));
        for (int64_t q = b * z.n; q < (b + 1) * z.n; q++) {
            const real *dy = in(a, DG_DEFORM_ATTENTION_GRAD_DY) + q * z.width + head * z.d;
            walk w = walk_begin(a->attr);

            int64_t first = (q * z.heads + head) * z.points;

            for (int64_t at = first; at < first + z.points; at++) {
                taps t = walk_next(&w, in(a, DG_DEFORM_ATTENTION_GRAD_REF) + q * 4,
                                   in(a, DG_DEFORM_ATTENTION_GRAD_OFF) + at * 2);

                for (int k = 0; k < t.n; k++)
                    for (int64_t i = 0; i < z.d; i++)
                        dvalue[t.row[k] * z.width + i] +=
                            (real)(in(a, DG_DEFORM_ATTENTION_GRAD_WEIGHT)[at] * t.share[k] * dy[i]);
            }
        }
    }
}

static int deform_attention_grad(const dg_args *a)
{
    const deform_attr *f = a->attr;

    if (has(a, DG_DEFORM_ATTENTION_GRAD_DREF) || has(a, DG_DEFORM_ATTENTION_GRAD_DOFF) ||
        has(a, DG_DEFORM_ATTENTION_GRAD_DWEIGHT))
        parallel(a,
                 dim(a, DG_DEFORM_ATTENTION_GRAD_REF, 0) * dim(a, DG_DEFORM_ATTENTION_GRAD_REF, 1),
                 grad_queries);
    if (has(a, DG_DEFORM_ATTENTION_GRAD_DVALUE))
        parallel(a, dim(a, DG_DEFORM_ATTENTION_GRAD_REF, 0) * f->heads, grad_values);
    return 0;
}

DG_REF(deform_attention, prepare, deform_attention);
DG_REF(deform_attention_grad, NULL, deform_attention_grad);
