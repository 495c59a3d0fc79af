/* test.c: <test>: a predicate of a tensor, 1 or 0, for guards and votes. */
#include "nodes/builtin.h"

typedef struct conf {
    int64_t is;
    double than;
} conf;

enum { POSITIVE, ZERO, FINITE, NONFINITE, ABOVE, BELOW };

static const dg_port ports[] = {
    DG_IN("in", "any", "a tensor"),
    DG_OUT("out", "i[]", "1 or 0"),
    { 0 },
};

static const dg_attr attrs[] = {
    { "is", DG_ATTR_ENUM, offsetof(conf, is), true, 0, 0, 0, 0,
      "positive|zero|finite|nonfinite|above|below",
      "the sum is above 0, the sum is 0, all elements are finite, some are not, the largest "
      "element is above `than`, the smallest is below it" },
    DG_NUM(conf, than, 0, -1e300, 1e300, "the number that above and below compare with"),
    { 0 },
};

static const dg_rule rules[] = {
    { DG_RULE_NONLINEAR, .from = "in", .why = "asks a question about it" },
    { 0 },
};

static dg_val smallest(dg_build *b, dg_val x)
{
    return dg_scale(b, dg_reduce_max(b, dg_scale(b, x, -1, 0), DG_ALL_AXES, false), -1, 0);
}

static void lower_test(dg_build *b, const void *self, const dg_val in[], dg_val out[])
{
    const conf *c = self;
    dg_val than = dg_number(b, c->than), zero = dg_number(b, 0);

    if (c->is == FINITE || c->is == NONFINITE) {
        out[0] = dg_truth(b, dg_all_finite(b, dg_real(b, in[0])), c->is == NONFINITE);
        return;
    }
    dg_val x = dg_real(b, in[0]);

    switch (c->is) {
    case POSITIVE: /* not (0 >= sum) */
        out[0] = dg_truth(b, dg_at_least(b, zero, dg_sum(b, x, DG_ALL_AXES, false)), true);
        break;
    case ZERO:
        out[0] = dg_truth(b, dg_sum(b, x, DG_ALL_AXES, false), true);
        break;
    case ABOVE: /* not (than >= largest) */
        out[0] = dg_truth(b, dg_at_least(b, than, dg_reduce_max(b, x, DG_ALL_AXES, false)), true);
        break;
    default: /* not (smallest >= than) */
        out[0] = dg_truth(b, dg_at_least(b, smallest(b, x), than), true);
    }
}

const dg_node_class dg_node_test = {
    DG_NODE_CLASS,
    .name = "test",
    .role = DG_ROLE_CONTROL,
    .brief = "1 if a tensor is positive, zero, finite, above a number, ...; else 0.",
    .ports = ports,
    .attrs = attrs,
    .conf_size = sizeof(conf),
    .rules = rules,
    .lower = lower_test,
};
