/* equalize.c: <equalize>: the same number of items on every rank, the smallest of all; agreed on at
 * the start of each epoch. */
#include "nodes/builtin.h"

typedef struct conf {
    const char *axis;
} conf;

static const dg_port ports[] = {
    DG_IN("in", "stream", "items, possibly of different number on each rank"),
    DG_OUT("out", "stream", "items, equal in number on all ranks of the axis"),
    { 0 },
};

static const dg_attr attrs[] = {
    DG_AXES_REQUIRED(conf, axis, "mesh axis"),
    { 0 },
};

static const dg_rule rules[] = {
    { DG_RULE_EQUAL, .to = "out", .axis = "axis", .why = "keeps the least count of all ranks" },
    { 0 },
};

static int choose_equal(dg_choice *out, const void *self, const dg_choose_args *a, dg_diag *d)
{
    int64_t least = a->least(a->ctx, a->n);

    (void)self, (void)d;
    if (least < 0)
        return (int)least; /* d has the reason */
    *out = (dg_choice){ least < a->n ? least : a->n, a->items };
    return 0;
}

const dg_node_class dg_node_equalize = {
    DG_NODE_CLASS,
    .name = "equalize",
    .role = DG_ROLE_SAMPLER,
    .brief = "Keeps the same number of items on all ranks of a mesh axis.",
    .doc = "Between loader and sampler an item is an image; after the sampler, a batch. At the "
           "start of each epoch the ranks agree on the smallest number; items beyond it are left "
           "out of the epoch.",
    .ports = ports,
    .attrs = attrs,
    .conf_size = sizeof(conf),
    .rules = rules,
    .choose = choose_equal,
};
