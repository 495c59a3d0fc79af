/* norm.c: batch normalisation (Ioffe & Szegedy 2015) with its activation and residual, layer
 * normalisation (Ba, Kiros & Hinton 2016), and the running statistics.
 *
 *     z = (x - mean) * rstd * s + b + res      rstd = 1 / sqrt(var + eps)      y = act(z)
 *
 * Batch norm takes mean and biased variance over all axes but the last, in two passes; x, y, res
 * [R,C], the rest [C]. Layer norm takes them over the last axis: x, y [R,D], mean, rstd [R], s, b
 * [D].
 *
 * With g = dy * act'(z), h = (x - mean) * rstd and means over the elements of the statistics:
 *     db = sum g     ds = sum g h     dres = g
 *     dx = s * rstd * (g - mean(g) - h * mean(g h))         batch norm (s is constant in the means)
 *     dx = rstd * (g s - mean(g s) - h * mean(g s h))        layer norm
 *     dx = s * rstd * g                                      fixed statistics
 *
 * Over several ranks each contributes its mean, its sum of squares about it and its number of rows,
 * joined in rank order (Chan, Golub & LeVeque 1983) with d = mean_r - mean:
 *     mean += d n_r / (n + n_r)     M2 += M2_r + d^2 n n_r / (n + n_r)
 * and in dx the two means are sums over all ranks divided by n. If only the first `live` rows of x
 * count, the others are void: they enter no sum, and their results are zero. */
#include <math.h>
#include <string.h>

#include "kernels/ref/ref.h"

/* act'(z). y = act(z), as stored by the forward pass or here; ReLU's gate is read from it. */
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

/* ---- batch norm ------------------------------------------------------------------------------ */

/* Workspace for two rows of C sums. */
static int prepare_batch(dg_prepare *p)
{
    const dg_shape *x = &p->t[0].shape;

    p->workspace_bytes = (size_t)(2 * x->d[x->rank - 1]) * sizeof(double);
    return 0;
}

/* Computes y of the first n rows. */
static void apply(const dg_args *a, int64_t n, const real *mean, const real *var, const real *res,
                  real *y)
{
    const norm_attr *f = a->attr;
    const real *x = in(a, DG_BATCH_NORM_X), *s = in(a, DG_BATCH_NORM_S),
               *b = in(a, DG_BATCH_NORM_B);
    int64_t c = width(a, DG_BATCH_NORM_X);
    double *rstd = a->workspace;

    for (int64_t k = 0; k < c; k++)
        rstd[k] = 1 / sqrt((double)var[k] + f->eps);
    for (int64_t i = 0; i < n * c; i++) {
        int64_t k = i % c;
        double z = ((double)x[i] - mean[k]) * rstd[k] * s[k] + b[k];

        y[i] = (real)act(f->act, res ? z + res[i] : z);
    }
}

/* Mean of n rows of x, and sum of squares about it. */
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
    real *mean = out(a, DG_BATCH_NORM_MEAN), *var = out(a, DG_BATCH_NORM_VAR);
    int64_t n = rows(a, DG_BATCH_NORM_X), c = width(a, DG_BATCH_NORM_X);
    double *sum = a->workspace, *square = sum + c;

    statistics(in(a, DG_BATCH_NORM_X), n, c, sum, square);
    for (int64_t k = 0; k < c; k++) {
        mean[k] = (real)sum[k];
        var[k] = (real)(square[k] / (double)n);
    }
    apply(a, n, mean, var, in(a, DG_BATCH_NORM_RES), out(a, DG_BATCH_NORM_Y));
    return 0;
}

static int batch_norm_fixed(const dg_args *a)
{
    apply(a, rows(a, DG_BATCH_NORM_FIXED_X), in(a, DG_BATCH_NORM_FIXED_MEAN),
          in(a, DG_BATCH_NORM_FIXED_VAR), in(a, DG_BATCH_NORM_FIXED_RES),
          out(a, DG_BATCH_NORM_FIXED_Y));
    return 0;
}

