/* hybrid.c: <encoder.hybrid>: RT-DETR's encoder: attention on the coarsest map only, then
 * convolutions that fuse the three scales top-down and bottom-up. Zhao et al. 2024, sec. 4.2;
 * RepVGG: Ding et al. 2021.
 *
 *  P_l  = BN(conv1(S_l));  T5 = AIFI(P5)
 *  F5 = lateral_0(T5), X4 = fpn_0([up F5, P4]);  F4 = lateral_1(X4), F3 = fpn_1([up F4, P3])
 *  O3 = F3, O4 = pan_0([down_0(O3), F4]), O5 = pan_1([down_1(O4), F5])
 *  csp(x) = conv3(rep(rep(rep(conv1(x)))) + conv2(x))
 *  rep(x) = silu(BN(conv3x3(x)) + BN(conv1x1(x))) */
#include "nodes/builtin.h"
#include "nodes/layers.h"

#include <math.h>
#include <stdlib.h>

typedef struct conf {
    int64_t width, ffn, heads, version, norm;
    double expansion, depth;
    const char *axis;
} conf;

enum { S8, S16, S32, N_LEVELS };

static const dg_port ports[] = {
    DG_IN("s8", "f[B,H8,W8,C8]", "features at stride 8"),
    DG_IN("s16", "f[B,H16,W16,C16]", "features at stride 16"),
    DG_IN("s32", "f[B,H32,W32,C32]", "features at stride 32"),
    DG_OUT("out", "{s8:f[B,H8,W8,D],s16:f[B,H16,W16,D],s32:f[B,H32,W32,D]}",
           "fused features, all of one width"),
    { 0 },
};

static const dg_attr attrs[] = {
    DG_INT(conf, width, 256, 4, 8192, "channels of every level; a multiple of 4 and of heads"),
    DG_INT(conf, ffn, 1024, 1, 65536, "inner width of the attention layer's feed-forward network"),
    DG_INT(conf, heads, 8, 1, 256, "attention heads"),
    DG_NUM(conf, expansion, 0.5, 0.01, 4, "inner width of the fusion blocks, as a factor of width"),
    DG_NUM(conf, depth, 1, 0.01, 10, "number of RepVGG blocks per fusion block, divided by three"),
    DG_ENUM(conf, version, 1, "1|2", "parameter names of RT-DETR or RT-DETRv2"),
    DG_NORM_ATTRS(conf),
    { 0 },
};

static const dg_rule rules[] = {
    DG_NORM_RULES("s8", ""),
    DG_NORM_RULES("s16", ""),
    DG_NORM_RULES("s32", ""),
    { 0 },
};

/* Channels inside a fusion block. */
static int64_t inner_width(const conf *c)
{
    return (int64_t)((double)c->width * c->expansion);
}

static void check_hybrid(dg_check *k, const void *self)
{
    const conf *c = self;

    if (c->width % 4 || c->width % c->heads)
        dg_check_fail(k, "width", "encoder-width",
                      "must be a multiple of 4 and of heads (%lld), found %lld",
                      (long long)c->heads, (long long)c->width);
    if (inner_width(c) < 1)
        dg_check_fail(k, "expansion", "encoder-expansion",
                      "%lld channels times %g leave the fusion blocks none", (long long)c->width,
                      c->expansion);
    dg_norm_check(k, c->norm, c->axis);
}

static dg_val conv_norm(const dg_param_path_of *at, const char *name, dg_val x, int64_t out,
                        int size, int stride, dg_layer_act act, const conf *c)
{
    dg_param_path_of p = dg_param_path_in(at, "%s", name);
    dg_conv_norm shape = { .out = out,
                           .size = size,
                           .stride = stride,
                           .act = act,
                           .axis = dg_norm_axis(c->norm, c->axis) };

    return dg_layer_conv_norm(&p, x, &shape);
}

/* Sine and cosine embeddings of x and y. The reference builds the table with x as the slow index
 * although tokens run along rows, so that token i gets the embedding of x = i div h, y = i mod h;
 * trained weights rely on that. */
