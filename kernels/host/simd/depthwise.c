/* depthwise.c: convolution channel by channel, vectors along the channels; formulas as in
 * kernels/ref/depthwise.c. The kernel [C,1,k,k] is first turned to [k,k,C]. */
#include "kernels/host/simd/simd.h"

typedef struct plane {
    const dg_args *a;
    int64_t h, w, c, k, pad;
    float *taps; /* [k,k,C]; of the gradient: [parts,k,k,C] */
    int64_t parts;
} plane;

static plane plane_of(const dg_args *a, int x, int64_t k)
{
    const int64_t *d = a->t[x].shape.d;

    return (plane){
        .a = a, .h = d[1], .w = d[2], .c = d[3], .k = k, .pad = (k - 1) / 2, .taps = a->workspace
    };
}

/* The taps from *begin to *end - 1 that read inside 0..n-1 from position i. */
static inline void taps_inside(const plane *g, int64_t i, int64_t n, int64_t *begin, int64_t *end)
{
    *begin = max64(0, g->pad - i);
    *end = min64(g->k, n + g->pad - i);
}

ALWAYS void conv_pixel(const plane *g, int64_t n, bool low)
{
    int64_t x = n % g->w, y = n / g->w % g->h, x0, x1, y0, y1;
    const void *from = g->a->t[DG_DEPTHWISE_CONV_X].data;
    const float *bias = g->a->t[DG_DEPTHWISE_CONV_B].data;

    taps_inside(g, x, g->w, &x0, &x1);
    taps_inside(g, y, g->h, &y0, &y1);
    for (int64_t c = 0; c < g->c; c += W) {
        int64_t w = min64(g->c - c, W);
        vf sum = bias ? vf_load_n(bias + c, w) : vf_set(0);

        for (int64_t i = y0; i < y1; i++)
            for (int64_t j = x0; j < x1; j++)
                sum = vf_fma(ld_n(from, (n + (i - g->pad) * g->w + j - g->pad) * g->c + c, w, low),
                             vf_load_n(g->taps + (i * g->k + j) * g->c + c, w), sum);
        st_n(g->a->t[DG_DEPTHWISE_CONV_Y].data, n * g->c + c, sum, w, low);
    }
}

static void conv_body(void *ctx, int64_t begin, int64_t end, int thread)
{
    const plane *g = ctx;

    (void)thread;
    for (int64_t n = begin; n < end; n++)
        if (is_low(g->a, DG_DEPTHWISE_CONV_X))
            conv_pixel(g, n, true);
        else
            conv_pixel(g, n, false);
}

static int prepare(dg_prepare *p)
{
    p->workspace_bytes = (size_t)dg_shape_elements(p->t[DG_DEPTHWISE_CONV_W].shape) * sizeof(float);
    return 0;
}

static int depthwise_conv(const dg_args *a)
{
    const depthwise_attr *f = a->attr;
    plane g = plane_of(a, DG_DEPTHWISE_CONV_X, a->t[DG_DEPTHWISE_CONV_W].shape.d[2]);
    const float *w = a->t[DG_DEPTHWISE_CONV_W].data;
    int64_t n = g.k * g.k;

    for (int64_t t = 0; t < n; t++)
        for (int64_t c = 0; c < g.c; c++)
            g.taps[t * g.c + c] = w[c * n + (f->flip ? n - 1 - t : t)];
    parallel(a, rows(a, DG_DEPTHWISE_CONV_X), g.c * n, conv_body, &g);
    return 0;
}

/* ---- x dy -> dw ------------------------------------------------------------------------------ */

/* Images are cut into parts of some rows, whatever the number of threads; each has sums of its own,
 * which are added up in order. */
enum { PART = 16, MOST_PARTS = 64 };

static int64_t parts_of(const dg_shape *x)
{
    return min64((x->d[0] * x->d[1] + PART - 1) / PART, MOST_PARTS);
}

ALWAYS void grad_pixel(const plane *g, int64_t n, float *taps, bool low)
{
    int64_t x = n % g->w, y = n / g->w % g->h, x0, x1, y0, y1;
    const void *from = g->a->t[DG_DEPTHWISE_CONV_DW_X].data,
               *dy = g->a->t[DG_DEPTHWISE_CONV_DW_DY].data;

    taps_inside(g, x, g->w, &x0, &x1);
    taps_inside(g, y, g->h, &y0, &y1);
    for (int64_t c = 0; c < g->c; c += W) {
        int64_t w = min64(g->c - c, W);
        vf d = ld_n(dy, n * g->c + c, w, low);

        for (int64_t i = y0; i < y1; i++)
            for (int64_t j = x0; j < x1; j++) {
                float *to = taps + (i * g->k + j) * g->c + c;
                vf v = ld_n(from, (n + (i - g->pad) * g->w + j - g->pad) * g->c + c, w, low);

                vf_store_n(to, vf_fma(d, v, vf_load_n(to, w)), w);
            }
    }
}

static void grad_body(void *ctx, int64_t begin, int64_t end, int thread)
{
    const plane *g = ctx;
    int64_t all = g->a->t[DG_DEPTHWISE_CONV_DW_X].shape.d[0] * g->h, n = g->k * g->k * g->c;

    (void)thread;
    for (int64_t part = begin; part < end; part++) {
        float *taps = g->taps + part * n;

        memset(taps, 0, (size_t)n * sizeof *taps);
        for (int64_t i = all * part / g->parts * g->w; i < all * (part + 1) / g->parts * g->w; i++)
            if (is_low(g->a, DG_DEPTHWISE_CONV_DW_X))
                grad_pixel(g, i, taps, true);
            else
                grad_pixel(g, i, taps, false);
    }
}

static int prepare_dw(dg_prepare *p)
{
    p->workspace_bytes = (size_t)(parts_of(&p->t[DG_DEPTHWISE_CONV_DW_X].shape) *
                                  dg_shape_elements(p->t[DG_DEPTHWISE_CONV_DW_DW].shape)) *
                         sizeof(float);
    return 0;
}

static int depthwise_conv_dw(const dg_args *a)
{
    plane g = plane_of(a, DG_DEPTHWISE_CONV_DW_X, a->t[DG_DEPTHWISE_CONV_DW_DW].shape.d[2]);
    int64_t n = g.k * g.k;
    float *dw = a->t[DG_DEPTHWISE_CONV_DW_DW].data;

    g.parts = parts_of(&a->t[DG_DEPTHWISE_CONV_DW_X].shape);
    parallel(a, g.parts, elements(a, DG_DEPTHWISE_CONV_DW_X) / g.parts * n, grad_body, &g);
    for (int64_t t = 0; t < n; t++)
        for (int64_t c = 0; c < g.c; c++) {
            float sum = 0;

            for (int64_t part = 0; part < g.parts; part++)
                sum += g.taps[(part * n + t) * g.c + c];
            dw[c * n + t] = sum;
        }
    return 0;
}

DG_SIMD(depthwise_conv, prepare, depthwise_conv);
DG_SIMD(depthwise_conv_dw, prepare_dw, depthwise_conv_dw);
