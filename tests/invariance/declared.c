/* declared.c: two classes whose attribute `says` picks the row of rank invariance that they
 * declare: <declared> takes a tensor, <declared.stream> data on its way. */
#include "tests/invariance/declared.h"

#include <string.h>

/* ---- a tensor -------------------------------------------------------------------------------- */

typedef struct conf {
    int64_t says, op, root;
    const char *axis;
} conf;

static const dg_port ports[] = {
    DG_IN_OPTIONAL("in", "any", "anything"),
    DG_IN_OPTIONAL("by", "any", "what the row names beside it"),
    DG_OUT("out", "any", "the same"),
    { 0 },
};

static const dg_attr attrs[] = {
    DG_ENUM(
        conf, says, 0,
        "nothing|value|absent|inexact|partial|linear|nonlinear|normaliser|state|joined|allreduce|"
        "inner|reduce|broadcast|agree|allgather|allgatherv|bypass|skip|stop|twice|elsewhere|"
        "silent|rows|halves|columns",
        "its row"),
    DG_REDUCTION(conf, op, 3, "sum|max|min|mean", "of allreduce"),
    DG_ROOT(conf, root, 0, 0, 8, "of broadcast and reduce"),
    DG_AXES(conf, axis, NULL, "mesh axis"),
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
    { DG_RULE_ALLREDUCE, .to = "out", .from = "in", .axis = "axis",
      .when = SAYS("twice|elsewhere|silent") },
    { DG_RULE_ALLREDUCE, .from = "in", .axis = "axis", .when = SAYS("rows|halves") },
    { 0 },
};

enum {
    JOINED = 9,
    ALLREDUCE,
    INNER,
    REDUCE,
    BROADCAST,
    AGREE,
    ALLGATHER,
    ALLGATHERV,
    BYPASS,
    TWICE = 20,
    ELSEWHERE,
    SILENT,
    ROWS,
    HALVES,
    COLUMNS
};

/* One number for each row, or for each 64 columns: not of fixed size. */
static dg_val some_of(dg_build *b, dg_val x, bool rows)
{
    dg_shape s = dg_shape_of(b, x);

    return dg_zeros(b, DG_SHAPE(rows ? s.d[0] : s.d[2] / 64));
}

/* It does what it says, up to "stop". */
static void pass(dg_build *b, const void *self, const dg_val in[], dg_val out[])
{
    const conf *c = self;
    dg_val x = dg_has(in[0]) ? in[0] : dg_number(b, 1), counts;

    out[0] = x;
    if (dg_kind_of(b, x) == DG_KIND_RECORD)
        x = dg_number(b, 1);
    switch (c->says) {
    case JOINED:
    case INNER:
    case BYPASS:
        (void)dg_all_reduce(b, dg_number(b, 1), DG_SUM, c->axis);
        break;
    case ALLREDUCE:
        out[0] = dg_all_reduce(b, x, (dg_reduce)c->op, c->axis);
        break;
    case REDUCE:
        out[0] = dg_reduce_to(b, x, (dg_reduce)c->op, (int)c->root, c->axis);
        break;
    case BROADCAST:
        out[0] = dg_broadcast(b, x, (int)c->root, c->axis);
        break;
    case AGREE:
        out[0] = dg_all_reduce(b, x, DG_MAX, c->axis);
        break;
    case ALLGATHER:
        out[0] = dg_all_gather(b, x, c->axis);
        break;
    case ALLGATHERV:
        out[0] =
            dg_all_gatherv(b, x, dg_const_i32(b, DG_SCALAR, (int32_t[]){ 1 }), c->axis, &counts);
        break;
    case TWICE:
        out[0] = dg_all_reduce(b, dg_all_reduce(b, x, DG_MEAN, c->axis), DG_MEAN, c->axis);
        break;
    case ELSEWHERE:
        out[0] = dg_all_reduce(b, x, DG_MEAN, "dp");
        break;
    case COLUMNS:
        out[0] = some_of(b, x, false);
        break;
    case ROWS:
    case HALVES:
        (void)dg_all_reduce(b, some_of(b, x, c->says == ROWS), DG_MEAN, c->axis);
        break;
    default:
        break;
    }
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
static int same_shape(dg_infer *s)
{
    s->out[0] = s->in[0];
    return 0;
}
static int copy(const dg_args *a)
{
    memcpy(a->t[1].data, a->t[0].data, 4);
    return 0;
}
static const dg_kernel copy_kernel = { .run = copy };
static const dg_op own = { DG_OP_ROW,
                          .name = "declared_own",
                          .signature = "x -> y",
                          .effect = DG_PURE,
                          .precision = DG_WIDE,
                          .shape = same_shape,
                          .ref32 = &copy_kernel,
                          .ref64 = &copy_kernel };

/* By an op that only the class knows: what the flag says is all there is to know. */
static void mean(dg_build *b, const void *self, const dg_val in[], dg_val out[])
{
    dg_val x = dg_mean(b, in[0], DG_ALL_AXES, false);

    (void)self;
    dg_emit(b, &own, NULL, 1, &x, out);
}

typedef struct axis_conf {
    const char *axis;
} axis_conf;
static const dg_attr axis_attrs[] = { DG_AXES(axis_conf, axis, NULL, "mesh axis"), { 0 } };
static const dg_collective older[] = { { "batch-norm statistics", "in", "axis" }, { 0 } };

#define FLAGGED(id, flags)                                                    \
    static const dg_port id##_ports[] = {                                     \
        DG_IN("in", "f[...]", "anything"),                                    \
        DG_OUT_FLAGS("out", "f[]", flags, "its mean"),                        \
        { 0 },                                                                \
    };                                                                        \
    static const dg_node_class id = {                                         \
        DG_NODE_CLASS,       .name = "declared." #id, .brief = "Has a flag.", \
        .ports = id##_ports, .lower = mean,                                   \
    }