static dg_val positions(dg_build *b, int64_t h, int64_t w, int64_t width)
{
    int64_t n = h * w, quarter = width / 4;
    double *table = malloc((size_t)(n * width) * sizeof *table);
    dg_val v;

    if (!table)
        return dg_error(b, "out-of-memory", "no memory for the position table of %lld tokens",
                        (long long)n);
    for (int64_t i = 0; i < n; i++)
        for (int64_t k = 0; k < quarter; k++) {
            double omega = pow(10000, -(double)k / (double)quarter);
            double x = (double)(i / h) * omega, y = (double)(i % h) * omega;
            double *row = table + i * width + k;

            row[0] = sin(x);
            row[quarter] = cos(x);
            row[2 * quarter] = sin(y);
            row[3 * quarter] = cos(y);
        }
    v = dg_const(b, DG_SHAPE(1, n, width), table);
    free(table);
    return dg_const_of_maps(b, v, DG_MAPS_SINES, &(dg_levels){ .n = 1, .h = { h }, .w = { w } });
}

/* Attention-based intra-scale feature interaction: one post-norm transformer layer on the coarsest
 * map. */
static dg_val aifi(dg_build *b, dg_val x, const conf *c)
{
    dg_param_path_of at = dg_param_path(b, "encoder.0.layers.0");
    dg_param_path_of attention = dg_param_path_in(&at, "self_attn"),
                     linear1 = dg_param_path_in(&at, "linear1");
    dg_param_path_of linear2 = dg_param_path_in(&at, "linear2"),
                     norm1 = dg_param_path_in(&at, "norm1"), norm2 = dg_param_path_in(&at, "norm2");
    dg_shape map = dg_shape_of(b, x);
    int64_t h = dg_dim(b, x, 1), w = dg_dim(b, x, 2);
    dg_val t = dg_reshape(b, x, DG_SHAPE(dg_dim(b, x, 0), h * w, c->width)), y;

    y = dg_layer_attention(&attention, t, positions(b, h, w, c->width), (int)c->heads, DG_NONE, 0,
                           dg_init_fan_in(c->width));
    t = dg_layer_layer_norm(&norm1, dg_add(b, t, y));
    y = dg_gelu(b, dg_layer_linear(&linear1, t, c->ffn, dg_init_fan_in(c->width)));
    t = dg_layer_layer_norm(&norm2,
                            dg_add(b, t,
                                   dg_layer_linear(&linear2, y, c->width, dg_init_fan_in(c->ffn))));
    return dg_reshape(b, dg_name(b, t, "encoder.encoder.0"), map);
}

static dg_val rep_vgg(const dg_param_path_of *at, dg_val x, const conf *c)
{
    dg_build *b = at->b;
    int64_t width = dg_dim(b, x, -1);
    dg_val three = conv_norm(at, "conv1", x, width, 3, 1, DG_LAYER_LINEAR, c);

    return dg_silu(b, dg_add(b, three, conv_norm(at, "conv2", x, width, 1, 1, DG_LAYER_LINEAR, c)));
}

static dg_val csp(dg_build *b, const char *list, int i, dg_val top, dg_val bottom, const conf *c)
{
    dg_param_path_of at = dg_param_path(b, "%s.%d", list, i);
    int64_t inner = inner_width(c);
    int n = (int)nearbyint(3 * c->depth); /* ties to even, as Python rounds */
    dg_val x = dg_concat(b, 3, 2, (dg_val[]){ top, bottom });
    dg_val deep = conv_norm(&at, "conv1", x, inner, 1, 1, DG_LAYER_SILU, c);
    dg_val y = conv_norm(&at, "conv2", x, inner, 1, 1, DG_LAYER_SILU, c);

    for (int k = 0; k < n; k++) {
        dg_param_path_of p = dg_param_path_in(&at, "bottlenecks.%d", k);

        deep = rep_vgg(&p, deep, c);
    }
    y = dg_add(b, deep, y);
    if (inner != c->width)
        y = conv_norm(&at, "conv3", y, c->width, 1, 1, DG_LAYER_SILU, c);
    return dg_name(b, y, "encoder.%s", at.path);
}

