/* mask.c: masks of queries at points; formulas as in kernels/ref/mask.c. Forward, a task is a pair;
 * backward, some channels of an image, so that no two tasks add to the same sum. */
#include "kernels/host/simd/simd.h"

enum { TAPS = 4, CHANNELS = 64 /* of a task */ };

typedef struct taps {
    int64_t pixel[TAPS];
    float share[TAPS];
} taps;

static inline float inside(float at, int64_t size)
{
    return !(at > 0) ? 0 : at > (float)(size - 1) ? (float)(size - 1) : at;
}

static inline taps taps_of(const float *point, int64_t h, int64_t w)
{
    float u = inside(point[0] * (float)w - 0.5f, w), v = inside(point[1] * (float)h - 0.5f, h);
    int64_t left = (int64_t)u, top = (int64_t)v, right = left + (left < w - 1),
            below = top + (top < h - 1);
    float fu = u - (float)left, fv = v - (float)top;

    return (taps){
        { top * w + left, top * w + right, below * w + left, below * w + right },
        { (1 - fv) * (1 - fu), (1 - fv) * fu, fv * (1 - fu), fv * fu },
    };
}

typedef struct task {
    const dg_args *a;
    int64_t h, w, d, q, p, n;
    const void *map, *vectors;
    const float *points;
    const int32_t *query;
    bool low;
    int64_t groups; /* of channels */
    float *sums;    /* per thread: dmap, then dq, of a group of channels of an image */
} task;

/* map, q, points, query are operands i, i+1, i+2, i+3. */
static task task_of(const dg_args *a, int i)
{
    const int64_t *map = a->t[i].shape.d;
    task t = { .a = a, .h = map[1], .w = map[2], .d = map[3] };

    t.q = a->t[i + 1].shape.d[1];
    t.p = a->t[i + 2].shape.d[1];
    t.n = a->t[i + 2].shape.d[2];
    t.map = a->t[i].data;
    t.vectors = a->t[i + 1].data;
    t.points = a->t[i + 2].data;
    t.query = a->t[i + 3].data;
    t.low = is_low(a, i);
    t.groups = (t.d + CHANNELS - 1) / CHANNELS;
    t.sums = a->workspace;
    return t;
}

ALWAYS float value_at(const task *t, const taps *p, int64_t map, int64_t q, bool low)
{
    vf sum = vf_set(0);

    for (int64_t k = 0; k < t->d; k += W) {
        int64_t w = min64(t->d - k, W);
        vf v = vf_set(0);

        for (int i = 0; i < TAPS; i++)
            v = vf_fma(vf_set(p->share[i]), ld_n(t->map, map + p->pixel[i] * t->d + k, w, low), v);
        sum = vf_fma(v, ld_n(t->vectors, q + k, w, low), sum);
    }
    return vf_sum(sum);
}

static void sample_body(void *ctx, int64_t begin, int64_t end, int thread)
{
    const task *t = ctx;
    float *y = t->a->t[DG_MASK_SAMPLE_Y].data;

    (void)thread;
    for (int64_t pair = begin; pair < end; pair++) {
        int64_t b = pair / t->p, query = t->query[pair], map = b * t->h * t->w * t->d;

        if (query < 0 || query >= t->q) {
            memset(y + pair * t->n, 0, (size_t)t->n * sizeof *y);
            continue;
        }
        for (int64_t n = pair * t->n; n < (pair + 1) * t->n; n++) {
            taps p = taps_of(t->points + 2 * n, t->h, t->w);
            int64_t q = (b * t->q + query) * t->d;

            y[n] = t->low ? value_at(t, &p, map, q, true) : value_at(t, &p, map, q, false);
        }
    }
}

static int mask_sample(const dg_args *a)
{
    task t = task_of(a, DG_MASK_SAMPLE_MAP);

    parallel(a, elements(a, DG_MASK_SAMPLE_QUERY), TAPS * t.n * t.d, sample_body, &t);
    return 0;
}

/* ---- gradient: dy map q points query -> dmap? dq? -------------------------------------------- */

