/* taps.c: see taps.h. The gradient of the weights at one tap is a sum over pixels of dY's channels
 * times those of the pixel of X that the tap sees. Where the pixels of X lie in memory with the
 * right number of zeros around, that one is as far ahead of dY's pixel for all of them, so that the
 * sum is one matrix product. With a stride S the pixels fall into S x S phases, by their row and
 * column modulo S; each tap sees one phase only.
 *
 * Bands of dY's rows are copied into such grids with their part of X, one after the other, and each
 * is used for all taps while it is in the cache. Grids have dY's rows and columns, and some more:
 * those that taps reach beyond. */
#include "kernels/host/taps.h"

#include <stdlib.h>
#include <string.h>

#include "base/pool.h"
#include "kernels/attrs.h"
#include "kernels/host/host.h"

enum {
    X,
    DY,
    DW,
    BAND_BYTES = 1 << 20, /* or as many as dW has, which each band reads and writes */
    FEW_CHANNELS = 16,    /* fewer leave most of a product's registers empty */
    FEW_PIXELS = 1000,    /* per thread: for fewer, reading and writing dW takes too long */
};

typedef struct taps {
    int64_t kh, kw, stride, pad;
    int64_t rows, columns;          /* of a whole image's grid */
    int64_t band_rows, band_images; /* of dY in a band; several images only if whole */
    size_t x_at, dy_at, sum_at;     /* in workspace; sum: [kh,kw,O,I] */
    int64_t phase;                  /* elements of one phase's grid */
} taps;

/* A band: dY's rows first..first+rows-1 of some images, in grids of `height` rows per image. */
typedef struct band {
    const dg_args *a;
    int64_t image, images, first, rows, height;
} band;

