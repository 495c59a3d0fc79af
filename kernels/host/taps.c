/* taps.c: see taps.h. A convolution is a sum over taps: of each output pixel's view, the pixel of X
 * under the tap, times the tap's weights. Where the pixels of X lie in memory with the right number
 * of zeros around, that one is as far ahead for all output pixels, so that a tap is one matrix
 * product. The gradient of X is a convolution of dY with the kernel turned by half a turn; that of
 * a tap's weights is one product of dY and X.
 *
 * With a stride S the pixels fall into S x S phases, by their row and column modulo S; each tap
 * sees one phase only. Bands of the output's rows are taken one after the other; the rows of X that
 * they see are copied into such grids, which stay in the cache for all taps. Grids have the
 * output's rows and columns, and some more: those that taps reach beyond. */
#include "kernels/host/taps.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/pool.h"
#include "kernels/attrs.h"
#include "kernels/host/host.h"

enum {
    BAND_BYTES = 1 << 20,
    FEW_CHANNELS = 16, /* fewer leave most of a product's registers empty */
    FEW_PIXELS = 1000, /* of fewer, the library's own kernels keep all in the cache */
};

typedef struct taps {
    int64_t kh, kw, stride, top, left; /* top, left: zeros before the first row and column */
    int64_t in, out;                   /* channels of the map that is seen, and of the output */
    int64_t rows, height, columns;     /* a band's rows of output; rows and columns of its grids */
    int64_t seen_at, own_at;           /* a band's grids: [stride,stride,height,columns,in], */
    int64_t band;                      /* [height,columns,out], and elements of both */
    int64_t weights_at;                /* [kh,kw,..]; behind the bands of all threads */
    bool turned;
} taps;

