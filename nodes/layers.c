/* layers.c: layers with PyTorch's parameter names, layouts and initial values.
 *
 *   conv_norm   act(BN(conv(x)))                  He et al. 2016; BN: Ioffe & Szegedy 2015
 *   group_norm  the mean and variance of H W C/G numbers of an image: Wu & He 2018
 *   box_head    W2 relu(W1 relu(W0 x))            Carion et al. 2020
 *   attention   Wo attn(Wq (x+p), Wk (x+p), Wv x) Vaswani et al. 2017
 */
#include "nodes/layers.h"

#include <stdio.h>
#include <string.h>

static const double NORM_EPS = 1e-5, MOMENTUM = 0.1;

/* ---- parameter paths ---------------------------------------------------------------------- */

dg_param_path_of dg_param_path(dg_build *b, const char *fmt, ...)
{
    dg_param_path_of p = { .b = b };
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(p.path, sizeof p.path, fmt, ap);
    va_end(ap);
    return p;
}

/* Adds ".more"; what does not fit is cut off. */
static void extend(char *path, size_t n, const char *more)
{
    size_t used = strlen(path), m = strlen(more);

    if (used && used + 1 < n)
        path[used++] = '.';
    m = m < n - used ? m : n - used - 1;
    memcpy(path + used, more, m);
    path[used + m] = '\0';
}

static dg_param_path_of extended(const dg_param_path_of *outer, const char *more)
{
    dg_param_path_of p = *outer;

    extend(p.path, sizeof p.path, more);
    if (p.like[0])
        extend(p.like, sizeof p.like, more);
    return p;
}

dg_param_path_of dg_param_path_in(const dg_param_path_of *outer, const char *fmt, ...)
{
    char more[64];
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(more, sizeof more, fmt, ap);
    va_end(ap);
    return extended(outer, more);
}

dg_val dg_param_at(const dg_param_path_of *at, const char *path, dg_shape shape, dg_init init)
{
    dg_param_path_of p = extended(at, path);

    if (p.like[0] && (!p.like_vectors || shape.rank == 1))
        init = dg_init_like(p.b, p.like);
    return dg_param(p.b, p.path, shape, init);
}

static dg_val param_frozen(const dg_param_path_of *at, const char *path, dg_shape shape,
                           dg_init init)
{
    dg_param_path_of p = extended(at, path);

    return dg_param_frozen(p.b, p.path, shape, init);
}

static dg_val buffer(const dg_param_path_of *at, const char *path, dg_shape shape, dg_init init)
{
    dg_param_path_of p = extended(at, path);

    return dg_buffer(p.b, p.path, shape, init);
}

/* ---- convolution and batch norm -------------------------------------------------------------- */

void dg_norm_check(dg_check *k, int64_t norm, const char *axis)
{
    if (norm == DG_NORM_SYNC || !axis)
        return;
    dg_check_fail(k, "axis", "norm-axis", "names ranks that norm=\"batch\" does not ask");
    dg_check_help(k, "norm=\"sync\", or no axis");
}

const char *dg_norm_axis(int64_t norm, const char *axis)
{
    return norm == DG_NORM_BATCH ? NULL : axis ? axis : "dp";
}

