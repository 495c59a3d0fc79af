/* dinov2.c: <backbone.dinov2>: a vision transformer whose layers look inside windows, except some
 * that look at the whole image. Dosovitskiy et al. 2021 (ViT), Oquab et al. 2024 (DINOv2); windows:
 * Li et al. 2022 (ViTDet), as RF-DETR has them.
 *
 *  embed    tokens [B,h,w,D] = conv_PxP(x) + resize(positions), h = H/P; cut into n x n windows,
 *           and before the tokens of each window a class token of its own: [B n^2, 1 + hw/n^2, D]
 *  layer    x <- x + l1 * Attn(LN1 x);  x <- x + l2 * W2 gelu(W1 LN2 x)
 *           attention inside a window; in a global layer over all windows of the image, side by
 *           side, with all their class tokens
 *  feature  LN(state after k layers) without class tokens, put together again: [B,h,w,D]
 *
 * A layer is global if its number, from 0, is among the features. So a feature is the state before
 * the global layer of its number, and layers after the last feature do nothing: their parameters
 * are kept and not trained. */
#include "nodes/backbone/pixels.h"
#include "nodes/backbone/resample.h"
#include "nodes/backbone/windows.h"
#include "nodes/builtin.h"
#include "nodes/layers.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_LAYERS = 64, MOST_FEATURES = 16 };

typedef struct conf {
    int64_t width, heads, layers, patch, windows, positions;
    dg_ints features;
    double drop_path;
    int64_t drop_when; /* dg_drop_mode */
    int64_t drop_until;
    bool normalize;
} conf;

static const dg_port ports[] = {
    DG_IN("in", "f[B,H,W,3]", "images, RGB from 0 to 1"),
    DG_OUT("out", "{f*:f[B,H1,W1,D]}", "feature maps f0, f1, ..., one for each number in features"),
    { 0 },
};

static const dg_attr attrs[] = {
    DG_INT(conf, width, 384, 1, 8192, "width of tokens: 384 is ViT-S, 768 is ViT-B"),
    DG_INT(conf, heads, 6, 1, 256, "attention heads: 6 in ViT-S, 12 in ViT-B"),
    DG_INT(conf, layers, 12, 1, MOST_LAYERS, "transformer layers"),
    DG_INT(conf, patch, 16, 1, 256, "side of the patches that become tokens, in pixels"),
    DG_INT(conf, windows, 2, 1, 64, "windows per side; 1: every layer looks at the whole image"),
    DG_INT(conf, positions, 24, 1, 1024,
           "side of the stored table of positions, which is resized to the image's tokens"),
    DG_INTS(conf, features, "3,6,9,12", "numbers of layers behind which a feature map is taken"),
    DG_NUM(conf, drop_path, 0, 0, 0.99,
           "probability with which training skips the last layer's branches for an image; earlier "
           "layers in proportion, the first never"),
    DG_ENUM(conf, drop_when, DG_DROP_ALWAYS, "always|early|falling|late",
            "drop_path in all steps, in the first drop_until, in those and falling to 0 in equal "
            "parts, or in all but those"),
    DG_INT(conf, drop_until, 0, 0, INT32_MAX, "steps that drop_when speaks of"),
    DG_BOOL(conf, normalize, true,
            "subtract ImageNet's mean from the images and divide by its deviation"),
    { 0 },
};

static void check_drop(dg_check *k, const conf *c)
{
    if (c->drop_when != DG_DROP_ALWAYS && c->drop_path <= 0)
        dg_check_fail(k, "drop_when", "vit-drop", "needs drop_path, like \"0.1\"");
    if (c->drop_when != DG_DROP_ALWAYS && c->drop_until < 1)
        dg_check_fail(k, "drop_when", "vit-drop",
                      "needs drop_until, a number of steps, like \"1000\"");
    if (c->drop_when == DG_DROP_ALWAYS && c->drop_until)
        dg_check_fail(k, "drop_until", "vit-drop",
                      "needs drop_when: \"early\", \"falling\" or \"late\"");
}

