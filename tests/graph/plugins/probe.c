/* probe.c: <probe.tokens>, fixed tokens, and <probe.mean>, a loss: what a test needs to train a
 * plugin's node. */
#include <detrgraph/plugin.h>

static const dg_port tokens_ports[] = { DG_IN("like", "f[B,H,W,3]", "images"),
                                        DG_OUT("out", "f[B,N,D]", "tokens"),
                                        { 0 } };
static void tokens_lower(dg_build *b, const void *self, const dg_val in[], dg_val out[])
{
    dg_shape s = dg_shape_of(b, in[0]);

    (void)self;
    out[0] = dg_reshape(b, in[0], DG_SHAPE(s.d[0], s.d[1] * s.d[2], 3));
}
static const dg_node_class tokens = {
    DG_NODE_CLASS,
    .name = "probe.tokens",
    .brief = "Pixels as tokens.",
    .ports = tokens_ports,
    .lower = tokens_lower,
};

static const dg_port mean_ports[] = { DG_IN("in", "f[...]", "anything"),
                                      DG_OUT("total", "f[]", "its mean"),
                                      { 0 } };
static void mean_lower(dg_build *b, const void *self, const dg_val in[], dg_val out[])
{
    (void)self;
    out[0] = dg_mean(b, in[0], DG_ALL_AXES, false);
}
static const dg_node_class mean = {
    DG_NODE_CLASS,
    .name = "probe.mean",
    .role = DG_ROLE_LOSS,
    .brief = "A mean.",
    .ports = mean_ports,
    .lower = mean_lower,
};

DG_PLUGIN("probe", "1", &tokens, &mean);
