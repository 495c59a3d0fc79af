/* norm.c: <layer.norm>: batch norm over the last dimension. Ioffe & Szegedy 2015.
 *
 *     y = (x - mean) / sqrt(var + eps) * scale + shift       statistics over all other dimensions
 *     running <- 0.9 running + 0.1 batch, used in evaluation */
#include "nodes/builtin.h"

typedef struct conf {
    int64_t norm, empty;
} conf;

enum { BATCH, SYNC };
enum { ABSENT, ZERO };

static const dg_port ports[] = {
    DG_IN("in", "f[...,C]", "features"),
    DG_IN_OPTIONAL("count", "i[...]",
                   "number of live rows (axis 0), as the sum of the elements; may be 0"),
    DG_OUT("out", "f[...,C]", "normalised"),
    { 0 },
};

static const dg_attr attrs[] = {
    DG_ENUM(conf, norm, 0, "batch|sync",
            "take statistics over this rank's rows, or over all ranks'"),
    DG_ENUM(conf, empty, 0, "absent|zero",
            "if count is 0, with norm=\"sync\": return zeros without an exchange of statistics, or "
            "take part in it with 0 rows"),
    { 0 },
};

static const dg_rule rules[] = {
    { DG_RULE_ALLREDUCE, .from = "in", .axis = "=dp", .when = "norm=sync",
      .why = "joins statistics over the ranks", .flags = DG_RULE_TRAIN },
    { DG_RULE_BYPASS, .from = "count", .when = "norm=sync,empty=absent",
      .why = "returns early where its rows are none" },
    { DG_RULE_STATE, .from = "in", .axis = "=dp", .when = "norm=sync",
      .why = "keeps running statistics of the rows of dp", .flags = DG_RULE_TRAIN },
    { DG_RULE_STATE, .from = "count", .axis = "=dp", .when = "norm=sync,count",
      .why = "keeps running statistics of the rows of dp", .flags = DG_RULE_TRAIN },
    { DG_RULE_STATE, .from = "count", .when = "norm=batch,count",
      .why = "keeps running statistics of this rank's rows", .flags = DG_RULE_TRAIN },
    { DG_RULE_STATE, .from = "in", .when = "norm=batch",
      .why = "keeps running statistics of this rank's rows", .flags = DG_RULE_TRAIN },
    { 0 },
};

static void lower_batch_norm(dg_build *b, const void *self, const dg_val in[], dg_val out[])
{
    const double eps = 1e-5, momentum = 0.1;
    const conf *k = self;
    const bool counted = dg_has(in[1]), sync = k->norm == SYNC,
               early = sync && counted && k->empty == ABSENT;
    dg_val x = in[0], mean, var, all, live = DG_NONE;
    int64_t c = dg_dim(b, x, -1), count = dg_shape_elements(dg_shape_of(b, x)) / c;
    dg_val scale = dg_param(b, "weight", DG_SHAPE(c), dg_init_const(1));
    dg_val shift = dg_param(b, "bias", DG_SHAPE(c), dg_init_zero());
    dg_val running_mean = dg_buffer(b, "running_mean", DG_SHAPE(c), dg_init_zero());
    dg_val running_var = dg_buffer(b, "running_var", DG_SHAPE(c), dg_init_const(1));

    if (!dg_training(b)) {
        out[0] = dg_batch_norm_fixed(b, x, scale, shift, running_mean, running_var, eps);
        return;
    }
    if (counted)
        live = dg_sum(b, in[1], DG_ALL_AXES, false);
    if (early)
        dg_guard_begin(b, live);
    if (sync || counted) {
        out[0] = dg_batch_norm_sync(b, x, scale, shift, live, eps, sync ? "dp" : NULL, &mean, &var,
                                    &all);
        dg_stat_update_counted(b, running_mean, running_var, mean, var, all, momentum);
    } else {
        out[0] = dg_batch_norm(b, x, scale, shift, eps, &mean, &var);
        dg_stat_update(b, running_mean, running_var, mean, var, count, momentum);
    }
    if (early) { /* what follows goes on with the zeros */
        dg_guard_end(b, 1, out);
        dg_guard_connect(b, 1, out);
    }
}

const dg_node_class dg_node_layer_norm = {
    DG_NODE_CLASS,
    .name = "layer.norm",
    .role = DG_ROLE_OTHER,
    .brief = "Batch norm over the last dimension.",
    .ports = ports,
    .attrs = attrs,
    .conf_size = sizeof(conf),
    .rules = rules,
    .lower = lower_batch_norm,
};
