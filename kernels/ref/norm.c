/* norm.c: batch normalisation (Ioffe & Szegedy 2015) with its activation and residual, layer
 * normalisation (Ba, Kiros & Hinton 2016), and the running statistics.
 *
 *     z = (x - mean) * rstd * s + b + res      rstd = 1 / sqrt(var + eps)      y = act(z)
 *
 * Batch norm takes mean and biased variance over all axes but the last, in two passes; x, y, res
 * [R,C], the rest [C]. Layer norm takes them over the last axis: x, y [R,D], mean, rstd [R], s, b
 * [D].
 *
 * With g = dy * act'(z), h = (x - mean) * rstd and means over what the statistics were taken from:
 *     db = sum g     ds = sum g h     dres = g
 *     dx = s * rstd * (g - mean(g) - h * mean(g h))         batch norm (s is constant in the means)
 *     dx = rstd * (g s - mean(g s) - h * mean(g s h))        layer norm
 *     dx = s * rstd * g                                      fixed statistics
 *
 * Over several ranks each gives its mean, its sum of squares about it and its number of rows; they are
 * joined in the order of ranks (Chan, Golub & LeVeque 1983),
 *     d = mean_r - mean     mean += d n_r / (n + n_r)     M2 += M2_r + d^2 n n_r / (n + n_r)
 * and in dx the two means are sums of all ranks over n. Where only the first `live` of x's rows
 * count, the others are void: they enter no sum, and what is made of them is zero. */
#include <math.h>
#include <string.h>

#include "kernels/ref/ref.h"

static double act(int64_t kind, double z)
{
    switch (kind) {
    case DG_ACT_RELU:
        return z < 0 ? 0 : z;
    case DG_ACT_SILU:
        return z / (1 + exp(-z));
    default:
        return z;
    }
}

/* y = act(z) as the forward pass stored it, or stored as such now: ReLU's gate is read from it. */
static double act_slope(int64_t kind, double z, double y)
{
    double p;

    switch (kind) {
    case DG_ACT_RELU:
        return y > 0;
    case DG_ACT_SILU:
        p = 1 / (1 + exp(-z));
        return p * (1 + z * (1 - p));
    default:
        return 1;
    }
}

/* --- batch norm ------------------------------------------------------------------------------- */

/* Two rows of C sums. */
static int prepare_batch(dg_prepare *p)
{
    const dg_shape *x = &p->t[0].shape;

    p->workspace_bytes = (size_t)(2 * x->d[x->rank - 1]) * sizeof(double);
    return 0;
}

/* y of the first n rows. */
static void apply(const dg_args *a, int64_t n, const real *mean, const real *var, const real *res,
                  real *y)
{
    const norm_attr *f = a->attr;
    const real      *x = in(a, 0), *s = in(a, 1), *b = in(a, 2);
    int64_t          c = width(a, 0);
    double          *rstd = a->workspace;

    for (int64_t k = 0; k < c; k++)
        rstd[k] = 1 / sqrt((double)var[k] + f->eps);
    for (int64_t i = 0; i < n * c; i++) {
        int64_t k = i % c;
        double  z = ((double)x[i] - mean[k]) * rstd[k] * s[k] + b[k];

        y[i] = (real)act(f->act, res ? z + res[i] : z);
    }
}

/* Mean, and sum of squares about it, of n rows of x. */
static void statistics(const real *x, int64_t n, int64_t c, double *mean, double *square)
{
    memset(mean, 0, (size_t)c * sizeof(double));
    memset(square, 0, (size_t)c * sizeof(double));
    for (int64_t r = 0; r < n; r++)
        for (int64_t k = 0; k < c; k++)
            mean[k] += x[r * c + k];
    for (int64_t k = 0; k < c && n; k++)
        mean[k] /= (double)n;
    for (int64_t r = 0; r < n; r++)
        for (int64_t k = 0; k < c; k++) {
            double d = x[r * c + k] - mean[k];

            square[k] += d * d;
        }
}

