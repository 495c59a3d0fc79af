/* swin.c: <backbone.swin>: a transformer whose layers look inside small windows, which every second
 * layer shifts, and whose maps shrink from stage to stage. Liu et al. 2021, as detectors have it.
 *
 *  embed   LN(conv4x4(x)), stride 4, on images padded with 0 to multiples of 4: [B,h,w,D]
 *  layer   x <- x + Attn(LN1 x);  x <- x + W2 gelu(W1 LN2 x)
 *  Attn    of m x m windows of the map padded with 0; odd layers first move it m/2 up and left,
 *          around its edges. softmax(q k / sqrt(d) + bias + mask) v; bias: of a table, by the
 *          distance of the two tokens in rows and columns; mask: -100 between tokens that only the
 *          move has brought together
 *  merge   W LN(the 4 D numbers of 2 x 2 tokens, columns first), 2 D wide, behind stages 0 to 2; a
 *          row or column of zeros makes sides even
 *  out     LN of each stage's last state
 *
 * A map of one window is shifted, too; image classifiers do not do that. Maps have ceil(side /
 * stride) rows and columns: images may have any size. */
#include "nodes/backbone/pixels.h"
#include "nodes/backbone/stages.h"
#include "nodes/backbone/windows.h"
#include "nodes/builtin.h"
#include "nodes/layers.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { PATCH = 4, MOST_LAYERS = 64, MOST_WINDOW = 32 };

static const double EPS = 1e-5, FORBIDDEN = -100;

typedef struct conf {
    int64_t width, window, frozen_stages;
    dg_ints depths, heads;
    double drop_path;
    bool normalize;
} conf;

static const dg_attr attrs[] = {
    DG_INT(conf, width, 96, 1, 2048,
           "width of the first stage, which doubles from stage to stage: 96 is Swin-T and Swin-S, "
           "128 Swin-B, 192 Swin-L"),
    DG_INTS(conf, depths, "2,2,6,2", "layers of the four stages; 2,2,18,2 in Swin-S, B and L"),
    DG_INTS(conf, heads, "3,6,12,24",
            "attention heads of the four stages; 4,8,16,32 in Swin-B, 6,12,24,48 in Swin-L"),
    DG_INT(conf, window, 7, 1, MOST_WINDOW, "side of the windows in tokens"),
    DG_NUM(conf, drop_path, 0.2, 0, 0.99,
           "probability with which training skips the last layer's branches for an image; earlier "
           "layers in proportion, the first never"),
    DG_INT(conf, frozen_stages, -1, -1, DG_STAGES,
           "freeze the embedding and this many stages; -1: nothing"),
    DG_BOOL(conf, normalize, true,
            "subtract ImageNet's mean from the images and divide by its deviation"),
    { 0 },
};

static bool four(dg_check *k, const char *name, dg_ints list, int64_t most)
{
    if (list.n != DG_STAGES) {
        dg_check_fail(k, name, "swin-stages", "must be %d numbers, one for each stage, found %d",
                      DG_STAGES, list.n);
        return false;
    }
    for (int s = 0; s < DG_STAGES; s++)
        if (list.v[s] < 1 || list.v[s] > most) {
            dg_check_fail(k, name, "swin-stages", "must be from 1 to %lld, found %lld at place %d",
                          (long long)most, (long long)list.v[s], s + 1);
            return false;
        }
    return true;
}

static void check_swin(dg_check *k, const void *self)
{
    const conf *c = self;

    (void)four(k, "depths", c->depths, MOST_LAYERS);
    if (!four(k, "heads", c->heads, c->width << (DG_STAGES - 1)))
        return;
    for (int s = 0; s < DG_STAGES; s++)
        if ((c->width << s) % c->heads.v[s]) {
            dg_check_fail(k, "heads", "swin-heads",
                          "must divide the stage's width, found %lld for %lld at place %d",
                          (long long)c->heads.v[s], (long long)(c->width << s), s + 1);
            return;
        }
}

/* A stage: its map, and what its layers share. */
typedef struct swin {
    dg_build *b;
    const conf *c;
    int stage;
    int64_t batch, h, w, width, window;
    int64_t rows, columns; /* windows */
    int64_t before;        /* layers of earlier stages */
    dg_val index;          /* i32 [m^4]: row of the table for a pair of tokens */
    dg_val mask;           /* [windows,1,m^2,m^2] of shifted layers */
} swin;

/* ---- parameters ------------------------------------------------------------------------------ */