FLAGGED(varies, DG_PORT_VARIES);
FLAGGED(invariant, DG_PORT_INVARIANT);
FLAGGED(empty, DG_PORT_EMPTY_ABSENT);

/* The same of a record, as it is. */
static void hush_lower(dg_build *b, const void *self, const dg_val in[], dg_val out[])
{
    (void)b;
    (void)self;
    out[0] = in[0];
}

static const dg_port hush_ports[] = {
    DG_IN("in", "any", "anything"),
    DG_OUT_FLAGS("out", "any", DG_PORT_EMPTY_ABSENT, "it, or nothing"),
    { 0 },
};
static const dg_node_class hush = {
    DG_NODE_CLASS,
    .name = "declared.hush",
    .brief = "Has a flag, and passes all on.",
    .ports = hush_ports,
    .lower = hush_lower,
};

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

/* ---- data on its way ------------------------------------------------------------------------- */

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
    DG_AXES(conf, axis, NULL, "mesh axis"),
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

/* Drops items; others take their place. */
static const dg_port drops_ports[] = {
    DG_IN("in", "samples", "items"),
    DG_OUT_FLAGS("out", "samples", DG_PORT_DROPS, "those that are left"),
    { 0 },
};
static const dg_node_class drops = {
    DG_NODE_CLASS,
    .name = "declared.drops",
    .role = DG_ROLE_AUGMENT,
    .brief = "Drops items.",
    .ports = drops_ports,
    .item = leave,
};

/* ---- scores ---------------------------------------------------------------------------------- */

static const dg_port score_ports[] = {
    DG_IN("in", "any", "what is counted"),
    DG_OUT("metrics", "metrics", "score"),
    { 0 },
};
static const dg_rule score_rules[] = {
    { DG_RULE_METRIC, .to = "metrics", .from = "in", .axis = "axis", .why = "scores all images" },
    { 0 },
};
static int begin(void **state, const void *self, const dg_sink_args *args, dg_diag *d)
{
    (void)self, (void)args, (void)d;
    *state = NULL;
    return 0;
}
static int take(void *state, const dg_sink_batch *in, dg_diag *d)
{
    (void)state, (void)in, (void)d;
    return 0;
}
static int pack(void *state, void **bytes, size_t *n, dg_diag *d)
{
    (void)state, (void)d;
    *bytes = NULL;
    *n = 0;
    return 0;
}
static int merge(void *state, const void *bytes, size_t n, dg_diag *d)
{
    (void)state, (void)bytes, (void)n, (void)d;
    return 0;
}
static int finish(void **state, dg_metrics *m, dg_diag *d)
{
    (void)state, (void)m, (void)d;
    return 0;
}

/* With a row and what it promises, without the one, without the other. */
#define SCORE(id, table, packs, merges) \
    static const dg_node_class id = {   \
        DG_NODE_CLASS,                  \
        .name = "declared." #id,        \
        .role = DG_ROLE_EVALUATE,       \
        .brief = "A score.",            \
        .ports = score_ports,           \
        .attrs = axis_attrs,            \
        .rules = table,                 \
        .begin = begin,                 \
        .take = take,                   \
        .pack = packs,                  \
        .merge = merges,                \
        .finish = finish,               \
        .conf_size = sizeof(axis_conf), \
    }
SCORE(score, score_rules, pack, merge);
SCORE(said, score_rules, NULL, NULL);
SCORE(unsaid, NULL, pack, merge);

const dg_node_class *const declared_nodes[] = {
    &declared,        &varies, &invariant, &empty, &hush,   &old,
    &declared_stream, &drops,  &score,     &said,  &unsaid, NULL,
};
