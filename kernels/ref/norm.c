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
 *     dx = s * rstd * g                                      fixed statistics */
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

static void apply(const dg_args *a, const real *mean, const real *var, const real *res, real *y)
{
    const norm_attr *f = a->attr;
    const real      *x = in(a, 0), *s = in(a, 1), *b = in(a, 2);
    int64_t          n = rows(a, 0), c = width(a, 0);
    double          *rstd = a->workspace;

    for (int64_t k = 0; k < c; k++)
        rstd[k] = 1 / sqrt((double)var[k] + f->eps);
    for (int64_t i = 0; i < n * c; i++) {
        int64_t k = i % c;
        double  z = ((double)x[i] - mean[k]) * rstd[k] * s[k] + b[k];

        y[i] = (real)act(f->act, res ? z + res[i] : z);
    }
}

static int batch_norm(const dg_args *a)
{
    const real *x = in(a, 0);
    real       *mean = out(a, 5), *var = out(a, 6);
    int64_t     n = rows(a, 0), c = width(a, 0);
    double     *sum = a->workspace, *square = sum + c;

    memset(sum, 0, (size_t)(2 * c) * sizeof(double));
    for (int64_t r = 0; r < n; r++)
        for (int64_t k = 0; k < c; k++)
            sum[k] += x[r * c + k];
    for (int64_t k = 0; k < c; k++)
        sum[k] /= (double)n;
    for (int64_t r = 0; r < n; r++)
        for (int64_t k = 0; k < c; k++) {
            double d = x[r * c + k] - sum[k];

            square[k] += d * d;
        }
    for (int64_t k = 0; k < c; k++) {
        mean[k] = (real)sum[k];
        var[k] = (real)(square[k] / (double)n);
    }
    apply(a, mean, var, in(a, 3), out(a, 4));
    return 0;
}

static int batch_norm_fixed(const dg_args *a)
{
    apply(a, in(a, 3), in(a, 4), in(a, 5), out(a, 6));
    return 0;
}

/* What one element of the batch contributes; operands dy x? y? s b mean var res?. y is there for
 * ReLU with a residual or without x; x for SiLU, for statistics that follow from it, and where
 * ds is wanted. */
static double upstream(const dg_args *a, int64_t i, int64_t k, double rstd, double *h)
{
    const norm_attr *f = a->attr;
    double           z = 0;

    *h = has(a, 1) ? ((double)in(a, 1)[i] - in(a, 5)[k]) * rstd : 0;
    if (f->act == DG_ACT_SILU || (f->act == DG_ACT_RELU && !has(a, 2)))
        z = *h * in(a, 3)[k] + in(a, 4)[k] + (has(a, 7) ? (double)in(a, 7)[i] : 0);
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
        double  g = upstream(a, i, k, 1 / sqrt((double)var[k] + f->eps), &h);

        sum_g[k] += g;
        sum_gh[k] += g * h;
    }
    for (int64_t i = 0; i < n * c; i++) {
        int64_t k = i % c;
        double  rstd = 1 / sqrt((double)var[k] + f->eps), g = upstream(a, i, k, rstd, &h);

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

/* running <- (1 - momentum) running + momentum * batch, the variance unbiased: * count / (count
 * - 1). Operands running_mean running_var mean var ok; nothing is written unless ok. */
static int stat_update(const dg_args *a)
{
    const stat_attr *f = a->attr;
    double           unbias = f->count > 1 ? (double)f->count / (double)(f->count - 1) : 1;

    if (!in_i32(a, 4)[0])
        return 0;
    for (int64_t k = 0; k < elements(a, 0); k++) {
        real *mean = out(a, 0) + k, *var = out(a, 1) + k;

        *mean = (real)((1 - f->momentum) * *mean + f->momentum * in(a, 2)[k]);
        *var = (real)((1 - f->momentum) * *var + f->momentum * (in(a, 3)[k] * unbias));
    }
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
DG_REF(stat_update, NULL, stat_update);
DG_REF(layer_norm, NULL, layer_norm);
DG_REF(layer_norm_grad, prepare_layer_grad, layer_norm_grad);