/* Rows of sums: CHANNELS floats for each pixel, then for each query. */
static int64_t sums_of(const dg_shape *map, const dg_shape *q)
{
    return (map->d[1] * map->d[2] + q->d[1]) * CHANNELS;
}

static int prepare_grad(dg_prepare *p)
{
    p->workspace_bytes =
        (size_t)(max64(p->threads, 1) * sums_of(&p->t[DG_MASK_SAMPLE_GRAD_MAP].shape,
                                                &p->t[DG_MASK_SAMPLE_GRAD_Q].shape)) *
        sizeof(float);
    return 0;
}

/* A point of a pair, with its gradient: channels k..k+n-1 at `map` and `q` of the operands. */
ALWAYS void grad_point(const task *t, const taps *p, float dy, int64_t map, int64_t q, int64_t n,
                       float *dmap, float *dq, bool low)
{
    for (int64_t k = 0; k < n; k += W) {
        int64_t w = min64(n - k, W);
        vf v = vf_set(0), vector = ld_n(t->vectors, q + k, w, low) * dy;

        for (int i = 0; i < TAPS; i++) {
            float *to = dmap + p->pixel[i] * CHANNELS + k;
            vf share = vf_set(p->share[i]);

            v = vf_fma(share, ld_n(t->map, map + p->pixel[i] * t->d + k, w, low), v);
            vf_store(to, vf_fma(share, vector, vf_load(to)));
        }
        vf_store(dq + k, vf_fma(vf_set(dy), v, vf_load(dq + k)));
    }
}

/* n rows of CHANNELS floats -> rows of D elements from `at` on. */
static void unpack(const task *t, void *to, int64_t at, int64_t n, int64_t channels,
                   const float *from)
{
    for (int64_t r = 0; r < n && to; r++)
        for (int64_t k = 0; k < channels; k += W)
            st_n(to, at + r * t->d + k, vf_load(from + r * CHANNELS + k), min64(channels - k, W),
                 t->low);
}

static void grad_body(void *ctx, int64_t begin, int64_t end, int thread)
{
    const task *t = ctx;
    const float *dy = t->a->t[DG_MASK_SAMPLE_GRAD_DY].data;
    int64_t area = t->h * t->w;
    float *dmap = t->sums + thread * (area + t->q) * CHANNELS, *dq = dmap + area * CHANNELS;

    for (int64_t owner = begin; owner < end; owner++) { /* owner = b*groups + group */
        int64_t b = owner / t->groups, first = owner % t->groups * CHANNELS,
                channels = min64(t->d - first, CHANNELS);

        memset(dmap, 0, (size_t)((area + t->q) * CHANNELS) * sizeof *dmap);
        for (int64_t pair = b * t->p; pair < (b + 1) * t->p; pair++) {
            int64_t query = t->query[pair], q = (b * t->q + query) * t->d + first;

            for (int64_t n = pair * t->n; query >= 0 && query < t->q && n < (pair + 1) * t->n;
                 n++) {
                taps p = taps_of(t->points + 2 * n, t->h, t->w);

                if (t->low)
                    grad_point(t, &p, dy[n], b * area * t->d + first, q, channels, dmap,
                               dq + query * CHANNELS, true);
                else
                    grad_point(t, &p, dy[n], b * area * t->d + first, q, channels, dmap,
                               dq + query * CHANNELS, false);
            }
        }
        unpack(t, t->a->t[DG_MASK_SAMPLE_GRAD_DMAP].data, b * area * t->d + first, area, channels,
               dmap);
        unpack(t, t->a->t[DG_MASK_SAMPLE_GRAD_DQ].data, b * t->q * t->d + first, t->q, channels,
               dq);
    }
}

static int mask_sample_grad(const dg_args *a)
{
    task t = task_of(a, DG_MASK_SAMPLE_GRAD_MAP);

    parallel(a, a->t[DG_MASK_SAMPLE_GRAD_MAP].shape.d[0] * t.groups, t.p * t.n * TAPS * CHANNELS,
             grad_body, &t);
    return 0;
}

DG_SIMD(mask_sample, NULL, mask_sample);
DG_SIMD(mask_sample_grad, prepare_grad, mask_sample_grad);
