/* declared.c: two classes whose attribute `says` picks the row of rank invariance that they
 * declare: <declared> takes a tensor, <declared.stream> data on its way. */
#include "tests/invariance/declared.h"

/* --- a tensor --------------------------------------------------------------------------------- */

typedef struct conf {
    int64_t     says, op, root;
    const char *axis;
} conf;

static const dg_port ports[] = {
    DG_IN_OPTIONAL("in", "any", "anything"),
    DG_IN_OPTIONAL("by", "any", "what the row names beside it"),
    DG_OUT("out", "any", "the same"),
    { 0 },
};

static const dg_attr attrs[] = {
    DG_ENUM(conf, says, 0,
            "nothing|value|absent|inexact|partial|linear|nonlinear|normaliser|state|joined|allreduce|"
            "inner|reduce|broadcast|agree|allgather|allgatherv|bypass|skip|stop|late",
            "its row"),
    DG_ENUM(conf, op, 3, "sum|max|min|mean", "of allreduce"),
    DG_INT(conf, root, 0, 0, 8, "of broadcast and reduce"),
    DG_STR(conf, axis, NULL, "mesh axis"),
    { 0 },
};

#define SAYS(word) "says=" word, .why = "says " word
static const dg_rule rules[] = {
    { DG_RULE_VALUE, .to = "out", .axis = "axis", .when = SAYS("value") },
    { DG_RULE_PRESENCE, .to = "out", .from = "by", .when = SAYS("absent") },
    { DG_RULE_INEXACT, .to = "out", .when = SAYS("inexact") },
    { DG_RULE_PARTIAL, .to = "out", .from = "in", .when = SAYS("partial") },
    { DG_RULE_LINEAR, .when = SAYS("linear") },
    { DG_RULE_NONLINEAR, .from = "in", .when = SAYS("nonlinear") },
    { DG_RULE_NORMALISER, .to = "out", .from = "by", .axis = "axis", .when = SAYS("normaliser") },
    { DG_RULE_STATE, .from = "in", .when = SAYS("state") },
    { DG_RULE_ALLREDUCE, .from = "in", .axis = "axis", .when = SAYS("joined") },
    { DG_RULE_STATE, .from = "in", .axis = "axis", .when = SAYS("joined") },
    { DG_RULE_ALLREDUCE, .to = "out", .from = "in", .axis = "axis", .when = SAYS("allreduce") },
    { DG_RULE_ALLREDUCE, .from = "in", .axis = "axis", .when = SAYS("inner|bypass") },
    { DG_RULE_REDUCE, .to = "out", .from = "in", .axis = "axis", .when = SAYS("reduce") },
    { DG_RULE_BROADCAST, .to = "out", .from = "in", .axis = "axis", .when = SAYS("broadcast") },
    { DG_RULE_AGREE, .to = "out", .from = "in", .axis = "axis", .when = SAYS("agree") },
    { DG_RULE_ALLGATHER, .to = "out", .from = "in", .axis = "axis", .when = SAYS("allgather") },
    { DG_RULE_ALLGATHERV, .to = "out", .from = "in", .axis = "axis", .when = SAYS("allgatherv") },
    { DG_RULE_BYPASS, .from = "by", .when = SAYS("bypass") },
    { DG_RULE_SKIP, .when = SAYS("skip") },
    { DG_RULE_STOP, .when = SAYS("stop") },
    { DG_RULE_PROVED, .when = SAYS("late") },
    { 0 },
};

static void pass(dg_build *b, const void *self, const dg_val in[], dg_val out[])
{
    (void)self;
    out[0] = dg_has(in[0]) ? in[0] : dg_number(b, 1);
}

static const dg_node_class declared = {
    DG_NODE_CLASS,
    .name = "declared",
    .brief = "Says something of itself.",
    .ports = ports,
    .attrs = attrs,
    .conf_size = sizeof(conf),
    .rules = rules,
    .lower = pass,
};

