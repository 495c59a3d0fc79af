/* plain.c: <sampler.plain>: batches of one size; their number depends only on the number of
 * items. */
#include "nodes/sampler/sampler.h"

typedef dg_sampler_conf conf;

static const dg_port ports[] = {
    DG_IN("in", "dataset", "the data set"),
    DG_OUT("out", "picks", "batches of items"),
    { 0 },
};

static const dg_attr attrs[] = {
    DG_BATCH_REQUIRED(conf, batch, 1, 4096, "images per rank and step"),
    { "size", DG_ATTR_SIZES, DG_FIELD_(conf, sizes, dg_sizes), false, 0, 0, 0, 0, "640",
      "image size" },
    DG_BOOL(conf, shuffle, true, "draw the items in random order"),
    DG_ENUM(conf, seed, 0, "shared|rank",
            "draw the same order on all ranks, or a separate one on each"),
    DG_ENUM(conf, tail, DG_TAIL_KEEP, "drop|pad|keep",
            "remaining items that do not fill a batch: drop them, fill up with repeated ones, or "
            "(one rank only) fill up with padding that does not count"),
    DG_BOOL(conf, repeat, false,
            "never end: pass follows pass, and items that fill no batch wait for the next one; an "
            "epoch then has as many batches as the first pass gives on every rank"),
    DG_AXES(conf, axis, NULL, "mesh axis to divide the batches over"),
    { 0 },
};

static const dg_rule rules[] = {
    { DG_RULE_VALUE, .to = "out", .axis = "axis", .when = "axis",
      .why = "deals batches over the axis" },
    { DG_RULE_RATE, .to = "out", .axis = "axis", .when = "axis,tail=keep,!repeat",
      .why = "keeps the last batch, which may not be enough for every rank" },
    { DG_RULE_LEADING, .to = "out", .when = "tail=keep,!repeat",
      .why = "keeps a last batch that is smaller" },
    { DG_RULE_SEED, .to = "out", .from = "in", .axis = "axis", .when = "axis",
      .why = "shares out what is not the same on all its ranks" },
    { DG_RULE_SEED, .to = "out", .axis = "axis", .when = "axis,shuffle,seed=rank",
      .why = "draws the order that is dealt on each rank for itself" },
    { DG_RULE_VALUE, .to = "out", .when = "shuffle,seed=rank",
      .why = "draws its order on each rank for itself" },
    { DG_RULE_ENDLESS, .to = "out", .when = "repeat", .why = "never ends" },
    { 0 },
};

static void check_plain(dg_check *k, const void *self)
{
    const conf *c = self;

    if (c->sizes.n != 1)
        dg_check_fail(k, "size", "sampler-size", "must be one size, found %d", c->sizes.n);
}

const dg_node_class dg_node_sampler_plain = {
    DG_NODE_CLASS,
    .name = "sampler.plain",
    .role = DG_ROLE_SAMPLER,
    .brief = "Plans batches of one image size.",
    .ports = ports,
    .attrs = attrs,
    .conf_size = sizeof(conf),
    .rules = rules,
    .check = check_plain,
    .schedule = dg_sampler_schedule,
    .sizes = dg_sampler_sizes,
};
