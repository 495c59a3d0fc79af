/* filter.c: <filter>, items that have enough to show. How many stay hangs on the items. Behind a
 * sampler an item is a whole batch: its plan stays as it is, but for the batches that are left out. */
#include "nodes/builtin.h"
#include "nodes/items.h"

typedef struct conf {
    int64_t min_objects;
} conf;

static const dg_port ports[] = {
    DG_IN("in", "stream", "what is looked at"),
    DG_OUT("out", "stream", "what stays"),
    { 0 },
};

static const dg_attr attrs[] = {
    DG_INT(conf, min_objects, 1, 0, 100000, "objects that an image, or behind a sampler a batch of this rank, must have"),
    { 0 },
};

static const dg_rule rules[] = {
    { DG_RULE_RATE, .to = "out", .from = "in", .why = "drops items by what is in them" },
    { DG_RULE_DIMS, .to = "out", .from = "in", .why = "drops items by what is in them" },
    { 0 },
};

static int choose(dg_choice *out, const void *self, const dg_choose_args *a, dg_diag *d)
{
    const conf *c = self;
    int32_t    *kept = a->alloc(a->arena, (size_t)(a->n + 1) * sizeof *kept);
    int64_t     n = 0;

    if (!kept)
        return dg_fail(d, DG_EMEMORY, DG_NOWHERE, "out-of-memory", "no memory to filter %lld items",
                       (long long)a->n);
    for (int64_t i = 0; i < a->n; i++) {
        int32_t      item = a->items[i];
        dg_item_info info;

        a->data->info(a->data->self, dg_item_of(item), &info);
        if (info.n_objects >= c->min_objects)
            kept[n++] = item;
    }
    *out = (dg_choice){ n, kept };
    return 0;
}

const dg_node_class dg_node_filter = {
    DG_NODE_CLASS,
    .name = "filter",
    .role = DG_ROLE_SAMPLER,
    .brief = "Leaves out items with too few objects.",
    .doc = "Between loader and sampler an item is an image; behind the sampler it is a batch, with the objects of all "
           "its images. Objects are those of the annotations, before any augmentation.",
    .ports = ports,
    .attrs = attrs,
    .conf_size = sizeof(conf),
    .rules = rules,
    .choose = choose,
};
