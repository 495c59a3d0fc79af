/* conv.c: twins of the convolutions of kernels/ref/conv.c with a packed kernel, [o][ky,kx,i], which
 * has the formulas; pack.c packs. The vendor's library of convolutions is asked first. What it has
 * no plan for, f64 and results in another type than the operands are matrix products:
 *
 * A pixel of y is a row. `columns` has what that pixel reads of x, [pixel][ky,kx,i], as the kernel
 * is packed. A kernel of one tap with stride 1 reads x itself. Columns are made for as many images
 * at a time as fit into COLUMN_BYTES. In dx the columns are the product's result, in wide, and
 * every element of x adds up its own from them: no two threads write one place. */
#include "kernels/cuda/stored.h"

enum { COLUMN_BYTES = 64 << 20 };

typedef struct geometry {
    const real *x; /* of the chunk */
    real *columns; /* of the chunk, [images,out_h,out_w][kh,kw,i] */
    const wide *dcolumns;
    void *to; /* dx */
    int64_t to_real;
    int64_t images, h, w, i; /* images: of the chunk */
    int64_t out_h, out_w, o, kh, kw, stride, pad;
} geometry;

static geometry geometry_of(const dg_tensor *x, const dg_tensor *y, const dg_tensor *k,
                            const conv_attr *c)
{
    geometry g = { .x = NULL };

    g.h = x->shape.d[1];
    g.w = x->shape.d[2];
    g.i = x->shape.d[3];
    g.out_h = y->shape.d[1];
    g.out_w = y->shape.d[2];
    g.o = y->shape.d[3];
    g.kh = k->shape.d[1];
    g.kw = k->shape.d[2];
    g.stride = c->stride;
    g.pad = c->pad;
    return g;
}

static bool is_plain(const geometry *g)
{
    return g->kh == 1 && g->kw == 1 && g->stride == 1 && g->pad == 0;
}

/* Pixels of y in an image, numbers in a row of columns, elements of the kernel. */
static int64_t pixels(const geometry *g)
{
    return g->out_h * g->out_w;
}

static int64_t row_of(const geometry *g)
{
    return g->kh * g->kw * g->i;
}

static int64_t kernel_elements(const geometry *g)
{
    return g->o * row_of(g);
}

static int64_t images_at_a_time(const geometry *g, int64_t images, size_t element)
{
    int64_t each = pixels(g) * row_of(g) * (int64_t)element;
    int64_t n = is_plain(g) ? images : COLUMN_BYTES / each;

    return n < 1 ? 1 : n > images ? images : n;
}

static size_t column_bytes(const geometry *g, int64_t images, size_t element)
{
    return is_plain(g) ? 0
                       : aligned_bytes(images_at_a_time(g, images, element) * pixels(g) *
                                       row_of(g) * (int64_t)element);
}

/* ---- kernels --------------------------------------------------------------------------------- */

KERNEL(columns_kernel, geometry)
{
    int64_t size = p->images * p->out_h * p->out_w * p->kh * p->kw * p->i;

    for (int64_t n = first(); n < size; n += step()) {
        int64_t rest = n / p->i, i = n % p->i, kx = rest % p->kw, ky, ox, oy, iy, ix;

        rest /= p->kw;
        ky = rest % p->kh;
        rest /= p->kh;
        ox = rest % p->out_w;
        rest /= p->out_w;
        oy = rest % p->out_h;
        rest /= p->out_h;
        iy = oy * p->stride - p->pad + ky;
        ix = ox * p->stride - p->pad + kx;
        p->columns[n] = iy < 0 || iy >= p->h || ix < 0 || ix >= p->w
                            ? put(0)
                            : p->x[((rest * p->h + iy) * p->w + ix) * p->i + i];
    }
}

KERNEL(gather_columns_kernel, geometry)
{
    int64_t size = p->images * p->h * p->w * p->i, row = p->kh * p->kw * p->i;

    for (int64_t n = first(); n < size; n += step()) {
        int64_t i = n % p->i, ix = n / p->i % p->w, iy = n / p->i / p->w % p->h,
                b = n / p->i / p->w / p->h;
        wide sum = 0;

        for (int64_t ky = 0; ky < p->kh; ky++)
            for (int64_t kx = 0; kx < p->kw; kx++) {
                int64_t y = iy + p->pad - ky, x = ix + p->pad - kx;

                if (y < 0 || x < 0 || y % p->stride || x % p->stride || y / p->stride >= p->out_h ||
                    x / p->stride >= p->out_w)
                    continue;
                sum +=
                    p->dcolumns[((b * p->out_h + y / p->stride) * p->out_w + x / p->stride) * row +
                                (ky * p->kw + kx) * p->i + i];
            }
        store(p->to, p->to_real, n, sum);
    }
}