static dg_val batch_norm(const dg_param_path_of *at, dg_val x, const dg_conv_norm *c)
{
    dg_build *b = at->b;
    dg_shape s = DG_SHAPE(dg_dim(b, x, -1));
    dg_init one = dg_init_const(1), zero = dg_init_zero();
    dg_val scale, shift, mean, var, y, batch_mean, batch_var, n;
    int64_t count = dg_dim(b, x, 0) * dg_dim(b, x, 1) * dg_dim(b, x, 2);

    if (c->fixed) {
        scale = buffer(at, "weight", s, one);
        shift = buffer(at, "bias", s, zero);
    } else if (c->frozen || c->affine) {
        scale = param_frozen(at, "weight", s, one);
        shift = param_frozen(at, "bias", s, zero);
    } else {
        scale = dg_param_at(at, "weight", s, one);
        shift = dg_param_at(at, "bias", s, zero);
    }
    mean = buffer(at, "running_mean", s, zero);
    var = buffer(at, "running_var", s, one);
    if (!c->fixed)
        dg_export_counter(b, dg_param_path_in(at, "num_batches_tracked").path);
    if (c->fixed || c->affine || !dg_training(b))
        return dg_batch_norm_fixed(b, x, scale, shift, mean, var, NORM_EPS);
    if (c->axis && dg_axis_size(b, c->axis) > 1) {
        y = dg_batch_norm_sync(b, x, scale, shift, DG_NONE, NORM_EPS, c->axis, &batch_mean,
                               &batch_var, &n);
        dg_stat_update_counted(b, mean, var, batch_mean, batch_var, n, MOMENTUM);
        return y;
    }
    y = dg_batch_norm(b, x, scale, shift, NORM_EPS, &batch_mean, &batch_var);
    dg_stat_update(b, mean, var, batch_mean, batch_var, count, MOMENTUM);
    return y;
}

dg_val dg_layer_conv_norm(const dg_param_path_of *at, dg_val x, const dg_conv_norm *c)
{
    dg_build *b = at->b;
    dg_param_path_of conv = dg_param_path_in(at, "%s", c->conv ? c->conv : "conv");
    dg_param_path_of norm = dg_param_path_in(at, "%s", c->norm ? c->norm : "norm");
    int64_t in = dg_dim(b, x, -1), area = (int64_t)c->size * c->size;
    dg_shape shape = DG_SHAPE(c->out, in, c->size, c->size);
    dg_init init = c->xavier ? dg_init_xavier(in * area, c->out * area) : dg_init_fan_in(in * area);
    dg_val w = c->frozen ? param_frozen(&conv, "weight", shape, init)
                         : dg_param_at(&conv, "weight", shape, init);
    dg_val y = batch_norm(&norm, dg_conv2d(b, x, w, DG_NONE, c->stride, (c->size - 1) / 2), c);

    switch (c->act) {
    case DG_LAYER_RELU:
        return dg_relu(b, y);
    case DG_LAYER_SILU:
        return dg_silu(b, y);
    default:
        return y;
    }
}

/* A group's numbers are made one row, which layer norm with scale 1 and shift 0 normalises. */
dg_val dg_layer_group_norm(const dg_param_path_of *at, dg_val x, int64_t groups)
{
    dg_build *b = at->b;
    dg_shape s = dg_shape_of(b, x);
    int64_t c = dg_dim(b, x, -1), area = dg_dim(b, x, 1) * dg_dim(b, x, 2), each = c / groups;
    dg_shape row = DG_SHAPE(area * each);
    dg_val scale = dg_param_at(at, "weight", DG_SHAPE(c), dg_init_const(1)),
           shift = dg_param_at(at, "bias", DG_SHAPE(c), dg_init_zero());

    if (s.rank != 4 || c % groups)
        return dg_error(b, "group-norm", "%lld channels of a map in %lld groups", (long long)c,
                        (long long)groups);
    x = dg_reshape(b, x, DG_SHAPE(s.d[0], area, groups, each));
    x = dg_reshape(b, dg_permute(b, x, 4, (int[]){ 0, 2, 1, 3 }),
                   DG_SHAPE(s.d[0], groups, area * each));
    x = dg_layer_norm(b, x, dg_expand(b, dg_const(b, DG_SHAPE(1), (double[]){ 1 }), row),
                      dg_zeros(b, row), NORM_EPS);
    x = dg_reshape(b, x, DG_SHAPE(s.d[0], groups, area, each));
    x = dg_reshape(b, dg_permute(b, x, 4, (int[]){ 0, 2, 1, 3 }), s);
    return dg_add(b, dg_mul(b, x, scale), shift);
}

/* ---- tokens ---------------------------------------------------------------------------------- */

dg_val dg_layer_linear_bias(const dg_param_path_of *at, dg_val x, int64_t out, dg_init weight,
                            dg_init bias)
{
    dg_build *b = at->b;
    dg_val w = dg_param_at(at, "weight", DG_SHAPE(out, dg_dim(b, x, -1)), weight);

    return dg_linear(b, x, w, dg_param_at(at, "bias", DG_SHAPE(out), bias));
}