/* clang-format off */
enum {
    NORM1, NORM1_BIAS, QKV, QKV_BIAS, TABLE, PROJ, PROJ_BIAS, NORM2, NORM2_BIAS, FC1, FC1_BIAS, FC2,
    FC2_BIAS, N_PARTS
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
    [QKV] = { "attn.qkv.weight", 3, 1, 0 },
    [QKV_BIAS] = { "attn.qkv.bias", 3, 0, 0 },
    [TABLE] = { "attn.relative_position_bias_table", 0, 0, 0 },
    [PROJ] = { "attn.proj.weight", 1, 1, 0 },
    [PROJ_BIAS] = { "attn.proj.bias", 1, 0, 0 },
    [NORM2] = { "norm2.weight", 1, 0, 1 },
    [NORM2_BIAS] = { "norm2.bias", 1, 0, 0 },
    [FC1] = { "mlp.fc1.weight", 4, 1, 0 },
    [FC1_BIAS] = { "mlp.fc1.bias", 4, 0, 0 },
    [FC2] = { "mlp.fc2.weight", 1, 4, 0 },
    [FC2_BIAS] = { "mlp.fc2.bias", 1, 0, 0 },
};

/* frozen_stages counts from the embedding, which is stage -1 here. */
static dg_val param(dg_build *b, const conf *c, int stage, const char *path, dg_shape s,
                    dg_init init)
{
    return stage < c->frozen_stages ? dg_param_frozen(b, path, s, init)
                                    : dg_param(b, path, s, init);
}

static dg_val norm(dg_build *b, const conf *c, int stage, const char *path, dg_val x)
{
    dg_shape s = DG_SHAPE(dg_dim(b, x, -1));
    char name[64];
    dg_val scale;

    snprintf(name, sizeof name, "%s.weight", path);
    scale = param(b, c, stage, name, s, dg_init_const(1));
    snprintf(name, sizeof name, "%s.bias", path);
    return dg_layer_norm(b, x, scale, param(b, c, stage, name, s, dg_init_zero()), EPS);
}

static void layer_params(const swin *m, int64_t layer, dg_val p[N_PARTS])
{
    int64_t distances = 2 * m->window - 1;

    for (int i = 0; i < N_PARTS; i++) {
        bool vector = i != TABLE && !parts[i].columns;
        dg_shape s = i == TABLE ? DG_SHAPE(distances * distances, m->c->heads.v[m->stage])
                     : vector   ? DG_SHAPE(parts[i].rows * m->width)
                                : DG_SHAPE(parts[i].rows * m->width, parts[i].columns * m->width);
        char path[96];

        snprintf(path, sizeof path, "layers.%d.blocks.%lld.%s", m->stage, (long long)layer,
                 parts[i].path);
        p[i] = param(m->b, m->c, m->stage, path, s,
                     vector ? dg_init_const(parts[i].start) : dg_init_normal(0.02));
    }
}

/* ---- windows --------------------------------------------------------------------------------- */

/* Moves a map by places to lower indices, around its edges; by < 0: to higher ones. */
static dg_val rolled(dg_build *b, dg_val x, int64_t by)
{
    for (int axis = 1; by && axis <= 2; axis++) {
        int64_t n = dg_dim(b, x, axis), cut = by > 0 ? by : n + by;

        x = dg_concat(b, axis, 2,
                      (dg_val[]){ dg_slice(b, x, axis, cut, n), dg_slice(b, x, axis, 0, cut) });
    }
    return x;
}

static dg_val distance_index(dg_build *b, int64_t side)
{
    int64_t n = side * side, wide = 2 * side - 1;
    int32_t *index = malloc((size_t)(n * n) * sizeof *index);
    dg_val v;

    if (!index)
        return dg_error(b, "out-of-memory", "no memory for the distances of a window's tokens");
    for (int64_t i = 0; i < n; i++)
        for (int64_t j = 0; j < n; j++)
            index[i * n + j] =
                (int32_t)((i / side - j / side + side - 1) * wide + i % side - j % side + side - 1);
    v = dg_const_i32(b, DG_SHAPE(n * n), index);
    free(index);
    return v;
}

/* Which of three parts of a moved map's side place i is in: what no edge of a window cuts, and the
 * last window before and behind the map's old edge. */
static int part_of(int64_t i, int64_t n, int64_t side)
{
    return i < n - side ? 0 : i < n - side / 2 ? 1 : 2;
}

/* The number of each token's part is a constant; the pairs, many more, are compared in the graph.
 */