static int batch_norm(const dg_args *a)
{
    real   *mean = out(a, 5), *var = out(a, 6);
    int64_t n = rows(a, 0), c = width(a, 0);
    double *sum = a->workspace, *square = sum + c;

    statistics(in(a, 0), n, c, sum, square);
    for (int64_t k = 0; k < c; k++) {
        mean[k] = (real)sum[k];
        var[k] = (real)(square[k] / (double)n);
    }
    apply(a, n, mean, var, in(a, 3), out(a, 4));
    return 0;
}

static int batch_norm_fixed(const dg_args *a)
{
    apply(a, rows(a, 0), in(a, 3), in(a, 4), in(a, 5), out(a, 6));
    return 0;
}

/* What one element of the batch contributes; operands dy x? y? s b mean var, and res? further on. y
 * is there for ReLU with a residual or without x; x for SiLU, for statistics that follow from it,
 * and where ds is wanted. */
static double upstream(const dg_args *a, int res, int64_t i, int64_t k, double rstd, double *h)
{
    const norm_attr *f = a->attr;
    double           z = 0;

    *h = has(a, 1) ? ((double)in(a, 1)[i] - in(a, 5)[k]) * rstd : 0;
    if (f->act == DG_ACT_SILU || (f->act == DG_ACT_RELU && !has(a, 2)))
        z = *h * in(a, 3)[k] + in(a, 4)[k] + (has(a, res) ? (double)in(a, res)[i] : 0);
    return in(a, 0)[i] * act_slope(f->act, z, has(a, 2) ? in(a, 2)[i] : (real)z);
}

static int batch_norm_grad(const dg_args *a)
{
    const norm_attr *f = a->attr;
    const real      *s = in(a, 3), *var = in(a, 6);
    real            *dx = out(a, 8), *ds = out(a, 9), *db = out(a, 10), *dres = out(a, 11);
    int64_t          n = rows(a, 0), c = width(a, 0);
    double          *sum_g = a->workspace, *sum_gh = sum_g + c, h;

    memset(sum_g, 0, (size_t)(2 * c) * sizeof(double));
    for (int64_t i = 0; i < n * c; i++) {
        int64_t k = i % c;
        double  g = upstream(a, 7, i, k, 1 / sqrt((double)var[k] + f->eps), &h);

        sum_g[k] += g;
        sum_gh[k] += g * h;
    }
    for (int64_t i = 0; i < n * c; i++) {
        int64_t k = i % c;
        double  rstd = 1 / sqrt((double)var[k] + f->eps), g = upstream(a, 7, i, k, rstd, &h);

        if (dres)
            dres[i] = (real)g;
        if (!f->fixed)
            g -= (sum_g[k] + h * sum_gh[k]) / (double)n;
        dx[i] = (real)(s[k] * rstd * g);
    }
    for (int64_t k = 0; k < c; k++) {
        if (ds)
            ds[k] = (real)sum_gh[k];
        if (db)
            db[k] = (real)sum_g[k];
    }
    return 0;
}

/* running <- (1 - momentum) running + momentum * batch, the variance unbiased: * n / (n - 1).
 * Operands running_mean running_var mean var n? ok; nothing is written unless ok, nor for n = 0. */
static int stat_update(const dg_args *a)
{
    const stat_attr *f = a->attr;
    double           n = has(a, 4) ? (double)in(a, 4)[0] : (double)f->count;
    double           unbias = n > 1 ? n / (n - 1) : 1;

    if (!in_i32(a, 5)[0] || n == 0)
        return 0;
    for (int64_t k = 0; k < elements(a, 0); k++) {
        real *mean = out(a, 0) + k, *var = out(a, 1) + k;

        *mean = (real)((1 - f->momentum) * *mean + f->momentum * in(a, 2)[k]);
        *var = (real)((1 - f->momentum) * *var + f->momentum * (in(a, 3)[k] * unbias));
    }
    return 0;
}