dg_val dg_layer_linear(const dg_param_path_of *at, dg_val x, int64_t out, dg_init weight)
{
    return dg_layer_linear_bias(at, x, out, weight, dg_init_fan_in(dg_dim(at->b, x, -1)));
}

dg_val dg_layer_layer_norm(const dg_param_path_of *at, dg_val x)
{
    return dg_layer_layer_norm_eps(at, x, NORM_EPS);
}

dg_val dg_layer_layer_norm_eps(const dg_param_path_of *at, dg_val x, double eps)
{
    dg_shape s = DG_SHAPE(dg_dim(at->b, x, -1));
    dg_val scale = dg_param_at(at, "weight", s, dg_init_const(1));

    return dg_layer_norm(at->b, x, scale, dg_param_at(at, "bias", s, dg_init_zero()), eps);
}

dg_val dg_layer_box_head(const dg_param_path_of *at, dg_val x)
{
    int64_t width = dg_dim(at->b, x, -1);
    dg_param_path_of last = dg_param_path_in(at, "layers.2");

    for (int i = 0; i < 2; i++) {
        dg_param_path_of layer = dg_param_path_in(at, "layers.%d", i);

        x = dg_relu(at->b, dg_layer_linear(&layer, x, width, dg_init_fan_in(width)));
    }
    return dg_layer_linear_bias(&last, x, 4, dg_init_zero(), dg_init_zero());
}

dg_val dg_layer_attention(const dg_param_path_of *at, dg_val x, dg_val pos, int heads, dg_val dn,
                          int64_t capacity, dg_init out)
{
    dg_build *b = at->b;
    int64_t d = dg_dim(b, x, -1);
    dg_val w = dg_param_at(at, "in_proj_weight", DG_SHAPE(3 * d, d), dg_init_xavier(d, 3 * d));
    dg_val bias = dg_param_at(at, "in_proj_bias", DG_SHAPE(3 * d), dg_init_zero());
    dg_val in[3], qkv[3], y;
    dg_param_path_of project = dg_param_path_in(at, "out_proj");

    in[0] = in[1] = dg_add(b, x, pos);
    in[2] = x;
    for (int i = 0; i < 3; i++)
        qkv[i] = dg_linear(b, in[i], dg_slice(b, w, 0, i * d, (i + 1) * d),
                           dg_slice(b, bias, 0, i * d, (i + 1) * d));
    y = dg_attention(b, qkv[0], qkv[1], qkv[2], heads, dn, capacity);
    return dg_layer_linear_bias(&project, y, d, out, dg_init_zero());
}

/* The layer's probability in this update of the weights. */
static dg_val drop_rate(dg_build *b, const dg_drop_path *p, double rate)
{
    double first = p->mode == DG_DROP_LATE ? 0 : rate, then = p->mode == DG_DROP_LATE ? rate : 0;

    if (p->mode == DG_DROP_ALWAYS)
        return dg_number(b, rate);
    return dg_ramp(b, p->until, first, p->mode == DG_DROP_EARLY ? rate : 0, then);
}

dg_val dg_layer_drop_path(dg_build *b, dg_val branch, const dg_drop_path *p, const char *name)
{
    dg_shape s = dg_shape_of(b, branch);
    double rate = p->layers > 1 ? p->last * (double)p->layer / (double)(p->layers - 1) : p->last;
    dg_val keep, dropped;

    if (!dg_training(b) || rate <= 0)
        return branch;
    dropped = drop_rate(b, p, rate);
    keep = dg_at_least(b, dg_uniform(b, name, DG_SHAPE(p->batch, 1, 1)), dropped);
    keep = p->mode == DG_DROP_ALWAYS ? dg_scale(b, dg_real(b, keep), 1 / (1 - rate), 0)
                                     : dg_div(b, dg_real(b, keep), dg_scale(b, dropped, -1, 1));
    branch = dg_reshape(b, branch, DG_SHAPE(p->batch, -1, dg_dim(b, branch, -1)));
    return dg_reshape(b, dg_mul(b, branch, keep), s);
}
