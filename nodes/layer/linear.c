/* linear.c: <layer.linear>: y = x w^T + bias over the last dimension. */
#include "nodes/builtin.h"

typedef struct conf {
    int64_t width;
} conf;

static const dg_port ports[] = {
    DG_IN("in", "f[...,K]", "features"),
    DG_OUT("out", "f[...,N]", "features of the new width"),
    { 0 },
};

static const dg_attr attrs[] = {
    DG_INT_REQUIRED(conf, width, 1, 1000000, "features of the output"),
    { 0 },
};

static void lower_linear(dg_build *b, const void *self, const dg_val in[], dg_val out[])
{
    const conf *c = self;
    int64_t k = dg_dim(b, in[0], -1);
    dg_val w = dg_param(b, "weight", DG_SHAPE(c->width, k), dg_init_fan_in(k));
    dg_val bias = dg_param(b, "bias", DG_SHAPE(c->width), dg_init_fan_in(k));

    out[0] = dg_linear(b, in[0], w, bias);
}

const dg_node_class dg_node_layer_linear = {
    DG_NODE_CLASS,
    .name = "layer.linear",
    .role = DG_ROLE_OTHER,
    .brief = "A linear map over the last dimension, with bias.",
    .ports = ports,
    .attrs = attrs,
    .conf_size = sizeof(conf),
    .lower = lower_linear,
};
