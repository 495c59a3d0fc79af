/* bucket.c: <sampler.bucket>: batches of several image sizes, chosen by the items' aspect
 * ratios. */
#include "nodes/sampler/sampler.h"

typedef dg_sampler_conf conf;

static const dg_port ports[] = {
    DG_IN("in", "dataset", "the data set"),
    DG_OUT("out", "picks", "batches of items, each at one size"),
    { 0 },
};

static const dg_attr attrs[] = {
    DG_BATCH_REQUIRED(conf, batch, 1, 4096, "images per rank and step"),
    DG_SIZES(conf, sizes, "640", "image sizes; repeat a size to draw it more often"),
    DG_WHEN(conf, until, NULL, "from this moment on use only `base`"),
    DG_SIZES(conf, base, NULL, "the only size after `until`"),
    DG_INT(conf, alike, 1, 1, 4096,
           "batches in a row that have one size, as those of an update with `accumulate`; those "
           "left over at the end of an epoch are dropped"),
    DG_ENUM(conf, draw, DG_SAMPLER_SEED, "seed|python",
            "what sizes are drawn from: the run's seed, or the number of the update by Python's "
            "generator, as RF-DETR's reference does"),
    DG_BOOL(conf, shuffle, true, "draw the items in random order"),
    DG_ENUM(conf, tail, DG_TAIL_KEEP, "drop|pad|keep",
            "remaining items that do not fill a batch: drop them, fill up with repeated ones, or "
            "(one rank only) fill up with padding that does not count"),
    DG_ENUM(conf, seed, 0, "shared|rank",
            "draw the same plan on all ranks, or a separate one on each"),
    DG_BOOL(conf, repeat, false,
            "never end: pass follows pass, and items that fill no batch wait for the next one; an "
            "epoch then has as many batches as the first pass gives on every rank"),
    DG_AXES(conf, axis, NULL,
            "mesh axis to divide the batches of one plan over; if omitted, each rank plans its own "
            "items"),
    { 0 },
};

static const dg_rule rules[] = {
    { DG_RULE_VALUE, .to = "out", .axis = "axis", .when = "axis",
      .why = "deals batches over the axis" },
    { DG_RULE_RATE, .to = "out", .axis = "axis", .when = "axis,tail=keep,!repeat",
      .why = "keeps the last batch, which may not be enough for every rank" },
    { DG_RULE_RATE, .to = "out", .from = "in", .when = "sizes!=alike",
      .why = "fills batches by the sizes of the items that it is given" },
    { DG_RULE_DIMS, .to = "out", .from = "in",
      .why = "picks sizes for the items that it is given" },
    { DG_RULE_LEADING, .to = "out", .when = "tail=keep,!repeat",
      .why = "keeps a last batch that is smaller" },
    { DG_RULE_DIMS, .to = "out", .when = "seed=rank",
      .why = "draws its sizes on each rank for itself" },
    { DG_RULE_SEED, .to = "out", .from = "in", .axis = "axis", .when = "axis",
      .why = "shares out what is not the same on all its ranks" },
    { DG_RULE_SEED, .to = "out", .axis = "axis", .when = "axis,shuffle,seed=rank",
      .why = "draws the plan that is dealt on each rank for itself" },
    { DG_RULE_VALUE, .to = "out", .when = "seed=rank",
      .why = "draws its plan on each rank for itself" },
    { DG_RULE_ENDLESS, .to = "out", .when = "repeat", .why = "never ends" },
    { 0 },
};

/* Sizes that batches share are of one shape, or images would go to batches of another. */
static void check_alike(dg_check *k, const conf *c)
{
    const char *attr = c->alike > 1 ? "alike" : "draw";

    if (c->alike == 1 && c->draw == DG_SAMPLER_SEED)
        return;
    for (int i = 1; i < c->sizes.n; i++)
        if (c->sizes.v[i].w * c->sizes.v[0].h != c->sizes.v[0].w * c->sizes.v[i].h) {
            dg_check_fail(k, attr, "sampler-alike",
                          "sizes must have one aspect ratio, found %lldx%lld beside %lldx%lld",
                          (long long)c->sizes.v[i].w, (long long)c->sizes.v[i].h,
                          (long long)c->sizes.v[0].w, (long long)c->sizes.v[0].h);
            return;
        }
    if (c->alike > 1 && c->tail != DG_TAIL_DROP)
        dg_check_fail(k, "alike", "sampler-alike",
                      "batches that are left over are dropped: write tail=\"drop\"");
}

static void check_bucket(dg_check *k, const void *self)
{
    const conf *c = self;
    bool listed = !c->base.n;

    for (int i = 0; i < c->sizes.n; i++) {
        dg_size s = c->sizes.v[i];

        listed |= c->base.n == 1 && s.w == c->base.v[0].w && s.h == c->base.v[0].h;
    }
    if (c->base.n > 1)
        dg_check_fail(k, "base", "sampler-base", "must be one size, found %d", c->base.n);
    else if (!listed)
        dg_check_fail(k, "base", "sampler-base", "must be one of sizes");
    if ((c->until.unit != DG_NEVER) != (c->base.n > 0))
        dg_check_fail(k, c->base.n ? "base" : "until", "sampler-base",
                      "until and base need each other");
    if (c->until.unit != DG_NEVER && c->until.unit != DG_EPOCHS)
        dg_check_fail(k, "until", "sampler-until",
                      "an epoch's plan is made at once: say until=\"epoch N\"");
    check_alike(k, c);
}

const dg_node_class dg_node_sampler_bucket = {
    DG_NODE_CLASS,
    .name = "sampler.bucket",
    .role = DG_ROLE_SAMPLER,
    .brief = "Plans the batches of an epoch, each at one image size.",
    .doc = "With sizes of several aspect ratios, an image goes to the nearest ratio and each batch "
           "has images of one ratio. Each batch draws its size among those of its ratio.",
    .ports = ports,
    .attrs = attrs,
    .conf_size = sizeof(conf),
    .rules = rules,
    .check = check_bucket,
    .schedule = dg_sampler_schedule,
    .sizes = dg_sampler_sizes,
};
