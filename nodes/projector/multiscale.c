/* multiscale.c: <projector.multiscale>: a feature pyramid from maps of one size. Li et al. 2022
 * (ViTDet), Chen et al. 2024 (LW-DETR); C2f as in YOLOv8.
 *
 *  level l  LN(C2f([resize_l(f_0), resize_l(f_1), ...]))
 *  resize   level 3: transposed conv2x2, stride 2, to half the channels; 4: nothing;
 *           5: relu(LN(conv3x3, stride 2))
 *
 * C2f, its convolutions and their LN: c2f.h. */
#include "nodes/builtin.h"
#include "nodes/projector/c2f.h"

#include <stdio.h>
#include <string.h>

enum { FINEST = 3, SAME = 4, COARSEST = 5, MOST_LEVELS = 3, MOST_MAPS = 16 };

typedef struct conf {
    int64_t width, blocks;
    dg_ints levels;
} conf;

static const dg_port ports[] = {
    DG_IN("in", "{f*:f[B,H,W,C]}", "feature maps of one size"),
    DG_OUT("out", "{p*:f[B,H1,W1,D]}", "the pyramid's levels p3, p4, p5 that are asked for"),
    { 0 },
};

static const dg_attr attrs[] = {
    DG_INT(conf, width, 256, 2, 8192, "channels of every level; even"),
    DG_INTS(conf, levels, "4",
            "levels to make, ascending: 3 (twice as fine as the maps), 4 (as fine), 5 (half as "
            "fine)"),
    DG_INT(conf, blocks, 3, 0, DG_C2F_MOST, "pairs of convolutions in each level"),
    { 0 },
};

static void check_multiscale(dg_check *k, const void *self)
{
    const conf *c = self;

    if (c->width % 2)
        dg_check_fail(k, "width", "projector-width", "must be even, found %lld",
                      (long long)c->width);
    if (c->levels.n < 1)
        dg_check_fail(k, "levels", "projector-levels", "must name a level");
    for (int i = 0; i < c->levels.n; i++)
        if (c->levels.v[i] < FINEST || c->levels.v[i] > COARSEST ||
            (i && c->levels.v[i] <= c->levels.v[i - 1])) {
            dg_check_fail(k, "levels", "projector-levels",
                          "must be of 3, 4 and 5 in this order, found %lld at place %d",
                          (long long)c->levels.v[i], i + 1);
            return;
        }
}

static void type_multiscale(dg_typing *t, const void *self)
{
    const conf *c = self;
    char text[MOST_LEVELS * 32] = "{";

    for (int i = 0; i < c->levels.n && i < MOST_LEVELS; i++)
        if (!i || c->levels.v[i] != c->levels.v[i - 1]) /* check_multiscale reports it */
            snprintf(text + strlen(text), 32, "%sp%d:f[B,H%d,W%d,D]", i ? "," : "",
                     (int)c->levels.v[i], (int)c->levels.v[i], (int)c->levels.v[i]);
    dg_type(t, "out", "%s}", text);
}

/* Transposed convolution of 2x2 with stride 2: each pixel gives four, by a matrix. */
static dg_val twice_as_fine(const dg_param_path_of *at, dg_val x)
{
    dg_build *b = at->b;
    dg_shape s = dg_shape_of(b, x);
    int64_t in = s.d[3], out = in / 2;
    dg_val w = dg_param_at(at, "weight", DG_SHAPE(in, out, 2, 2), dg_init_fan_in(out * 4));
    dg_val bias = dg_param_at(at, "bias", DG_SHAPE(out), dg_init_fan_in(out * 4));

    x = dg_matmul(b, x, dg_reshape(b, w, DG_SHAPE(in, out * 4)));
    x = dg_reshape(b, x, DG_SHAPE(s.d[0] * s.d[1], s.d[2], out, 2, 2));
    x = dg_permute(b, x, 5, (int[]){ 0, 3, 1, 4, 2 });
    return dg_add(b, dg_reshape(b, x, DG_SHAPE(s.d[0], 2 * s.d[1], 2 * s.d[2], out)), bias);
}

static dg_val resize(dg_build *b, dg_val x, int64_t level, int stage, int map)
{
    dg_param_path_of at = dg_param_path(b, "stages_sampling.%d.%d", stage, map),
                     first = dg_param_path_in(&at, "0");

    if (level == FINEST)
        return twice_as_fine(&first, x);
    return level == SAME ? x : dg_relu(b, dg_c2f_conv(&at, "0", x, dg_dim(b, x, -1), 3, 2));
}

static void lower_multiscale(dg_build *b, const void *self, const dg_val in[], dg_val out[])
{
    const conf *c = self;
    int n = dg_record_n(b, in[0]);

    if (n < 1 || n > MOST_MAPS) {
        out[0] =
            dg_error(b, "projector-maps", "%d feature maps, 1 to %d are expected", n, MOST_MAPS);
        return;
    }
    out[0] = dg_record(b);
    for (int i = 0; i < c->levels.n; i++) {
        dg_param_path_of stage = dg_param_path(b, "stages.%d", i),
                         body = dg_param_path_in(&stage, "0"), norm = dg_param_path_in(&stage, "1");
        dg_val maps[MOST_MAPS], x;
        char key[16];

        for (int j = 0; j < n; j++)
            maps[j] = resize(b, dg_record_get(b, in[0], dg_record_key(b, in[0], j)), c->levels.v[i],
                             i, j);
        x = dg_c2f_norm(&norm, dg_c2f(&body, dg_concat(b, 3, n, maps), c->width, (int)c->blocks));
        snprintf(key, sizeof key, "p%d", (int)c->levels.v[i]);
        dg_record_set(b, out[0], key, dg_name(b, x, "projector.%d", i));
    }
}

const dg_node_class dg_node_projector_multiscale = {
    DG_NODE_CLASS,
    .name = "projector.multiscale",
    .role = DG_ROLE_ENCODER,
    .brief = "Makes the levels of a feature pyramid from maps of one size.",
    .doc = "Each level joins all maps, resized to it. Its norms are over the channels of a pixel.",
    .ports = ports,
    .attrs = attrs,
    .conf_size = sizeof(conf),
    .reference = "backbone.0.projector",
    .type = type_multiscale,
    .check = check_multiscale,
    .lower = lower_multiscale,
};
