/* norm.c: layer normalisation (Ba, Kiros & Hinton 2016) and softmax over the last axis; formulas as
 * in kernels/ref/norm.c and attention.c. A row stays in L1 cache while its statistics are taken.
 * The sums of ds and db use fixed blocks of rows, so results do not depend on the number of
 * threads. */
#include "kernels/host/simd/vmath.h"

enum { BLOCK_ROWS = 64 };

/* ---- layer norm ------------------------------------------------------------------------------ */

/* x s b -> y mean rstd */
ALWAYS void norm_row(const dg_args *a, int64_t r, int64_t d, bool low, bool whole)
{
    const norm_attr *f = a->attr;
    const void *x = a->t[DG_LAYER_NORM_X].data;
    const float *s = a->t[DG_LAYER_NORM_S].data, *b = a->t[DG_LAYER_NORM_B].data;
    vf sum = { 0 }, square = { 0 };
    float mean, rstd;

    for (int64_t k = 0; k < d; k += W)
        sum += ld_k(x, r * d + k, d - k < W ? d - k : W, low, whole);
    mean = vf_sum(sum) / (float)d;
    for (int64_t k = 0; k < d; k += W) {
        int64_t w = d - k < W ? d - k : W;
        vf c = ld_k(x, r * d + k, w, low, whole) - mean;

        if (!whole)
            c = vf_keep(c, w, vf_set(0)); /* lanes past the end hold -mean */
        square = vf_fma(c, c, square);
    }
    rstd = (float)(1 / sqrt((double)vf_sum(square) / (double)d + f->eps));
    for (int64_t k = 0; k < d; k += W) {
        int64_t w = d - k < W ? d - k : W;
        vf h = (ld_k(x, r * d + k, w, low, whole) - mean) * rstd;

        st_k(a->t[DG_LAYER_NORM_Y].data, r * d + k,
             vf_fma(h, ld_k(s, k, w, false, whole), ld_k(b, k, w, false, whole)), w, low, whole);
    }
    ((float *)a->t[DG_LAYER_NORM_MEAN].data)[r] = mean;
    ((float *)a->t[DG_LAYER_NORM_RSTD].data)[r] = rstd;
}

static void norm_body(void *ctx, int64_t begin, int64_t end, int thread)
{
    const dg_args *a = ctx;
    int64_t d = width(a, DG_LAYER_NORM_X);
    bool low = is_low(a, DG_LAYER_NORM_X);

    (void)thread;
    for (int64_t r = begin; r < end; r++)
        if (d % W)
            norm_row(a, r, d, low, false);
        else if (low)
            norm_row(a, r, d, true, true);
        else
            norm_row(a, r, d, false, true);
}

static int layer_norm(const dg_args *a)
{
    dg_args copy = *a;

    parallel(a, rows(a, DG_LAYER_NORM_X), width(a, DG_LAYER_NORM_X), norm_body, &copy);
    return 0;
}

/* dy x s mean rstd -> dx ds? db? */
typedef struct grad_call {
    const dg_args *a;
    int64_t n, d;
    float *part; /* [blocks][2][D], sums of dy and of dy h */
} grad_call;

ALWAYS void grad_row(const grad_call *c, int64_t r, float *sum, bool low, bool whole)
{
    const dg_tensor *t = c->a->t;
    const float *s = t[2].data;
    int64_t d = c->d;
    float mean = ((const float *)t[3].data)[r], rstd = ((const float *)t[4].data)[r], mean_g,
          mean_gh;
    vf all_g = { 0 }, all_gh = { 0 };

    for (int64_t k = 0; k < d; k += W) {
        int64_t w = d - k < W ? d - k : W;
        vf dy = ld_k(t[0].data, r * d + k, w, low, whole);
        vf h = (ld_k(t[1].data, r * d + k, w, low, whole) - mean) * rstd,
           g = dy * ld_k(s, k, w, false, whole);

        all_g += g; /* lanes past the end are 0, as in dy */
        all_gh = vf_fma(g, h, all_gh);
        st_k(sum, k, ld_k(sum, k, w, false, whole) + dy, w, false, whole);
        st_k(sum + d, k, vf_fma(dy, h, ld_k(sum + d, k, w, false, whole)), w, false, whole);
    }
    mean_g = vf_sum(all_g) / (float)d;
    mean_gh = vf_sum(all_gh) / (float)d;
    for (int64_t k = 0; k < d; k += W) {
        int64_t w = d - k < W ? d - k : W;
        vf h = (ld_k(t[1].data, r * d + k, w, low, whole) - mean) * rstd;
        vf g = ld_k(t[0].data, r * d + k, w, low, whole) * ld_k(s, k, w, false, whole);

        st_k(t[5].data, r * d + k, rstd * (g - mean_g - h * mean_gh), w, low, whole);
    }
}

static void grad_body(void *ctx, int64_t begin, int64_t end, int thread)
{
    const grad_call *c = ctx;
    bool low = is_low(c->a, DG_LAYER_NORM_GRAD_X);

    (void)thread;
    for (int64_t block = begin; block < end; block++) {
        float *sum = c->part + block * 2 * c->d;
        int64_t last = min64((block + 1) * BLOCK_ROWS, c->n);

        memset(sum, 0, (size_t)(2 * c->d) * sizeof(float));
        for (int64_t r = block * BLOCK_ROWS; r < last; r++)
            if (c->d % W)
                grad_row(c, r, sum, low, false);
            else if (low)
                grad_row(c, r, sum, true, true);
            else
                grad_row(c, r, sum, false, true);
    }
}

