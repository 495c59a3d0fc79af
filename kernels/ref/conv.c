/* conv.c: two-dimensional convolution, channels last, zero padding.
 *
 *    y[b,oy,ox,o]  = bias[o] + sum over ky,kx,i of x[b, oy*s-p+ky, ox*s-p+kx, i] * w[o,i,ky,kx]
 *    dx[b,iy,ix,i] = sum over ky,kx,o of dy[b,oy,ox,o] * w[o,i,ky,kx],
 *                    iy = oy*s-p+ky, ix = ox*s-p+kx
 *    conv2d_norm: act((y - mean[o]) * s[o] / sqrt(var[o] + eps) + b[o] + res), y without a bias
 *    dw[o,i,ky,kx] = sum over b,oy,ox of dy[b,oy,ox,o] * x[b, oy*s-p+ky, ox*s-p+kx, i]
 *
 * Each pair (ky,kx) is a matrix product whose rows are pixels; the kernel is first repacked to
 * [ky,kx,from,to], so that the inner loop runs over channels. The bias gradient is a plain sum of
 * dy. */
#include <string.h>

#include "kernels/ref/product.h"

typedef struct geometry {
    int64_t b, h, w, i;      /* x  [B,H,W,I] */
    int64_t out_h, out_w, o; /* y [B,H',W',O] */
    int64_t kh, kw, stride, pad;
} geometry;

static geometry geometry_of(const dg_tensor *x, const dg_tensor *y, const dg_tensor *w,
                            const conv_attr *c)
{
    return (geometry){
        .b = x->shape.d[0],
        .h = x->shape.d[1],
        .w = x->shape.d[2],
        .i = x->shape.d[3],
        .out_h = y->shape.d[1],
        .out_w = y->shape.d[2],
        .o = y->shape.d[3],
        .kh = w->shape.d[2],
        .kw = w->shape.d[3],
        .stride = c->stride,
        .pad = c->pad,
    };
}

/* The output columns begin..end-1 for which tap kx reads inside x. */
static void columns(const geometry *g, int64_t kx, int64_t *begin, int64_t *end)
{
    int64_t shift = kx - g->pad; /* ix = ox*stride + shift */

    *begin = shift < 0 ? (-shift + g->stride - 1) / g->stride : 0;
    *end = g->w - 1 - shift < 0 ? 0 : (g->w - 1 - shift) / g->stride + 1;
    if (*end > g->out_w)
        *end = g->out_w;
}

/* w [O,I,kh,kw] -> packed [kh,kw,I,O], or [kh,kw,O,I] if from_output. */
static void pack(const geometry *g, const real *w, bool from_output, real *packed)
{
    int64_t taps = g->kh * g->kw;

    for (int64_t o = 0; o < g->o; o++)
        for (int64_t i = 0; i < g->i; i++)
            for (int64_t t = 0; t < taps; t++)
                packed[t * g->i * g->o + (from_output ? o * g->i + i : i * g->o + o)] =
                    w[(o * g->i + i) * taps + t];
}

/* Workspace for one packed kernel: w is operand 1 of conv2d and conv2d_dx, operand 2 of
 * conv2d_dw. */
static int prepare_w1(dg_prepare *p)
{
    p->workspace_bytes = (size_t)dg_shape_elements(p->t[DG_CONV2D_W].shape) * sizeof(real);
    return 0;
}

static int prepare_w2(dg_prepare *p)
{
    p->workspace_bytes = (size_t)dg_shape_elements(p->t[DG_CONV2D_DW_DW].shape) * sizeof(real);
    return 0;
}

/* ---- y --------------------------------------------------------------------------------------- */

