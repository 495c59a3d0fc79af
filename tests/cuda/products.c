/* products.c: see products.h. */
#include "tests/cuda/products.h"

#include <stdlib.h>
#include <string.h>

#include "base/element.h"

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

/* rows x columns in double; the source's rows are its columns if `turned`. */
static void spread(double *to, const void *from, int64_t type, int64_t at, int64_t rows,
                   int64_t columns, bool turned)
{
    for (int64_t r = 0; r < rows; r++)
        for (int64_t c = 0; c < columns; c++)
            to[r * columns + c] = get(from, type, at + (turned ? c * rows + r : r * columns + c));
}

static void add_row(double *restrict sum, const double *restrict b, double x, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        sum[i] += x * b[i];
}

void products_run(const dg_cuda_product *p, const void *a, const void *b, const void *c, void *y)
{
    double *left = malloc((size_t)(p->m * p->k) * sizeof *left),
           *right = malloc((size_t)(p->k * p->n) * sizeof *right),
           *sum = malloc((size_t)p->n * sizeof *sum);

    if (!left || !right || !sum)
        abort();
    for (int64_t i = 0; i < p->batch; i++) {
        if (i == 0 || p->a_step)
            spread(left, a, p->type, i * p->a_step, p->m, p->k, p->trans_a);
        if (i == 0 || p->b_step)
            spread(right, b, p->type, i * p->b_step, p->k, p->n, p->trans_b);
        for (int64_t m = 0; m < p->m; m++) {
            int64_t at = (i * p->m + m) * p->n;

            for (int64_t n = 0; n < p->n; n++)
                sum[n] = (p->bias ? get(c, p->out, n) : 0) + (p->add ? get(y, p->out, at + n) : 0);
            for (int64_t k = 0; k < p->k; k++)
                add_row(sum, right + k * p->n, left[m * p->k + k], p->n);
            for (int64_t n = 0; n < p->n; n++)
                put(y, p->out, at + n, sum[n]);
        }
    }
    free(left);
    free(right);
    free(sum);
}
