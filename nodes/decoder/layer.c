/* layer.c: one layer of a deformable transformer decoder, post-norm. Zhu et al. 2021; Vaswani et
 * al. 2017.
 *
 *     x <- LN1(x + selfattn(x + pos, x + pos, x))
 *     x <- LN2(x + deform(x + pos, ref, memory))    offsets and weights are linear in the query
 *     x <- LN3(x + W2 relu(W1 x)) */
#include "nodes/decoder/layer.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>

static const double HALF_MAX = 65504; /* largest fp16; version 1 clamps there */

int64_t dg_decoder_points(const dg_levels *levels)
{
    int64_t n = 0;

    for (int l = 0; l < levels->n; l++)
        n += levels->points[l];
    return n;
}

dg_init dg_deform_grid(dg_build *b, int64_t heads, const dg_levels *levels)
{
    static const double tau = 6.28318530717958647692;
    int64_t n = heads * dg_decoder_points(levels) * 2;
    double *v, *p;
    dg_init init;

    assert(n > 0); /* there are heads, levels and points */
    v = p = malloc((size_t)n * sizeof *v);
    if (!v) {
        dg_error(b, "out-of-memory", "no memory for %lld initial offsets", (long long)n);
        return dg_init_zero();
    }
    for (int64_t k = 0; k < heads; k++) {
        double x = cos(tau * (double)k / (double)heads), y = sin(tau * (double)k / (double)heads);
        double longest = fmax(fabs(x), fabs(y));

        for (int l = 0; l < levels->n; l++)
            for (int64_t j = 1; j <= levels->points[l]; j++) {
                *p++ = (double)j * (x / longest);
                *p++ = (double)j * (y / longest);
            }
    }
    init = dg_init_data(b, v, n);
    free(v);
    return init;
}

static dg_val offsets(const dg_param_path_of *at, const dg_decoder_stack *s, dg_val query)
{
    dg_build *b = at->b;
    dg_param_path_of p = dg_param_path_in(at, "sampling_offsets");
    int64_t n = s->heads * dg_decoder_points(&s->levels) * 2;
    dg_shape shape = DG_SHAPE(n, dg_dim(b, query, -1));
    dg_init bias = dg_deform_grid(b, s->heads, &s->levels);

    if (s->discrete) /* rounding passes no gradient to the offsets */
        return dg_linear(b, query,
                         dg_param_frozen(b, dg_param_path_in(&p, "weight").path, shape,
                                         dg_init_zero()),
                         dg_param_frozen(b, dg_param_path_in(&p, "bias").path, DG_SHAPE(n), bias));
    return dg_layer_linear_bias(&p, query, n, dg_init_zero(), bias);
}

/* The reference stores 1 / (points of the level) for every point. */
static void export_scale(const dg_param_path_of *at, const dg_decoder_stack *s)
{
    double v[DG_MAX_LEVELS * 64];
    int64_t n = 0;

    for (int l = 0; l < s->levels.n; l++)
        for (int64_t j = 0; j < s->levels.points[l]; j++)
            v[n++] = 1 / (double)s->levels.points[l];
    dg_export_const(at->b, dg_param_path_in(at, "num_points_scale").path, DG_F32, DG_SHAPE(n), v);
}

static dg_val cross_attention(const dg_param_path_of *at, const dg_decoder_stack *s, dg_val query,
                              dg_val ref)
{
    dg_build *b = at->b;
    int64_t d = dg_dim(b, query, -1), points = dg_decoder_points(&s->levels);
    dg_init glorot = dg_init_xavier(d, d), zero = dg_init_zero();
    dg_param_path_of weights = dg_param_path_in(at, "attention_weights"),
                     value = dg_param_path_in(at, "value_proj");
    dg_param_path_of output = dg_param_path_in(at, "output_proj");
    dg_val v = dg_layer_linear_bias(&value, s->memory, d, glorot, zero),
           off = offsets(at, s, query), w, y;

    w = dg_layer_linear_bias(&weights, query, s->heads * points, zero, zero);
    w = dg_softmax(b,
                   dg_reshape(b, w, DG_SHAPE(dg_dim(b, w, 0), dg_dim(b, w, 1), s->heads, points)));
    y = dg_deform_attention(b, v, ref, off, w, (int)s->heads, &s->levels, s->discrete);
    if (s->family == DG_DECODER_RTDETR2)
        export_scale(at, s);
    return dg_layer_linear_bias(&output, y, d, glorot, zero);
}

/* x, pos [B,N,D]. Groups are attended to like images of their own. */
static dg_val self_attention(const dg_param_path_of *at, const dg_decoder_stack *s, dg_val x,
                             dg_val pos)
{
    dg_build *b = at->b;
    dg_shape whole = dg_shape_of(b, x);
    dg_shape parts = DG_SHAPE(whole.d[0] * s->groups, whole.d[1] / s->groups, whole.d[2]);
    dg_init out = s->family == DG_DECODER_LWDETR ? dg_init_xavier(whole.d[2], whole.d[2])
                                                 : dg_init_fan_in(whole.d[2]);

    if (s->groups > 1) {
        x = dg_reshape(b, x, parts);
        pos = dg_reshape(b, pos, parts);
    }
    x = dg_layer_attention(at, x, pos, (int)s->self_heads, s->dn, s->capacity, out);
    return s->groups > 1 ? dg_reshape(b, x, whole) : x;
}

dg_val dg_decoder_layer(const dg_param_path_of *at, const dg_decoder_stack *s, dg_val x, dg_val pos,
                        dg_val ref)
{
    dg_build *b = at->b;
    int64_t d = dg_dim(b, x, -1);
    dg_param_path_of self_attn = dg_param_path_in(at, "self_attn"),
                     cross_attn = dg_param_path_in(at, "cross_attn");
    dg_param_path_of linear1 = dg_param_path_in(at, "linear1"),
                     linear2 = dg_param_path_in(at, "linear2");
    dg_param_path_of norm1 = dg_param_path_in(at, "norm1"), norm2 = dg_param_path_in(at, "norm2"),
                     norm3 = dg_param_path_in(at, "norm3");
    /* version 1 keeps PyTorch's default initialisation here, unlike in its other layers */
    bool version1 = s->family == DG_DECODER_RTDETR1;
    dg_init wide = version1 ? dg_init_fan_in(d) : dg_init_xavier(d, s->ffn);
    dg_init narrow = version1 ? dg_init_fan_in(s->ffn) : dg_init_xavier(s->ffn, d);
    dg_val y;

    x = dg_layer_layer_norm(&norm1, dg_add(b, x, self_attention(&self_attn, s, x, pos)));
    x = dg_layer_layer_norm(&norm2,
                            dg_add(b, x, cross_attention(&cross_attn, s, dg_add(b, x, pos), ref)));
    y = dg_relu(b, dg_layer_linear(&linear1, x, s->ffn, wide));
    x = dg_add(b, x, dg_layer_linear(&linear2, y, d, narrow));
    if (version1)
        x = dg_clamp(b, x, -HALF_MAX, HALF_MAX);
    return dg_layer_layer_norm(&norm3, x);
}
