/* filter.c: <filter>: drops items with too few objects; the number kept depends on the items. After
 * a sampler an item is a whole batch, dropped or kept as planned. */
#include "nodes/builtin.h"
#include "nodes/items.h"

typedef struct conf {
    int64_t min_objects;
} conf;

static const dg_port ports[] = {
    DG_IN("in", "stream", "items"),
    DG_OUT("out", "stream", "items with enough objects"),
    { 0 },
};

static const dg_attr attrs[] = {
    DG_INT(conf, min_objects, 1, 0, 100000,
           "fewest objects of an image or, after a sampler, of a batch of this rank"),
    { 0 },
};

static const dg_rule rules[] = {
    { DG_RULE_RATE, .to = "out", .from = "in", .why = "drops items by what is in them" },
    { DG_RULE_DIMS, .to = "out", .from = "in", .why = "drops items by what is in them" },
    { 0 },
};

static int choose_filtered(dg_choice *out, const void *self, const dg_choose_args *a, dg_diag *d)
{
    const conf *c = self;
    int32_t *kept = a->alloc(a->arena, (size_t)(a->n + 1) * sizeof *kept);
    int64_t n = 0;

    if (!kept)
        return dg_fail(d, DG_EMEMORY, DG_NOWHERE, "out-of-memory", "no memory to filter %lld items",
                       (long long)a->n);
    for (int64_t i = 0; i < a->n; i++) {
        int32_t item = a->items[i];
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
    .brief = "Drops items with too few objects.",
    .doc =
        "Between loader and sampler an item is an image; after the sampler, a batch with the "
        "objects of all its images. Objects are counted in the annotations, before augmentation.",
    .ports = ports,
    .attrs = attrs,
    .conf_size = sizeof(conf),
    .rules = rules,
    .choose = choose_filtered,
};
