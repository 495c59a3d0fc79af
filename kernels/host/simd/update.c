/* update.c: updates of whole parameter spaces; formulas as in kernels/ref/update.c. Memory-bound:
 * AdamW with its moving average reads and writes 36 bytes per element in one pass. */
#include <float.h>

#include "kernels/host/simd/simd.h"

enum { CHUNK = 1 << 14 };

static int64_t chunks_of(int64_t n)
{
    return (n + CHUNK - 1) / CHUNK;
}

/* ---- accumulate: g:u x ----------------------------------------------------------------------- */

static void accumulate_body(void *ctx, int64_t begin, int64_t end, int thread)
{
    const dg_args *a = ctx;
    float *g = a->t[DG_ACCUMULATE_G].data;
    bool low = is_low(a, DG_ACCUMULATE_X);

    (void)thread;
    for (int64_t i = begin; i < end; i += W) {
        int64_t w = min64(end - i, W);
        vf x = ld_n(a->t[DG_ACCUMULATE_X].data, i, w, low);

        vf_store_n(g + i, a->control->accumulated ? vf_load_n(g + i, w) + x : x, w);
    }
}

static int accumulate(const dg_args *a)
{
    dg_args copy = *a;

    parallel(a, elements(a, DG_ACCUMULATE_G), 1, accumulate_body, &copy);
    return 0;
}

/* ---- grad_norm: g -> norm -------------------------------------------------------------------- */

static int prepare_norm(dg_prepare *p)
{
    p->workspace_bytes =
        (size_t)chunks_of(dg_shape_elements(p->t[DG_GRAD_NORM_G].shape)) * sizeof(double);
    return 0;
}

/* Squares of large gradients, as after a batch of black images, do not fit f32. */
static double wide_sum(const float *g, int64_t n)
{
    double sum = 0;

    for (int64_t i = 0; i < n; i++)
        sum += (double)g[i] * (double)g[i];
    return sum;
}

static void norm_body(void *ctx, int64_t begin, int64_t end, int thread)
{
    const dg_args *a = ctx;
    const float *g = a->t[DG_GRAD_NORM_G].data;
    double *part = a->workspace;

    (void)thread;
    for (int64_t c = begin; c < end; c++) {
        int64_t i = c * CHUNK, last = min64(i + CHUNK, elements(a, DG_GRAD_NORM_G));

        part[c] = 0;
        while (i < last) { /* runs of 1024, in f32 */
            vf s[4] = { { 0 }, { 0 }, { 0 }, { 0 } };
            const int64_t first = i, stop = min64(i + 1024, last);

            for (; i + 4 * W <= stop; i += 4 * W)
                for (int j = 0; j < 4; j++)
                    s[j] = vf_fma(vf_load(g + i + j * W), vf_load(g + i + j * W), s[j]);
            for (; i < stop; i += W) {
                vf x = vf_load_n(g + i, min64(stop - i, W));

                s[0] = vf_fma(x, x, s[0]);
            }
            const float sum = vf_sum((s[0] + s[1]) + (s[2] + s[3]));

            part[c] += sum <= FLT_MAX ? (double)sum : wide_sum(g + first, stop - first);
            i = stop;
        }
    }
}

static int grad_norm(const dg_args *a)
{
    dg_args copy = *a;
    double total = 0;

    parallel(a, chunks_of(elements(a, DG_GRAD_NORM_G)), CHUNK, norm_body, &copy);
    for (int64_t c = 0; c < chunks_of(elements(a, DG_GRAD_NORM_G)); c++)
        total += ((const double *)a->workspace)[c];
    *(float *)a->t[DG_GRAD_NORM_NORM].data = (float)sqrt(total);
    return 0;
}

/* ---- adamw: w:u g m:u v:u e?:u norm? ok ------------------------------------------------------ */

typedef struct adam {
    const dg_args *a;
    /* rest = 1 - beta, root2 = 1/sqrt(bias2); mix = 1 - decay of the moving average */
    float clip, beta1, rest1, beta2, rest2, root2, eps, mix;
    int64_t n; /* end of the last range */
} adam;

/* Updates elements i..i+w-1. decay: factor on the weights; step: factor on the moments'
 * quotient. */
