/* norm.c: <gradient.norm>: the L2 norm of the whole gradient. It is not the sum of the ranks'
 * norms, so the gradient must be reduced first. */
#include "nodes/builtin.h"

static const dg_port ports[] = {
    DG_IN("in", "gradients", "reduced gradients"),
    DG_OUT("out", "f[]", "the norm"),
    { 0 },
};

static const dg_rule rules[] = {
    { DG_RULE_NONLINEAR, .from = "in", .why = "takes the norm" },
    { 0 },
};

static void lower_gradient_norm(dg_build *b, const void *self, const dg_val in[], dg_val out[])
{
    (void)self;
    out[0] = dg_gradient_norm(b, in[0]);
}

const dg_node_class dg_node_gradient_norm = {
    DG_NODE_CLASS,
    .name = "gradient.norm",
    .role = DG_ROLE_GRADIENT,
    .brief = "The L2 norm of the gradient of all parameters.",
    .ports = ports,
    .rules = rules,
    .lower = lower_gradient_norm,
};