/* Flags of a port instead of rows; and the older table of collectives. */
static void mean(dg_build *b, const void *self, const dg_val in[], dg_val out[])
{
    (void)self;
    out[0] = dg_mean(b, in[0], DG_ALL_AXES, false);
}

typedef struct axis_conf {
    const char *axis;
} axis_conf;
static const dg_attr axis_attrs[] = { DG_STR(axis_conf, axis, NULL, "mesh axis"), { 0 } };
static const dg_collective older[] = { { "batch-norm statistics", "in", "axis" }, { 0 } };

#define FLAGGED(id, flags)                                       \
    static const dg_port id##_ports[] = {                        \
        DG_IN("in", "f[...]", "anything"),                       \
        DG_OUT_FLAGS("out", "f[]", flags, "its mean"),           \
        { 0 },                                                   \
    };                                                           \
    static const dg_node_class id = {                            \
        DG_NODE_CLASS,         .name = "declared." #id,          \
        .brief = "Has a flag.", .ports = id##_ports, .lower = mean, \
    }
FLAGGED(varies, DG_PORT_VARIES);
FLAGGED(invariant, DG_PORT_INVARIANT);
FLAGGED(empty, DG_PORT_EMPTY_ABSENT);

static const dg_port old_ports[] = {
    DG_IN("in", "f[...]", "anything"),
    DG_OUT("out", "f[]", "its mean"),
    { 0 },
};
static const dg_node_class old = {
    DG_NODE_CLASS,
    .name = "declared.old",
    .brief = "Lists its collectives.",
    .ports = old_ports,
    .attrs = axis_attrs,
    .conf_size = sizeof(axis_conf),
    .collectives = older,
    .lower = mean,
};

/* --- data on its way -------------------------------------------------------------------------- */

static const dg_port stream_ports[] = {
    DG_IN("in", "stream", "items"),
    DG_IN_OPTIONAL("by", "any", "what the row names beside it"),
    DG_OUT("out", "stream", "items"),
    { 0 },
};

static const dg_attr stream_attrs[] = {
    DG_ENUM(conf, says, 0,
            "nothing|value|dims|sized|leading|rate|counted|equal|endless|seed|shared|correlated",
            "its row"),
    DG_STR(conf, axis, NULL, "mesh axis"),
    { 0 },
};

static const dg_rule stream_rules[] = {
    { DG_RULE_VALUE, .to = "out", .axis = "axis", .when = SAYS("value") },
    { DG_RULE_DIMS, .to = "out", .axis = "axis", .when = SAYS("dims") },
    { DG_RULE_DIMS, .to = "out", .from = "by", .when = SAYS("sized") },
    { DG_RULE_LEADING, .to = "out", .when = SAYS("leading") },
    { DG_RULE_RATE, .to = "out", .axis = "axis", .when = SAYS("rate") },
    { DG_RULE_RATE, .to = "out", .from = "in", .when = SAYS("counted") },
    { DG_RULE_EQUAL, .to = "out", .axis = "axis", .when = SAYS("equal") },
    { DG_RULE_ENDLESS, .to = "out", .when = SAYS("endless") },
    { DG_RULE_SEED, .to = "out", .axis = "axis", .when = SAYS("seed") },
    { DG_RULE_SEED, .to = "out", .from = "in", .axis = "axis", .when = SAYS("shared") },
    { DG_RULE_CORRELATED, .from = "in", .when = SAYS("correlated") },
    { 0 },
};

static int leave(const void *self, dg_sample *sm, dg_draw *draw, const dg_clock *clock, dg_diag *d)
{
    (void)self, (void)sm, (void)draw, (void)clock, (void)d;
    return 0;
}

static const dg_node_class declared_stream = {
    DG_NODE_CLASS,
    .name = "declared.stream",
    .role = DG_ROLE_AUGMENT,
    .brief = "Says something of its items.",
    .ports = stream_ports,
    .attrs = stream_attrs,
    .conf_size = sizeof(conf),
    .rules = stream_rules,
    .item = leave,
};

const dg_node_class *const declared_nodes[] = { &declared, &varies, &invariant,
                                                &empty,    &old,    &declared_stream, NULL };
