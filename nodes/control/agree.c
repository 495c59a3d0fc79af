/* agree.c: <agree>: one number from the values of all ranks. A rank whose input is absent does not
 * count, but gets the result.
 *
 *  any   max over elements of (x != 0)      all   min over elements of (x != 0)
 *  min, max  over elements; all four then reduce over the ranks */
#include "nodes/builtin.h"

typedef struct conf {
    int64_t op;
    const char *axis;
} conf;

enum { ANY, ALL, MIN, MAX };

static const dg_port ports[] = {
    DG_IN_OPTIONAL("in", "any", "this rank's vote: a scalar or a tensor"),
    DG_OUT("out", "any", "the result, equal on every rank of the axis"),
    { 0 },
};

static const dg_attr attrs[] = {
    { "op", DG_ATTR_ENUM, offsetof(conf, op), true, 0, 0, 0, 0, "any|all|min|max",
      "1 if any element is nonzero, 1 if all are; the minimum, the maximum" },
    DG_AXES_REQUIRED(conf, axis, "mesh axis"),
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

/* This rank's contribution: 0 or 1, or the extreme element; the neutral element if the input is
 * absent. */
static dg_val vote_of(dg_build *b, const conf *c, dg_val x)
{
    const double far = c->op == MAX ? -3e38 : 3e38;
    dg_val there = dg_has(x) ? dg_present(b, x) : DG_NONE, word;

    if (!dg_has(x))
        return c->op == ANY || c->op == ALL ? dg_const_i32(b, DG_SCALAR, &(int32_t){ 0 })
                                            : dg_number(b, far);
    switch (c->op) {
    case ANY:
        return dg_reduce_max(b, dg_truth(b, x, false), DG_ALL_AXES, false); /* absent: zeros */
    case ALL: /* tests whether some element is 0 */
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

static void lower_agree(dg_build *b, const void *self, const dg_val in[], dg_val out[])
{
    const conf *c = self;

    out[0] = dg_all_reduce(b, vote_of(b, c, in[0]), c->op == MIN ? DG_MIN : DG_MAX, c->axis);
    if (c->op == ALL)
        out[0] = dg_truth(b, out[0], true);
}

const dg_node_class dg_node_agree = {
    DG_NODE_CLASS,
    .name = "agree",
    .role = DG_ROLE_CONTROL,
    .brief = "A vote: one number from the values of all ranks of a mesh axis.",
    .doc =
        "A rank without a value has no vote. Without any vote, any gives 0, all 1, min 3e38, and "
        "max -3e38.",
    .ports = ports,
    .attrs = attrs,
    .conf_size = sizeof(conf),
    .rules = rules,
    .type = type,
    .lower = lower_agree,
};
