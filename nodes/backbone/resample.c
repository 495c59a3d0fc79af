/* resample.c: see resample.h. Output i lies at c = s (i + 1/2) with s = from / to. It is the
 * weighted mean of the samples within 2 max(s, 1) of it, whose centres are at j + 1/2:
 *
 *     w_j = k((j + 1/2 - c) / max(s, 1)) / sum      k(x) = 3/2 |x|^3 - 5/2 |x|^2 + 1         |x| <
 * 1 -1/2 |x|^3 + 5/2 |x|^2 - 4|x| + 2  |x| < 2
 *
 * Samples beyond the border do not exist: the others share their weight. */
#include "nodes/backbone/resample.h"

#include <math.h>
#include <stdlib.h>

static double keys(double x)
{
    x = fabs(x);
    if (x < 1)
        return (1.5 * x - 2.5) * x * x + 1;
    return x < 2 ? ((2.5 - 0.5 * x) * x - 4) * x + 2 : 0;
}

void dg_resample_bicubic(int64_t from, int64_t to, double *m)
{
    double s = (double)from / (double)to, wide = fmax(s, 1);

    for (int64_t i = 0; i < to; i++) {
        double c = s * ((double)i + 0.5), sum = 0, *w = m + i * from;
        int64_t begin = (int64_t)fmax(c - 2 * wide + 0.5, 0),
                end = (int64_t)fmin(c + 2 * wide + 0.5, (double)from);

        for (int64_t j = 0; j < from; j++) {
            w[j] = j >= begin && j < end ? keys(((double)j + 0.5 - c) / wide) : 0;
            sum += w[j];
        }
        for (int64_t j = 0; j < from; j++)
            w[j] /= sum;
    }
}

static dg_val matrix(dg_build *b, int64_t from, int64_t to)
{
    double *m = malloc((size_t)(from * to) * sizeof *m);
    dg_val v;

    if (!m)
        return dg_error(b, "out-of-memory", "no memory for a matrix of %lldx%lld", (long long)to,
                        (long long)from);
    dg_resample_bicubic(from, to, m);
    v = dg_const(b, DG_SHAPE(to, from), m);
    free(m);
    return v;
}

/* The first axis of v [from,n,width] resized: [to,n,width]. */
static dg_val resize_rows(dg_build *b, dg_val v, int64_t from, int64_t to)
{
    int64_t n = dg_dim(b, v, 1), width = dg_dim(b, v, 2);

    if (from == to)
        return v;
    v = dg_matmul(b, matrix(b, from, to), dg_reshape(b, v, DG_SHAPE(from, n * width)));
    return dg_reshape(b, v, DG_SHAPE(to, n, width));
}

dg_val dg_resample_grid(dg_build *b, dg_val rows, int64_t side, int64_t width, int64_t h, int64_t w)
{
    static const int turn[] = { 1, 0, 2 };
    dg_val v = dg_reshape(b, rows, DG_SHAPE(side, side, width));

    if (h == side && w == side)
        return v;
    v = dg_permute(b, resize_rows(b, v, side, h), 3, turn);
    return dg_permute(b, resize_rows(b, v, side, w), 3, turn);
}

void dg_resample_bilinear(int64_t from, int64_t to, double *m)
{
    for (int64_t i = 0; i < to; i++) {
        double at = fmax(((double)i + 0.5) * (double)from / (double)to - 0.5, 0), *w = m + i * from;
        int64_t left = (int64_t)fmin(at, (double)(from - 1)), right = left + (left < from - 1);

        for (int64_t j = 0; j < from; j++)
            w[j] = 0;
        w[left] += 1 - (at - (double)left);
        w[right] += at - (double)left;
    }
}
