/* products.c: see products.h. */
#include "tests/cuda/products.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/element.h"
#include "kernels/attrs.h"
#include "tests/check.h"

static double get(const void *p, int64_t type, int64_t n)
{
    return type == DG_F64   ? ((const double *)p)[n]
           : type == DG_F32 ? (double)((const float *)p)[n]
                            : (double)dg_f32_of_bf16(((const uint16_t *)p)[n]);
}

static void put(void *p, int64_t type, int64_t n, double v)
{
    if (type == DG_F64)
        ((double *)p)[n] = v;
    else if (type == DG_F32)
        ((float *)p)[n] = (float)v;
    else
        ((uint16_t *)p)[n] = dg_bf16_of_f32((float)v);
}

/* As a device multiplies it: of f32 it sees 10 bits behind the point if tf32 is allowed. */
static double factor(const void *p, int64_t type, int64_t tf32, int64_t n)
{
    double v = get(p, type, n);
    int exponent;
    double half = tf32 ? frexp(v, &exponent) : 0;

    return tf32 ? ldexp(rint(ldexp(half, 11)), exponent - 11) : v;
}

/* rows x columns in double; the source's rows are its columns if `turned`. */
static void spread(double *to, const void *from, const dg_cuda_product *p, int64_t at, int64_t rows,
                   int64_t columns, bool turned)
{
    for (int64_t r = 0; r < rows; r++)
        for (int64_t c = 0; c < columns; c++)
            to[r * columns + c] =
                factor(from, p->type, p->tf32, at + (turned ? c * rows + r : r * columns + c));
}

/* Two roundings each, whatever the CPU: the same bits. */
#if defined(__x86_64__) && !SANITIZED
__attribute__((target_clones("avx512f", "avx2", "default")))
#endif
static void
add_row(double *restrict sum, const double *restrict b, double x, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        sum[i] += x * b[i];
}

void products_run(const dg_cuda_product *p, const dg_cuda_multiplied *at)
{
    double *left = malloc((size_t)(p->m * p->k) * sizeof *left),
           *right = malloc((size_t)(p->k * p->n) * sizeof *right),
           *sum = malloc((size_t)p->n * sizeof *sum);

    if (!left || !right || !sum || (at->bias != NULL) != (p->bias != 0) ||
        (at->res != NULL) != (p->add != 0) || p->act > DG_ACT_RELU ||
        (p->type == DG_F64 && (p->bias || p->act)))
        abort();
    for (int64_t i = 0; i < p->batch; i++) {
        if (i == 0 || p->a_step)
            spread(left, at->a, p, i * p->a_step, p->m, p->k, p->trans_a);
        if (i == 0 || p->b_step)
            spread(right, at->b, p, i * p->b_step, p->k, p->n, p->trans_b);
        for (int64_t m = 0; m < p->m; m++) {
            int64_t row = (i * p->m + m) * p->n;

            for (int64_t n = 0; n < p->n; n++)
                sum[n] = (p->bias ? get(at->bias, p->out, n) : 0) +
                         (p->add ? get(at->res, p->out, row + n) : 0);
            for (int64_t k = 0; k < p->k; k++)
                add_row(sum, right + k * p->n, left[m * p->k + k], p->n);
            for (int64_t n = 0; n < p->n; n++)
                put(at->y, p->out, row + n, p->act && sum[n] < 0 ? 0 : sum[n]);
        }
    }
    free(left);
    free(right);
    free(sum);
}

/* ---- convolutions ---------------------------------------------------------------------------- */

static bool is_valid(const dg_cuda_convolution *p, const dg_cuda_convolved *at)
{
    const bool given[] = { at->y == NULL, at->x == NULL, at->kernel == NULL };
    uintptr_t all = (uintptr_t)at->x | (uintptr_t)at->kernel | (uintptr_t)at->y |
                    (uintptr_t)at->bias | (uintptr_t)at->residual | (uintptr_t)at->to;

    for (int i = 0; i < 3; i++)
        if (given[i] != (i == p->wanted))
            return false;
    return at->to && all % DG_CUDA_CONVOLVED == 0 && (p->type == DG_BF16 || p->type == DG_F32) &&
           (at->bias != NULL) == (p->bias != 0) && (at->residual != NULL) == (p->residual != 0) &&
           (p->wanted == DG_CUDA_Y || !(p->bias || p->residual || p->act)) &&
           p->out_h == (p->h + 2 * p->pad - p->kh) / p->stride + 1 &&
           p->out_w == (p->w + 2 * p->pad - p->kw) / p->stride + 1;
}