static dg_val shift_mask(const swin *m)
{
    dg_build *b = m->b;
    int64_t side = m->window, n = side * side, windows = m->rows * m->columns;
    double *part = malloc((size_t)(windows * n) * sizeof *part);
    dg_val v, other;

    if (!part)
        return dg_error(b, "out-of-memory", "no memory for the parts of a map");
    for (int64_t i = 0; i < windows * n; i++) {
        int64_t y = i / n / m->columns * side + i % n / side,
                x = i / n % m->columns * side + i % side;

        part[i] = 3 * part_of(y, m->rows * side, side) + part_of(x, m->columns * side, side);
    }
    v = dg_const(b, DG_SHAPE(windows, 1, n, 1), part);
    free(part);
    other = dg_reshape(b, v, DG_SHAPE(windows, 1, 1, n));
    return dg_scale(b, dg_real(b, dg_truth(b, dg_sub(b, v, other), false)), FORBIDDEN, 0);
}

/* ---- layers ---------------------------------------------------------------------------------- */

/* x [windows,m^2,D] of every image. */
static dg_val attention(const swin *m, dg_val x, const dg_val p[N_PARTS], bool shifted)
{
    dg_build *b = m->b;
    int64_t d = m->width, heads = m->c->heads.v[m->stage], n = dg_dim(b, x, 1),
            all = dg_dim(b, x, 0);
    dg_val qkv[3], bias, y;

    for (int i = 0; i < 3; i++) {
        y = dg_linear(b, x, dg_slice(b, p[QKV], 0, i * d, (i + 1) * d),
                      dg_slice(b, p[QKV_BIAS], 0, i * d, (i + 1) * d));
        y = dg_reshape(b, y, DG_SHAPE(all, n, heads, d / heads));
        qkv[i] = dg_permute(b, y, 4, i == 1 ? (int[]){ 0, 2, 3, 1 } : (int[]){ 0, 2, 1, 3 });
    }
    y = dg_matmul(b, dg_scale(b, qkv[0], 1 / sqrt((double)d / (double)heads), 0), qkv[1]);
    bias = dg_reshape(b, dg_embedding(b, p[TABLE], m->index, -1), DG_SHAPE(n, n, heads));
    y = dg_add(b, y, dg_permute(b, bias, 3, (int[]){ 2, 0, 1 }));
    if (shifted) {
        y = dg_reshape(b, y, DG_SHAPE(m->batch, m->rows * m->columns, heads, n, n));
        y = dg_reshape(b, dg_add(b, y, m->mask), DG_SHAPE(all, heads, n, n));
    }
    y = dg_matmul(b, dg_softmax(b, y), qkv[2]);
    y = dg_reshape(b, dg_permute(b, y, 4, (int[]){ 0, 2, 1, 3 }), DG_SHAPE(all, n, d));
    return dg_linear(b, y, p[PROJ], p[PROJ_BIAS]);
}

static dg_val residual(const swin *m, dg_val x, dg_val branch, int64_t layer, const char *which)
{
    const dg_ints *depths = &m->c->depths;
    const dg_drop_path drop = { .batch = m->batch,
                                .layer = m->before + layer,
                                .layers = depths->v[0] + depths->v[1] + depths->v[2] + depths->v[3],
                                .last = m->c->drop_path };
    char name[64];

    snprintf(name, sizeof name, "drop_path.%d.%lld.%s", m->stage, (long long)layer, which);
    return dg_add(m->b, x, dg_layer_drop_path(m->b, branch, &drop, name));
}

static dg_val layer(const swin *m, dg_val x, int64_t i)
{
    dg_build *b = m->b;
    int64_t shift = i % 2 ? m->window / 2 : 0;
    dg_val p[N_PARTS], y;

    layer_params(m, i, p);
    y = dg_layer_norm(b, x, p[NORM1], p[NORM1_BIAS], EPS);
    y = dg_pad(b, y, 1, 0, m->rows * m->window - m->h);
    y = dg_pad(b, y, 2, 0, m->columns * m->window - m->w);
    y = attention(m, dg_windows_cut(b, rolled(b, y, shift), m->rows, m->columns), p, shift > 0);
    y = dg_windows_join(b, y, m->rows, m->columns, m->batch, m->rows * m->window,
                        m->columns * m->window);
    y = rolled(b, y, -shift);
    y = dg_slice(b, dg_slice(b, y, 1, 0, m->h), 2, 0, m->w);
    x = residual(m, x, y, i, "attention");
    y = dg_layer_norm(b, x, p[NORM2], p[NORM2_BIAS], EPS);
    y = dg_linear(b, dg_gelu(b, dg_linear(b, y, p[FC1], p[FC1_BIAS])), p[FC2], p[FC2_BIAS]);
    return dg_name(b, residual(m, x, y, i, "mlp"), "swin.%d.%lld", m->stage, (long long)i);
}

