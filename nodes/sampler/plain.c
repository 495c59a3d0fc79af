/* plain.c: <sampler.plain>, batches of one size, item after item. How many there are hangs on the
 * number of items alone. The plan is global, as sampler.bucket's is. */
#include <detrgraph/node.h>

typedef struct conf {
    int64_t     batch, tail, seed;
    dg_sizes    size;
    bool        shuffle, repeat;
    const char *axis;
} conf;

enum { DROP, PAD, KEEP };

static const dg_port ports[] = {
    DG_IN("in", "dataset", "what is sampled"),
    DG_OUT("out", "picks", "batches of items"),
    { 0 },
};

static const dg_attr attrs[] = {
    DG_INT_REQUIRED(conf, batch, 1, 4096, "images of one rank at a step"),
    DG_SIZES(conf, size, "640", "image size"),
    DG_BOOL(conf, shuffle, true, "draw the items in random order"),
    DG_ENUM(conf, seed, 0, "shared|rank", "the order is drawn alike on every rank, or by each for itself"),
    DG_ENUM(conf, tail, KEEP, "drop|pad|keep",
            "items that do not fill a batch: leave them out, fill up with others, or (one rank only) fill up "
            "without counting"),
    DG_BOOL(conf, repeat, false, "never ends: what is left over begins the next round"),
    DG_STR(conf, axis, NULL, "mesh axis over which batches are dealt"),
    { 0 },
};

static const dg_rule rules[] = {
    { DG_RULE_VALUE, .to = "out", .axis = "axis", .when = "axis", .why = "deals batches over the axis" },
    { DG_RULE_RATE, .to = "out", .axis = "axis", .when = "axis,tail=keep,!repeat",
      .why = "keeps the last batch, which may not be enough for every rank" },
    { DG_RULE_LEADING, .to = "out", .when = "tail=keep,!repeat",
      .why = "keeps a last batch that is smaller" },
    { DG_RULE_SEED, .to = "out", .axis = "axis", .when = "axis,shuffle,seed=rank",
      .why = "draws the order that is dealt on each rank for itself" },
    { DG_RULE_VALUE, .to = "out", .when = "shuffle,seed=rank", .why = "draws its order on each rank for itself" },
    { DG_RULE_ENDLESS, .to = "out", .when = "repeat", .why = "never ends" },
    { DG_RULE_PROVED, .when = "repeat", .why = "an epoch's plan is made at once" },
    { DG_RULE_PROVED, .when = "seed=rank", .why = "plans are the same on every rank" },
    { 0 },
};

static int schedule(dg_schedule *out, const void *self, const dg_schedule_args *a, dg_diag *d)
{
    const conf *c = self;
    int64_t     n = a->data->n_items, whole = c->batch * a->ranks;
    int64_t     full = n / whole, more = n % whole && c->tail != DROP;
    dg_draw     draw = dg_draw_begin(a->seed, "plan", (uint64_t)a->epoch);
    int32_t    *items = a->alloc(a->arena, (size_t)((full + 1) * whole + n) * sizeof *items);
    dg_pick    *picks = a->alloc(a->arena, (size_t)(full + 1) * sizeof *picks);

    *out = (dg_schedule){ .picks = picks, .batch = (int)c->batch, .n_picks = full + more };
    if (!items || !picks)
        return dg_fail(d, DG_EMEMORY, DG_NOWHERE, "out-of-memory", "no memory for the plan of %lld items",
                       (long long)n);
    if (!out->n_picks)
        return dg_fail(d, DG_EINPUT, DG_NOWHERE, "sampler-empty", "%s has %lld images: not one batch of %lld over %d rank%s",
                       a->data->name, (long long)n, (long long)c->batch, a->ranks, a->ranks == 1 ? "" : "s");
    for (int64_t i = 0; i < n; i++)
        items[i] = (int32_t)i;
    for (int64_t i = n - 1; i > 0 && c->shuffle; i--) {
        int64_t j = dg_draw_below(&draw, i + 1);
        int32_t t = items[i];

        items[i] = items[j];
        items[j] = t;
    }
    for (int64_t i = n; i < out->n_picks * whole; i++)
        items[i] = ~items[i % n];
    for (int64_t k = 0; k < out->n_picks; k++)
        picks[k] = (dg_pick){ c->size.v[0].w, c->size.v[0].h, items + k * whole };
    out->padded = more ? whole - n % whole : 0;
    out->dropped = more ? 0 : n % whole;
    return 0;
}

static int list_sizes(const void *self, const dg_size **sizes, int *batch)
{
    const conf *c = self;

    *sizes = c->size.v;
    *batch = (int)c->batch;
    return c->size.n;
}

static void check(dg_check *k, const void *self)
{
    const conf *c = self;

    if (c->size.n != 1)
        dg_check_fail(k, "size", "sampler-size", "must be one size, found %d", c->size.n);
    else if (c->size.v[0].w % 32 || c->size.v[0].h % 32)
        dg_check_fail(k, "size", "sampler-size", "%lldx%lld: both sides must be multiples of 32",
                      (long long)c->size.v[0].w, (long long)c->size.v[0].h);
}

const dg_node_class dg_node_sampler_plain = {
    DG_NODE_CLASS,
    .name = "sampler.plain",
    .role = DG_ROLE_SAMPLER,
    .brief = "Plans batches of one size, alike on every rank.",
    .ports = ports,
    .attrs = attrs,
    .conf_size = sizeof(conf),
    .rules = rules,
    .check = check,
    .schedule = schedule,
    .sizes = list_sizes,
};