static int64_t blocks_of(int64_t n)
{
    return (n + BLOCK_ROWS - 1) / BLOCK_ROWS;
}

static int prepare_grad(dg_prepare *p)
{
    int64_t d = width_of(&p->t[DG_LAYER_NORM_GRAD_X].shape),
            n = dg_shape_elements(p->t[DG_LAYER_NORM_GRAD_X].shape) / d;

    p->workspace_bytes = (size_t)(blocks_of(n) * 2 * d) * sizeof(float);
    return 0;
}

static int layer_norm_grad(const dg_args *a)
{
    grad_call c = { a, rows(a, DG_LAYER_NORM_GRAD_X), width(a, DG_LAYER_NORM_GRAD_X),
                    a->workspace };
    float *ds = a->t[DG_LAYER_NORM_GRAD_DS].data, *db = a->t[DG_LAYER_NORM_GRAD_DB].data;

    parallel(a, blocks_of(c.n), BLOCK_ROWS * c.d, grad_body, &c);
    for (int64_t k = 0; k < c.d; k++) {
        double plain = 0, times = 0;

        for (int64_t i = 0; i < blocks_of(c.n); i++) {
            plain += (double)c.part[i * 2 * c.d + k];
            times += (double)c.part[i * 2 * c.d + c.d + k];
        }
        if (ds)
            ds[k] = (float)times;
        if (db)
            db[k] = (float)plain;
    }
    return 0;
}

/* ---- softmax --------------------------------------------------------------------------------- */

/* Loads w elements; lanes past the end are -inf, which adds nothing. */
ALWAYS vf ld_row(const void *x, int64_t at, int64_t w, bool low)
{
    return w == W ? ld(x, at, low) : vf_keep(ld_n(x, at, w, low), w, vf_set(-INFINITY));
}

ALWAYS void softmax_row(const dg_args *a, int64_t r, int64_t d, bool low)
{
    const void *x = a->t[DG_SOFTMAX_X].data;
    void *y = a->t[DG_SOFTMAX_Y].data; /* may be x */
    vf most = vf_set(-INFINITY), sum = { 0 };
    float top, each;

    for (int64_t k = 0; k < d; k += W)
        most = vf_max(most, ld_row(x, r * d + k, min64(d - k, W), low));
    top = vf_top(most);
    if (d <= W) { /* one vector: the point weights of deformable attention */
        vf e = vf_exp(ld_row(x, r * d, d, low) - top);

        st_n(y, r * d, e * (1.0f / vf_sum(e)), d, low);
        return;
    }
    for (int64_t k = 0; k < d; k += W)
        sum += vf_exp(ld_row(x, r * d + k, min64(d - k, W), low) - top);
    each = 1.0f / vf_sum(sum);
    for (int64_t k = 0; k < d; k += W) {
        int64_t w = min64(d - k, W);

        st_n(y, r * d + k, vf_exp(ld_row(x, r * d + k, w, low) - top) * each, w, low);
    }
}

static void softmax_body(void *ctx, int64_t begin, int64_t end, int thread)
{
    const dg_args *a = ctx;

    (void)thread;
    for (int64_t r = begin; r < end; r++)
        if (is_low(a, DG_SOFTMAX_X))
            softmax_row(a, r, width(a, DG_SOFTMAX_X), true);
        else
            softmax_row(a, r, width(a, DG_SOFTMAX_X), false);
}

static int softmax(const dg_args *a)
{
    dg_args copy = *a;

    parallel(a, rows(a, DG_SOFTMAX_X), 4 * max64(width(a, DG_SOFTMAX_X), W), softmax_body, &copy);
    return 0;
}

/* dy y -> dx = y (dy - sum dy y) */
static void softmax_grad_body(void *ctx, int64_t begin, int64_t end, int thread)
{
    const dg_args *a = ctx;
    const void *dy = a->t[DG_SOFTMAX_GRAD_DY].data, *y = a->t[DG_SOFTMAX_GRAD_Y].data;
    int64_t d = width(a, DG_SOFTMAX_GRAD_DY);
    bool low = is_low(a, DG_SOFTMAX_GRAD_DY);

    (void)thread;
    for (int64_t r = begin; r < end; r++) {
        vf sum = { 0 };
        float dot;

        for (int64_t k = 0; k < d; k += W)
            sum = vf_fma(ld_n(dy, r * d + k, min64(d - k, W), low),
                         ld_n(y, r * d + k, min64(d - k, W), low), sum);
        dot = vf_sum(sum);
        for (int64_t k = 0; k < d; k += W) {
            int64_t w = min64(d - k, W);

            st_n(a->t[DG_SOFTMAX_GRAD_DX].data, r * d + k,
                 ld_n(y, r * d + k, w, low) * (ld_n(dy, r * d + k, w, low) - dot), w, low);
        }
    }
}

static int softmax_grad(const dg_args *a)
{
    dg_args copy = *a;

    parallel(a, rows(a, DG_SOFTMAX_GRAD_DY), 2 * max64(width(a, DG_SOFTMAX_GRAD_DY), W),
             softmax_grad_body, &copy);
    return 0;
}

DG_SIMD(layer_norm, NULL, layer_norm);
DG_SIMD(layer_norm_grad, prepare_grad, layer_norm_grad);
DG_SIMD(softmax, NULL, softmax);
DG_SIMD(softmax_grad, NULL, softmax_grad);
