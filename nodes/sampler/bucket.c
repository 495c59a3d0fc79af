/* bucket.c: <sampler.bucket>, the plan of an epoch: which items form which batch, at which image size.
 *
 * The plan is global: a pure function of (data set, seed, epoch), made alike on every rank and then dealt out,
 * so that all ranks meet the same size at the same step and have the same number of batches.
 *
 *   1. Sizes of one aspect ratio form a group; an image belongs to the group nearest to its own ratio (in
 *      logarithm). With square sizes only there is one group.
 *   2. The items of each group are shuffled and cut into batches; each batch draws one size of its group, a
 *      size that is listed twice being twice as likely.
 *   3. What is left over in a group is dropped, or filled up (tail).
 *   4. The batches of all groups are shuffled together. */
#include <detrgraph/node.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct conf {
    int64_t     batch, tail, seed;
    dg_sizes    sizes;
    bool        shuffle, repeat;
    dg_when     until;
    dg_sizes    base;
    const char *axis;
} conf;

enum { DROP, PAD, KEEP };

static const dg_port ports[] = {
    DG_IN("in", "dataset", "what is sampled"),
    DG_OUT("out", "picks", "batches of items, each at one size"),
    { 0 },
};

static const dg_attr attrs[] = {
    DG_INT_REQUIRED(conf, batch, 1, 4096, "images of one rank at a step"),
    DG_SIZES(conf, sizes, "640", "image sizes; repeat a size to draw it more often"),
    DG_WHEN(conf, until, NULL, "from then on only `base` is drawn"),
    DG_SIZES(conf, base, NULL, "the one size that remains after `until`"),
    DG_BOOL(conf, shuffle, true, "draw the items in random order"),
    DG_ENUM(conf, tail, KEEP, "drop|pad|keep",
            "items that do not fill a batch: leave them out, fill up with others, or (one rank only) fill up "
            "without counting"),
    DG_ENUM(conf, seed, 0, "shared|rank", "the plan is drawn alike on every rank, or by each for itself"),
    DG_BOOL(conf, repeat, false, "never ends: what is left over begins the next round"),
    DG_STR(conf, axis, NULL,
           "mesh axis over which the batches of one plan are dealt; without it every rank plans for the items that "
           "it has"),
    { 0 },
};

