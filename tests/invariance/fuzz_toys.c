/* fuzz_toys.c: node classes of the fuzzer's own, for what a custom node may declare: an
 * embedding that empty batches lack, numbers of a rank's own and numbers that are trusted to be
 * the same, samples that vanish, a number about an evaluation. */
#include <detrgraph/node.h>

#include <string.h>

#include "tests/invariance/fuzz_toys.h"

/* ---- numbers --------------------------------------------------------------------------------- */

static int same_shape(dg_infer *s)
{
    s->out[0] = s->in[0];
    return 0;
}
static int copy(const dg_args *a)
{
    memcpy(a->t[1].data, a->t[0].data, 4);
    return 0;
}
static const dg_kernel copy_kernel = { .run = copy };
static const dg_op own = { DG_OP_ROW,
                          .name = "toy_own",
                          .signature = "x -> y",
                          .effect = DG_PURE,
                          .precision = DG_WIDE,
                          .shape = same_shape,
                          .ref32 = &copy_kernel,
                          .ref64 = &copy_kernel };

/* By an op that only the class knows: what its flag says is all there is to know. */
static void mean(dg_build *b, const void *conf, const dg_val in[], dg_val out[])
{
    dg_val x = dg_mean(b, in[0], DG_ALL_AXES, false);

    (void)conf;
    dg_emit(b, &own, NULL, 1, &x, out);
}

static const dg_port noise_ports[] = {
    DG_IN("in", "f[...]", "anything"),
    DG_OUT_FLAGS("out", "f[]", DG_PORT_VARIES, "its mean, and noise"),
    { 0 },
};
static const dg_node_class toy_noise = {
    DG_NODE_CLASS,
    .name = "toy.noise",
    .brief = "A number of each rank's own.",
    .ports = noise_ports,
    .lower = mean,
};

static const dg_port fixed_ports[] = {
    DG_IN("in", "f[...]", "anything"),
    DG_OUT_FLAGS("out", "f[]", DG_PORT_INVARIANT,
                 "a number that follows from the files of the run"),
    { 0 },
};
static const dg_node_class toy_fixed = {
    DG_NODE_CLASS,
    .name = "toy.fixed",
    .brief = "A number that is the same everywhere.",
    .ports = fixed_ports,
    .lower = mean,
};

/* ---- an embedding ---------------------------------------------------------------------------- */

typedef struct embed_conf {
    int64_t empty;
} embed_conf;
static const dg_port embed_ports[] = {
    DG_IN("targets", "{labels:i[B,M],boxes:f[B,M,4],count:i[B]}", "objects"),
    DG_OUT("out", "f[B,M,4]", "their embedding"),
    { 0 },
};
static const dg_attr embed_attrs[] = {
    DG_ENUM(embed_conf, empty, 0, "absent|zero|pad", "where there is no object"),
    { 0 },
};
static const dg_rule embed_rules[] = {
    { DG_RULE_PRESENCE, .to = "out", .from = "targets.count", .when = "empty=absent",
      .why = "embeds nothing where there is no object" },
    { 0 },
};
static void embed(dg_build *b, const void *conf, const dg_val in[], dg_val out[])
{
    dg_val w = dg_param(b, "weight", DG_SHAPE(4), dg_init_const(1));

    (void)conf;
    out[0] = dg_mul(b, dg_record_get(b, in[0], "boxes"), w);
}
static const dg_node_class toy_embed = {
    DG_NODE_CLASS,
    .name = "toy.embed",
    .brief = "An embedding of objects.",
    .ports = embed_ports,
    .attrs = embed_attrs,
    .conf_size = sizeof(embed_conf),
    .rules = embed_rules,
    .lower = embed,
};

/* ---- samples --------------------------------------------------------------------------------- */

static const dg_port crop_ports[] = {
    DG_IN("in", "picks", "what was picked"),
    DG_OUT_FLAGS("out", "samples", DG_PORT_DROPS, "those that have something left"),
    { 0 },
};
static int crop(const void *conf, dg_sample *sm, dg_draw *draw, const dg_clock *clock, dg_diag *d)
{
    (void)conf, (void)sm, (void)draw, (void)clock, (void)d;
    return 0;
}
static const dg_node_class toy_crop = {
    DG_NODE_CLASS,
    .name = "toy.crop",
    .role = DG_ROLE_AUGMENT,
    .brief = "Drops samples.",
    .ports = crop_ports,
    .item = crop,
};

/* ---- a score --------------------------------------------------------------------------------- */

typedef struct metric_conf {
    const char *axis;
} metric_conf;
static const dg_port metric_ports[] = {
    DG_IN("in", "any", "what is counted"),
    DG_OUT("metrics", "metrics", "score"),
    { 0 },
};
static const dg_attr metric_attrs[] = { DG_AXES(metric_conf, axis, NULL, "ranks that are asked"),
                                        { 0 } };
static const dg_rule metric_rules[] = {
    { DG_RULE_METRIC, .to = "metrics", .from = "in", .axis = "axis",
      .why = "scores what its rank had" },
    { 0 },
};
static int begin(void **state, const void *conf, const dg_sink_args *args, dg_diag *d)
{
    (void)conf, (void)args, (void)d;
    *state = NULL;
    return 0;
}
static int take(void *state, const dg_sink_batch *in, dg_diag *d)
{
    (void)state, (void)in, (void)d;
    return 0;
}
static int pack(void *state, void **bytes, size_t *n, dg_diag *d)
{
    (void)state, (void)d;
    *bytes = NULL;
    *n = 0;
    return 0;
}
static int merge(void *state, const void *bytes, size_t n, dg_diag *d)
{
    (void)state, (void)bytes, (void)n, (void)d;
    return 0;
}
static int finish(void **state, dg_metrics *m, dg_diag *d)
{
    (void)state, (void)m, (void)d;
    return 0;
}
static const dg_node_class toy_metric = {
    DG_NODE_CLASS,
    .name = "toy.metric",
    .role = DG_ROLE_EVALUATE,
    .brief = "A score.",
    .ports = metric_ports,
    .attrs = metric_attrs,
    .conf_size = sizeof(metric_conf),
    .rules = metric_rules,
    .begin = begin,
    .take = take,
    .pack = pack,
    .merge = merge,
    .finish = finish,
};

const dg_node_class *const fz_toys[] = {
    &toy_noise, &toy_fixed, &toy_embed, &toy_crop, &toy_metric, NULL,
};
