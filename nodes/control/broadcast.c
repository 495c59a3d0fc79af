/* broadcast.c: <broadcast>, one rank's value to all ranks; <reduce>, all ranks' values to one
 * rank. */
#include "nodes/builtin.h"

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

typedef dg_val one_fn(dg_build *b, const conf *c, dg_val v);

static dg_val broadcast_one(dg_build *b, const conf *c, dg_val v)
{
    return dg_broadcast(b, v, (int)c->root, c->axis);
}

/* A key that is missing in this step is not reduced: it stays missing. */
static dg_val reduce_one(dg_build *b, const conf *c, dg_val v)
{
    const dg_val there = dg_present(b, v);

    if (dg_has(there))
        dg_guard_begin(b, there);
    v = dg_reduce_to(b, v, (dg_reduce)c->op, (int)c->root, c->axis);
    if (dg_has(there))
        dg_guard_end(b, 1, &v);
    return v;
}

/* Applies `one` to v; to a record field by field, in the order of its keys. */
static dg_val each(dg_build *b, const conf *c, dg_val v, one_fn *one)
{
    dg_val out;

    if (dg_kind_of(b, v) == DG_KIND_GRADIENTS || dg_kind_of(b, v) == DG_KIND_PARAMETERS)
        return dg_error(b, "collective-operand",
                        "gradients go through <allreduce>, parameters "
                        "are the same on every rank already");
    if (dg_kind_of(b, v) != DG_KIND_RECORD)
        return dg_has(v) ? one(b, c, v) : v;
    out = dg_record(b);
    for (int i = 0; i < dg_record_n(b, v); i++) {
        const char *key = dg_record_key(b, v, i);

        dg_record_set(b, out, key, each(b, c, dg_record_get(b, v, key), one));
    }
    return out;
}

static void lower_broadcast(dg_build *b, const void *self, const dg_val in[], dg_val out[])
{
    out[0] = each(b, self, in[0], broadcast_one);
}

static void lower_reduce(dg_build *b, const void *self, const dg_val in[], dg_val out[])
{
    out[0] = each(b, self, in[0], reduce_one);
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
