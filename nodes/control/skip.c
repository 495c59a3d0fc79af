/* skip.c: <skip> and <stop>: continue and break, when the node fires. */
#include "nodes/builtin.h"

static const dg_port ports[] = { { 0 } };

static const dg_rule skip_rules[] = {
    { DG_RULE_SKIP, .why = "leaves out the rest of the iteration" },
    { 0 },
};
static const dg_rule stop_rules[] = {
    { DG_RULE_STOP, .why = "ends the loop" },
    { 0 },
};

const dg_node_class dg_node_skip = {
    DG_NODE_CLASS,
    .name = "skip",
    .role = DG_ROLE_CONTROL,
    .brief = "Skips the rest of the iteration when `when` holds.",
    .ports = ports,
    .rules = skip_rules,
};
const dg_node_class dg_node_stop = {
    DG_NODE_CLASS,
    .name = "stop",
    .role = DG_ROLE_CONTROL,
    .brief = "Ends the enclosing loop when `when` holds.",
    .ports = ports,
    .rules = stop_rules,
};
