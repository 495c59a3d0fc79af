/* broadcast.c: <broadcast>, one rank's value for all, and <reduce>, all ranks' values for one. */
#include "nodes/builtin.h"

typedef struct conf {
    int64_t     root, op;
    const char *axis;
} conf;

static const dg_port broadcast_ports[] = {
    DG_IN("in", "any", "a tensor or a record of tensors; only the root needs one"),
    DG_OUT("out", "any", "the root's, on every rank of the axis"),
    { 0 },
};
static const dg_port reduce_ports[] = {
    DG_IN("in", "any", "a tensor or a record of tensors"),
    DG_OUT("out", "any", "joined on the root; on other ranks their own"),
    { 0 },
};

static const dg_attr broadcast_attrs[] = {
    DG_STR_REQUIRED(conf, axis, "mesh axis"),
    DG_INT(conf, root, 0, 0, 65535, "the rank on the axis whose value it is"),
    { 0 },
};
static const dg_attr reduce_attrs[] = {
    DG_STR_REQUIRED(conf, axis, "mesh axis"),
    DG_INT(conf, root, 0, 0, 65535, "the rank on the axis that gets the result"),
    DG_ENUM(conf, op, DG_SUM, "sum|max|min|mean", "how values are joined"),
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

static dg_val reduce_one(dg_build *b, const conf *c, dg_val v)
{
    return dg_reduce_to(b, v, (dg_reduce)c->op, (int)c->root, c->axis);
}

/* Records go field by field, in the order of their keys. */
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
    .brief = "The value of one rank, on every rank of a mesh axis.",
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
    .brief = "Joins the values of all ranks of a mesh axis on one of them.",
    .doc = "The result is known to the root alone: a decision that hangs on it is the root's own.",
    .ports = reduce_ports,
    .attrs = reduce_attrs,
    .conf_size = sizeof(conf),
    .rules = reduce_rules,
    .lower = lower_reduce,
};
