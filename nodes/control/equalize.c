/* equalize.c: <equalize>, as many items on every rank as the rank with the fewest has; agreed anew
 * at the start of each epoch. */
#include "nodes/builtin.h"

typedef struct conf {
    const char *axis;
} conf;

static const dg_port ports[] = {
    DG_IN("in", "stream", "as many as there are"),
    DG_OUT("out", "stream", "equally many on all ranks of the axis"),
    { 0 },
};

static const dg_attr attrs[] = {
    DG_STR_REQUIRED(conf, axis, "mesh axis"),
    { 0 },
};

static const dg_rule rules[] = {
    { DG_RULE_EQUAL, .to = "out", .axis = "axis", .why = "keeps the least count of all ranks" },
    { 0 },
};

static int choose(dg_choice *out, const void *self, const dg_choose_args *a, dg_diag *d)
{
    int64_t least = a->least(a->ctx, a->n);

    (void)self, (void)d;
    if (least < 0)
        return (int)least; /* why stands in d */
    *out = (dg_choice){ least < a->n ? least : a->n, a->items };
    return 0;
}

const dg_node_class dg_node_equalize = {
    DG_NODE_CLASS,
    .name = "equalize",
    .role = DG_ROLE_SAMPLER,
    .brief = "Keeps equally many items on all ranks of a mesh axis.",
    .doc = "Between loader and sampler an item is an image; behind the sampler it is a batch. The ranks agree on the "
           "number when an epoch begins; the others are left out of this epoch, those at the end of the list.",
    .ports = ports,
    .attrs = attrs,
    .conf_size = sizeof(conf),
    .rules = rules,
    .choose = choose,
};
