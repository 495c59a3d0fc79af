/* channels.c: <neck.channels>: feature maps with one number of channels, and coarser ones made from
 * the last. The channel mapper of deformable detectors (Zhu et al. 2021).
 *
 *  level i         GN(conv1x1(map i))
 *  further levels  GN(conv3x3, stride 2), first of the last map, then of the level before
 *
 * Convolutions have no bias; there is no activation. GN: Wu & He 2018. */
#include "nodes/builtin.h"
#include "nodes/layers.h"

#include <stdio.h>
#include <string.h>

enum { MOST_LEVELS = DG_MAX_LEVELS };

typedef struct conf {
    int64_t width, levels, groups;
} conf;

static const dg_port ports[] = {
    DG_IN("in", "{c*:any}", "feature maps, finest first"),
    DG_OUT("out", "{p*:any}", "levels p0, p1, ..., finest first"),
    { 0 },
};

static const dg_attr attrs[] = {
    DG_INT(conf, width, 256, 1, 8192, "channels of every level"),
    DG_INT(conf, levels, 5, 1, MOST_LEVELS, "levels; those beyond the maps are made coarser"),
    DG_INT(conf, groups, 32, 1, 8192, "groups of channels that are normalised together"),
    { 0 },
};

static void check_channels(dg_check *k, const void *self)
{
    const conf *c = self;

    if (c->width % c->groups)
        dg_check_fail(k, "width", "neck-width", "must be a multiple of groups (%lld), found %lld",
                      (long long)c->groups, (long long)c->width);
}

static void type_channels(dg_typing *t, const void *self)
{
    const conf *c = self;
    char text[MOST_LEVELS * 48] = "{";

    for (int i = 0; i < c->levels; i++)
        snprintf(text + strlen(text), 48, "%sp%d:f[B,H%d,W%d,D]", i ? "," : "", i, i, i);
    dg_type(t, "out", "%s}", text);
}

static dg_val level(const dg_param_path_of *at, const conf *c, dg_val x, int size, int stride)
{
    dg_build *b = at->b;
    dg_param_path_of norm = dg_param_path_in(at, "gn");
    int64_t in = dg_dim(b, x, -1), area = (int64_t)size * size;
    dg_val w = dg_param_at(at, "conv.weight", DG_SHAPE(c->width, in, size, size),
                           dg_init_xavier(in * area, c->width * area));

    x = dg_name(b, dg_conv2d(b, x, w, DG_NONE, stride, size / 2), "neck.%s.conv", at->path);
    return dg_layer_group_norm(&norm, x, c->groups);
}

static void lower_channels(dg_build *b, const void *self, const dg_val in[], dg_val out[])
{
    const conf *c = self;
    int maps = dg_record_n(b, in[0]);
    dg_val x = DG_NONE;

    if (maps < 1 || maps > c->levels) {
        out[0] = dg_error(b, "neck-levels",
                          "%d feature maps for levels=\"%lld\": each is a level at least", maps,
                          (long long)c->levels);
        return;
    }
    out[0] = dg_record(b);
    for (int i = 0; i < c->levels; i++) {
        dg_param_path_of at =
            dg_param_path(b, i < maps ? "convs.%d" : "extra_convs.%d", i < maps ? i : i - maps);
        char key[16];

        if (i <= maps)
            x = dg_record_get(b, in[0], dg_record_key(b, in[0], i < maps ? i : maps - 1));
        x = level(&at, c, x, i < maps ? 1 : 3, i < maps ? 1 : 2);
        snprintf(key, sizeof key, "p%d", i);
        dg_record_set(b, out[0], key, dg_name(b, x, "neck.%d", i));
    }
}

const dg_node_class dg_node_neck_channels = {
    DG_NODE_CLASS,
    .name = "neck.channels",
    .role = DG_ROLE_ENCODER,
    .brief = "Gives feature maps one number of channels, and makes coarser levels.",
    .ports = ports,
    .attrs = attrs,
    .conf_size = sizeof(conf),
    .reference = "neck",
    .check = check_channels,
    .type = type_channels,
    .lower = lower_channels,
};