typedef struct volumes {
    double *x, *y, *kernel; /* kernel: [ky,kx,i,o] for y, else [ky,kx,o,i] */
    int64_t n_x, n_y, n_kernel;
} volumes;

/* Where number n of a kernel as the library has it stands in volumes.kernel. */
static int64_t place(const dg_cuda_convolution *p, int64_t n)
{
    int64_t i = n % p->i, tap = n / p->i % (p->kh * p->kw), o = n / p->i / (p->kh * p->kw);

    return p->wanted == DG_CUDA_Y ? (tap * p->i + i) * p->o + o : (tap * p->o + o) * p->i + i;
}

static double *volume(const dg_cuda_convolution *p, const void *from, int64_t n)
{
    double *v = calloc((size_t)n, sizeof *v);

    if (!v)
        abort();
    for (int64_t i = 0; i < n && from; i++)
        v[i] = factor(from, p->type, p->tf32, i);
    return v;
}

static volumes volumes_open(const dg_cuda_convolution *p, const dg_cuda_convolved *at)
{
    volumes v = { .n_x = p->images * p->h * p->w * p->i,
                  .n_y = p->images * p->out_h * p->out_w * p->o,
                  .n_kernel = p->o * p->kh * p->kw * p->i };

    v.x = volume(p, at->x, v.n_x);
    v.y = volume(p, at->y, v.n_y);
    v.kernel = volume(p, NULL, v.n_kernel);
    for (int64_t n = 0; n < v.n_kernel && at->kernel; n++)
        v.kernel[place(p, n)] = factor(at->kernel, p->type, p->tf32, n);
    for (int64_t n = 0; n < v.n_y && p->bias; n++)
        v.y[n] = get(at->bias, DG_F32, n % p->o);
    return v;
}

/* What a pixel of y has to do with the pixel of x below one tap of the kernel. */
static void convolve_tap(const dg_cuda_convolution *p, volumes *v, int64_t pixel, int64_t ky,
                         int64_t kx)
{
    int64_t ox = pixel % p->out_w, oy = pixel / p->out_w % p->out_h,
            b = pixel / p->out_w / p->out_h;
    int64_t iy = oy * p->stride - p->pad + ky, ix = ox * p->stride - p->pad + kx;
    double *x = v->x + ((b * p->h + iy) * p->w + ix) * p->i, *y = v->y + pixel * p->o,
           *kernel = v->kernel + (ky * p->kw + kx) * p->i * p->o;

    if (iy < 0 || iy >= p->h || ix < 0 || ix >= p->w)
        return;
    for (int64_t i = 0; i < p->i && p->wanted == DG_CUDA_Y; i++)
        add_row(y, kernel + i * p->o, x[i], p->o);
    for (int64_t o = 0; o < p->o && p->wanted == DG_CUDA_DX; o++)
        add_row(x, kernel + o * p->i, y[o], p->i);
    for (int64_t o = 0; o < p->o && p->wanted == DG_CUDA_DKERNEL; o++)
        add_row(kernel + o * p->i, x, y[o], p->i);
}

bool convolutions_run(const dg_cuda_convolution *p, const dg_cuda_convolved *at)
{
    volumes v;

    if (!is_valid(p, at))
        return false;
    v = volumes_open(p, at);
    for (int64_t pixel = 0; pixel < p->images * p->out_h * p->out_w; pixel++)
        for (int64_t ky = 0; ky < p->kh; ky++)
            for (int64_t kx = 0; kx < p->kw; kx++)
                convolve_tap(p, &v, pixel, ky, kx);
    for (int64_t n = 0; n < v.n_y && p->wanted == DG_CUDA_Y; n++) {
        double z = v.y[n] + (p->residual ? get(at->residual, p->type, n) : 0);

        put(at->to, p->type, n,
            p->act == DG_ACT_RELU   ? (z < 0 ? 0 : z)
            : p->act == DG_ACT_SILU ? z / (1 + exp(-z))
                                    : z);
    }
    for (int64_t n = 0; n < v.n_x && p->wanted == DG_CUDA_DX; n++)
        put(at->to, p->type, n, v.x[n]);
    for (int64_t n = 0; n < v.n_kernel && p->wanted == DG_CUDA_DKERNEL; n++)
        put(at->to, p->type, n, v.kernel[place(p, n)]);
    free(v.x);
    free(v.y);
    free(v.kernel);
    return true;
}
