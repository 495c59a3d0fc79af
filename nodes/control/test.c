/* test.c: <test>, a question about a tensor, answered by 1 or 0: what guards and votes are made of. */
#include "nodes/builtin.h"

typedef struct conf {
    int64_t is;
    double  than;
} conf;

static const dg_port ports[] = {
    DG_IN("in", "any", "a tensor"),
    DG_OUT("out", "i[]", "1 or 0"),
    { 0 },
};

static const dg_attr attrs[] = {
    { "is", DG_ATTR_ENUM, offsetof(conf, is), true, 0, 0, 0,
      "positive|zero|finite|nonfinite|above|below",
      "its sum is above 0, its sum is 0, all of it is finite, some is not, its largest element is "
      "above `than`, its smallest is below" },
    DG_NUM(conf, than, 0, -1e300, 1e300, "what above and below compare with"),
    { 0 },
};

static const dg_rule rules[] = {
    { DG_RULE_NONLINEAR, .from = "in", .why = "asks a question about it" },
    { DG_RULE_PROVED, .why = "no op answers it inside a step" },
    { 0 },
};

const dg_node_class dg_node_test = {
    DG_NODE_CLASS,
    .name = "test",
    .role = DG_ROLE_CONTROL,
    .brief = "1 where a tensor is positive, zero, finite, above a number, ...; else 0.",
    .ports = ports,
    .attrs = attrs,
    .conf_size = sizeof(conf),
    .rules = rules,
};
