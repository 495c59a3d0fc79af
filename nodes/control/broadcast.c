/* broadcast.c: <broadcast>, one rank's value to all ranks; <reduce>, all ranks' values to one
 * rank. */
#include "nodes/builtin.h"
#include "nodes/keys.h"

typedef struct conf {
    int64_t root, op;
    const char *axis;
} conf;

static const dg_port broadcast_ports[] = {
    DG_IN("in", "any", "a tensor or a record of tensors; needed only on the root"),
    DG_OUT("out", "any", "the root's value, on every rank of the axis"),
    { 0 },
};
static const dg_port reduce_ports[] = {
    DG_IN("in", "any", "a tensor or a record of tensors"),
    DG_OUT("out", "any", "the result on the root; other ranks keep their input"),
    { 0 },
};

static const dg_attr broadcast_attrs[] = {
    DG_AXES_REQUIRED(conf, axis, "mesh axis"),
    DG_ROOT(conf, root, 0, 0, 65535, "the sending rank's number on the axis"),
    { 0 },
};
static const dg_attr reduce_attrs[] = {
    DG_AXES_REQUIRED(conf, axis, "mesh axis"),
    DG_ROOT(conf, root, 0, 0, 65535, "the receiving rank's number on the axis"),
    DG_REDUCTION(conf, op, DG_SUM, "sum|max|min|mean", "the reduction"),
    { 0 },
};

static const dg_rule broadcast_rules[] = {
    { DG_RULE_BROADCAST, .to = "out", .from = "in", .axis = "axis",
      .why = "sends the root's value" },
    { 0 },
};
static const dg_rule reduce_rules[] = {
    { DG_RULE_REDUCE, .to = "out", .from = "in", .axis = "axis",
      .why = "leaves the result on the root alone" },
    { 0 },
};

static bool is_whole(dg_build *b, dg_val v)
{
    return dg_kind_of(b, v) == DG_KIND_GRADIENTS || dg_kind_of(b, v) == DG_KIND_PARAMETERS;
}

static dg_val refuse_whole(dg_build *b)
{
    return dg_error(b, "collective-operand",
                    "gradients go through <allreduce>, parameters are the same on every rank "
                    "already");
}

static dg_val broadcast_one(dg_build *b, const void *self, dg_val v)
{
    const conf *c = self;

    return is_whole(b, v) ? refuse_whole(b) : dg_broadcast(b, v, (int)c->root, c->axis);
}

static dg_val reduce_tensor(dg_build *b, const void *self, dg_val v)
{
    const conf *c = self;

    return dg_reduce_to(b, v, (dg_reduce)c->op, (int)c->root, c->axis);
}

static dg_val reduce_one(dg_build *b, const void *self, dg_val v)
{
    return is_whole(b, v) ? refuse_whole(b) : dg_where_present(b, self, v, reduce_tensor);
}

static void lower_broadcast(dg_build *b, const void *self, const dg_val in[], dg_val out[])
{
    out[0] = dg_each_key(b, self, in[0], broadcast_one);
}

static void lower_reduce(dg_build *b, const void *self, const dg_val in[], dg_val out[])
{
    out[0] = dg_each_key(b, self, in[0], reduce_one);
}

const dg_node_class dg_node_broadcast = {
    DG_NODE_CLASS,
    .name = "broadcast",
    .role = DG_ROLE_CONTROL,
    .brief = "Sends the value of one rank to all ranks of a mesh axis.",
    .ports = broadcast_ports,
    .attrs = broadcast_attrs,
    .conf_size = sizeof(conf),
    .rules = broadcast_rules,
    .lower = lower_broadcast,
};
const dg_node_class dg_node_reduce = {
    DG_NODE_CLASS,
    .name = "reduce",
    .role = DG_ROLE_CONTROL,
    .brief = "Reduces the values of all ranks of a mesh axis to one rank.",
    .doc = "Only the root has the result: do not base decisions of all ranks on it.",
    .ports = reduce_ports,
    .attrs = reduce_attrs,
    .conf_size = sizeof(conf),
    .rules = reduce_rules,
    .lower = lower_reduce,
};