/* The gradient before the norm of one element. Operands dy x? y? s b mean var, and res? and more?,
 * what is added to dy, at these places (-1: none). y is given for ReLU with a residual or without
 * x; x for SiLU, for statistics of the batch, and if ds is wanted. */
static double upstream(const dg_args *a, int res, int more, int64_t i, int64_t k, double rstd,
                       double *h)
{
    const norm_attr *f = a->attr;
    double z = 0, dy = in(a, DG_BATCH_NORM_GRAD_DY)[i];

    *h = has(a, DG_BATCH_NORM_GRAD_X)
             ? ((double)in(a, DG_BATCH_NORM_GRAD_X)[i] - in(a, DG_BATCH_NORM_GRAD_MEAN)[k]) * rstd
             : 0;
    if (f->act == DG_ACT_SILU || (f->act == DG_ACT_RELU && !has(a, DG_BATCH_NORM_GRAD_Y)))
        z = *h * in(a, DG_BATCH_NORM_GRAD_S)[k] + in(a, DG_BATCH_NORM_GRAD_B)[k] +
            (has(a, res) ? (double)in(a, res)[i] : 0);
    return (more < 0 ? dy : dy + in(a, more)[i]) *
           act_slope(f->act, z,
                     has(a, DG_BATCH_NORM_GRAD_Y) ? in(a, DG_BATCH_NORM_GRAD_Y)[i] : (real)z);
}

