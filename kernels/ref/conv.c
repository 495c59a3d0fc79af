/* conv.c: two-dimensional convolution, channels last, zero padding.
 *
 *    y[b,oy,ox,o]  = bias[o] + sum over ky,kx,i of x[b, oy*s-p+ky, ox*s-p+kx, i] * w[o,i,ky,kx]
 *    dx[b,iy,ix,i] = sum over ky,kx,o of dy[b,oy,ox,o] * w[o,i,ky,kx],
 *                    iy = oy*s-p+ky, ix = ox*s-p+kx
 *    dw[o,i,ky,kx] = sum over b,oy,ox of dy[b,oy,ox,o] * x[b, oy*s-p+ky, ox*s-p+kx, i]
 *
 * Devices want the kernel as k[o,ky,kx,i] = w[o,i,ky,kx]: conv_packed, conv_packed_dx and
 * conv_packed_dw are the same with k, and conv_packed gives act(y + res). A frozen norm behind a
 * convolution is folded into k and a bias c:
 *    k[o,ky,kx,i] = w[o,i,ky,kx] * scale[o], c[o] = b[o] - mean[o] * scale[o],
 *    scale[o] = s[o] / sqrt(var[o] + eps)
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

/* ---- packed kernels -------------------------------------------------------------------------- */

/* w [O,I,taps] -> k [O,taps,I], or back: rows and columns of each o change places. */
static void turn(const real *from, int64_t n, int64_t rows, int64_t columns, real *to)
{
    for (int64_t o = 0; o < n; o++)
        for (int64_t r = 0; r < rows; r++)
            for (int64_t c = 0; c < columns; c++)
                to[(o * columns + c) * rows + r] = from[(o * rows + r) * columns + c];
}

static void turn_k(const dg_tensor *k, real *w)
{
    const int64_t *d = k->shape.d;

    turn(k->data, d[0], d[1] * d[2], d[3], w);
}

static int pack_kernel(const dg_args *a)
{
    const int64_t *d = a->t[DG_PACK_KERNEL_W].shape.d;

    turn(in(a, DG_PACK_KERNEL_W), d[0], d[1], d[2] * d[3], out(a, DG_PACK_KERNEL_K));
    return 0;
}

static int unpack_kernel(const dg_args *a)
{
    turn_k(&a->t[DG_UNPACK_KERNEL_K], out(a, DG_UNPACK_KERNEL_W));
    return 0;
}

static int fold_norm(const dg_args *a)
{
    const norm_attr *f = a->attr;
    const int64_t *d = a->t[DG_FOLD_NORM_W].shape.d, n = d[1] * d[2] * d[3];
    const real *s = in(a, DG_FOLD_NORM_S), *b = in(a, DG_FOLD_NORM_B),
               *mean = in(a, DG_FOLD_NORM_MEAN), *var = in(a, DG_FOLD_NORM_VAR);
    real *k = out(a, DG_FOLD_NORM_K), *c = out(a, DG_FOLD_NORM_C);

    turn(in(a, DG_FOLD_NORM_W), d[0], d[1], d[2] * d[3], k);
    for (int64_t o = 0; o < d[0]; o++) {
        double scale = (double)s[o] / sqrt((double)var[o] + f->eps);

        for (int64_t i = 0; i < n; i++)
            k[o * n + i] = (real)(k[o * n + i] * scale);
        c[o] = (real)(b[o] - mean[o] * scale);
    }
    return 0;
}

static dg_shape unpacked(dg_shape k)
{
    return DG_SHAPE(k.d[0], k.d[3], k.d[1], k.d[2]);
}

/* Workspace: w, and then what the op with w needs. */
static dg_tensor w_of(const dg_args *a, int k)
{
    return (dg_tensor){ a->t[k].dtype, unpacked(a->t[k].shape), a->workspace };
}