/* What follows a convolution: y = act(y + bias + res). */
typedef struct finishing {
    real *y;
    const wide *bias;
    const real *res;
    int64_t size, o, act;
} finishing;

DEVICE wide activated(int64_t act, wide z)
{
    return act == DG_ACT_RELU ? (z < 0 ? 0 : z) : act == DG_ACT_SILU ? z / (1 + exp(-z)) : z;
}

KERNEL(finish_kernel, finishing)
{
    for (int64_t n = first(); n < p->size; n += step()) {
        wide z = get(p->y[n]);

        z = p->bias ? z + p->bias[n % p->o] : z;
        p->y[n] = put(activated(p->act, p->res ? z + get(p->res[n]) : z));
    }
}

static int finish(const dg_cuda_call *c, const finishing *p)
{
    return p->bias || p->res || p->act ? LAUNCH(c, finish_kernel, grid_of(p->size), p) : 0;
}

/* ---- the library ----------------------------------------------------------------------------- */

static int convolve(const dg_cuda_call *c, const geometry *g, int64_t images, dg_cuda_wanted wanted,
                    int64_t act, const dg_cuda_convolved *at)
{
    dg_cuda_convolution p = { .wanted = wanted,
                              .type = DG_CUDA_REAL,
                              .images = images,
                              .h = g->h,
                              .w = g->w,
                              .i = g->i,
                              .out_h = g->out_h,
                              .out_w = g->out_w,
                              .o = g->o,
                              .kh = g->kh,
                              .kw = g->kw,
                              .stride = g->stride,
                              .pad = g->pad,
                              .bias = at->bias != NULL,
                              .residual = at->residual != NULL,
                              .act = act,
                              .tf32 = 0 };

    return c->queue->convolve ? c->queue->convolve(c->queue, &p, at) : DG_CUDA_NO_PLAN;
}

/* y and what follows, or, where the library has no plan for both, y alone: it is rounded once more
 * then. */
static int convolve_y(const dg_cuda_call *c, const geometry *g, int64_t images, const real *x,
                      const real *packed, const finishing *f)
{
    dg_cuda_convolved at = { x, packed, NULL, f->bias, f->res, f->y };
    int rc = convolve(c, g, images, DG_CUDA_Y, f->act, &at);

    if (rc != DG_CUDA_NO_PLAN || !(f->bias || f->res || f->act))
        return rc;
    at.bias = at.residual = NULL;
    rc = convolve(c, g, images, DG_CUDA_Y, DG_ACT_NONE, &at);
    return rc ? rc : finish(c, f);
}

/* Whether the library may be asked: it gives results of the operands' type. */
static bool in_one_type(const dg_tensor *result)
{
    return DG_CUDA_REAL != DG_F64 && result->dtype == DG_CUDA_REAL;
}

/* ---- y --------------------------------------------------------------------------------------- */

/* The columns of some images from x on: x itself where a pixel reads one pixel. */
static int make_columns(const dg_cuda_call *c, geometry *g, const real *x, int64_t images, char *at,
                        const real **columns)
{
    g->x = x;
    g->images = images;
    g->columns = (real *)at;
    *columns = is_plain(g) ? x : g->columns;
    return is_plain(g) ? 0 : LAUNCH(c, columns_kernel, grid_of(images * pixels(g) * row_of(g)), g);
}

static bool knows(const dg_tensor *x)
{
    return x->dtype == DG_CUDA_REAL;
}

static int prepare_y(dg_prepare *p)
{
    const conv_act_attr *f = (const conv_act_attr *)p->attr;
    const dg_tensor *t = p->t, *y = &t[DG_CONV_PACKED_Y];
    geometry g = geometry_of(&t[DG_CONV_PACKED_X], y, &t[DG_CONV_PACKED_K], &f->conv);
    bool more = f->act || t[DG_CONV_PACKED_RES].shape.rank >= 0;

    p->workspace_bytes = column_bytes(&g, t[DG_CONV_PACKED_X].shape.d[0], sizeof(real)) +
                         aligned_bytes(g.o * (int64_t)sizeof(wide));
    return knows(&t[DG_CONV_PACKED_X]) && knows(&t[DG_CONV_PACKED_K]) && (!more || knows(y))
               ? 0
               : -DG_EUNSUPPORTED;
}

typedef struct narrowing {
    const wide *from;
    real *to;
    int64_t n;
} narrowing;

KERNEL(narrow_kernel, narrowing)
{
    for (int64_t n = first(); n < p->n; n += step())
        p->to[n] = put(p->from[n]);
}

