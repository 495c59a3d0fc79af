/* mean.c: <loss.mean>: the mean of squares, the simplest trainable loss. */
#include "nodes/builtin.h"

static const dg_port ports[] = {
    DG_IN("in", "f[...]", "a tensor"),
    DG_OUT("total", "f[]", "the mean of its squares"),
    { 0 },
};

static void lower_mean_of_squares(dg_build *b, const void *self, const dg_val in[], dg_val out[])
{
    (void)self;
    out[0] = dg_mean(b, dg_mul(b, in[0], in[0]), DG_ALL_AXES, false);
}

const dg_node_class dg_node_loss_mean = {
    DG_NODE_CLASS,
    .name = "loss.mean",
    .role = DG_ROLE_LOSS,
    .brief = "The mean of the squares of a tensor's elements.",
    .ports = ports,
    .lower = lower_mean_of_squares,
};
