/* agree.c: <agree>, one word from what every rank has to say, over the control plane. A rank that
 * has nothing to say does not count, and gets the answer all the same. */
#include "nodes/builtin.h"

typedef struct conf {
    int64_t     op;
    const char *axis;
} conf;

enum { ANY, ALL, MIN, MAX };

static const dg_port ports[] = {
    DG_IN_OPTIONAL("in", "any", "a scalar, or a tensor whose elements speak together"),
    DG_OUT("out", "any", "the same word on every rank of the axis"),
    { 0 },
};

static const dg_attr attrs[] = {
    { "op", DG_ATTR_ENUM, offsetof(conf, op), true, 0, 0, 0, "any|all|min|max",
      "1 where some element is not 0, or none is 0; the least, or the largest element" },
    DG_STR_REQUIRED(conf, axis, "mesh axis"),
    { 0 },
};

static const dg_rule rules[] = {
    { DG_RULE_AGREE, .to = "out", .from = "in", .axis = "axis", .why = "asks every rank" },
    { DG_RULE_PROVED, .why = "the control plane carries no votes of a step yet" },
    { 0 },
};

static void type(dg_typing *t, const void *self)
{
    const conf *c = self;

    if (c->op == ANY || c->op == ALL)
        dg_type(t, "out", "i[]");
}

const dg_node_class dg_node_agree = {
    DG_NODE_CLASS,
    .name = "agree",
    .role = DG_ROLE_CONTROL,
    .brief = "One word from what all ranks of a mesh axis say: a vote.",
    .ports = ports,
    .attrs = attrs,
    .conf_size = sizeof(conf),
    .rules = rules,
    .type = type,
};