static dg_val fuse_block(dg_build *b, const dg_val p[N_LEVELS], const conf *c)
{
    dg_param_path_of lateral = dg_param_path(b, "lateral_convs"),
                     down = dg_param_path(b, "downsample_convs");
    dg_val f5 = conv_norm(&lateral, "0", p[S32], c->width, 1, 1, DG_LAYER_SILU, c);
    dg_val x4 = csp(b, "fpn_blocks", 0, dg_upsample(b, f5, 2), p[S16], c);
    dg_val f4 = conv_norm(&lateral, "1", x4, c->width, 1, 1, DG_LAYER_SILU, c);
    dg_val o3 = csp(b, "fpn_blocks", 1, dg_upsample(b, f4, 2), p[S8], c);
    dg_val o4 =
        csp(b, "pan_blocks", 0, conv_norm(&down, "0", o3, c->width, 3, 2, DG_LAYER_SILU, c), f4, c);
    dg_val o5 =
        csp(b, "pan_blocks", 1, conv_norm(&down, "1", o4, c->width, 3, 2, DG_LAYER_SILU, c), f5, c);
    dg_val out = dg_record(b);

    dg_record_set(b, out, "s8", dg_name(b, o3, "encoder.out0"));
    dg_record_set(b, out, "s16", dg_name(b, o4, "encoder.out1"));
    dg_record_set(b, out, "s32", dg_name(b, o5, "encoder.out2"));
    return out;
}

/* Reports levels that are not twice as large as the next: an upsampled map would not fit. */
static bool levels_halve(dg_build *b, const dg_val in[])
{
    for (int l = 0; l + 1 < N_LEVELS; l++)
        for (int axis = 1; axis <= 2; axis++)
            if (dg_dim(b, in[l], axis) != 2 * dg_dim(b, in[l + 1], axis))
                return false;
    return true;
}

static void lower_hybrid(dg_build *b, const void *self, const dg_val in[], dg_val out[])
{
    const conf *c = self;
    dg_val p[N_LEVELS];

    if (!levels_halve(b, in)) {
        out[0] =
            dg_error(b, "encoder-size",
                     "feature maps of %lldx%lld, %lldx%lld and %lldx%lld do not halve from level "
                     "to level: are s8, s16 and s32 wired in this order, and are the sides of "
                     "images multiples of 32?",
                     (long long)dg_dim(b, in[S8], 2), (long long)dg_dim(b, in[S8], 1),
                     (long long)dg_dim(b, in[S16], 2), (long long)dg_dim(b, in[S16], 1),
                     (long long)dg_dim(b, in[S32], 2), (long long)dg_dim(b, in[S32], 1));
        return;
    }
    for (int l = 0; l < N_LEVELS; l++) {
        dg_param_path_of at = dg_param_path(b, "input_proj.%d", l);
        dg_conv_norm shape = {
            .out = c->width, .size = 1, .stride = 1, .axis = dg_norm_axis(c->norm, c->axis)
        };

        if (!c->version) {
            shape.conv = "0";
            shape.norm = "1";
        }
        p[l] = dg_name(b, dg_layer_conv_norm(&at, in[l], &shape), "encoder.%s", at.path);
    }
    p[S32] = aifi(b, p[S32], c);
    out[0] = fuse_block(b, p, c);
}

const dg_node_class dg_node_encoder_hybrid = {
    DG_NODE_CLASS,
    .name = "encoder.hybrid",
    .role = DG_ROLE_ENCODER,
    .brief = "RT-DETR's hybrid encoder: attention at stride 32, then convolutions that fuse three "
             "scales.",
    .ports = ports,
    .attrs = attrs,
    .conf_size = sizeof(conf),
    .rules = rules,
    .reference = "encoder",
    .check = check_hybrid,
    .lower = lower_hybrid,
};