ALWAYS void adam_vector(const adam *k, int64_t i, int64_t w, float decay, float step, bool whole,
                        bool average)
{
    const dg_tensor *t = k->a->t;
    float *weight = t[0].data, *mean = t[2].data, *square = t[3].data, *e = t[4].data;
    vf g = ld_k(t[1].data, i, w, false, whole) * k->clip, x = ld_k(weight, i, w, false, whole);
    vf m = vf_fma(vf_set(k->beta1), ld_k(mean, i, w, false, whole), k->rest1 * g);
    vf v = vf_fma(vf_set(k->beta2), ld_k(square, i, w, false, whole), k->rest2 * g * g);

    x = vf_fnma(vf_set(step), m / vf_fma(vf_sqrt(v), vf_set(k->root2), vf_set(k->eps)), x * decay);
    st_k(mean, i, m, w, false, whole);
    st_k(square, i, v, w, false, whole);
    st_k(weight, i, x, w, false, whole);
    if (average) {
        vf old = ld_k(e, i, w, false, whole);

        st_k(e, i, vf_fma(vf_set(k->mix), x - old, old), w, false, whole);
    }
}

ALWAYS void adam_run(const adam *k, int64_t begin, int64_t end, const adamw_range *r, bool average)
{
    double lr = k->a->control->lr[r->group];
    float decay = (float)(1 - lr * r->weight_decay), step = (float)(lr / k->a->control->bias1);
    int64_t i = begin;

    for (; i + W <= end; i += W)
        adam_vector(k, i, W, decay, step, true, average);
    if (i < end)
        adam_vector(k, i, end - i, decay, step, false, average);
}

static void adam_body(void *ctx, int64_t begin, int64_t end, int thread)
{
    const adam *k = ctx;
    const adamw_attr *f = k->a->attr;

    (void)thread;
    for (const adamw_range *r = f->ranges; r < f->ranges + f->n_ranges; r++) {
        int64_t first = max64(begin * CHUNK, r->begin), last = min64(end * CHUNK, r->end);

        if (first >= last)
            continue;
        if (k->a->t[DG_ADAMW_E].data)
            adam_run(k, first, last, r, true);
        else
            adam_run(k, first, last, r, false);
    }
}

static int adamw(const dg_args *a)
{
    const adamw_attr *f = a->attr;
    const dg_control *c = a->control;
    double clip = f->clip > 0 && a->t[DG_ADAMW_NORM].data
                      ? f->clip / ((double)*(const float *)a->t[DG_ADAMW_NORM].data + 1e-6)
                      : 1;
    adam k = { .a = a,
               .clip = (float)(clip < 1 ? clip : 1),
               .beta1 = (float)f->beta1,
               .beta2 = (float)f->beta2,
               .rest1 = (float)(1 - f->beta1),
               .rest2 = (float)(1 - f->beta2),
               .eps = (float)f->eps,
               .root2 = (float)(1 / sqrt(c->bias2)),
               .mix = (float)(1 - c->ema_decay) };

    if (!*(const int32_t *)a->t[DG_ADAMW_OK].data)
        return 0;
    for (int64_t i = 0; i < f->n_ranges; i++)
        k.n = max64(k.n, f->ranges[i].end);
    parallel(a, chunks_of(k.n), CHUNK, adam_body, &k);
    return 0;
}

/* ---- ema: e:u w ok --------------------------------------------------------------------------- */

static void ema_body(void *ctx, int64_t begin, int64_t end, int thread)
{
    const dg_args *a = ctx;
    const ema_attr *f = a->attr;
    float *e = (float *)a->t[DG_EMA_E].data + f->begin, mix = (float)(1 - a->control->ema_decay);
    const float *w = (const float *)a->t[DG_EMA_W].data + f->begin;

    (void)thread;
    for (int64_t i = begin; i < end; i += W) {
        int64_t n = min64(end - i, W);
        vf old = vf_load_n(e + i, n);

        vf_store_n(e + i, vf_fma(vf_set(mix), vf_load_n(w + i, n) - old, old), n);
    }
}

static int ema(const dg_args *a)
{
    const ema_attr *f = a->attr;
    dg_args copy = *a;

    if (*(const int32_t *)a->t[DG_EMA_OK].data)
        parallel(a, (f->end ? f->end : elements(a, DG_EMA_E)) - f->begin, 1, ema_body, &copy);
    return 0;
}

DG_SIMD(accumulate, NULL, accumulate);
DG_SIMD(grad_norm, prepare_norm, grad_norm);
DG_SIMD(adamw, NULL, adamw);
DG_SIMD(ema, NULL, ema);
