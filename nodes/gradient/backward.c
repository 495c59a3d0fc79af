/* backward.c: <backward>: the gradient of a loss with respect to every trainable parameter that it
 * depends on. */
#include "nodes/builtin.h"

typedef struct conf {
    int64_t batches;
} conf;

enum { SUM, MEAN }; /* batches */

static const dg_port ports[] = {
    DG_IN("loss", "f[]", "the loss to minimise"),
    DG_OUT("gradients", "gradients",
           "gradients of all trainable parameters, of all batches of an update"),
    { 0 },
};

static const dg_attr attrs[] = {
    DG_ENUM(conf, batches, SUM, "sum|mean",
            "with `accumulate`: the gradients of an update's batches are added up, or averaged"),
    { 0 },
};

static const dg_rule rules[] = {
    { DG_RULE_GRADIENTS, .to = "gradients", .from = "loss", .why = "differentiates the loss" },
    { DG_RULE_PARTIAL, .to = "gradients", .from = "loss", .why = "has this rank's summand" },
    { 0 },
};

static void lower_backward(dg_build *b, const void *self, const dg_val in[], dg_val out[])
{
    const conf *c = self;

    out[0] = c->batches == MEAN ? dg_backward_mean(b, in[0]) : dg_backward(b, in[0], 0);
}

const dg_node_class dg_node_backward = {
    DG_NODE_CLASS,
    .name = "backward",
    .role = DG_ROLE_GRADIENT,
    .brief = "Gradients of a loss with respect to all trainable parameters.",
    .doc = "The nodes after it belong to the update, which runs every `accumulate` batches of "
           "<train>.",
    .ports = ports,
    .attrs = attrs,
    .conf_size = sizeof(conf),
    .rules = rules,
    .lower = lower_backward,
};
