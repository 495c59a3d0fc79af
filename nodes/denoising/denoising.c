/* denoising.c: <denoising>: noisy copies of the targets, which the decoder learns to restore or
 * reject. Contrastive denoising: Zhang et al. 2022 (DINO), sec. 3.3.
 *
 *  M   most objects of an image, over all ranks of `axis`, so that group sizes are equal on all
 *  G   max(1, count div M) groups of 2 M queries: M positives, M negatives with more noise
 *
 * No tensor shape depends on M: the capacity is max(2 count, 2 max_objects) queries, 2 M G of them
 * live. */
#include "nodes/builtin.h"

typedef struct conf {
    int64_t count, classes, empty;
    double label_noise, box_noise;
    const char *axis;
} conf;

enum { EMPTY_PAD, EMPTY_ABSENT, EMPTY_NONE };

static const dg_port ports[] = {
    DG_IN("targets", "{labels:i[B,M],boxes:f[B,M,4],count:i[B]}", "objects of each image"),
    DG_OUT("out", "{labels:i[B,N],boxes:f[B,N,4],meta:i[4],query:i[B,P],gt:i[B,P]}",
           "classes and boxes of the queries; meta: M, groups, live queries, queries per group; "
           "query and gt: pairs of a positive query and its object"),
    { 0 },
};

static const dg_attr attrs[] = {
    DG_INT(conf, count, 100, 1, 10000,
           "positive queries wanted; with more objects in an image there is one group"),
    DG_INT_REQUIRED(conf, classes, 1, 1000000, "object classes"),
    DG_NUM(conf, label_noise, 0.5, 0, 1,
           "twice the fraction of labels that are replaced at random"),
    DG_NUM(conf, box_noise, 1, 0, 10,
           "largest shift of a corner, as a fraction of half the side; negatives shift up to twice "
           "as far"),
    DG_ENUM(conf, empty, EMPTY_ABSENT, "pad|absent|none",
            "if no image of this rank's batch has an object: two dummy queries, no output, or an "
            "output without a live query"),
    DG_AXES(conf, axis, NULL,
            "mesh axis over which M is the maximum; if omitted, each rank has its own M"),
    { 0 },
};

static const dg_rule rules[] = {
    { DG_RULE_ALLREDUCE, .from = "targets", .axis = "axis", .when = "axis",
      .why = "takes the largest count of all ranks" },
    { DG_RULE_PRESENCE, .to = "out", .from = "targets", .when = "empty=absent",
      .why = "is absent when targets.count is 0 (empty=\"absent\")" },
    { 0 },
};

static void lower_denoising(dg_build *b, const void *self, const dg_val in[], dg_val out[])
{
    const conf *c = self;
    dg_val labels = dg_record_get(b, in[0], "labels"), boxes = dg_record_get(b, in[0], "boxes");
    dg_val count = dg_record_get(b, in[0], "count"),
           most = dg_reduce_max(b, count, DG_ALL_AXES, false);
    int64_t batch = dg_dim(b, labels, 0), slots = dg_dim(b, labels, 1);
    dg_denoise_attr attr = {
        .count = c->count,
        .capacity = 2 * (slots > c->count ? slots : c->count),
        .classes = c->classes,
        .label_noise = c->label_noise,
        .box_noise = c->box_noise,
        .on_empty = c->empty == EMPTY_PAD,
    };
    dg_shape per_query = DG_SHAPE(batch, attr.capacity),
             per_side = DG_SHAPE(batch, attr.capacity, 4);
    dg_denoising dn;

    if (c->axis)
        most = dg_all_reduce(b, most, DG_MAX, c->axis);
    dn = dg_denoise(b, labels, boxes, count, most, dg_uniform(b, "label_mask", per_query),
                    dg_uniform(b, "new_label", per_query), dg_uniform(b, "sign", per_side),
                    dg_uniform(b, "mag", per_side), &attr);
    out[0] = dg_record(b);
    dg_record_set(b, out[0], "labels", dg_name(b, dn.labels, "dn.labels"));
    dg_record_set(b, out[0], "boxes", dg_name(b, dn.boxes, "dn.boxes"));
    dg_record_set(b, out[0], "meta", dg_name(b, dn.dn, "dn.meta"));
    dg_record_set(b, out[0], "query", dg_name(b, dn.query, "dn.query"));
    dg_record_set(b, out[0], "gt", dg_name(b, dn.gt, "dn.gt"));
}

static int64_t classes(const void *self)
{
    return ((const conf *)self)->classes;
}

const dg_node_class dg_node_denoising = {
    DG_NODE_CLASS,
    .name = "denoising",
    .role = DG_ROLE_DENOISING,
    .brief = "Contrastive denoising queries: noisy copies of the targets, in groups.",
    .ports = ports,
    .attrs = attrs,
    .conf_size = sizeof(conf),
    .rules = rules,
    .lower = lower_denoising,
    .classes = classes,
};