static void check_dinov2(dg_check *k, const void *self)
{
    const conf *c = self;

    check_drop(k, c);
    if (c->width % c->heads)
        dg_check_fail(k, "width", "vit-width", "must be a multiple of heads (%lld), found %lld",
                      (long long)c->heads, (long long)c->width);
    if (c->features.n < 1 || c->features.n > MOST_FEATURES)
        dg_check_fail(k, "features", "vit-features", "must be 1 to %d numbers, found %d",
                      MOST_FEATURES, c->features.n);
    for (int i = 0; i < c->features.n; i++)
        if (c->features.v[i] < 1 || c->features.v[i] > c->layers ||
            (i && c->features.v[i] <= c->features.v[i - 1])) {
            dg_check_fail(k, "features", "vit-features",
                          "must ascend from 1 to layers (%lld) at most, found %lld at place %d",
                          (long long)c->layers, (long long)c->features.v[i], i + 1);
            return;
        }
}

static void type_dinov2(dg_typing *t, const void *self)
{
    const conf *c = self;
    char text[MOST_FEATURES * 32] = "{";

    for (int i = 0; i < c->features.n && i < MOST_FEATURES; i++)
        snprintf(text + strlen(text), 32, "%sf%d:f[B,H1,W1,D]", i ? "," : "", i);
    dg_type(t, "out", "%s}", text);
}

/* What every function below needs: h, w: tokens of a column and a row. */
typedef struct vit {
    dg_build *b;
    const conf *c;
    int64_t batch, h, w;
} vit;

static int64_t last_layer(const conf *c)
{
    return c->features.v[c->features.n - 1];
}

/* ---- parameters ------------------------------------------------------------------------------ */

static dg_init matrix_init(void)
{
    return dg_init_normal(0.02);
}

/* clang-format off */
enum {
    NORM1, NORM1_BIAS, QUERY, QUERY_BIAS, KEY, KEY_BIAS, VALUE, VALUE_BIAS, DENSE, DENSE_BIAS, SCALE1,
    NORM2, NORM2_BIAS, FC1, FC1_BIAS, FC2, FC2_BIAS, SCALE2, N_PARTS
};
/* clang-format on */

/* Rows and columns in widths; vectors have no columns. */
static const struct {
    const char *path;
    int rows, columns;
    double start; /* of vectors */
} parts[N_PARTS] = {
    [NORM1] = { "norm1.weight", 1, 0, 1 },
    [NORM1_BIAS] = { "norm1.bias", 1, 0, 0 },
    [QUERY] = { "attention.attention.query.weight", 1, 1, 0 },
    [QUERY_BIAS] = { "attention.attention.query.bias", 1, 0, 0 },
    [KEY] = { "attention.attention.key.weight", 1, 1, 0 },
    [KEY_BIAS] = { "attention.attention.key.bias", 1, 0, 0 },
    [VALUE] = { "attention.attention.value.weight", 1, 1, 0 },
    [VALUE_BIAS] = { "attention.attention.value.bias", 1, 0, 0 },
    [DENSE] = { "attention.output.dense.weight", 1, 1, 0 },
    [DENSE_BIAS] = { "attention.output.dense.bias", 1, 0, 0 },
    [SCALE1] = { "layer_scale1.lambda1", 1, 0, 1 },
    [NORM2] = { "norm2.weight", 1, 0, 1 },
    [NORM2_BIAS] = { "norm2.bias", 1, 0, 0 },
    [FC1] = { "mlp.fc1.weight", 4, 1, 0 },
    [FC1_BIAS] = { "mlp.fc1.bias", 4, 0, 0 },
    [FC2] = { "mlp.fc2.weight", 1, 4, 0 },
    [FC2_BIAS] = { "mlp.fc2.bias", 1, 0, 0 },
    [SCALE2] = { "layer_scale2.lambda1", 1, 0, 1 },
};