/* --- batch norm over several ranks ------------------------------------------------------------- */

/* How many of x's rows [R,C] count: those of the first `live` along its first axis. */
static int64_t live_rows(const dg_args *a, int x, int live)
{
    int64_t n = dim(a, x, 0), k = has(a, live) ? in_i32(a, live)[0] : n;

    return (k < 0 ? 0 : k > n ? n : k) * (rows(a, x) / n);
}

static void clear_void(const dg_args *a, int y, int64_t n)
{
    int64_t c = width(a, y);

    memset(out(a, y) + n * c, 0, (size_t)((rows(a, y) - n) * c) * sizeof(real));
}

/* x live? -> stats [1,2C+1] */
static int batch_stats(const dg_args *a)
{
    int64_t n = live_rows(a, 0, 1), c = width(a, 0);
    double *mean = a->workspace, *square = mean + c;

    statistics(in(a, 0), n, c, mean, square);
    for (int64_t k = 0; k < c; k++) {
        out(a, 2)[k] = (real)mean[k];
        out(a, 2)[c + k] = (real)square[k];
    }
    out(a, 2)[2 * c] = (real)n;
    return 0;
}

/* all [R,2C+1] -> mean var n */
static int join_stats(const dg_args *a)
{
    int64_t ranks = rows(a, 0), c = elements(a, 1);
    double  n = 0;

    for (int64_t k = 0; k < c; k++) {
        double mean = 0, square = 0;

        n = 0;
        for (int64_t r = 0; r < ranks; r++) {
            const real *one = in(a, 0) + r * (2 * c + 1);
            double      more = one[2 * c], d = one[k] - mean;

            if (more <= 0)
                continue;
            square += one[c + k] + d * d * (n * more / (n + more));
            mean += d * (more / (n + more));
            n += more;
        }
        out(a, 1)[k] = (real)mean;
        out(a, 2)[k] = (real)(n > 0 ? square / n : 0);
    }
    out(a, 3)[0] = (real)n;
    return 0;
}

/* x s b mean var n live? res? -> y */
static int batch_norm_sync(const dg_args *a)
{
    int64_t n = live_rows(a, 0, 6);

    apply(a, n, in(a, 3), in(a, 4), in(a, 7), out(a, 8));
    clear_void(a, 8, n);
    return 0;
}

/* dy x y? s b mean var live? res? -> sums ds? db? dres? */
static int batch_norm_sums(const dg_args *a)
{
    const norm_attr *f = a->attr;
    const real      *var = in(a, 6);
    int64_t          n = live_rows(a, 0, 7), c = width(a, 0);
    double          *sum_g = a->workspace, *sum_gh = sum_g + c, h;

    memset(sum_g, 0, (size_t)(2 * c) * sizeof(double));
    for (int64_t i = 0; i < n * c; i++) {
        int64_t k = i % c;
        double  g = upstream(a, 8, i, k, 1 / sqrt((double)var[k] + f->eps), &h);

        sum_g[k] += g;
        sum_gh[k] += g * h;
        if (has(a, 12))
            out(a, 12)[i] = (real)g;
    }
    for (int64_t k = 0; k < c; k++) {
        out(a, 9)[k] = (real)sum_g[k];
        out(a, 9)[c + k] = (real)sum_gh[k];
        if (has(a, 10))
            out(a, 10)[k] = (real)sum_gh[k];
        if (has(a, 11))
            out(a, 11)[k] = (real)sum_g[k];
    }
    if (has(a, 12))
        clear_void(a, 12, n);
    return 0;
}