static dg_args with_w(const dg_args *a, const dg_tensor *t, int n, const void *attr, int k)
{
    dg_args plain = *a;

    plain.t = t;
    plain.n = n;
    plain.attr = attr;
    plain.workspace = (real *)a->workspace + elements(a, k);
    return plain;
}

static int prepare_packed(dg_prepare *p, int k)
{
    p->workspace_bytes = 2 * (size_t)dg_shape_elements(p->t[k].shape) * sizeof(real);
    return 0;
}

static int prepare_k1(dg_prepare *p)
{
    return prepare_packed(p, DG_CONV_PACKED_K);
}

static int prepare_k2(dg_prepare *p)
{
    return prepare_packed(p, DG_CONV_PACKED_DW_K);
}

static int conv_packed(const dg_args *a)
{
    const conv_act_attr *f = a->attr;
    const dg_tensor t[] = { [DG_CONV2D_X] = a->t[DG_CONV_PACKED_X],
                            [DG_CONV2D_W] = w_of(a, DG_CONV_PACKED_K),
                            [DG_CONV2D_B] = a->t[DG_CONV_PACKED_C],
                            [DG_CONV2D_Y] = a->t[DG_CONV_PACKED_Y] };
    const dg_args plain = with_w(a, t, 4, &f->conv, DG_CONV_PACKED_K);
    const real *res = in(a, DG_CONV_PACKED_RES);
    real *y = out(a, DG_CONV_PACKED_Y);

    turn_k(&a->t[DG_CONV_PACKED_K], a->workspace);
    conv2d(&plain);
    for (int64_t i = 0; i < elements(a, DG_CONV_PACKED_Y); i++)
        y[i] = (real)act(f->act, res ? (double)y[i] + res[i] : y[i]);
    return 0;
}

static int conv_packed_dx(const dg_args *a)
{
    const dg_tensor t[] = { [DG_CONV2D_DX_DY] = a->t[DG_CONV_PACKED_DX_DY],
                            [DG_CONV2D_DX_W] = w_of(a, DG_CONV_PACKED_DX_K),
                            [DG_CONV2D_DX_DX] = a->t[DG_CONV_PACKED_DX_DX] };
    const dg_args plain = with_w(a, t, 3, a->attr, DG_CONV_PACKED_DX_K);

    turn_k(&a->t[DG_CONV_PACKED_DX_K], a->workspace);
    return conv2d_dx(&plain);
}

static int conv_packed_dw(const dg_args *a)
{
    const dg_tensor t[] = { [DG_CONV2D_DW_X] = a->t[DG_CONV_PACKED_DW_X],
                            [DG_CONV2D_DW_DY] = a->t[DG_CONV_PACKED_DW_DY],
                            [DG_CONV2D_DW_DW] = w_of(a, DG_CONV_PACKED_DW_K) };
    const dg_args plain = with_w(a, t, 3, a->attr, DG_CONV_PACKED_DW_K);
    const int64_t *d = t[DG_CONV2D_DW_DW].shape.d;
    int rc = conv2d_dw(&plain);

    turn(a->workspace, d[0], d[1], d[2] * d[3], out(a, DG_CONV_PACKED_DW_K));
    return rc;
}

DG_SAME_PLACE(DG_CONV2D_W, DG_CONV2D_DX_W);
DG_REF(conv2d, prepare_w1, conv2d);
DG_REF(conv2d_dx, prepare_w1, conv2d_dx);
DG_REF(conv2d_dw, prepare_w2, conv2d_dw);
DG_REF(pack_kernel, NULL, pack_kernel);
DG_REF(unpack_kernel, NULL, unpack_kernel);
DG_REF(fold_norm, NULL, fold_norm);
DG_SAME_PLACE(DG_CONV_PACKED_K, DG_CONV_PACKED_DX_K);
DG_REF(conv_packed, prepare_k1, conv_packed);
DG_REF(conv_packed_dx, prepare_k1, conv_packed_dx);
DG_REF(conv_packed_dw, prepare_k2, conv_packed_dw);