static const dg_rule rules[] = {
    { DG_RULE_VALUE, .to = "out", .axis = "axis", .when = "axis", .why = "deals batches over the axis" },
    { DG_RULE_RATE, .to = "out", .axis = "axis", .when = "axis,tail=keep,!repeat",
      .why = "keeps the last batch, which may not be enough for every rank" },
    { DG_RULE_RATE, .to = "out", .from = "in", .why = "fills batches by the sizes of the items that it is given" },
    { DG_RULE_DIMS, .to = "out", .from = "in", .why = "picks sizes for the items that it is given" },
    { DG_RULE_LEADING, .to = "out", .when = "tail=keep,!repeat",
      .why = "keeps a last batch that is smaller" },
    { DG_RULE_DIMS, .to = "out", .when = "seed=rank", .why = "draws its sizes on each rank for itself" },
    { DG_RULE_SEED, .to = "out", .axis = "axis", .when = "axis,shuffle,seed=rank",
      .why = "draws the plan that is dealt on each rank for itself" },
    { DG_RULE_VALUE, .to = "out", .when = "seed=rank", .why = "draws its plan on each rank for itself" },
    { DG_RULE_ENDLESS, .to = "out", .when = "repeat", .why = "never ends" },
    { DG_RULE_PROVED, .when = "repeat", .why = "an epoch's plan is made at once" },
    { DG_RULE_PROVED, .when = "seed=rank", .why = "plans are the same on every rank" },
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

static void shuffle_picks(dg_pick *v, int64_t n, dg_draw *draw)
{
    for (int64_t i = n - 1; i > 0; i--) {
        int64_t j = dg_draw_below(draw, i + 1);
        dg_pick t = v[i];

        v[i] = v[j];
        v[j] = t;
    }
}

/* The group of size k is the first size of the same aspect ratio. */
static int group_of(const dg_sizes *s, int k)
{
    for (int i = 0; i < k; i++)
        if (s->v[i].w * s->v[k].h == s->v[k].w * s->v[i].h)
            return i;
    return k;
}

static int nearest_group(const dg_sizes *s, int w, int h)
{
    double want = log((double)w / h), best = HUGE_VAL;
    int    group = 0;

    for (int k = 0; k < s->n; k++) {
        double off = fabs(log((double)s->v[k].w / (double)s->v[k].h) - want);

        if (group_of(s, k) == k && off < best) {
            best = off;
            group = k;
        }
    }
    return group;
}

static dg_size draw_size(const dg_sizes *s, int group, dg_draw *draw)
{
    int n = 0, k;

    for (int i = 0; i < s->n; i++)
        n += group_of(s, i) == group;
    k = (int)dg_draw_below(draw, n);
    for (int i = 0;; i++)
        if (group_of(s, i) == group && k-- == 0)
            return s->v[i];
}

/* Cuts the n items of one group into global batches of `whole`. */
static int cut(dg_schedule *out, dg_pick *picks, const conf *c, const dg_sizes *sizes, int group, int32_t *items,
               int64_t n, int64_t whole, dg_draw *draw, const dg_schedule_args *a)
{
    int64_t full = n / whole, left = n % whole, more = left > 0 && c->tail != DROP;

    for (int64_t k = 0; k < full + more; k++) {
        dg_size  size = draw_size(sizes, group, draw);
        int32_t *slots = items + k * whole;

        if (k == full) {
            slots = a->alloc(a->arena, (size_t)whole * sizeof *slots);
            if (!slots)
                return -DG_EMEMORY;
            memcpy(slots, items + k * whole, (size_t)left * sizeof *slots);
            for (int64_t j = left; j < whole; j++)
                slots[j] = ~items[(j - left) % n];
            out->padded += whole - left;
        }
        picks[out->n_picks++] = (dg_pick){ size.w, size.h, slots };
    }
    if (!more)
        out->dropped += left;
    return 0;
}

static int schedule(dg_schedule *out, const void *self, const dg_schedule_args *a, dg_diag *d)
{
    const conf *c = self;
    dg_clock    clock = { .epoch = a->epoch, .step = a->epoch };
    dg_sizes    sizes = c->base.n && dg_reached(&c->until, &clock) ? c->base : c->sizes;
    dg_draw     draw = dg_draw_begin(a->seed, "plan", (uint64_t)a->epoch);
    int64_t     n = a->data->n_items, whole = c->batch * a->ranks, at = 0;
    int32_t    *items = a->alloc(a->arena, (size_t)(n + 1) * sizeof *items);
    int        *group = a->alloc(a->arena, (size_t)(n + 1) * sizeof *group);
    dg_pick    *picks = a->alloc(a->arena, (size_t)(n / whole + sizes.n + 1) * sizeof *picks);

    *out = (dg_schedule){ .picks = picks, .batch = (int)c->batch };
    if (!items || !group || !picks)
        return dg_fail(d, DG_EMEMORY, DG_NOWHERE, "out-of-memory", "no memory for the plan of %lld items",
                       (long long)n);
    for (int i = 0; i < n; i++) {
        dg_item_info info;

        a->data->info(a->data->self, i, &info);
        group[i] = nearest_group(&sizes, info.w, info.h);
    }
    for (int g = 0; g < sizes.n; g++) {
        int32_t *mine = items + at;
        int64_t  n_mine = 0;

        for (int i = 0; i < n; i++)
            if (group[i] == g)
                mine[n_mine++] = i;
        if (c->shuffle)
            shuffle_items(mine, n_mine, &draw);
        if (n_mine && cut(out, picks, c, &sizes, g, mine, n_mine, whole, &draw, a) < 0)
            return dg_fail(d, DG_EMEMORY, DG_NOWHERE, "out-of-memory", "no memory for the plan of %lld items",
                           (long long)n);
        at += n_mine;
    }
    if (c->shuffle)
        shuffle_picks(picks, out->n_picks, &draw);
    if (!out->n_picks) {
        int rc = dg_fail(d, DG_EINPUT, DG_NOWHERE, "sampler-empty",
                         "%s has %lld images: not one batch of %lld over %d rank%s", a->data->name, (long long)n,
                         (long long)c->batch, a->ranks, a->ranks == 1 ? "" : "s");

        dg_help(d, "make batch smaller, or fill up with tail=\"pad\"");
        return rc;
    }
    return 0;
}

static int list_sizes(const void *self, const dg_size **sizes, int *batch)
{
    const conf *c = self;

    *sizes = c->sizes.v;
    *batch = (int)c->batch;
    return c->sizes.n;
}

static void check(dg_check *k, const void *self)
{
    const conf *c = self;
    bool        listed = !c->base.n;

    for (int i = 0; i < c->sizes.n; i++) {
        dg_size s = c->sizes.v[i];

        if (s.w % 32 || s.h % 32 || s.w < 32 || s.h < 32) {
            dg_check_fail(k, "sizes", "sampler-size", "%lldx%lld: both sides must be multiples of 32",
                          (long long)s.w, (long long)s.h);
            dg_check_help(k, "the coarsest feature map has a 32nd of the image's sides");
        }
        listed |= c->base.n == 1 && s.w == c->base.v[0].w && s.h == c->base.v[0].h;
    }
    if (!c->sizes.n)
        dg_check_fail(k, "sizes", "sampler-size", "lists no size");
    if (c->base.n > 1)
        dg_check_fail(k, "base", "sampler-base", "must be one size, found %d", c->base.n);
    else if (!listed)
        dg_check_fail(k, "base", "sampler-base", "must be one of sizes");
    if ((c->until.unit != DG_NEVER) != (c->base.n > 0))
        dg_check_fail(k, c->base.n ? "base" : "until", "sampler-base", "until and base need each other");
    if (c->until.unit != DG_NEVER && c->until.unit != DG_EPOCHS)
        dg_check_fail(k, "until", "sampler-until", "an epoch's plan is made at once: say until=\"epoch N\"");
}

const dg_node_class dg_node_sampler_bucket = {
    DG_NODE_CLASS,
    .name = "sampler.bucket",
    .role = DG_ROLE_SAMPLER,
    .brief = "Plans the batches of an epoch, each at one image size, alike on every rank.",
    .doc = "With sizes of several aspect ratios an image goes to the ratio nearest to its own, and a batch holds "
           "images of one ratio only. Each batch draws its size among those of its ratio.",
    .ports = ports,
    .attrs = attrs,
    .conf_size = sizeof(conf),
    .rules = rules,
    .check = check,
    .schedule = schedule,
    .sizes = list_sizes,
};
