/* pool.c: pooling and nearest upsampling of feature maps, x [B,H,W,C] -> y [B,H',W',C].
 *
 * max_pool   maximum of the size x size window that begins at (oy*stride - pad, ox*stride - pad),
 *           without what is outside x. `at` is its position in the window, ky*size + kx, the first
 *           among equals (NaN wins); the gradient goes there
 * avg_pool   mean of the part of the window inside x (ceil mode: windows may extend past the edge)
 * upsample   y[oy,ox] = x[oy div size, ox div size] */
#include <string.h>

#include "kernels/ref/ref.h"

typedef struct window {
    int64_t y0, y1, x0, x1; /* clipped to the map, end excluded */
} window;

static window window_at(const pool_attr *f, int64_t h, int64_t w, int64_t oy, int64_t ox)
{
    int64_t y = oy * f->stride - f->pad, x = ox * f->stride - f->pad;

    return (window){
        .y0 = y < 0 ? 0 : y,
        .y1 = y + f->size > h ? h : y + f->size,
        .x0 = x < 0 ? 0 : x,
        .x1 = x + f->size > w ? w : x + f->size,
    };
}

static int max_pool(const dg_args *a)
{
    const pool_attr *f = a->attr;
    uint8_t *at = a->t[DG_MAX_POOL_AT].data;
    int64_t h = dim(a, DG_MAX_POOL_X, 1), w = dim(a, DG_MAX_POOL_X, 2),
            c = dim(a, DG_MAX_POOL_X, 3);
    int64_t out_h = dim(a, DG_MAX_POOL_Y, 1), out_w = dim(a, DG_MAX_POOL_Y, 2);

    for (int64_t n = 0; n < rows(a, DG_MAX_POOL_Y); n++) { /* n = (b*H' + oy)*W' + ox */
        int64_t b = n / (out_h * out_w), oy = n / out_w % out_h, ox = n % out_w;
        const real *x = in(a, DG_MAX_POOL_X) + b * h * w * c;
        window v = window_at(f, h, w, oy, ox);
        int64_t top = oy * f->stride - f->pad, left = ox * f->stride - f->pad;

        for (int64_t k = 0; k < c; k++) {
            bool found = false;
            real best = 0;

            for (int64_t y = v.y0; y < v.y1; y++)
                for (int64_t i = v.x0; i < v.x1; i++) {
                    real value = x[(y * w + i) * c + k];

                    if (found && !(value > best) && !(value != value && best == best))
                        continue;
                    found = true;
                    best = value;
                    at[n * c + k] = (uint8_t)((y - top) * f->size + i - left);
                }
            out(a, DG_MAX_POOL_Y)[n * c + k] = best;
        }
    }
    return 0;
}

static int max_pool_grad(const dg_args *a)
{
    const pool_attr *f = a->attr;
    const uint8_t *at = a->t[DG_MAX_POOL_GRAD_AT].data;
    int64_t out_h = dim(a, DG_MAX_POOL_GRAD_DY, 1), out_w = dim(a, DG_MAX_POOL_GRAD_DY, 2),
            c = dim(a, DG_MAX_POOL_GRAD_DY, 3);

    memset(out(a, DG_MAX_POOL_GRAD_DX), 0, (size_t)elements(a, DG_MAX_POOL_GRAD_DX) * sizeof(real));
    for (int64_t n = 0; n < rows(a, DG_MAX_POOL_GRAD_DY); n++) {
        int64_t b = n / (out_h * out_w), oy = n / out_w % out_h, ox = n % out_w;
        real *dx = out(a, DG_MAX_POOL_GRAD_DX) + b * f->h * f->w * c;

        for (int64_t k = 0; k < c; k++) {
            int64_t y = oy * f->stride - f->pad + at[n * c + k] / f->size;
            int64_t x = ox * f->stride - f->pad + at[n * c + k] % f->size;

            dx[(y * f->w + x) * c + k] += in(a, DG_MAX_POOL_GRAD_DY)[n * c + k];
        }
    }
    return 0;
}