static int64_t at_most(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

bool dg_host_taps_pay(const dg_prepare *p)
{
    const int64_t *y = p->t[DY].shape.d, *w = p->t[DW].shape.d;

    return dg_host_library_has_avx2_only() && p->t[DW].dtype == DG_F32 && w[2] * w[3] > 1 &&
           w[0] >= FEW_CHANNELS && w[1] >= FEW_CHANNELS &&
           y[0] * y[1] * y[2] >= FEW_PIXELS * p->threads;
}

static size_t reserve(size_t *bytes, int64_t elements)
{
    size_t at = *bytes;

    *bytes += ((size_t)elements * sizeof(float) + 63) & ~(size_t)63;
    return at;
}

static int prepare(dg_prepare *p)
{
    const conv_attr *at = p->attr;
    const int64_t *y = p->t[DY].shape.d, *w = p->t[DW].shape.d;
    int64_t s = at->stride, extra, row_bytes;
    size_t bytes = 0;
    int64_t band_bytes = dg_shape_elements(p->t[DW].shape) * (int64_t)sizeof(float);
    taps *t = calloc(1, sizeof *t);

    if (!t)
        return -DG_EMEMORY;
    t->kh = w[2];
    t->kw = w[3];
    t->stride = s;
    t->pad = at->pad;
    extra = (t->kh - 1) / s;
    t->rows = y[1] + extra;
    t->columns = y[2] + (t->kw - 1) / s;
    row_bytes = t->columns * (s * s * w[1] + w[0]) * (int64_t)sizeof(float);
    if (band_bytes < BAND_BYTES)
        band_bytes = BAND_BYTES;
    t->band_rows = at_most(y[1], band_bytes / row_bytes + 1);
    t->band_images =
        t->band_rows < y[1] ? 1 : at_most(y[0], band_bytes / (row_bytes * t->rows) + 1);
    t->phase = t->band_images * (t->band_rows + extra) * t->columns * w[1];
    t->x_at = reserve(&bytes, s * s * t->phase);
    t->dy_at = reserve(&bytes, t->band_images * (t->band_rows + extra) * t->columns * w[0]);
    t->sum_at = reserve(&bytes, dg_shape_elements(p->t[DW].shape));
    p->handle = t;
    p->workspace_bytes = bytes;
    return 0;
}

/* n pixels of `channels`, which lie `step` pixels apart in a tensor. */
static void copy_pixels(float *to, const dg_tensor *t, int64_t pixel, int64_t step, int64_t n)
{
    int64_t channels = t->shape.d[3], piece = step == 1 ? n * channels : channels;

    for (int64_t i = 0; i < n * channels; i += piece) {
        const char *from =
            (const char *)t->data + (size_t)(pixel * channels + i * step) * dg_dtype_size(t->dtype);

        if (t->dtype == DG_BF16)
            dg_host_widen(to + i, from, piece, 1);
        else
            memcpy(to + i, from, (size_t)piece * sizeof *to);
    }
}

/* One row of a grid of `columns` pixels: column c is the tensor's column c * step - before, zero
 * where there is none, as in a row that is not there. */
static void fill_row(float *to, const dg_tensor *t, int64_t image, int64_t row, int64_t columns,
                     int64_t step, int64_t before)
{
    int64_t h = t->shape.d[1], w = t->shape.d[2], channels = t->shape.d[3];
    int64_t begin = before > 0 ? (before + step - 1) / step : 0;
    int64_t end = w + before <= 0 ? 0 : at_most(columns, (w - 1 + before) / step + 1);

    if (row < 0 || row >= h || begin >= end)
        begin = end = columns;
    memset(to, 0, (size_t)(begin * channels) * sizeof *to);
    copy_pixels(to + begin * channels, t, (image * h + row) * w + begin * step - before, step,
                end - begin);
    memset(to + end * channels, 0, (size_t)((columns - end) * channels) * sizeof *to);
}

/* Rows of the grids, counted over the band's images. */
static void fill(void *ctx, int64_t begin, int64_t end, int thread)
{
    const band *b = ctx;
    const dg_args *a = b->a;
    const taps *t = a->handle;
    int64_t s = t->stride, i = a->t[X].shape.d[3], o = a->t[DY].shape.d[3];
    float *x = (float *)((char *)a->workspace + t->x_at);
    float *dy = (float *)((char *)a->workspace + t->dy_at);

    (void)thread;
    for (int64_t n = begin; n < end; n++) {
        int64_t image = b->image + n / b->height, row = n % b->height;

        for (int64_t k = 0; k < s * s; k++)
            fill_row(x + k * t->phase + n * t->columns * i, &a->t[X], image,
                     (b->first + row) * s + k / s - t->pad, t->columns, s, t->pad - k % s);
        fill_row(dy + n * t->columns * o, &a->t[DY], image, row < b->rows ? b->first + row : -1,
                 t->columns, 1, 0);
    }
}

static int add_band(band *b)
{
    const dg_args *a = b->a;
    const taps *t = a->handle;
    int64_t s = t->stride, i = a->t[X].shape.d[3], o = a->t[DY].shape.d[3];
    int64_t taken = ((b->images - 1) * b->height + b->rows - 1) * t->columns + a->t[DY].shape.d[2];
    const float *x = (const float *)((const char *)a->workspace + t->x_at);
    const float *dy = (const float *)((const char *)a->workspace + t->dy_at);
    float *sum = (float *)((char *)a->workspace + t->sum_at);
    int rc = 0;

    dg_parallel_for(a->threads, b->images * b->height, fill, b);
    for (int64_t k = 0; k < t->kh * t->kw && rc == 0; k++) {
        int64_t h = k / t->kw, w = k % t->kw;
        const float *seen = x + (h % s * s + w % s) * t->phase;

        rc = dg_host_add_product(sum + k * o * i, dy, o, seen + (h / s * t->columns + w / s) * i, i,
                                 o, i, taken);
    }
    return rc;
}

/* dW [O,I,kh,kw] from [kh,kw,O,I], for outputs begin..end-1. */
static void arrange(void *ctx, int64_t begin, int64_t end, int thread)
{
    const dg_args *a = ctx;
    const taps *t = a->handle;
    int64_t n = t->kh * t->kw, i = a->t[DW].shape.d[1], all = a->t[DW].shape.d[0] * i;
    const float *sum = (const float *)((const char *)a->workspace + t->sum_at);
    float *dw = a->t[DW].data;

    (void)thread;
    for (int64_t pair = begin * i; pair < end * i; pair++)
        for (int64_t k = 0; k < n; k++)
            dw[pair * n + k] = sum[k * all + pair];
}

static int run(const dg_args *a)
{
    const taps *t = a->handle;
    const int64_t *y = a->t[DY].shape.d, *w = a->t[DW].shape.d;
    int before = dg_pool_team(a->threads), rc = 0;
    band b = { .a = a };

    memset((char *)a->workspace + t->sum_at, 0,
           (size_t)dg_shape_elements(a->t[DW].shape) * sizeof(float));
    for (; b.image < y[0] && rc == 0; b.image += t->band_images) {
        b.images = at_most(t->band_images, y[0] - b.image);
        for (b.first = 0; b.first < y[1] && rc == 0; b.first += t->band_rows) {
            b.rows = at_most(t->band_rows, y[1] - b.first);
            b.height = b.rows + (t->kh - 1) / t->stride;
            rc = add_band(&b);
        }
    }
    dg_parallel_for(a->threads, w[0], arrange, (void *)a);
    dg_pool_team(before);
    return rc;
}

const dg_kernel dg_host_taps_conv2d_dw = { prepare, run, free };
