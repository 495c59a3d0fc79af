/* product.h: the inner loop of matrix products and convolutions.
 *
 *     C[m][n] += sum over k of A[m][k] * B[k][n]
 *
 * A's element (m,k) is a[m*a_row + k*a_step]; rows of B and C are contiguous. Sums run over k in
 * ascending order in double, with one rounding per call, whatever tile an element is in. */
#ifndef DG_KERNELS_REF_PRODUCT_H
#define DG_KERNELS_REF_PRODUCT_H

#include "kernels/ref/ref.h"

typedef struct product_a {
    const real *p;
    int64_t row, step;
} product_a;

enum { TILE_M = 4, TILE_N = 4 };

typedef double sums __attribute__((vector_size(TILE_N * sizeof(double)))); /* of a tile's row */
typedef real reals
    __attribute__((vector_size(TILE_N * sizeof(real)), aligned(sizeof(real)), may_alias));

static inline __attribute__((always_inline)) void product_tile(int64_t k, product_a a,
                                                               const real *b, int64_t b_row,
                                                               real *c, int64_t c_row)
{
    const real *x[TILE_M] = { a.p, a.p + a.row, a.p + 2 * a.row, a.p + 3 * a.row };
    sums s0 = { 0 }, s1 = s0, s2 = s0, s3 = s0; /* an array would not stay in registers */

    for (int64_t i = 0; i < k; i++) {
        sums row = __builtin_convertvector(*(const reals *)(b + i * b_row), sums);

        s0 += (double)x[0][i * a.step] * row;
        s1 += (double)x[1][i * a.step] * row;
        s2 += (double)x[2][i * a.step] * row;
        s3 += (double)x[3][i * a.step] * row;
    }
    const sums sum[TILE_M] = { s0, s1, s2, s3 };

    for (int m = 0; m < TILE_M; m++)
        for (int n = 0; n < TILE_N; n++)
            c[m * c_row + n] = (real)((double)c[m * c_row + n] + sum[m][n]);
}

static inline __attribute__((always_inline)) void product_tiles(int64_t m_full, int64_t n_full,
                                                                int64_t k, product_a a,
                                                                const real *b, int64_t b_row,
                                                                real *c, int64_t c_row)
{
    for (int64_t n = 0; n < n_full; n += TILE_N)
        for (int64_t m = 0; m < m_full; m += TILE_M)
            product_tile(k, (product_a){ a.p + m * a.row, a.row, a.step }, b + n, b_row,
                         c + m * c_row + n, c_row);
}

#ifdef __x86_64__
/* the same operations, and so the same bits, in wider registers */
__attribute__((target("avx2"))) static void product_tiles_avx2(int64_t m_full, int64_t n_full,
                                                               int64_t k, product_a a,
                                                               const real *b, int64_t b_row,
                                                               real *c, int64_t c_row)
{
    product_tiles(m_full, n_full, k, a, b, b_row, c, c_row);
}
#endif

static inline void product_edge(int64_t m_size, int64_t n_size, int64_t k, product_a a,
                                const real *b, int64_t b_row, real *c, int64_t c_row)
{
    for (int64_t m = 0; m < m_size; m++)
        for (int64_t n = 0; n < n_size; n++) {
            double sum = 0;

            for (int64_t i = 0; i < k; i++)
                sum += (double)a.p[m * a.row + i * a.step] * (double)b[i * b_row + n];
            c[m * c_row + n] = (real)((double)c[m * c_row + n] + sum);
        }
}

static inline void product(int64_t m_size, int64_t n_size, int64_t k, product_a a, const real *b,
                           int64_t b_row, real *c, int64_t c_row)
{
    int64_t m_full = m_size - m_size % TILE_M, n_full = n_size - n_size % TILE_N;

#ifdef __x86_64__
    if (__builtin_cpu_supports("avx2"))
        product_tiles_avx2(m_full, n_full, k, a, b, b_row, c, c_row);
    else
#endif
        product_tiles(m_full, n_full, k, a, b, b_row, c, c_row);
    product_edge(m_full, n_size - n_full, k, a, b + n_full, b_row, c + n_full, c_row);
    product_edge(m_size - m_full, n_size, k, (product_a){ a.p + m_full * a.row, a.row, a.step }, b,
                 b_row, c + m_full * c_row, c_row);
}

#endif