static void layer_params(const vit *m, int64_t layer, dg_val p[N_PARTS])
{
    int64_t width = m->c->width;
    bool dead = layer >= last_layer(m->c);

    for (int i = 0; i < N_PARTS; i++) {
        dg_shape s = parts[i].columns ? DG_SHAPE(parts[i].rows * width, parts[i].columns * width)
                                      : DG_SHAPE(parts[i].rows * width);
        dg_init init = parts[i].columns ? matrix_init() : dg_init_const(parts[i].start);
        char path[64];

        snprintf(path, sizeof path, "encoder.layer.%lld.%s", (long long)layer, parts[i].path);
        p[i] = dead ? dg_param_frozen(m->b, path, s, init) : dg_param(m->b, path, s, init);
    }
}

/* ---- tokens ---------------------------------------------------------------------------------- */

/* The table's rows behind the class token's, for h x w tokens: [h,w,D]. */
static dg_val grid_positions(const vit *m, dg_val table)
{
    int64_t side = m->c->positions;
    dg_val rows = dg_slice(m->b, table, 1, 1, 1 + side * side);

    return dg_resample_grid(m->b, rows, side, m->c->width, m->h, m->w);
}

static dg_val embed(const vit *m, dg_val images)
{
    dg_build *b = m->b;
    int64_t width = m->c->width, side = m->c->positions, patch = m->c->patch;
    dg_val class = dg_param(b, "embeddings.cls_token", DG_SHAPE(1, 1, width), matrix_init()), x;

    /* stored by the reference, and read by none of its computations */
    (void)dg_param_frozen(b, "embeddings.mask_token", DG_SHAPE(1, width), dg_init_zero());
    dg_val table = dg_param(b, "embeddings.position_embeddings",
                            DG_SHAPE(1, 1 + side * side, width), matrix_init());
    dg_val w = dg_param(b, "embeddings.patch_embeddings.projection.weight",
                        DG_SHAPE(width, 3, patch, patch), matrix_init());
    dg_val bias =
        dg_param(b, "embeddings.patch_embeddings.projection.bias", DG_SHAPE(width), dg_init_zero());

    x = dg_conv2d(b, m->c->normalize ? dg_pixels_normalised(b, images, DG_NONE) : images, w, bias,
                  (int)patch, 0);
    x = dg_windows_cut(b, dg_add(b, x, grid_positions(m, table)), m->c->windows, m->c->windows);
    class = dg_add(b, class, dg_slice(b, table, 1, 0, 1));
    /* by images first: only axis 0 may be their number */
    class = dg_expand(b, dg_reshape(b, class, DG_SHAPE(1, 1, 1, width)),
                      DG_SHAPE(m->batch, m->c->windows * m->c->windows, 1, width));
    class = dg_reshape(b, class, DG_SHAPE(dg_dim(b, x, 0), 1, width));
    return dg_name(b, dg_concat(b, 1, 2, (dg_val[]){ class, x }), "vit.embed");
}

/* ---- layers ---------------------------------------------------------------------------------- */

/* The reference's name of the list of layers. */
#define MODULE "backbone.0.encoder.encoder.encoder."

static const double EPS = 1e-6;

static bool is_global(const conf *c, int64_t layer)
{
    for (int i = 0; i < c->features.n; i++)
        if (c->features.v[i] == layer)
            return true;
    return false;
}

/* x + scale * branch, or x alone where the path is dropped */
static dg_val residual(const vit *m, dg_val x, dg_val branch, dg_val scale, int64_t layer,
                       const char *which)
{
    const dg_drop_path drop = {
        m->batch,        layer, m->c->layers, m->c->drop_path, (dg_drop_mode)m->c->drop_when,
        m->c->drop_until
    };
    char name[48];

    snprintf(name, sizeof name, "drop_path.%lld.%s", (long long)layer, which);
    return dg_add(m->b, x, dg_layer_drop_path(m->b, dg_mul(m->b, branch, scale), &drop, name));
}

static dg_val attention(const vit *m, dg_val x, const dg_val p[N_PARTS], bool global)
{
    dg_build *b = m->b;
    dg_shape windows = dg_shape_of(b, x);
    dg_val qkv[3], y;

    if (global)
        x = dg_reshape(b, x, DG_SHAPE(m->batch, -1, m->c->width));
    for (int i = 0; i < 3; i++)
        qkv[i] = dg_linear(b, x, p[QUERY + 2 * i], p[QUERY_BIAS + 2 * i]);
    y = dg_attention(b, qkv[0], qkv[1], qkv[2], (int)m->c->heads, DG_NONE, 0);
    return dg_reshape(b, dg_linear(b, y, p[DENSE], p[DENSE_BIAS]), windows);
}