static void conv_rows(const dg_args *a, int64_t begin, int64_t end, int thread)
{
    geometry g = geometry_of(&a->t[DG_CONV2D_X], &a->t[DG_CONV2D_Y], &a->t[DG_CONV2D_W], a->attr);
    const real *x = in(a, DG_CONV2D_X), *bias = in(a, DG_CONV2D_B), *packed = a->workspace;
    real *y = out(a, DG_CONV2D_Y);

    (void)thread;
    for (int64_t row = begin; row < end; row++) { /* row = b*H' + oy */
        int64_t b = row / g.out_h, oy = row % g.out_h;
        real *to = y + row * g.out_w * g.o;

        for (int64_t n = 0; n < g.out_w * g.o; n++)
            to[n] = bias ? bias[n % g.o] : 0;
        for (int64_t ky = 0; ky < g.kh; ky++) {
            int64_t iy = oy * g.stride - g.pad + ky;

            if (iy < 0 || iy >= g.h)
                continue;
            for (int64_t kx = 0; kx < g.kw; kx++) {
                int64_t first, last;
                const real *from = x + (b * g.h + iy) * g.w * g.i;

                columns(&g, kx, &first, &last);
                if (first < last)
                    product(last - first, g.o, g.i,
                            (product_a){ from + (first * g.stride - g.pad + kx) * g.i,
                                         g.stride * g.i, 1 },
                            packed + (ky * g.kw + kx) * g.i * g.o, g.o, to + first * g.o, g.o);
            }
        }
    }
}

static int conv2d(const dg_args *a)
{
    geometry g = geometry_of(&a->t[DG_CONV2D_X], &a->t[DG_CONV2D_Y], &a->t[DG_CONV2D_W], a->attr);

    pack(&g, in(a, DG_CONV2D_W), false, a->workspace);
    parallel(a, g.b * g.out_h, conv_rows);
    return 0;
}

static int conv2d_norm(const dg_args *a)
{
    const conv_norm_attr *f = a->attr;
    const dg_tensor t[] = { [DG_CONV2D_X] = a->t[DG_CONV2D_NORM_X],
                            [DG_CONV2D_W] = a->t[DG_CONV2D_NORM_W],
                            [DG_CONV2D_B] = { .shape = { .rank = -1 } },
                            [DG_CONV2D_Y] = a->t[DG_CONV2D_NORM_Y] };
    const real *s = in(a, DG_CONV2D_NORM_S), *b = in(a, DG_CONV2D_NORM_B),
               *mean = in(a, DG_CONV2D_NORM_MEAN), *var = in(a, DG_CONV2D_NORM_VAR),
               *res = in(a, DG_CONV2D_NORM_RES);
    real *y = out(a, DG_CONV2D_NORM_Y);
    int64_t n = dg_shape_elements(a->t[DG_CONV2D_NORM_Y].shape),
            o = a->t[DG_CONV2D_NORM_W].shape.d[0];
    dg_args plain = *a;

    plain.t = t;
    plain.n = 4;
    plain.attr = &f->conv;
    conv2d(&plain);
    for (int64_t i = 0; i < n; i++) {
        int64_t k = i % o;
        double z = ((double)y[i] - mean[k]) / sqrt((double)var[k] + f->norm.eps) * s[k] + b[k];

        y[i] = (real)act(f->norm.act, res ? z + res[i] : z);
    }
    return 0;
}

/* ---- dx -------------------------------------------------------------------------------------- */

static void conv_dx_rows(const dg_args *a, int64_t begin, int64_t end, int thread)
{
    geometry g =
        geometry_of(&a->t[DG_CONV2D_DX_DX], &a->t[DG_CONV2D_DX_DY], &a->t[DG_CONV2D_DX_W], a->attr);
    const real *dy = in(a, DG_CONV2D_DX_DY), *packed = a->workspace;
    real *dx = out(a, DG_CONV2D_DX_DX);

    (void)thread;
    memset(dx + begin * g.w * g.i, 0, (size_t)((end - begin) * g.w * g.i) * sizeof(real));
    for (int64_t row = begin; row < end; row++) { /* row = b*H + iy */
        int64_t b = row / g.h, iy = row % g.h;
        real *to = dx + row * g.w * g.i;

        for (int64_t ky = 0; ky < g.kh; ky++) {
            int64_t above = iy + g.pad - ky, oy = above / g.stride;

            if (above < 0 || above % g.stride || oy >= g.out_h)
                continue;
            for (int64_t kx = 0; kx < g.kw; kx++) {
                int64_t first, last;
                const real *from = dy + (b * g.out_h + oy) * g.out_w * g.o;

                columns(&g, kx, &first, &last);
                if (first < last)
                    product(last - first, g.i, g.o, (product_a){ from + first * g.o, g.o, 1 },
                            packed + (ky * g.kw + kx) * g.o * g.i, g.i,
                            to + (first * g.stride - g.pad + kx) * g.i, g.stride * g.i);
            }
        }
    }
}

