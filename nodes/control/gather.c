/* gather.c: <allgather> and <allgatherv>: concatenate the tensors of all ranks. */
#include "nodes/builtin.h"

typedef struct conf {
    const char *axis;
} conf;

static const dg_port gather_ports[] = {
    DG_IN("in", "any", "a tensor of the same shape on all ranks"),
    DG_OUT("out", "any", "the ranks' tensors, concatenated along the leading dimension"),
    { 0 },
};
static const dg_port gatherv_ports[] = {
    DG_IN("in", "f[N,...]", "a tensor; its leading dimension may differ between ranks"),
    DG_IN("count", "i[]", "number of live rows"),
    DG_OUT_MAIN("out", "f[...]", "the ranks' live rows, concatenated along the leading dimension"),
    DG_OUT("counts", "i[R]", "number of live rows per rank"),
    { 0 },
};

static const dg_attr attrs[] = {
    DG_AXES_REQUIRED(conf, axis, "mesh axis"),
    { 0 },
};

static const dg_rule gather_rules[] = {
    { DG_RULE_ALLGATHER, .to = "out", .from = "in", .axis = "axis",
      .why = "gathers tensors of one shape" },
    { 0 },
};
static const dg_rule gatherv_rules[] = {
    { DG_RULE_ALLGATHER, .to = "counts", .from = "count", .axis = "axis", .why = "gathers counts" },
    { DG_RULE_ALLGATHERV, .to = "out", .from = "in", .axis = "axis", .why = "gathers live rows" },
    { 0 },
};

static void lower_gather(dg_build *b, const void *self, const dg_val in[], dg_val out[])
{
    const conf *c = self;

    if (dg_kind_of(b, in[0]) == DG_KIND_TENSOR)
        out[0] = dg_all_gather(b, in[0], c->axis);
    else if (dg_has(in[0]))
        out[0] = dg_error(b, "collective-operand", "tensors are gathered one by one");
}

static void lower_gatherv(dg_build *b, const void *self, const dg_val in[], dg_val out[])
{
    const conf *c = self;

    out[0] = dg_all_gatherv(b, in[0], in[1], c->axis, &out[1]);
}

const dg_node_class dg_node_allgather = {
    DG_NODE_CLASS,
    .name = "allgather",
    .role = DG_ROLE_CONTROL,
    .brief = "Concatenates the tensors of all ranks of a mesh axis.",
    .ports = gather_ports,
    .attrs = attrs,
    .conf_size = sizeof(conf),
    .rules = gather_rules,
    .lower = lower_gather,
};
const dg_node_class dg_node_allgatherv = {
    DG_NODE_CLASS,
    .name = "allgatherv",
    .role = DG_ROLE_CONTROL,
    .brief = "Concatenates the live rows of the tensors of all ranks of a mesh axis.",
    .ports = gatherv_ports,
    .attrs = attrs,
    .conf_size = sizeof(conf),
    .rules = gatherv_rules,
    .lower = lower_gatherv,
};