static dg_val layer(const vit *m, dg_val x, int64_t i)
{
    dg_build *b = m->b;
    dg_val p[N_PARTS], y;

    layer_params(m, i, p);
    y = dg_layer_norm(b, x, p[NORM1], p[NORM1_BIAS], EPS);
    y = attention(m, y, p, is_global(m->c, i));
    dg_name(b, y, MODULE "layer.%lld.attention", (long long)i);
    x = residual(m, x, y, p[SCALE1], i, "attention");
    y = dg_layer_norm(b, x, p[NORM2], p[NORM2_BIAS], EPS);
    y = dg_linear(b, dg_gelu(b, dg_linear(b, y, p[FC1], p[FC1_BIAS])), p[FC2], p[FC2_BIAS]);
    dg_name(b, y, MODULE "layer.%lld.mlp", (long long)i);
    return dg_name(b, residual(m, x, y, p[SCALE2], i, "mlp"), "vit.layer.%lld", (long long)i);
}

static void lower_dinov2(dg_build *b, const void *self, const dg_val in[], dg_val out[])
{
    const conf *c = self;
    int64_t unit = c->patch * c->windows, h = dg_dim(b, in[0], 1), w = dg_dim(b, in[0], 2);
    vit m = { b, c, dg_dim(b, in[0], 0), h / c->patch, w / c->patch };
    dg_val state[MOST_FEATURES] = { 0 }, unused[N_PARTS], x;

    if (h % unit || w % unit) {
        out[0] =
            dg_error(b, "backbone-size",
                     "images of %lldx%lld: both sides must be multiples of %lld, for %lldx%lld "
                     "windows of patches of %lldx%lld pixels; samplers set sizes",
                     (long long)w, (long long)h, (long long)unit, (long long)c->windows,
                     (long long)c->windows, (long long)c->patch, (long long)c->patch);
        return;
    }
    x = embed(&m, in[0]);
    for (int64_t i = 0, taken = 0; i < last_layer(c); i++) {
        x = layer(&m, x, i);
        if (c->features.v[taken] == i + 1)
            state[taken++] = x;
    }
    for (int64_t i = last_layer(c); i < c->layers; i++)
        layer_params(&m, i, unused);
    dg_val scale = dg_param(b, "layernorm.weight", DG_SHAPE(c->width), dg_init_const(1));
    dg_val shift = dg_param(b, "layernorm.bias", DG_SHAPE(c->width), dg_init_zero());

    out[0] = dg_record(b);
    for (int k = 0; k < c->features.n; k++) {
        char key[16];

        snprintf(key, sizeof key, "f%d", k);
        x = dg_slice(b, state[k], 1, 1, dg_dim(b, state[k], 1));
        x = dg_windows_join(b, x, m.c->windows, m.c->windows, m.batch, m.h, m.w);
        x = dg_layer_norm(b, x, scale, shift, EPS);
        dg_record_set(b, out[0], key, dg_name(b, x, "feat.%d", k));
    }
}

const dg_node_class dg_node_backbone_dinov2 = {
    DG_NODE_CLASS,
    .name = "backbone.dinov2",
    .role = DG_ROLE_BACKBONE,
    .brief = "DINOv2's vision transformer with windows: feature maps of one size from several "
             "layers.",
    .doc = "A layer whose number, from 0, is among the features looks at the whole image, the "
           "others inside their windows. The sides of images must be multiples of patch times "
           "windows. Layers after the last feature are stored and not trained.",
    .ports = ports,
    .attrs = attrs,
    .conf_size = sizeof(conf),
    .reference = "backbone.0.encoder.encoder",
    .type = type_dinov2,
    .check = check_dinov2,
    .lower = lower_dinov2,
};
