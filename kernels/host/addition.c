/* addition.c: see addition.h. Adds up blocks that fit into L1 cache, then writes each to its
 * destinations: memory is read once and written once.
 *
 *    sum, mean   ((x0 + x1) + x2) + ...; f32 in f32, i32 in i64
 *                mean: f32 times 1/n; integers divided, rounded towards zero
 *    max, min    NaN wins */
#include "kernels/addition.h"

#include <string.h>

enum { BLOCK = 1024 }; /* elements */

#define TAKE_SUM(a, v) ((a) + (v))
/* NaN wins: v replaces a if it is NaN, and nothing is larger than a NaN in a. */
#define TAKE_MAX(a, v) ((v) > (a) || (v) != (v) ? (v) : (a))
#define TAKE_MIN(a, v) ((v) < (a) || (v) != (v) ? (v) : (a))

/* acc <- acc op from */
#define FOLD(A, take)           \
    for (int i = 0; i < n; i++) \
    acc[i] = take(acc[i], (A)from[i])

/* T: type of the values; A: type of the sums. */
#define ADD_UP(name, T, A, MEAN)                                                          \
    static void fold_##name(A *restrict acc, const T *restrict from, int n, dg_reduce op) \
    {                                                                                     \
        if (op == DG_MAX)                                                                 \
            FOLD(A, TAKE_MAX);                                                            \
        else if (op == DG_MIN)                                                            \
            FOLD(A, TAKE_MIN);                                                            \
        else                                                                              \
            FOLD(A, TAKE_SUM);                                                            \
    }                                                                                     \
    static void add_up_##name(const dg_addition *a, size_t begin, size_t end)             \
    {                                                                                     \
        const int ranks = a->ranks;                                                       \
        A acc[BLOCK];                                                                     \
        T out[BLOCK];                                                                     \
                                                                                          \
        for (size_t at = begin; at < end; at += BLOCK) {                                  \
            int n = end - at < BLOCK ? (int)(end - at) : BLOCK;                           \
                                                                                          \
            for (int i = 0; i < n; i++)                                                   \
                acc[i] = ((const T *)a->from[0])[at + (size_t)i];                         \
            for (int r = 1; r < ranks; r++)                                               \
                fold_##name(acc, (const T *)a->from[r] + at, n, a->op);                   \
            for (int i = 0; i < n; i++)                                                   \
                out[i] = (T)(a->op == DG_MEAN ? MEAN(acc[i]) : acc[i]);                   \
            for (int r = 0; r < a->n_to; r++)                                             \
                memcpy((T *)a->to[r] + at, out, (size_t)n * sizeof(T));                   \
        }                                                                                 \
    }

#define MEAN_F32(x) ((x) * (float)(1.0 / ranks))
#define MEAN_F64(x) ((x) * (1.0 / ranks))
#define MEAN_I32(x) ((x) / ranks)
ADD_UP(f32, float, float, MEAN_F32)
ADD_UP(f64, double, double, MEAN_F64)
ADD_UP(i32, int32_t, int64_t, MEAN_I32)

void dg_add_up(const dg_addition *a, size_t begin, size_t end)
{
    if (a->type == DG_F32)
        add_up_f32(a, begin, end);
    else if (a->type == DG_F64)
        add_up_f64(a, begin, end);
    else
        add_up_i32(a, begin, end);
}
