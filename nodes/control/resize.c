/* resize.c: <resize>, batches at a size that a number chooses. */
#include "nodes/builtin.h"

typedef struct conf {
    dg_sizes sizes;
} conf;

static const dg_port ports[] = {
    DG_IN("in", "stream", "batches"),
    DG_IN("size", "any", "a scalar: which of the sizes"),
    DG_OUT("out", "stream", "the same at that size"),
    { 0 },
};

static const dg_attr attrs[] = {
    DG_SIZES(conf, sizes, "640", "what is chosen from"),
    { 0 },
};

static const dg_rule rules[] = {
    { DG_RULE_DIMS, .to = "out", .from = "size", .why = "takes its size from a number" },
    { DG_RULE_PROVED, .why = "batches have the size that their sampler planned; sizes=\"...\" of "
                             "<sampler.bucket> draws one for all ranks, with seed=\"rank\" for each" },
    { 0 },
};

const dg_node_class dg_node_resize = {
    DG_NODE_CLASS,
    .name = "resize",
    .role = DG_ROLE_AUGMENT,
    .brief = "Batches at a size that a number chooses.",
    .ports = ports,
    .attrs = attrs,
    .conf_size = sizeof(conf),
    .rules = rules,
};
