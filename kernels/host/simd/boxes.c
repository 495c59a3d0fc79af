/* boxes.c: boxes from deltas, and boxes as vectors; formulas as in kernels/ref/boxes.c. Sines are
 * taken of turns, v / t: their fraction is exact, so no bits are lost to 2 pi; a cosine is the sine
 * a quarter of a turn later. */
#include "kernels/host/simd/vmath.h"

typedef struct call {
    const dg_args *a;
    int64_t n;
    const float *rate, *shift; /* [n] of each value: 1/t, and 0 or a quarter */
    int64_t each;              /* coordinates of a point */
} call;

/* ---- box_decode ------------------------------------------------------------------------------ */

/* W boxes as four vectors; the first n are read or written. */
ALWAYS void load_boxes(const float *p, int64_t n, vf v[4])
{
    float lane[4][W] = { { 0 } };

    for (int64_t i = 0; i < n; i++)
        for (int k = 0; k < 4; k++)
            lane[k][i] = p[4 * i + k];
    for (int k = 0; k < 4; k++)
        v[k] = vf_load(lane[k]);
}

ALWAYS void store_boxes(float *p, int64_t n, const vf v[4])
{
    float lane[4][W];

    for (int k = 0; k < 4; k++)
        vf_store(lane[k], v[k]);
    for (int64_t i = 0; i < n; i++)
        for (int k = 0; k < 4; k++)
            p[4 * i + k] = lane[k][i];
}

static void decode_body(void *ctx, int64_t begin, int64_t end, int thread)
{
    const dg_args *a = ((const call *)ctx)->a;
    const float *deltas = a->t[DG_BOX_DECODE_D].data, *boxes = a->t[DG_BOX_DECODE_BOX].data;
    float *to = a->t[DG_BOX_DECODE_Y].data;

    (void)thread;
    for (int64_t i = begin; i < end; i += W) {
        int64_t n = min64(end - i, W);
        vf d[4], box[4], y[4];

        load_boxes(deltas + 4 * i, n, d);
        load_boxes(boxes + 4 * i, n, box);
        for (int k = 0; k < 2; k++) {
            y[k] = d[k] * box[k + 2] + box[k]; /* rounded twice, as PyTorch does */
            y[k + 2] = vf_exp(d[k + 2]) * box[k + 2];
        }
        store_boxes(to + 4 * i, n, y);
    }
}

static void decode_grad_body(void *ctx, int64_t begin, int64_t end, int thread)
{
    const dg_args *a = ((const call *)ctx)->a;
    float *dd = a->t[DG_BOX_DECODE_GRAD_DD].data, *dbox = a->t[DG_BOX_DECODE_GRAD_DBOX].data;

    (void)thread;
    for (int64_t i = begin; i < end; i += W) {
        int64_t n = min64(end - i, W);
        vf dy[4], d[4], box[4], by_d[4], by_box[4];

        load_boxes((const float *)a->t[DG_BOX_DECODE_GRAD_DY].data + 4 * i, n, dy);
        load_boxes((const float *)a->t[DG_BOX_DECODE_GRAD_D].data + 4 * i, n, d);
        load_boxes((const float *)a->t[DG_BOX_DECODE_GRAD_BOX].data + 4 * i, n, box);
        for (int k = 0; k < 2; k++) {
            vf grown = vf_exp(d[k + 2]);

            by_d[k] = dy[k] * box[k + 2];
            by_d[k + 2] = dy[k + 2] * grown * box[k + 2];
            by_box[k] = dy[k];
            by_box[k + 2] = vf_fma(dy[k], d[k], dy[k + 2] * grown);
        }
        if (dd)
            store_boxes(dd + 4 * i, n, by_d);
        if (dbox)
            store_boxes(dbox + 4 * i, n, by_box);
    }
}

static int run_boxes(const dg_args *a, int64_t n, dg_range_fn *body)
{
    call c = { .a = a };

    parallel(a, n, 8, body, &c);
    return 0;
}

static int box_decode(const dg_args *a)
{
    return run_boxes(a, elements(a, DG_BOX_DECODE_Y) / 4, decode_body);
}

