/* agree.c: <agree>, one word from what every rank has to say. A rank that has nothing to say does
 * not count, and gets the answer all the same.
 *
 *   any   the largest of (some element is not 0)      all   the least of (none is 0)
 *   min, max  the least, the largest of the elements; all of them as reductions */
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
    { 0 },
};

static void type(dg_typing *t, const void *self)
{
    const conf *c = self;

    if (c->op == ANY || c->op == ALL)
        dg_type(t, "out", "i[]");
}

/* Where there is nothing to say: 0 or 1 of it, or a number beyond all others. */
static dg_val speak(dg_build *b, const conf *c, dg_val x)
{
    const double far = c->op == MAX ? -3e38 : 3e38;
    dg_val       there = dg_has(x) ? dg_present(b, x) : DG_NONE, word;

    if (!dg_has(x))
        return c->op == ANY || c->op == ALL ? dg_const_i32(b, DG_SCALAR, &(int32_t){ 0 })
                                            : dg_number(b, far);
    switch (c->op) {
    case ANY:
        return dg_reduce_max(b, dg_truth(b, x, false), DG_ALL_AXES, false); /* absent: zeros */
    case ALL:                                                               /* is some element 0? */
        word = dg_reduce_max(b, dg_truth(b, x, true), DG_ALL_AXES, false);
        return dg_has(there) ? dg_truth(b, dg_mul(b, dg_real(b, word), dg_real(b, there)), false)
                             : word;
    case MIN:
        word = dg_scale(b, dg_real(b, x), -1, 0);
        word = dg_scale(b, dg_reduce_max(b, word, DG_ALL_AXES, false), -1, 0);
        break;
    default:
        word = dg_reduce_max(b, dg_real(b, x), DG_ALL_AXES, false);
    }
    return dg_has(there) ? dg_add(b, word, dg_scale(b, dg_real(b, there), -far, far)) : word;
}

static void lower(dg_build *b, const void *self, const dg_val in[], dg_val out[])
{
    const conf *c = self;

    out[0] = dg_all_reduce(b, speak(b, c, in[0]), c->op == MIN ? DG_MIN : DG_MAX, c->axis);
    if (c->op == ALL)
        out[0] = dg_truth(b, out[0], true);
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
    .lower = lower,
};