/* more: as of upstream; dx_at: the place of dx, before ds? db? dres?. */
static int find_gradients(const dg_args *a, int more, int dx_at)
{
    const norm_attr *f = a->attr;
    const real *s = in(a, DG_BATCH_NORM_GRAD_S), *var = in(a, DG_BATCH_NORM_GRAD_VAR);
    real *dx = out(a, dx_at), *ds = out(a, dx_at + 1), *db = out(a, dx_at + 2),
         *dres = out(a, dx_at + 3);
    int64_t n = rows(a, DG_BATCH_NORM_GRAD_DY), c = width(a, DG_BATCH_NORM_GRAD_DY);
    double *sum_g = a->workspace, *sum_gh = sum_g + c, h;

    memset(sum_g, 0, (size_t)(2 * c) * sizeof(double));
    for (int64_t i = 0; i < n * c; i++) {
        int64_t k = i % c;
        double rstd = 1 / sqrt((double)var[k] + f->eps),
               g = upstream(a, DG_BATCH_NORM_GRAD_RES, more, i, k, rstd, &h);

        sum_g[k] += g;
        sum_gh[k] += g * h;
    }
    for (int64_t i = 0; i < n * c; i++) {
        int64_t k = i % c;
        double rstd = 1 / sqrt((double)var[k] + f->eps),
               g = upstream(a, DG_BATCH_NORM_GRAD_RES, more, i, k, rstd, &h);

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

static int batch_norm_grad(const dg_args *a)
{
    return find_gradients(a, -1, DG_BATCH_NORM_GRAD_DX);
}

static int batch_norm_sum_grad(const dg_args *a)
{
    return find_gradients(a, DG_BATCH_NORM_SUM_GRAD_MORE, DG_BATCH_NORM_SUM_GRAD_DX);
}

/* running <- (1 - momentum) running + momentum * batch, the variance unbiased: * n / (n - 1).
 * Operands running_mean running_var mean var n? ok; writes nothing unless ok, nor for n = 0. */
static int stat_update(const dg_args *a)
{
    const stat_attr *f = a->attr;
    double n = has(a, DG_STAT_UPDATE_N) ? (double)in(a, DG_STAT_UPDATE_N)[0] : (double)f->count;
    double unbias = n > 1 ? n / (n - 1) : 1;

    if (!in_i32(a, DG_STAT_UPDATE_OK)[0] || n == 0)
        return 0;
    for (int64_t k = 0; k < elements(a, DG_STAT_UPDATE_RUNNING_MEAN); k++) {
        real *mean = out(a, DG_STAT_UPDATE_RUNNING_MEAN) + k,
             *var = out(a, DG_STAT_UPDATE_RUNNING_VAR) + k;

        *mean = (real)((1 - f->momentum) * *mean + f->momentum * in(a, DG_STAT_UPDATE_MEAN)[k]);
        *var = (real)((1 - f->momentum) * *var +
                      f->momentum * (in(a, DG_STAT_UPDATE_VAR)[k] * unbias));
    }
    return 0;
}

/* ---- batch norm over several ranks ----------------------------------------------------------- */

/* The number of rows of x [R,C] that count: the first `live` along its first axis. */
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
    int64_t n = live_rows(a, DG_BATCH_STATS_X, DG_BATCH_STATS_LIVE), c = width(a, DG_BATCH_STATS_X);
    double *mean = a->workspace, *square = mean + c;

    statistics(in(a, DG_BATCH_STATS_X), n, c, mean, square);
    for (int64_t k = 0; k < c; k++) {
        out(a, DG_BATCH_STATS_STATS)[k] = (real)mean[k];
        out(a, DG_BATCH_STATS_STATS)[c + k] = (real)square[k];
    }
    out(a, DG_BATCH_STATS_STATS)[2 * c] = (real)n;
    return 0;
}

/* all [R,2C+1] -> mean var n */
static int join_stats(const dg_args *a)
{
    int64_t ranks = rows(a, DG_JOIN_STATS_ALL), c = elements(a, DG_JOIN_STATS_MEAN);
    double n = 0;

    for (int64_t k = 0; k < c; k++) {
        double mean = 0, square = 0;

        n = 0;
        for (int64_t r = 0; r < ranks; r++) {
            const real *one = in(a, DG_JOIN_STATS_ALL) + r * (2 * c + 1);
            double more = one[2 * c], d = one[k] - mean;

            if (more <= 0)
                continue;
            square += one[c + k] + d * d * (n * more / (n + more));
            mean += d * (more / (n + more));
            n += more;
        }
        out(a, DG_JOIN_STATS_MEAN)[k] = (real)mean;
        out(a, DG_JOIN_STATS_VAR)[k] = (real)(n > 0 ? square / n : 0);
    }
    out(a, DG_JOIN_STATS_N)[0] = (real)n;
    return 0;
}

/* x s b mean var n live? res? -> y */
static int batch_norm_sync(const dg_args *a)
{
    int64_t n = live_rows(a, DG_BATCH_NORM_SYNC_X, DG_BATCH_NORM_SYNC_LIVE);

    apply(a, n, in(a, DG_BATCH_NORM_SYNC_MEAN), in(a, DG_BATCH_NORM_SYNC_VAR),
          in(a, DG_BATCH_NORM_SYNC_RES), out(a, DG_BATCH_NORM_SYNC_Y));
    clear_void(a, DG_BATCH_NORM_SYNC_Y, n);
    return 0;
}

/* dy x y? s b mean var live? res? -> sums ds? db? dres? */
static int batch_norm_sums(const dg_args *a)
{
    const norm_attr *f = a->attr;
    const real *var = in(a, DG_BATCH_NORM_SUMS_VAR);
    int64_t n = live_rows(a, DG_BATCH_NORM_SUMS_DY, DG_BATCH_NORM_SUMS_LIVE),
            c = width(a, DG_BATCH_NORM_SUMS_DY);
    double *sum_g = a->workspace, *sum_gh = sum_g + c, h;

    memset(sum_g, 0, (size_t)(2 * c) * sizeof(double));
    for (int64_t i = 0; i < n * c; i++) {
        int64_t k = i % c;
        double g =
            upstream(a, DG_BATCH_NORM_SUMS_RES, -1, i, k, 1 / sqrt((double)var[k] + f->eps), &h);

        sum_g[k] += g;
        sum_gh[k] += g * h;
        if (has(a, DG_BATCH_NORM_SUMS_DRES))
            out(a, DG_BATCH_NORM_SUMS_DRES)[i] = (real)g;
    }
    for (int64_t k = 0; k < c; k++) {
        out(a, DG_BATCH_NORM_SUMS_SUMS)[k] = (real)sum_g[k];
        out(a, DG_BATCH_NORM_SUMS_SUMS)[c + k] = (real)sum_gh[k];
        if (has(a, DG_BATCH_NORM_SUMS_DS))
            out(a, DG_BATCH_NORM_SUMS_DS)[k] = (real)sum_gh[k];
        if (has(a, DG_BATCH_NORM_SUMS_DB))
            out(a, DG_BATCH_NORM_SUMS_DB)[k] = (real)sum_g[k];
    }
    if (has(a, DG_BATCH_NORM_SUMS_DRES))
        clear_void(a, DG_BATCH_NORM_SUMS_DRES, n);
    return 0;
}

/* dy x y? s b mean var n sums live? res? -> dx */
static int batch_norm_dx(const dg_args *a)
{
    const norm_attr *f = a->attr;
    const real *s = in(a, DG_BATCH_NORM_DX_S), *var = in(a, DG_BATCH_NORM_DX_VAR),
               *sum_g = in(a, DG_BATCH_NORM_DX_SUMS);
    int64_t n = live_rows(a, DG_BATCH_NORM_DX_DY, DG_BATCH_NORM_DX_LIVE),
            c = width(a, DG_BATCH_NORM_DX_DY);
    double all = in(a, DG_BATCH_NORM_DX_N)[0], h;

    for (int64_t i = 0; i < n * c; i++) {
        int64_t k = i % c;
        double rstd = 1 / sqrt((double)var[k] + f->eps),
               g = upstream(a, DG_BATCH_NORM_DX_RES, -1, i, k, rstd, &h);

        out(a, DG_BATCH_NORM_DX_DX)[i] =
            (real)(s[k] * rstd * (g - (sum_g[k] + h * sum_g[c + k]) / all));
    }
    clear_void(a, DG_BATCH_NORM_DX_DX, n);
    return 0;
}

/* ---- layer norm ------------------------------------------------------------------------------ */

static int layer_norm(const dg_args *a)
{
    const norm_attr *f = a->attr;
    const real *s = in(a, DG_LAYER_NORM_S), *b = in(a, DG_LAYER_NORM_B);
    int64_t d = width(a, DG_LAYER_NORM_X);

    for (int64_t r = 0; r < rows(a, DG_LAYER_NORM_X); r++) {
        const real *x = in(a, DG_LAYER_NORM_X) + r * d;
        real *y = out(a, DG_LAYER_NORM_Y) + r * d;
        double mean = 0, var = 0;

        for (int64_t k = 0; k < d; k++)
            mean += x[k];
        mean /= (double)d;
        for (int64_t k = 0; k < d; k++)
            var += (x[k] - mean) * (x[k] - mean);
        var /= (double)d;

        double rstd = 1 / sqrt(var + f->eps);

        for (int64_t k = 0; k < d; k++)
            y[k] = (real)((x[k] - mean) * rstd * s[k] + b[k]);
        out(a, DG_LAYER_NORM_MEAN)[r] = (real)mean;
        out(a, DG_LAYER_NORM_RSTD)[r] = (real)rstd;
    }
    return 0;
}

static int prepare_layer_grad(dg_prepare *p)
{
    const dg_shape *x = &p->t[DG_LAYER_NORM_GRAD_X].shape;

    p->workspace_bytes = (size_t)(2 * x->d[x->rank - 1]) * sizeof(double);
    return 0;
}

/* dy x s mean rstd -> dx ds? db? */
static int layer_norm_grad(const dg_args *a)
{
    const real *s = in(a, DG_LAYER_NORM_GRAD_S);
    real *ds = out(a, DG_LAYER_NORM_GRAD_DS), *db = out(a, DG_LAYER_NORM_GRAD_DB);
    int64_t d = width(a, DG_LAYER_NORM_GRAD_X);
    double *sum_g = a->workspace, *sum_gh = sum_g + d;

    memset(sum_g, 0, (size_t)(2 * d) * sizeof(double));
    for (int64_t r = 0; r < rows(a, DG_LAYER_NORM_GRAD_X); r++) {
        const real *dy = in(a, DG_LAYER_NORM_GRAD_DY) + r * d,
                   *x = in(a, DG_LAYER_NORM_GRAD_X) + r * d;
        real *dx = out(a, DG_LAYER_NORM_GRAD_DX) + r * d;
        double mean = in(a, DG_LAYER_NORM_GRAD_MEAN)[r], rstd = in(a, DG_LAYER_NORM_GRAD_RSTD)[r],
               mean_g = 0, mean_gh = 0;

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

DG_SAME_PLACE(DG_BATCH_NORM_X, DG_BATCH_NORM_FIXED_X);
DG_SAME_PLACE(DG_BATCH_NORM_S, DG_BATCH_NORM_FIXED_S);
DG_SAME_PLACE(DG_BATCH_NORM_B, DG_BATCH_NORM_FIXED_B);
DG_SAME_PLACE(DG_BATCH_NORM_X, DG_BATCH_NORM_SYNC_X);
DG_SAME_PLACE(DG_BATCH_NORM_S, DG_BATCH_NORM_SYNC_S);
DG_SAME_PLACE(DG_BATCH_NORM_B, DG_BATCH_NORM_SYNC_B);
DG_SAME_PLACE(DG_BATCH_NORM_GRAD_DY, DG_BATCH_NORM_SUMS_DY);
DG_SAME_PLACE(DG_BATCH_NORM_GRAD_X, DG_BATCH_NORM_SUMS_X);
DG_SAME_PLACE(DG_BATCH_NORM_GRAD_Y, DG_BATCH_NORM_SUMS_Y);
DG_SAME_PLACE(DG_BATCH_NORM_GRAD_S, DG_BATCH_NORM_SUMS_S);
DG_SAME_PLACE(DG_BATCH_NORM_GRAD_B, DG_BATCH_NORM_SUMS_B);
DG_SAME_PLACE(DG_BATCH_NORM_GRAD_MEAN, DG_BATCH_NORM_SUMS_MEAN);
DG_SAME_PLACE(DG_BATCH_NORM_GRAD_DY, DG_BATCH_NORM_DX_DY);
DG_SAME_PLACE(DG_BATCH_NORM_GRAD_X, DG_BATCH_NORM_DX_X);
DG_SAME_PLACE(DG_BATCH_NORM_GRAD_Y, DG_BATCH_NORM_DX_Y);
DG_SAME_PLACE(DG_BATCH_NORM_GRAD_S, DG_BATCH_NORM_DX_S);
DG_SAME_PLACE(DG_BATCH_NORM_GRAD_B, DG_BATCH_NORM_DX_B);
DG_SAME_PLACE(DG_BATCH_NORM_GRAD_MEAN, DG_BATCH_NORM_DX_MEAN);
DG_REF(batch_norm, prepare_batch, batch_norm);
DG_REF(batch_norm_fixed, prepare_batch, batch_norm_fixed);
DG_REF(batch_norm_grad, prepare_batch, batch_norm_grad);
DG_SAME_PLACE(DG_BATCH_NORM_GRAD_RES, DG_BATCH_NORM_SUM_GRAD_RES);
DG_REF(batch_norm_sum_grad, prepare_batch, batch_norm_sum_grad);
DG_REF(batch_stats, prepare_batch, batch_stats);
DG_REF(join_stats, NULL, join_stats);
DG_REF(batch_norm_sync, prepare_batch, batch_norm_sync);
DG_REF(batch_norm_sums, prepare_batch, batch_norm_sums);
DG_REF(batch_norm_dx, NULL, batch_norm_dx);
DG_REF(stat_update, NULL, stat_update);
DG_REF(layer_norm, NULL, layer_norm);
DG_REF(layer_norm_grad, prepare_layer_grad, layer_norm_grad);