/* dy x y? s b mean var n sums live? res? -> dx */
static int batch_norm_dx(const dg_args *a)
{
    const norm_attr *f = a->attr;
    const real      *s = in(a, 3), *var = in(a, 6), *sum_g = in(a, 8);
    int64_t          n = live_rows(a, 0, 9), c = width(a, 0);
    double           all = in(a, 7)[0], h;

    for (int64_t i = 0; i < n * c; i++) {
        int64_t k = i % c;
        double  rstd = 1 / sqrt((double)var[k] + f->eps), g = upstream(a, 10, i, k, rstd, &h);

        out(a, 11)[i] = (real)(s[k] * rstd * (g - (sum_g[k] + h * sum_g[c + k]) / all));
    }
    clear_void(a, 11, n);
    return 0;
}

/* --- layer norm ------------------------------------------------------------------------------- */

static int layer_norm(const dg_args *a)
{
    const norm_attr *f = a->attr;
    const real      *s = in(a, 1), *b = in(a, 2);
    int64_t          d = width(a, 0);

    for (int64_t r = 0; r < rows(a, 0); r++) {
        const real *x = in(a, 0) + r * d;
        real       *y = out(a, 3) + r * d;
        double      mean = 0, var = 0;

        for (int64_t k = 0; k < d; k++)
            mean += x[k];
        mean /= (double)d;
        for (int64_t k = 0; k < d; k++)
            var += (x[k] - mean) * (x[k] - mean);
        var /= (double)d;

        double rstd = 1 / sqrt(var + f->eps);

        for (int64_t k = 0; k < d; k++)
            y[k] = (real)((x[k] - mean) * rstd * s[k] + b[k]);
        out(a, 4)[r] = (real)mean;
        out(a, 5)[r] = (real)rstd;
    }
    return 0;
}

static int prepare_layer_grad(dg_prepare *p)
{
    const dg_shape *x = &p->t[1].shape;

    p->workspace_bytes = (size_t)(2 * x->d[x->rank - 1]) * sizeof(double);
    return 0;
}

/* Operands dy x s mean rstd -> dx ds? db? */
static int layer_norm_grad(const dg_args *a)
{
    const real *s = in(a, 2);
    real       *ds = out(a, 6), *db = out(a, 7);
    int64_t     d = width(a, 1);
    double     *sum_g = a->workspace, *sum_gh = sum_g + d;

    memset(sum_g, 0, (size_t)(2 * d) * sizeof(double));
    for (int64_t r = 0; r < rows(a, 1); r++) {
        const real *dy = in(a, 0) + r * d, *x = in(a, 1) + r * d;
        real       *dx = out(a, 5) + r * d;
        double      mean = in(a, 3)[r], rstd = in(a, 4)[r], mean_g = 0, mean_gh = 0;

        for (int64_t k = 0; k < d; k++) {
            double h = (x[k] - mean) * rstd, g = (double)dy[k] * s[k];

            mean_g += g / (double)d;
            mean_gh += g * h / (double)d;
            sum_g[k] += dy[k];
            sum_gh[k] += dy[k] * h;
        }
        for (int64_t k = 0; k < d; k++)
            dx[k] = (real)(rstd * ((double)dy[k] * s[k] - mean_g - (x[k] - mean) * rstd * mean_gh));
    }
    for (int64_t k = 0; k < d; k++) {
        if (ds)
            ds[k] = (real)sum_gh[k];
        if (db)
            db[k] = (real)sum_g[k];
    }
    return 0;
}

DG_REF(batch_norm, prepare_batch, batch_norm);
DG_REF(batch_norm_fixed, prepare_batch, batch_norm_fixed);
DG_REF(batch_norm_grad, prepare_batch, batch_norm_grad);
DG_REF(batch_stats, prepare_batch, batch_stats);
DG_REF(join_stats, NULL, join_stats);
DG_REF(batch_norm_sync, prepare_batch, batch_norm_sync);
DG_REF(batch_norm_sums, prepare_batch, batch_norm_sums);
DG_REF(batch_norm_dx, NULL, batch_norm_dx);
DG_REF(stat_update, NULL, stat_update);
DG_REF(layer_norm, NULL, layer_norm);
DG_REF(layer_norm_grad, prepare_layer_grad, layer_norm_grad);