/* The bias in y's type. */
static int make_bias(const dg_cuda_call *c, const geometry *g, char **at, const void **bias)
{
    narrowing p = { .from = wides(c->a, DG_CONV_PACKED_C), .to = (real *)*at, .n = g->o };

    *bias = p.from;
    if (!p.from || c->a->t[DG_CONV_PACKED_Y].dtype == DG_CUDA_WIDE)
        return 0;
    *bias = p.to;
    *at += aligned_bytes(g->o * (int64_t)sizeof(wide));
    return LAUNCH(c, narrow_kernel, grid_of(p.n), &p);
}

/* y as products of columns; bias in y's type, or NULL. */
static int multiply_columns(const dg_cuda_call *c, geometry *g, int64_t images, const real *x,
                            const real *packed, const void *bias, const dg_tensor *y, char *at)
{
    const int64_t some = images_at_a_time(g, images, sizeof(real));
    const real *columns;
    int rc = 0;

    for (int64_t b = 0; b < images && rc == 0; b += some) {
        int64_t n = images - b < some ? images - b : some;
        dg_cuda_product p = { .type = DG_CUDA_REAL,
                              .out = y->dtype,
                              .trans_a = 0,
                              .trans_b = 1,
                              .batch = 1,
                              .m = n * pixels(g),
                              .n = g->o,
                              .k = row_of(g),
                              .a_step = 0,
                              .b_step = 0,
                              .bias = bias != NULL,
                              .add = 0,
                              .act = 0,
                              .alignment = 0,
                              .tf32 = 0 };

        rc = make_columns(c, g, x + b * g->h * g->w * g->i, n, at, &columns);
        rc = rc ? rc
                : enqueue_product(c, &p, columns, packed, bias,
                                  (char *)y->data +
                                      (size_t)(b * pixels(g) * g->o) * dg_dtype_size(y->dtype));
    }
    return rc;
}

static int conv_packed(const dg_cuda_call *c)
{
    const conv_act_attr *attr = (const conv_act_attr *)c->a->attr;
    const dg_tensor *t = c->a->t, *y = &t[DG_CONV_PACKED_Y];
    geometry g = geometry_of(&t[DG_CONV_PACKED_X], y, &t[DG_CONV_PACKED_K], &attr->conv);
    const int64_t images = t[DG_CONV_PACKED_X].shape.d[0];
    const real *x = reals(c->a, DG_CONV_PACKED_X), *k = reals(c->a, DG_CONV_PACKED_K);
    const void *bias;
    char *at = (char *)c->a->workspace;
    finishing f = { .y = (real *)y->data,
                    .bias = wides(c->a, DG_CONV_PACKED_C),
                    .res = reals(c->a, DG_CONV_PACKED_RES),
                    .size = images * pixels(&g) * g.o,
                    .o = g.o,
                    .act = attr->act };
    int rc = in_one_type(y) ? convolve_y(c, &g, images, x, k, &f) : DG_CUDA_NO_PLAN;

    if (rc != DG_CUDA_NO_PLAN)
        return rc;
    rc = make_bias(c, &g, &at, &bias);
    rc = rc ? rc : multiply_columns(c, &g, images, x, k, bias, y, at);
    f.bias = NULL;
    return rc ? rc : finish(c, &f);
}

/* ---- dx -------------------------------------------------------------------------------------- */

static int prepare_dx(dg_prepare *p)
{
    const dg_tensor *dx = &p->t[DG_CONV_PACKED_DX_DX], *dy = &p->t[DG_CONV_PACKED_DX_DY],
                    *k = &p->t[DG_CONV_PACKED_DX_K];
    geometry g = geometry_of(dx, dy, k, (const conv_attr *)p->attr);

    p->workspace_bytes = column_bytes(&g, dx->shape.d[0], sizeof(wide));
    return knows(dy) && knows(k) ? 0 : -DG_EUNSUPPORTED;
}

static int conv_packed_dx(const dg_cuda_call *c)
{
    const dg_tensor *t = c->a->t, *dx = &t[DG_CONV_PACKED_DX_DX];
    geometry g = geometry_of(dx, &t[DG_CONV_PACKED_DX_DY], &t[DG_CONV_PACKED_DX_K],
                             (const conv_attr *)c->a->attr);
    const int64_t images = dx->shape.d[0], some = images_at_a_time(&g, images, sizeof(wide));
    const real *k = reals(c->a, DG_CONV_PACKED_DX_K), *dy = reals(c->a, DG_CONV_PACKED_DX_DY);
    const dg_cuda_convolved places = { NULL, k, dy, NULL, NULL, dx->data };
    int rc = in_one_type(dx) ? convolve(c, &g, images, DG_CUDA_DX, DG_ACT_NONE, &places)
                             : DG_CUDA_NO_PLAN;

    if (rc != DG_CUDA_NO_PLAN)
        return rc;
    rc = 0;
    g.to_real = dx->dtype == DG_CUDA_REAL;
    for (int64_t b = 0; b < images && rc == 0; b += some) {
        int64_t n = images - b < some ? images - b : some;
        dg_cuda_product p = { .type = DG_CUDA_REAL,
                              .out = is_plain(&g) ? dx->dtype : DG_CUDA_WIDE,
                              .trans_a = 0,
                              .trans_b = 0,
                              .batch = 1,
                              .m = n * pixels(&g),
                              .n = row_of(&g),
                              .k = g.o,
                              .a_step = 0,
                              .b_step = 0,
                              .bias = 0,
                              .add = 0,
                              .act = 0,
                              .alignment = 0,
                              .tf32 = 0 };

        g.images = n;
        g.dcolumns = (const wide *)c->a->workspace;
        g.to = (char *)dx->data + (size_t)(b * g.h * g.w * g.i) * dg_dtype_size(dx->dtype);
        rc = enqueue_product(c, &p, dy + b * pixels(&g) * g.o, k, NULL,
                             is_plain(&g) ? g.to : c->a->workspace);
        if (rc == 0 && !is_plain(&g))
            rc = LAUNCH(c, gather_columns_kernel, grid_of(n * g.h * g.w * g.i), &g);
    }
    return rc;
}