static int conv2d_dx(const dg_args *a)
{
    geometry g =
        geometry_of(&a->t[DG_CONV2D_DX_DX], &a->t[DG_CONV2D_DX_DY], &a->t[DG_CONV2D_DX_W], a->attr);

    pack(&g, in(a, DG_CONV2D_DX_W), true, a->workspace);
    parallel(a, g.b * g.h, conv_dx_rows);
    return 0;
}

/* ---- dw -------------------------------------------------------------------------------------- */

enum { INPUTS = 16 }; /* input channels per task */

static int64_t pieces(const geometry *g)
{
    return (g->i + INPUTS - 1) / INPUTS;
}

static void conv_dw_pieces(const dg_args *a, int64_t begin, int64_t end, int thread)
{
    geometry g =
        geometry_of(&a->t[DG_CONV2D_DW_X], &a->t[DG_CONV2D_DW_DY], &a->t[DG_CONV2D_DW_DW], a->attr);
    const real *x = in(a, DG_CONV2D_DW_X), *dy = in(a, DG_CONV2D_DW_DY);
    real *packed = a->workspace; /* [kh,kw,I,O] */

    (void)thread;
    for (int64_t piece = begin; piece < end; piece++) {
        int64_t tap = piece / pieces(&g), ky = tap / g.kw, kx = tap % g.kw;
        int64_t i0 = piece % pieces(&g) * INPUTS, n_i = g.i - i0 < INPUTS ? g.i - i0 : INPUTS;
        int64_t first, last;
        real *to = packed + (tap * g.i + i0) * g.o;

        memset(to, 0, (size_t)(n_i * g.o) * sizeof(real));
        columns(&g, kx, &first, &last);
        for (int64_t row = 0; row < g.b * g.out_h && first < last; row++) { /* row = b*H' + oy */
            int64_t iy = row % g.out_h * g.stride - g.pad + ky;

            if (iy < 0 || iy >= g.h)
                continue;
            const real *from =
                x + ((row / g.out_h * g.h + iy) * g.w + first * g.stride - g.pad + kx) * g.i + i0;

            product(n_i, g.o, last - first, (product_a){ from, 1, g.stride * g.i },
                    dy + (row * g.out_w + first) * g.o, g.o, to, g.o);
        }
    }
}

static int conv2d_dw(const dg_args *a)
{
    geometry g =
        geometry_of(&a->t[DG_CONV2D_DW_X], &a->t[DG_CONV2D_DW_DY], &a->t[DG_CONV2D_DW_DW], a->attr);
    const real *packed = a->workspace;
    real *dw = out(a, DG_CONV2D_DW_DW);
    int64_t taps = g.kh * g.kw;

    parallel(a, taps * pieces(&g), conv_dw_pieces);
    for (int64_t o = 0; o < g.o; o++)
        for (int64_t i = 0; i < g.i; i++)
            for (int64_t t = 0; t < taps; t++)
                dw[(o * g.i + i) * taps + t] = packed[(t * g.i + i) * g.o + o];
    return 0;
}

DG_SAME_PLACE(DG_CONV2D_W, DG_CONV2D_DX_W);
DG_REF(conv2d, prepare_w1, conv2d);
DG_SAME_PLACE(DG_CONV2D_W, DG_CONV2D_NORM_W);
DG_REF(conv2d_norm, prepare_w1, conv2d_norm);
DG_REF(conv2d_dx, prepare_w1, conv2d_dx);
DG_REF(conv2d_dw, prepare_w2, conv2d_dw);
