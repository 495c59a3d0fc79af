/* resize.c: <resize>: gives batches a size chosen by a number. */
#include "nodes/builtin.h"

typedef struct conf {
    dg_sizes sizes;
} conf;

static const dg_port ports[] = {
    DG_IN("in", "stream", "batches"),
    DG_IN("size", "any", "a scalar: index of the size, from 0"),
    DG_OUT("out", "stream", "the same batches at that size"),
    { 0 },
};

static const dg_attr attrs[] = {
    DG_SIZES(conf, sizes, "640", "the sizes to choose from"),
    { 0 },
};

static const dg_rule rules[] = {
    { DG_RULE_DIMS, .to = "out", .from = "size", .why = "takes its size from a number" },
    { 0 },
};

static int list(const void *self, const dg_size **sizes, int *batch)
{
    const conf *c = self;

    *sizes = c->sizes.v;
    *batch = 0;
    return c->sizes.n;
}

const dg_node_class dg_node_resize = {
    DG_NODE_CLASS,
    .name = "resize",
    .role = DG_ROLE_AUGMENT,
    .brief = "Gives batches a size chosen by a number.",
    .doc = "`size` is rounded down and clamped to the list. Batches are made ahead of their step, "
           "so the number must come from source.random, source.step, source.epoch, source.rank or "
           "source.number, or from a <broadcast> of one.",
    .ports = ports,
    .attrs = attrs,
    .conf_size = sizeof(conf),
    .rules = rules,
    .sizes = list,
};