/* ---- between stages -------------------------------------------------------------------------- */

/* Zeros behind the last row and column until sides are multiples of unit. */
static dg_val filled(dg_build *b, dg_val x, int64_t unit)
{
    for (int axis = 1; axis <= 2; axis++) {
        int64_t n = dg_dim(b, x, axis);

        x = dg_pad(b, x, axis, 0, (n + unit - 1) / unit * unit - n);
    }
    return x;
}

static dg_val embed(dg_build *b, const conf *c, dg_val images)
{
    dg_init init = dg_init_fan_in(3 * PATCH * PATCH);
    dg_val w = param(b, c, -1, "patch_embed.proj.weight", DG_SHAPE(c->width, 3, PATCH, PATCH),
                     init),
           bias = param(b, c, -1, "patch_embed.proj.bias", DG_SHAPE(c->width), init);
    dg_val x = dg_conv2d(b, filled(b, images, PATCH), w, bias, PATCH, 0);

    return dg_name(b, norm(b, c, -1, "patch_embed.norm", x), "swin.embed");
}

static dg_val merged(const swin *m, dg_val x)
{
    dg_build *b = m->b;
    dg_val w;
    char path[64];

    x = filled(b, x, 2);
    int64_t h = dg_dim(b, x, 1) / 2, wide = dg_dim(b, x, 2) / 2;

    x = dg_reshape(b, x, DG_SHAPE(m->batch, h, 2, wide, 2, m->width));
    x = dg_permute(b, x, 6, (int[]){ 0, 1, 3, 4, 2, 5 });
    x = dg_reshape(b, x, DG_SHAPE(m->batch, h, wide, 4 * m->width));
    snprintf(path, sizeof path, "layers.%d.downsample.norm", m->stage);
    x = norm(b, m->c, m->stage, path, x);
    snprintf(path, sizeof path, "layers.%d.downsample.reduction.weight", m->stage);
    w = param(b, m->c, m->stage, path, DG_SHAPE(2 * m->width, 4 * m->width), dg_init_normal(0.02));
    return dg_linear(b, x, w, DG_NONE);
}

static void lower_swin(dg_build *b, const void *self, const dg_val in[], dg_val out[])
{
    const conf *c = self;
    dg_val x =
        embed(b, c,
              c->normalize ? dg_pixels_normalised(b, in[DG_STAGES_IMAGES], in[DG_STAGES_SIZES])
                           : in[DG_STAGES_IMAGES]);
    swin m = { .b = b, .c = c, .batch = dg_dim(b, x, 0), .window = c->window };

    m.index = distance_index(b, c->window);
    out[0] = dg_record(b);
    for (m.stage = 0; m.stage < DG_STAGES; m.stage++) {
        char path[32];
        dg_val y;

        m.h = dg_dim(b, x, 1);
        m.w = dg_dim(b, x, 2);
        m.width = c->width << m.stage;
        m.rows = (m.h + m.window - 1) / m.window;
        m.columns = (m.w + m.window - 1) / m.window;
        m.mask = m.window > 1 && c->depths.v[m.stage] > 1 ? shift_mask(&m) : DG_NONE;
        for (int64_t i = 0; i < c->depths.v[m.stage]; i++)
            x = layer(&m, x, i);
        m.before += c->depths.v[m.stage];
        snprintf(path, sizeof path, "norm%d", m.stage);
        y = norm(b, c, m.stage, path, x);
        dg_record_set(b, out[0], dg_stages_keys[m.stage],
                      dg_name(b, y, "backbone.%s", dg_stages_keys[m.stage]));
        if (m.stage + 1 < DG_STAGES)
            x = merged(&m, x);
    }
}

const dg_node_class dg_node_backbone_swin = {
    DG_NODE_CLASS,
    .name = "backbone.swin",
    .role = DG_ROLE_BACKBONE,
    .brief = "Swin transformer: features at strides 4, 8, 16 and 32.",
    .doc = "Swin-T as it stands; S, B and L by width, depths, heads and window. Images may have "
           "any size. Parameters have the names of the authors' detectors; a classifier's weights "
           "lack the norms of the four outputs, which begin at scale 1 and shift 0.",
    .ports = dg_stages_ports,
    .attrs = attrs,
    .conf_size = sizeof(conf),
    .reference = "backbone",
    .check = check_swin,
    .lower = lower_swin,
};