static int64_t at_most(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* What the output of a convolution with weights w [O,I,kh,kw] sees; without the layout. */
static taps view_of(const conv_attr *at, const int64_t *w)
{
    return (taps){ .kh = w[2],
                   .kw = w[3],
                   .stride = at->stride,
                   .top = at->pad,
                   .left = at->pad,
                   .in = w[1],
                   .out = w[0] };
}

/* y: the output's shape. */
static int lay_out(dg_prepare *p, taps like, const int64_t *y, int threads)
{
    int64_t s = like.stride, extra = (like.kh - 1) / s, row, bands;
    taps *t = malloc(sizeof *t);

    if (!t)
        return -DG_EMEMORY;
    *t = like;
    t->columns = y[2] + (t->kw - 1) / s;
    row = t->columns * (s * s * t->in + t->out);
    bands = y[1] / (BAND_BYTES / (row * (int64_t)sizeof(float)) + 1) + 1;
    t->rows = (y[1] + bands - 1) / bands;
    t->height = t->rows + extra;
    t->own_at = s * s * t->height * t->columns * t->in;
    t->band = t->own_at + t->height * t->columns * t->out;
    t->weights_at = threads * t->band;
    p->handle = t;
    p->workspace_bytes = (size_t)(t->weights_at + t->kh * t->kw * t->in * t->out) * sizeof(float);
    return 0;
}

/* ---- grids ----------------------------------------------------------------------------------- */

/* n pixels, which lie `step` pixels apart in a tensor. */
static void copy_pixels(float *to, const dg_tensor *x, int64_t pixel, int64_t step, int64_t n)
{
    int64_t channels = x->shape.d[3], piece = step == 1 ? n * channels : channels;

    for (int64_t i = 0; i < n * channels; i += piece) {
        const char *from =
            (const char *)x->data + (size_t)(pixel * channels + i * step) * dg_dtype_size(x->dtype);

        if (x->dtype == DG_BF16)
            dg_host_widen(to + i, from, piece, 1);
        else
            memcpy(to + i, from, (size_t)piece * sizeof *to);
    }
}

/* One row of a grid: column c is the tensor's column c * step - before, zero where there is none,
 * as in a row that is not there. */
static void fill_row(float *to, const dg_tensor *x, int64_t image, int64_t row, int64_t columns,
                     int64_t step, int64_t before)
{
    int64_t h = x->shape.d[1], w = x->shape.d[2], channels = x->shape.d[3];
    int64_t begin = before > 0 ? (before + step - 1) / step : 0;
    int64_t end = w + before <= 0 ? 0 : at_most(columns, (w - 1 + before) / step + 1);

    if (row < 0 || row >= h || begin >= end)
        begin = end = columns;
    memset(to, 0, (size_t)(begin * channels) * sizeof *to);
    copy_pixels(to + begin * channels, x, (image * h + row) * w + begin * step - before, step,
                end - begin);
    memset(to + end * channels, 0, (size_t)((columns - end) * channels) * sizeof *to);
}

/* What `rows` rows of output from `first` on see. */
static void fill_seen(const taps *t, float *to, const dg_tensor *x, int64_t image, int64_t first,
                      int64_t rows)
{
    int64_t s = t->stride, height = rows + (t->kh - 1) / s;

    for (int64_t phase = 0; phase < s * s; phase++)
        for (int64_t row = 0; row < height; row++)
            fill_row(to + (phase * t->height + row) * t->columns * t->in, x, image,
                     (first + row) * s + phase / s - t->top, t->columns, s, t->left - phase % s);
}

/* Where the first output pixel of a band sees the tap. */
static const float *seen_by(const taps *t, const float *grids, int64_t tap)
{
    int64_t s = t->stride, h = tap / t->kw, w = tap % t->kw, phase = h % s * s + w % s;

    return grids + ((phase * t->height + h / s) * t->columns + w / s) * t->in;
}

/* From the first pixel of a band's output to the last. */
static int64_t pixels_between(const taps *t, int64_t rows, int64_t columns)
{
    return (rows - 1) * t->columns + columns;
}

/* ---- convolution and the gradient of its input ----------------------------------------------- */

typedef struct convolution {
    const dg_args *a;
    const dg_tensor *x, *bias, *y;
    atomic_int rc; /* of any thread that failed */
} convolution;

/* Weights [O,I,kh,kw] of output channels begin..end-1 to [kh,kw,I,O]; turned, to [kh,kw,O,I]. */
static void arrange_weights(void *ctx, int64_t begin, int64_t end, int thread)
{
    const dg_args *a = ctx;
    const taps *t = a->handle;
    int64_t n = t->kh * t->kw, outs = a->t[1].shape.d[0], ins = a->t[1].shape.d[1];
    const float *w = (const float *)a->t[1].data + begin * ins * n;
    float *to = (float *)a->workspace + t->weights_at;

    (void)thread;
    for (int64_t o = begin; o < end; o++)
        for (int64_t i = 0; i < ins; i++)
            for (int64_t k = 0; k < n; k++)
                if (t->turned)
                    to[((n - 1 - k) * outs + o) * ins + i] = *w++;
                else
                    to[(k * ins + i) * outs + o] = *w++;
}

static void put_row(float *to, const float *from, const float *bias, int64_t pixels, int64_t n)
{
    if (!bias) {
        memcpy(to, from, (size_t)(pixels * n) * sizeof *to);
        return;
    }
    for (int64_t k = 0; k < pixels; k++)
        for (int64_t c = 0; c < n; c++)
            to[k * n + c] = from[k * n + c] + bias[c];
}

/* Bands begin..end-1, counted over all images. */
static void convolve(void *ctx, int64_t begin, int64_t end, int thread)
{
    convolution *of = ctx;
    const taps *t = of->a->handle;
    const int64_t *y = of->y->shape.d;
    float *seen = (float *)of->a->workspace + thread * t->band, *own = seen + t->own_at;
    const float *weights = (const float *)of->a->workspace + t->weights_at;
    int64_t bands = (y[1] + t->rows - 1) / t->rows;
    int before = dg_pool_team(1);

    for (int64_t b = begin; b < end; b++) {
        int64_t image = b / bands, first = b % bands * t->rows;
        int64_t rows = at_most(t->rows, y[1] - first), pixels = pixels_between(t, rows, y[2]);

        fill_seen(t, seen, of->x, image, first, rows);
        for (int64_t k = 0; k < t->kh * t->kw; k++) {
            int rc = dg_host_product(own, k > 0, seen_by(t, seen, k), false, t->in,
                                     weights + k * t->in * t->out, t->out, pixels, t->out, t->in);

            if (rc < 0)
                of->rc = rc;
        }
        for (int64_t row = 0; row < rows; row++)
            put_row((float *)of->y->data + ((image * y[1] + first + row) * y[2]) * t->out,
                    own + row * t->columns * t->out, of->bias ? of->bias->data : NULL, y[2],
                    t->out);
    }
    dg_pool_team(before);
}

static int run_whole(convolution of)
{
    const taps *t = of.a->handle;
    const int64_t *y = of.y->shape.d;

    dg_parallel_for(of.a->threads, of.a->t[1].shape.d[0], arrange_weights, (void *)of.a);
    dg_parallel_for(of.a->threads, y[0] * ((y[1] + t->rows - 1) / t->rows), convolve, &of);
    return of.rc;
}

static bool pay(const dg_tensor *y, const dg_tensor *w)
{
    const int64_t *k = w->shape.d;

    return dg_host_library_has_avx2_only() && w->dtype == DG_F32 && k[2] * k[3] > 1 &&
           k[0] >= FEW_CHANNELS && k[1] >= FEW_CHANNELS &&
           y->shape.d[1] * y->shape.d[2] >= FEW_PIXELS;
}

/* long_sums.c asks for several outputs per output of the weights */
static bool pays_conv(const dg_prepare *p)
{
    return p->t[0].dtype == DG_F32 && p->t[3].dtype == DG_F32 &&
           p->t[3].shape.d[3] == p->t[1].shape.d[0] && pay(&p->t[3], &p->t[1]);
}

static int prepare_conv(dg_prepare *p)
{
    return lay_out(p, view_of(p->attr, p->t[1].shape.d), p->t[3].shape.d, p->threads);
}

static int run_conv(const dg_args *a)
{
    return run_whole((convolution){ a, &a->t[0], a->t[2].data ? &a->t[2] : NULL, &a->t[3], 0 });
}

static bool pays_dx(const dg_prepare *p)
{
    return ((const conv_attr *)p->attr)->stride == 1 && p->t[0].dtype == DG_F32 &&
           p->t[2].dtype == DG_F32 && pay(&p->t[2], &p->t[1]);
}

static int prepare_dx(dg_prepare *p)
{
    const conv_attr *at = p->attr;
    const int64_t *w = p->t[1].shape.d;

    return lay_out(p,
                   (taps){ .kh = w[2],
                           .kw = w[3],
                           .stride = 1,
                           .top = w[2] - 1 - at->pad,
                           .left = w[3] - 1 - at->pad,
                           .in = w[0],
                           .out = w[1],
                           .turned = true },
                   p->t[2].shape.d, p->threads);
}

static int run_dx(const dg_args *a)
{
    return run_whole((convolution){ a, &a->t[0], NULL, &a->t[2], 0 });
}

const dg_kernel dg_host_taps_conv2d = { prepare_conv, run_conv, free };
const dg_kernel dg_host_taps_conv2d_dx = { prepare_dx, run_dx, free };

/* ---- the gradient of the weights ------------------------------------------------------------- */

static bool pays_dw(const dg_prepare *p)
{
    return pay(&p->t[1], &p->t[2]);
}

static int prepare_dw(dg_prepare *p)
{
    return lay_out(p, view_of(p->attr, p->t[2].shape.d), p->t[1].shape.d, 1);
}

/* dW [O,I,kh,kw] from [kh,kw,O,I], for output channels begin..end-1. */
static void arrange_gradient(void *ctx, int64_t begin, int64_t end, int thread)
{
    const dg_args *a = ctx;
    const taps *t = a->handle;
    int64_t n = t->kh * t->kw;
    const float *from = (const float *)a->workspace + t->weights_at;
    float *dw = a->t[2].data;

    (void)thread;
    for (int64_t pair = begin * t->in; pair < end * t->in; pair++)
        for (int64_t k = 0; k < n; k++)
            dw[pair * n + k] = from[k * t->out * t->in + pair];
}

static int add_band(const dg_args *a, int64_t image, int64_t first, int64_t rows)
{
    const taps *t = a->handle;
    float *seen = a->workspace, *dy = seen + t->own_at, *dw = seen + t->weights_at;
    int64_t pixels = pixels_between(t, rows, a->t[1].shape.d[2]);
    int rc = 0;

    fill_seen(t, seen, &a->t[0], image, first, rows);
    for (int64_t row = 0; row < rows; row++)
        fill_row(dy + row * t->columns * t->out, &a->t[1], image, first + row, t->columns, 1, 0);
    for (int64_t k = 0; k < t->kh * t->kw && rc == 0; k++)
        rc = dg_host_product(dw + k * t->out * t->in, image + first > 0, dy, true, t->out,
                             seen_by(t, seen, k), t->in, t->out, t->in, pixels);
    return rc;
}

static int run_dw(const dg_args *a)
{
    const taps *t = a->handle;
    const int64_t *y = a->t[1].shape.d;
    int before = dg_pool_team(a->threads), rc = 0;

    for (int64_t image = 0; image < y[0]; image++)
        for (int64_t first = 0; first < y[1] && rc == 0; first += t->rows)
            rc = add_band(a, image, first, at_most(t->rows, y[1] - first));
    dg_parallel_for(a->threads, t->out, arrange_gradient, (void *)a);
    dg_pool_team(before);
    return rc;
}

const dg_kernel dg_host_taps_conv2d_dw = { prepare_dw, run_dw, free };

/* ---- the choice ------------------------------------------------------------------------------ */

typedef struct chosen {
    const dg_kernel *kernel;
    void *handle;
} chosen;

static int prepare_chosen(dg_prepare *p, const dg_kernel *kernel)
{
    chosen *c = calloc(1, sizeof *c);
    int rc;

    if (!c)
        return -DG_EMEMORY;
    c->kernel = kernel;
    rc = kernel->prepare(p);
    c->handle = p->handle;
    p->handle = c;
    if (rc < 0) {
        free(c);
        p->handle = NULL;
    }
    return rc;
}

static int run_chosen(const dg_args *a)
{
    const chosen *c = a->handle;
    dg_args with = *a;

    with.handle = c->handle;
    return c->kernel->run(&with);
}

static void release_chosen(void *handle)
{
    chosen *c = handle;

    if (c)
        c->kernel->release(c->handle);
    free(c);
}

static int choose_conv(dg_prepare *p)
{
    return prepare_chosen(p, pays_conv(p) ? &dg_host_taps_conv2d : &dg_host_dnn_conv2d);
}

static int choose_dx(dg_prepare *p)
{
    return prepare_chosen(p, pays_dx(p) ? &dg_host_taps_conv2d_dx : &dg_host_dnn_conv2d_dx);
}

static int choose_dw(dg_prepare *p)
{
    return prepare_chosen(p, pays_dw(p) ? &dg_host_taps_conv2d_dw : &dg_host_dnn_conv2d_dw);
}

const dg_kernel dg_host_whole_conv2d = { choose_conv, run_chosen, release_chosen };
const dg_kernel dg_host_conv2d_dx = { choose_dx, run_chosen, release_chosen };
const dg_kernel dg_host_whole_conv2d_dw = { choose_dw, run_chosen, release_chosen };
