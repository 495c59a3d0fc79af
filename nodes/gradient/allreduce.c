/* allreduce.c: <allreduce>: reduces the values of all ranks: the gradients, a number, or a record
 * field by field. */
#include "nodes/builtin.h"
#include "nodes/keys.h"

typedef struct conf {
    int64_t op;
    const char *axis;
} conf;

static const dg_port ports[] = {
    DG_IN("in", "any", "gradients, a tensor, or a record of tensors"),
    DG_OUT("out", "any", "the result, equal on every rank of the axis"),
    { 0 },
};

static const dg_attr attrs[] = {
    DG_REDUCTION(conf, op, DG_MEAN, "sum|max|min|mean", "the reduction; gradients need mean"),
    DG_AXES_REQUIRED(conf, axis, "mesh axis"),
    { 0 },
};

static const dg_rule rules[] = {
    { DG_RULE_ALLREDUCE, .to = "out", .from = "in", .axis = "axis",
      .why = "joins all ranks' values" },
    { 0 },
};

static dg_val reduce_tensor(dg_build *b, const void *self, dg_val v)
{
    const conf *c = self;

    return dg_all_reduce(b, v, (dg_reduce)c->op, c->axis);
}

static dg_val reduce_one(dg_build *b, const void *self, dg_val v)
{
    const conf *c = self;

    switch (dg_kind_of(b, v)) {
    case DG_KIND_GRADIENTS:
        if (c->op != DG_MEAN)
            return dg_error(b, "allreduce-gradients", "gradients are joined by op=\"mean\" only");
        return dg_all_reduce_gradients(b, v, c->axis);
    case DG_KIND_PARAMETERS:
        return dg_error(b, "allreduce-parameters",
                        "parameters are the same on every rank already; reduce the gradients");
    default:
        return dg_where_present(b, c, v, reduce_tensor);
    }
}

static void lower_allreduce(dg_build *b, const void *self, const dg_val in[], dg_val out[])
{
    out[0] = dg_each_key(b, self, in[0], reduce_one);
}

const dg_node_class dg_node_allreduce = {
    DG_NODE_CLASS,
    .name = "allreduce",
    .role = DG_ROLE_GRADIENT,
    .brief = "Reduces the values of all ranks of a mesh axis; every rank gets the result.",
    .doc = "With one rank on the axis it passes its input through.",
    .ports = ports,
    .attrs = attrs,
    .conf_size = sizeof(conf),
    .rules = rules,
    .lower = lower_allreduce,
};
