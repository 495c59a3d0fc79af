/* coarser.c: <neck.coarser>: one more level for dense heads, GN(conv3x3, stride 2) of the coarsest
 * map. GN: Wu & He 2018. */
#include "nodes/builtin.h"
#include "nodes/layers.h"

#include <stdio.h>

typedef struct conf {
    int64_t groups;
} conf;

static const dg_port ports[] = {
    DG_IN("in", "{p*:any}", "maps p0, p1, ..., finest first"),
    DG_OUT("out", "any", "the maps, and one more"),
    { 0 },
};

static const dg_attr attrs[] = {
    DG_INT(conf, groups, 32, 1, 8192, "groups of channels that are normalised together"),
    { 0 },
};

static void lower_coarser(dg_build *b, const void *self, const dg_val in[], dg_val out[])
{
    const conf *c = self;
    int n = dg_record_n(b, in[0]);
    dg_param_path_of conv = dg_param_path(b, "0"), norm = dg_param_path(b, "1");
    char key[16];

    out[0] = dg_record(b);
    for (int i = 0; i < n; i++) {
        const char *name = dg_record_key(b, in[0], i);

        dg_record_set(b, out[0], name, dg_record_get(b, in[0], name));
    }
    if (n < 1) {
        out[0] = dg_error(b, "neck-levels", "there is no map to make a coarser one from");
        return;
    }
    dg_val map = dg_record_get(b, in[0], dg_record_key(b, in[0], n - 1));
    int64_t d = dg_dim(b, map, -1);
    dg_val w = dg_param_at(&conv, "weight", DG_SHAPE(d, d, 3, 3), dg_init_fan_in(9 * d)),
           bias = dg_param_at(&conv, "bias", DG_SHAPE(d), dg_init_fan_in(9 * d));

    map = dg_layer_group_norm(&norm, dg_conv2d(b, map, w, bias, 2, 1), c->groups);
    snprintf(key, sizeof key, "p%d", n);
    dg_record_set(b, out[0], key, dg_name(b, map, "y%d", n));
}

const dg_node_class dg_node_neck_coarser = {
    DG_NODE_CLASS,
    .name = "neck.coarser",
    .role = DG_ROLE_ENCODER,
    .brief = "Adds one coarser level to feature maps.",
    .ports = ports,
    .attrs = attrs,
    .conf_size = sizeof(conf),
    .reference = "query_head.downsample",
    .lower = lower_coarser,
};
