/* depthwise.c: convolution of every channel with a kernel of its own; channels last, stride 1, zero
 * padding to the same size, kernels k x k with odd k, p = (k-1)/2.
 *
 *    y[b,y,x,c]  = bias[c] + sum over i,j of x[b, y+i-p, x+j-p, c] * w[c,0,i,j]
 *    dw[c,0,i,j] = sum over b,y,x of dy[b,y,x,c] * x[b, y+i-p, x+j-p, c]
 *
 * With flip, w[c,0,k-1-i,k-1-j] takes the place of w[c,0,i,j]: that of dy is the gradient of x. */
#include <string.h>

#include "kernels/ref/ref.h"

typedef struct plane {
    int64_t h, w, c, k, pad;
} plane;

static plane plane_of(const dg_args *a, int x, int64_t k)
{
    return (plane){ dim(a, x, 1), dim(a, x, 2), dim(a, x, 3), k, (k - 1) / 2 };
}

static void conv_rows(const dg_args *a, int64_t begin, int64_t end, int thread)
{
    const depthwise_attr *f = a->attr;
    plane g = plane_of(a, DG_DEPTHWISE_CONV_X, dim(a, DG_DEPTHWISE_CONV_W, 2));
    const real *w = in(a, DG_DEPTHWISE_CONV_W);

    (void)thread;
    for (int64_t row = begin; row < end; row++) { /* row = b*H + y */
        int64_t y = row % g.h;

        for (int64_t n = row * g.w * g.c; n < (row + 1) * g.w * g.c; n++) {
            int64_t x = n / g.c % g.w, c = n % g.c;
            double sum = has(a, DG_DEPTHWISE_CONV_B) ? in(a, DG_DEPTHWISE_CONV_B)[c] : 0;

            for (int64_t t = 0; t < g.k * g.k; t++) {
                int64_t iy = y + t / g.k - g.pad, ix = x + t % g.k - g.pad;

                if (iy < 0 || iy >= g.h || ix < 0 || ix >= g.w)
                    continue;
                sum += (double)in(a, DG_DEPTHWISE_CONV_X)[((row - y + iy) * g.w + ix) * g.c + c] *
                       w[c * g.k * g.k + (f->flip ? g.k * g.k - 1 - t : t)];
            }
            out(a, DG_DEPTHWISE_CONV_Y)[n] = (real)sum;
        }
    }
}

static int depthwise_conv(const dg_args *a)
{
    parallel(a, dim(a, DG_DEPTHWISE_CONV_X, 0) * dim(a, DG_DEPTHWISE_CONV_X, 1), conv_rows);
    return 0;
}

static void grad_taps(const dg_args *a, int64_t begin, int64_t end, int thread)
{
    plane g = plane_of(a, DG_DEPTHWISE_CONV_DW_X, dim(a, DG_DEPTHWISE_CONV_DW_DW, 2));
    int64_t rows = dim(a, DG_DEPTHWISE_CONV_DW_X, 0) * g.h;
    double *sum = (double *)a->workspace + thread * g.c;

    for (int64_t t = begin; t < end; t++) {
        memset(sum, 0, (size_t)g.c * sizeof *sum);
        for (int64_t n = 0; n < rows * g.w; n++) { /* n = (b*H + y)*W + x */
            int64_t y = n / g.w % g.h, iy = y + t / g.k - g.pad;
            int64_t ix = n % g.w + t % g.k - g.pad;
            const real *dy = in(a, DG_DEPTHWISE_CONV_DW_DY) + n * g.c;

            if (iy < 0 || iy >= g.h || ix < 0 || ix >= g.w)
                continue;
            const real *x = in(a, DG_DEPTHWISE_CONV_DW_X) + ((n / g.w - y + iy) * g.w + ix) * g.c;

            for (int64_t c = 0; c < g.c; c++)
                sum[c] += (double)dy[c] * x[c];
        }
        for (int64_t c = 0; c < g.c; c++)
            out(a, DG_DEPTHWISE_CONV_DW_DW)[c * g.k * g.k + t] = (real)sum[c];
    }
}

static int prepare(dg_prepare *p)
{
    p->workspace_bytes = (size_t)(p->threads > 1 ? p->threads : 1) *
                         (size_t)p->t[DG_DEPTHWISE_CONV_DW_X].shape.d[3] * sizeof(double);
    return 0;
}

static int depthwise_conv_dw(const dg_args *a)
{
    int64_t k = dim(a, DG_DEPTHWISE_CONV_DW_DW, 2);

    parallel(a, k * k, grad_taps);
    return 0;
}

DG_REF(depthwise_conv, NULL, depthwise_conv);
DG_REF(depthwise_conv_dw, prepare, depthwise_conv_dw);
