/* partition.c: <partition>, items dealt over an axis: item i to rank i mod n. Before it all ranks
 * see the same items in the same order. */
#include "nodes/builtin.h"

typedef struct conf {
    const char *axis;
    int64_t     equal, seed;
    bool        aligned, shuffle;
} conf;

enum { NONE, DROP, PAD };

static const dg_port ports[] = {
    DG_IN("in", "stream", "what is dealt"),
    DG_OUT("out", "stream", "this rank's share"),
    { 0 },
};

static const dg_attr attrs[] = {
    DG_STR_REQUIRED(conf, axis, "mesh axis over which items are dealt"),
    DG_ENUM(conf, equal, NONE, "none|drop|pad",
            "what makes all shares equal: items that are left over are dropped, or others are "
            "taken twice"),
    DG_BOOL(conf, aligned, false, "groups of one size are dealt, one item of a group to each rank"),
    DG_BOOL(conf, shuffle, false, "draw the order first"),
    DG_ENUM(conf, seed, 0, "rank|shared", "drawn by each rank for itself, or the same by all"),
    { 0 },
};

static const dg_rule rules[] = {
    { DG_RULE_VALUE, .to = "out", .axis = "axis", .why = "deals items over the axis" },
    { DG_RULE_DIMS, .to = "out", .axis = "axis", .when = "!aligned",
      .why = "deals items of different sizes to ranks at the same step" },
    { DG_RULE_LEADING, .to = "out", .axis = "axis",
      .why = "deals the smaller last batch to one rank" },
    { DG_RULE_RATE, .to = "out", .axis = "axis", .when = "equal=none",
      .why = "deals what there is, and equal is not given: ranks may hold different item counts" },
    { DG_RULE_SEED, .to = "out", .from = "in", .axis = "axis",
      .why = "shares out what is not the same on all its ranks" },
    { DG_RULE_SEED, .to = "out", .axis = "axis", .when = "shuffle,seed=rank",
      .why = "draws the order that is dealt on each rank for itself" },
    { DG_RULE_PROVED, .when = "aligned", .why = "items of a data set have no common size" },
    { 0 },
};

static void shuffle_items(int32_t *v, int64_t n, dg_draw *draw)
{
    for (int64_t i = n - 1; i > 0; i--) {
        int64_t j = dg_draw_below(draw, i + 1);
        int32_t t = v[i];

        v[i] = v[j];
        v[j] = t;
    }
}

static int choose(dg_choice *out, const void *self, const dg_choose_args *a, dg_diag *d)
{
    const conf *c = self;
    int64_t     ranks = a->ranks, each = a->n / ranks, more = a->n % ranks;
    int64_t     n = c->equal == DROP || !more ? each
                    : c->equal == PAD         ? each + 1
                                              : each + (a->rank < more);
    dg_draw     draw = dg_draw_begin(a->seed, "order", (uint64_t)a->epoch);
    int32_t    *all = a->alloc(a->arena, (size_t)(a->n + 1) * sizeof *all);
    int32_t    *own = a->alloc(a->arena, (size_t)(n + 1) * sizeof *own);

    if (!all || !own)
        return dg_fail(d, DG_EMEMORY, DG_NOWHERE, "out-of-memory", "no memory to deal %lld items",
                       (long long)a->n);
    for (int64_t i = 0; i < a->n; i++)
        all[i] = a->items[i];
    if (c->shuffle)
        shuffle_items(all, a->n, &draw);
    for (int64_t i = 0; i < n; i++) {
        int64_t k = i * ranks + a->rank;

        own[i] = k < a->n ? all[k] : all[k % a->n] < 0 ? all[k % a->n] : ~all[k % a->n];
    }
    *out = (dg_choice){ n, own };
    return 0;
}

const dg_node_class dg_node_partition = {
    DG_NODE_CLASS,
    .name = "partition",
    .role = DG_ROLE_SAMPLER,
    .brief = "Deals items over a mesh axis.",
    .ports = ports,
    .attrs = attrs,
    .conf_size = sizeof(conf),
    .rules = rules,
    .choose = choose,
};