static int box_decode_grad(const dg_args *a)
{
    return run_boxes(a, elements(a, DG_BOX_DECODE_GRAD_DY) / 4, decode_grad_body);
}

/* ---- sine_embed ------------------------------------------------------------------------------ */

/* sin(2 pi x) for -1 <= x <= 1: x is folded to a quarter of a turn; then x P(x^2). */
ALWAYS vf sine_of_turns(vf x)
{
    vf z, p = vf_set(39.75982709f);

    x = x - vf_round(x);
    x = vf_pick(vf_lt(vf_set(0.25f), x), 0.5f - x, x);
    x = vf_pick(vf_lt(x, vf_set(-0.25f)), -0.5f - x, x);
    z = x * x;
    p = POLY_(z, p, -76.58117264f);
    p = POLY_(z, p, 81.60247637f);
    p = POLY_(z, p, -41.34168061f);
    p = POLY_(z, p, 6.28318528f);
    return x * p;
}

/* The place in x of a block's coordinate; a point has `each`. */
ALWAYS int64_t coordinate(int64_t block, int64_t each)
{
    int64_t k = block % each;

    return block - k + (k < 2 ? 1 - k : k);
}

static void sine_body(void *ctx, int64_t begin, int64_t end, int thread)
{
    const call *c = ctx;
    const float *x = c->a->t[DG_SINE_EMBED_X].data;
    float *y = c->a->t[DG_SINE_EMBED_Y].data;

    (void)thread;
    for (int64_t block = begin; block < end; block++) {
        float v = x[coordinate(block, c->each)];

        for (int64_t k = 0; k < c->n; k += W) {
            int64_t n = min64(c->n - k, W);
            vf turns = v * vf_load_n(c->rate + k, n);

            turns = turns - vf_round(turns) + vf_load_n(c->shift + k, n);
            vf_store_n(y + block * c->n + k, sine_of_turns(turns), n);
        }
    }
}

static void sine_grad_body(void *ctx, int64_t begin, int64_t end, int thread)
{
    const call *c = ctx;

    (void)thread;
    for (int64_t block = begin; block < end; block++) {
        const float *dy = (const float *)c->a->t[DG_SINE_EMBED_GRAD_DY].data + block * c->n,
                    *y = (const float *)c->a->t[DG_SINE_EMBED_GRAD_Y].data + block * c->n;
        float *dx = c->a->t[DG_SINE_EMBED_GRAD_DX].data, sum[2] = { 0, 0 };

        for (int64_t k = 0; k < c->n; k += 2)
            sum[k / 2 % 2] += c->rate[k] * (dy[k] * y[k + 1] - dy[k + 1] * y[k]);
        dx[coordinate(block, c->each)] = 6.283185307f * (sum[0] + sum[1]);
    }
}

static int run_sines(const dg_args *a, int points, dg_range_fn *body)
{
    const sine_attr *f = a->attr;
    const dg_shape *s = &a->t[points].shape;
    int64_t n = f->n;
    float *rate = a->workspace, *shift = rate + n;
    call c = { a, n, rate, shift, s->d[s->rank - 1] };

    for (int64_t k = 0; k < n; k++) {
        rate[k] = (float)pow(f->temperature, -(double)(k - k % 2) / (double)n);
        shift[k] = k % 2 ? 0.25f : 0;
    }
    parallel(a, elements(a, points), 4 * n, body, &c);
    return 0;
}

static int prepare(dg_prepare *p)
{
    p->workspace_bytes = 2 * (size_t)((const sine_attr *)p->attr)->n * sizeof(float);
    return 0;
}

static int sine_embed(const dg_args *a)
{
    return run_sines(a, DG_SINE_EMBED_X, sine_body);
}

static int sine_embed_grad(const dg_args *a)
{
    return run_sines(a, DG_SINE_EMBED_GRAD_DX, sine_grad_body);
}

DG_SIMD(box_decode, NULL, box_decode);
DG_SIMD(box_decode_grad, NULL, box_decode_grad);
DG_SIMD(sine_embed, prepare, sine_embed);
DG_SIMD(sine_embed_grad, prepare, sine_embed_grad);
