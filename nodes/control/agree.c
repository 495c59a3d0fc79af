/* agree.c: <agree>: one number from the values of all ranks. A rank whose input is absent does not
 * count, but gets the result; of what no rank has, there is no minimum and no maximum.
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
    { DG_RULE_PRESENCE, .to = "out", .from = "in", .axis = "axis", .when = "op=min|max",
      .why = "has no answer where no rank has an operand" },
    { 0 },
};

static void type(dg_typing *t, const void *self)
{
    const conf *c = self;

    if (c->op == ANY || c->op == ALL)
        dg_type(t, "out", "i[]");
}

/* This rank's answer to a question: 0 or 1; 0 if the input is absent. All: whether some is 0. */
static dg_val vote_of(dg_build *b, const conf *c, dg_val x)
{
    dg_val there = dg_has(x) ? dg_present(b, x) : DG_NONE, word;

    if (!dg_has(x))
        return dg_const_i32(b, DG_SCALAR, &(int32_t){ 0 });
    word = dg_reduce_max(b, dg_truth(b, x, c->op == ALL), DG_ALL_AXES, false);
    return c->op == ALL && dg_has(there)
               ? dg_truth(b, dg_mul(b, dg_real(b, word), dg_real(b, there)), false)
               : word;
}

/* The extreme element of all ranks. Where x may be absent, whether some rank has it travels beside
 * it in one collective: if none has, the result is absent, too. */
static dg_val extreme_of(dg_build *b, const conf *c, dg_val x)
{
    const double sign = c->op == MIN ? -1 : 1, least = -3e38;
    dg_val there = dg_has(x) ? dg_present(b, x) : dg_const_i32(b, DG_SCALAR, &(int32_t){ 0 });
    dg_val out = dg_has(x) ? dg_scale(b, dg_real(b, x), sign, 0) : dg_number(b, 0), both[2];

    out = dg_reduce_max(b, out, DG_ALL_AXES, false);
    if (!dg_has(there))
        return dg_scale(b, dg_all_reduce(b, out, DG_MAX, c->axis), sign, 0);
    there = dg_real(b, there);
    out = dg_add(b, out, dg_scale(b, there, -least, least));
    both[0] = dg_reshape(b, out, DG_SHAPE(1));
    both[1] = dg_reshape(b, there, DG_SHAPE(1));
    out = dg_all_reduce(b, dg_concat(b, 0, 2, both), DG_MAX, c->axis);
    dg_guard_begin(b, dg_reshape(b, dg_slice(b, out, 0, 1, 2), DG_SCALAR));
    out = dg_scale(b, dg_reshape(b, dg_slice(b, out, 0, 0, 1), DG_SCALAR), sign, 0);
    dg_guard_end(b, 1, &out);
    return out;
}

static void lower_agree(dg_build *b, const void *self, const dg_val in[], dg_val out[])
{
    const conf *c = self;

    if (c->op == MIN || c->op == MAX) {
        out[0] = extreme_of(b, c, in[0]);
        return;
    }
    out[0] = dg_all_reduce(b, vote_of(b, c, in[0]), DG_MAX, c->axis);
    if (c->op == ALL)
        out[0] = dg_truth(b, out[0], true);
}

const dg_node_class dg_node_agree = {
    DG_NODE_CLASS,
    .name = "agree",
    .role = DG_ROLE_CONTROL,
    .brief = "A vote: one number from the values of all ranks of a mesh axis.",
    .ports = ports,
    .attrs = attrs,
    .conf_size = sizeof(conf),
    .rules = rules,
    .type = type,
    .lower = lower_agree,
};