/* ---- the gradient of the kernel -------------------------------------------------------------- */

/* Workspace: sums in wide, and columns. */
static size_t sum_bytes(const geometry *g)
{
    return DG_CUDA_REAL == DG_CUDA_WIDE ? 0
                                        : aligned_bytes(kernel_elements(g) * (int64_t)sizeof(wide));
}

static int prepare_dw(dg_prepare *p)
{
    const dg_tensor *x = &p->t[DG_CONV_PACKED_DW_X], *dy = &p->t[DG_CONV_PACKED_DW_DY],
                    *k = &p->t[DG_CONV_PACKED_DW_K];
    geometry g = geometry_of(x, dy, k, (const conv_attr *)p->attr);

    p->workspace_bytes = sum_bytes(&g) + column_bytes(&g, x->shape.d[0], sizeof(real));
    return knows(x) && knows(dy) && knows(k) ? 0 : -DG_EUNSUPPORTED;
}

static int conv_packed_dw(const dg_cuda_call *c)
{
    const dg_tensor *t = c->a->t;
    geometry g = geometry_of(&t[DG_CONV_PACKED_DW_X], &t[DG_CONV_PACKED_DW_DY],
                             &t[DG_CONV_PACKED_DW_K], (const conv_attr *)c->a->attr);
    const int64_t images = t[DG_CONV_PACKED_DW_X].shape.d[0],
                  some = images_at_a_time(&g, images, sizeof(real));
    const real *x = reals(c->a, DG_CONV_PACKED_DW_X), *dy = reals(c->a, DG_CONV_PACKED_DW_DY),
               *columns;
    char *at = (char *)c->a->workspace + sum_bytes(&g);
    narrowing sums = { .from = (const wide *)c->a->workspace,
                       .to = reals(c->a, DG_CONV_PACKED_DW_K),
                       .n = kernel_elements(&g) };
    const dg_cuda_convolved places = { x, NULL, dy, NULL, NULL, sums.to };
    void *to = sum_bytes(&g) ? c->a->workspace : sums.to;
    int rc = DG_CUDA_REAL == DG_F64
                 ? DG_CUDA_NO_PLAN
                 : convolve(c, &g, images, DG_CUDA_DKERNEL, DG_ACT_NONE, &places);

    if (rc != DG_CUDA_NO_PLAN)
        return rc;
    rc = 0;
    for (int64_t b = 0; b < images && rc == 0; b += some) {
        int64_t n = images - b < some ? images - b : some;
        dg_cuda_product p = { .type = DG_CUDA_REAL,
                              .out = DG_CUDA_WIDE,
                              .trans_a = 1,
                              .trans_b = 0,
                              .batch = 1,
                              .m = g.o,
                              .n = row_of(&g),
                              .k = n * pixels(&g),
                              .a_step = 0,
                              .b_step = 0,
                              .bias = 0,
                              .add = b > 0,
                              .act = 0,
                              .alignment = 0,
                              .tf32 = 0 };

        rc = make_columns(c, &g, x + b * g.h * g.w * g.i, n, at, &columns);
        rc = rc ? rc : enqueue_product(c, &p, dy + b * pixels(&g) * g.o, columns, NULL, to);
    }
    return rc || !sum_bytes(&g) ? rc : LAUNCH(c, narrow_kernel, grid_of(sums.n), &sums);
}

DG_SAME_PLACE(DG_CONV_PACKED_K, DG_CONV_PACKED_DX_K);
DG_CUDA_LIBRARY(conv_packed, prepare_y, conv_packed);
DG_CUDA_LIBRARY(conv_packed_dx, prepare_dx, conv_packed_dx);
DG_CUDA_LIBRARY(conv_packed_dw, prepare_dw, conv_packed_dw);