static int avg_pool(const dg_args *a)
{
    const pool_attr *f = a->attr;
    int64_t h = dim(a, DG_AVG_POOL_X, 1), w = dim(a, DG_AVG_POOL_X, 2),
            c = dim(a, DG_AVG_POOL_X, 3);
    int64_t out_h = dim(a, DG_AVG_POOL_Y, 1), out_w = dim(a, DG_AVG_POOL_Y, 2);

    for (int64_t n = 0; n < rows(a, DG_AVG_POOL_Y); n++) {
        const real *x = in(a, DG_AVG_POOL_X) + n / (out_h * out_w) * h * w * c;
        window v = window_at(f, h, w, n / out_w % out_h, n % out_w);

        for (int64_t k = 0; k < c; k++) {
            double total = 0;

            for (int64_t y = v.y0; y < v.y1; y++)
                for (int64_t i = v.x0; i < v.x1; i++)
                    total += x[(y * w + i) * c + k];
            out(a, DG_AVG_POOL_Y)[n * c + k] =
                (real)(total / (double)((v.y1 - v.y0) * (v.x1 - v.x0)));
        }
    }
    return 0;
}

static int avg_pool_grad(const dg_args *a)
{
    const pool_attr *f = a->attr;
    int64_t out_h = dim(a, DG_AVG_POOL_GRAD_DY, 1), out_w = dim(a, DG_AVG_POOL_GRAD_DY, 2),
            c = dim(a, DG_AVG_POOL_GRAD_DY, 3);

    memset(out(a, DG_AVG_POOL_GRAD_DX), 0, (size_t)elements(a, DG_AVG_POOL_GRAD_DX) * sizeof(real));
    for (int64_t n = 0; n < rows(a, DG_AVG_POOL_GRAD_DY); n++) {
        real *dx = out(a, DG_AVG_POOL_GRAD_DX) + n / (out_h * out_w) * f->h * f->w * c;
        window v = window_at(f, f->h, f->w, n / out_w % out_h, n % out_w);
        double share = 1 / (double)((v.y1 - v.y0) * (v.x1 - v.x0));

        for (int64_t y = v.y0; y < v.y1; y++)
            for (int64_t i = v.x0; i < v.x1; i++)
                for (int64_t k = 0; k < c; k++)
                    dx[(y * f->w + i) * c + k] +=
                        (real)(in(a, DG_AVG_POOL_GRAD_DY)[n * c + k] * share);
    }
    return 0;
}

static int upsample(const dg_args *a)
{
    const pool_attr *f = a->attr;
    int64_t w = dim(a, DG_UPSAMPLE_X, 2), c = dim(a, DG_UPSAMPLE_X, 3);

    for (int64_t n = 0; n < rows(a, DG_UPSAMPLE_Y); n++) {
        int64_t x = n % (w * f->size) / f->size, row = n / (w * f->size) / f->size; /* b*H + y */

        memcpy(out(a, DG_UPSAMPLE_Y) + n * c, in(a, DG_UPSAMPLE_X) + (row * w + x) * c,
               (size_t)c * sizeof(real));
    }
    return 0;
}

/* Each pixel of x sums the size x size pixels that copied it. */
static int upsample_grad(const dg_args *a)
{
    const pool_attr *f = a->attr;
    int64_t w = dim(a, DG_UPSAMPLE_GRAD_DX, 2), c = dim(a, DG_UPSAMPLE_GRAD_DX, 3);

    for (int64_t n = 0; n < rows(a, DG_UPSAMPLE_GRAD_DX); n++) {
        int64_t x = n % w, row = n / w; /* row = b*H + y */

        for (int64_t k = 0; k < c; k++) {
            double total = 0;

            for (int64_t ky = 0; ky < f->size; ky++)
                for (int64_t kx = 0; kx < f->size; kx++) {
                    int64_t y_row = row * f->size + ky, y_x = x * f->size + kx;

                    total += in(a, DG_UPSAMPLE_GRAD_DY)[(y_row * w * f->size + y_x) * c + k];
                }
            out(a, DG_UPSAMPLE_GRAD_DX)[n * c + k] = (real)total;
        }
    }
    return 0;
}

DG_REF(max_pool, NULL, max_pool);
DG_REF(max_pool_grad, NULL, max_pool_grad);
DG_REF(avg_pool, NULL, avg_pool);
DG_REF(avg_pool_grad, NULL, avg_pool_grad);
DG_REF(upsample, NULL, upsample);
DG_REF(upsample_grad, NULL, upsample_grad);
