/* toy.c: loader, sampler, augment, batch, conv, norm, head, loss, backward, sgd, ema, score,
 * log, split: as little as the language needs. They compute something, but nobody runs it. */
#include "tests/graph/toy.h"
#include "proof/proof.h"

#include <stdlib.h>
#include <string.h>

/* ---- data ------------------------------------------------------------------------------------ */

typedef struct loader_conf {
    const char *root, *split;
    int64_t images, on_error;
} loader_conf;
static const dg_port loader_ports[] = { DG_OUT_FLAGS("out", "dataset", DG_PORT_VARIES, "images"),
                                        { 0 } };
static const dg_attr loader_attrs[] = {
    DG_PATH(loader_conf, root, NULL, "folder"),
    DG_STR(loader_conf, split, "train", "part of the data"),
    DG_INT(loader_conf, images, 10, 1, 1e9, "how many"),
    DG_ENUM(loader_conf, on_error, 0, "stop|replace", "what an unreadable image does"),
    { 0 },
};
static int loader_open(dg_dataset **data, const void *conf, uint64_t seed, dg_diag *d)
{
    (void)conf, (void)seed;
    *data = NULL;
    return dg_fail(d, DG_EUNSUPPORTED, DG_NOWHERE, "toy-data", "a toy has no data");
}
static const dg_node_class loader = {
    DG_NODE_CLASS,
    .name = "toy.loader",
    .role = DG_ROLE_LOADER,
    .brief = "Nothing to load.",
    .ports = loader_ports,
    .attrs = loader_attrs,
    .conf_size = sizeof(loader_conf),
    .open = loader_open,
};

typedef struct sampler_conf {
    int64_t batch;
    dg_sizes sizes;
    dg_ints steps;
    dg_when until;
    bool shuffle;
} sampler_conf;
static const dg_port sampler_ports[] = { DG_IN("in", "dataset", "what is sampled"),
                                         DG_OUT("out", "picks", "batches"),
                                         { 0 } };
static const dg_attr sampler_attrs[] = {
    DG_BATCH_REQUIRED(sampler_conf, batch, 1, 64, "images at a step"),
    DG_SIZES(sampler_conf, sizes, "32", "image sizes"),
    DG_INTS(sampler_conf, steps, "4", "milestones"),
    DG_WHEN(sampler_conf, until, NULL, "the end"),
    DG_BOOL(sampler_conf, shuffle, true, "random order"),
    { 0 },
};
static int sampler_schedule(dg_schedule *out, const void *conf, const dg_schedule_args *args,
                            dg_diag *d)
{
    (void)conf, (void)args, (void)d;
    *out = (dg_schedule){ 0 };
    return 0;
}
static int sampler_sizes(const void *conf, const dg_size **sizes, int *batch)
{
    const sampler_conf *c = conf;

    *sizes = c->sizes.v;
    *batch = (int)c->batch;
    return c->sizes.n;
}
static void sampler_check(dg_check *k, const void *conf)
{
    const sampler_conf *c = conf;

    for (int i = 0; i < c->sizes.n; i++)
        if (c->sizes.v[i].w % 4 || c->sizes.v[i].h % 4) {
            dg_check_fail(k, "sizes", "toy-sizes", "%lldx%lld is not a multiple of 4",
                          (long long)c->sizes.v[i].w, (long long)c->sizes.v[i].h);
            dg_check_help(k, "round it");
        }
}
static const dg_node_class sampler = {
    DG_NODE_CLASS,
    .name = "toy.sampler",
    .role = DG_ROLE_SAMPLER,
    .brief = "Plans batches.",
    .ports = sampler_ports,
    .attrs = sampler_attrs,
    .conf_size = sizeof(sampler_conf),
    .check = sampler_check,
    .schedule = sampler_schedule,
    .sizes = sampler_sizes,
};

typedef struct flip {
    double p;
    dg_when until;
} flip;
typedef struct augment_conf {
    dg_children ops;
} augment_conf;
static const dg_attr flip_attrs[] = { DG_NUM(flip, p, 0.5, 0, 1, "probability"),
                                      DG_WHEN(flip, until, NULL, "the end"),
                                      { 0 } };
static const dg_attr crop_attrs[] = { DG_NUM_REQUIRED(flip, p, 0, 1, "probability"), { 0 } };
static const dg_child_class augment_children[] = {
    { "flip", flip_attrs, sizeof(flip), 0, "mirrors" },
    { "crop", crop_attrs, sizeof(flip), 1, "cuts" },
    { 0 },
};
static const dg_port augment_ports[] = { DG_IN("in", "picks", "what was picked"),
                                         DG_OUT_FLAGS("out", "samples", DG_PORT_DROPS, "changed"),
                                         { 0 } };
static int augment_item(const void *conf, dg_sample *sm, dg_draw *draw, const dg_clock *clock,
                        dg_diag *d)
{
    (void)conf, (void)sm, (void)draw, (void)clock, (void)d;
    return 0;
}
static const dg_node_class augment = {
    DG_NODE_CLASS,
    .name = "toy.augment",
    .role = DG_ROLE_AUGMENT,
    .brief = "Changes images.",
    .ports = augment_ports,
    .conf_size = sizeof(augment_conf),
    .children = augment_children,
    .children_offset = offsetof(augment_conf, ops),
    .item = augment_item,
};

typedef struct batch_conf {
    int64_t max_objects;
} batch_conf;
static const dg_port batch_ports[] = {
    DG_IN("in", "samples", "samples"),
    DG_OUT_MAIN("images", "f[B,H,W,3]", "pixels"),
    DG_OUT("targets", "{labels:i[B,M],boxes:f[B,N<=M,4]}", "objects"),
    { 0 },
};
static const dg_attr batch_attrs[] = { DG_INT(batch_conf, max_objects, 8, 1, 100, "slots"), { 0 } };
static int batch_feeds(const void *conf, dg_size size, int batch, dg_feed out[], int n)
{
    const batch_conf *c = conf;

    if (n < 3)
        return 3;
    out[0] = (dg_feed){ "images", DG_REAL, DG_SHAPE(batch, size.h, size.w, 3) };
    out[1] = (dg_feed){ "targets.labels", DG_I32, DG_SHAPE(batch, c->max_objects) };
    out[2] = (dg_feed){ "targets.boxes", DG_REAL, DG_SHAPE(batch, c->max_objects, 4) };
    return 3;
}
static int batch_fill(const void *conf, dg_size size, int batch, int slot, dg_sample *sm,
                      void *const data[], dg_diag *d)
{
    (void)conf, (void)size, (void)batch, (void)slot, (void)sm, (void)data, (void)d;
    return 0;
}
static const dg_node_class batch = {
    DG_NODE_CLASS,
    .name = "toy.batch",
    .role = DG_ROLE_BATCH,
    .brief = "Gathers samples.",
    .ports = batch_ports,
    .attrs = batch_attrs,
    .conf_size = sizeof(batch_conf),
    .feeds = batch_feeds,
    .fill = batch_fill,
};

/* ---- network --------------------------------------------------------------------------------- */

typedef struct conv_conf {
    int64_t width, act, lost;
} conv_conf;
static const dg_port conv_ports[] = { DG_IN("in", "f[B,H,W,C]", "a map"),
                                      DG_OUT("out", "f[B,H,W,D]", "another map"),
                                      { 0 } };
static const dg_attr conv_attrs[] = {
    DG_INT(conv_conf, width, 4, 1, 1024, "channels"),
    DG_ENUM(conv_conf, act, 0, "none|relu|silu", "activation"),
    DG_INT(conv_conf, lost, 0, 0, 8, "parameters that lead nowhere"),
    { 0 },
};
static void conv_type(dg_typing *t, const void *conf)
{
    dg_type(t, "out", "f[B,H,W,%lld]", (long long)((const conv_conf *)conf)->width);
}
static void conv_lower(dg_build *b, const void *conf, const dg_val in[], dg_val out[])
{
    const conv_conf *c = conf;
    int64_t k = dg_dim(b, in[0], 3);

    for (int64_t i = 0; i < c->lost; i++)
        dg_param(b, i ? "lost2" : "lost", DG_SHAPE(3), dg_init_zero());
    out[0] =
        dg_conv2d(b, in[0], dg_param(b, "weight", DG_SHAPE(c->width, k, 1, 1), dg_init_fan_in(k)),
                  DG_NONE, 1, 0);
    if (c->act)
        out[0] = c->act == 1 ? dg_relu(b, out[0]) : dg_silu(b, out[0]);
}
static const dg_node_class conv = {
    DG_NODE_CLASS,
    .name = "toy.conv",
    .role = DG_ROLE_BACKBONE,
    .brief = "A 1x1 convolution.",
    .ports = conv_ports,
    .attrs = conv_attrs,
    .conf_size = sizeof(conv_conf),
    .reference = "net",
    .type = conv_type,
    .lower = conv_lower,
};

typedef struct norm_conf {
    bool frozen;
} norm_conf;
static const dg_port norm_ports[] = { DG_IN("in", "f[...,D]", "anything"),
                                      DG_OUT("out", "f[...,D]", "the same, scaled"),
                                      { 0 } };
static const dg_attr norm_attrs[] = { DG_BOOL(norm_conf, frozen, false, "a fixed map"), { 0 } };
static void norm_check(dg_check *k, const void *conf)
{
    if (((const norm_conf *)conf)->frozen && !dg_check_has_pretrained(k))
        dg_check_fail(k, "frozen", "toy-frozen", "frozen without pretrained weights");
}
static void norm_lower(dg_build *b, const void *conf, const dg_val in[], dg_val out[])
{
    int64_t d = dg_dim(b, in[0], -1);

    (void)conf;
    out[0] = dg_layer_norm(b, in[0], dg_param(b, "scale", DG_SHAPE(d), dg_init_const(1)),
                           dg_param(b, "shift", DG_SHAPE(d), dg_init_zero()), 1e-5);
}
static const dg_node_class norm = {
    DG_NODE_CLASS,
    .name = "toy.norm",
    .role = DG_ROLE_ENCODER,
    .brief = "A norm.",
    .ports = norm_ports,
    .attrs = norm_attrs,
    .conf_size = sizeof(norm_conf),
    .reference = "norm",
    .check = norm_check,
    .lower = norm_lower,
};

typedef struct head_conf {
    int64_t classes;
    bool wrong;
} head_conf;
static const dg_port head_ports[] = {
    DG_IN("in", "f[B,H,W,D]", "features"),
    DG_IN_OPTIONAL("hint", "f[B,M,4]", "boxes to begin with"),
    DG_OUT("out", "{logits:f[B,C],extra?:f[B]}", "predictions"),
    { 0 },
};
static const dg_attr head_attrs[] = {
    DG_INT_REQUIRED(head_conf, classes, 1, 1000, "object classes"),
    DG_BOOL(head_conf, wrong, false, "gives something else than it declares"),
    { 0 },
};
static void head_check(dg_check *k, const void *conf)
{
    if (((const head_conf *)conf)->classes == 13 && !dg_check_wired(k, "hint"))
        dg_check_fail(k, NULL, "toy-hint", "13 classes need a hint");
}
static void head_lower(dg_build *b, const void *conf, const dg_val in[], dg_val out[])
{
    const head_conf *c = conf;
    int64_t d = dg_dim(b, in[0], 3);
    dg_val x = dg_mean(b, in[0], 6, false),
           y = dg_linear(b, x,
                         dg_param(b, "weight", DG_SHAPE(c->classes, d),
                                  dg_init_xavier(d, c->classes)),
                         DG_NONE);

    out[0] = dg_record(b);
    dg_record_set(b, out[0], "logits", c->wrong ? dg_reshape(b, y, DG_SHAPE(-1)) : y);
    if (dg_has(in[1]))
        dg_record_set(b, out[0], "extra", dg_sum(b, in[1], 6, false));
}
static const dg_node_class head = {
    DG_NODE_CLASS,
    .name = "toy.head",
    .role = DG_ROLE_DECODER,
    .brief = "Class logits.",
    .ports = head_ports,
    .attrs = head_attrs,
    .conf_size = sizeof(head_conf),
    .reference = "head",
    .check = head_check,
    .lower = head_lower,
};

static const dg_port split_ports[] = {
    DG_IN("in", "f[B,H,W,C]", "a map"),
    DG_OUT("left", "f[B,H,W,C]", "as it is"),
    DG_OUT("right", "f[B,H,W,C]", "also"),
    { 0 },
};
static void split_lower(dg_build *b, const void *conf, const dg_val in[], dg_val out[])
{
    (void)b, (void)conf;
    out[0] = out[1] = in[0];
}
static const dg_node_class split = {
    DG_NODE_CLASS,
    .name = "toy.split",
    .role = DG_ROLE_OTHER,
    .brief = "One map, twice.",
    .ports = split_ports,
    .lower = split_lower,
};

/* ---- training -------------------------------------------------------------------------------- */

static const dg_port loss_ports[] = {
    DG_IN("predictions", "{logits:f[B,C]}", "logits"),
    DG_IN("targets", "{labels:i[B,M]}", "labels"),
    DG_OUT_MAIN("total", "f[]", "sum"),
    DG_OUT("terms", "{loss_*:f[]}", "terms"),
    { 0 },
};
static void loss_type(dg_typing *t, const void *conf)
{
    (void)conf;
    dg_type(t, "terms", "{loss_%s:f[],loss_b:f[]}", "a");
}
static void loss_lower(dg_build *b, const void *conf, const dg_val in[], dg_val out[])
{
    dg_val x = dg_record_get(b, in[0], "logits"),
           a = dg_mean(b, dg_mul(b, x, x), DG_ALL_AXES, false);

    (void)conf;
    out[0] = dg_scale(b, a, 2, 0);
    out[1] = dg_record(b);
    dg_record_set(b, out[1], "loss_a", a);
    dg_record_set(b, out[1], "loss_b", dg_scale(b, a, 1, 1));
}
static const dg_node_class loss = {
    DG_NODE_CLASS,
    .name = "toy.loss",
    .role = DG_ROLE_LOSS,
    .brief = "A loss.",
    .ports = loss_ports,
    .type = loss_type,
    .lower = loss_lower,
};

static const dg_port backward_ports[] = { DG_IN("loss", "f[]", "a scalar"),
                                          DG_OUT("gradients", "gradients", "of all parameters"),
                                          { 0 } };
static void backward_lower(dg_build *b, const void *conf, const dg_val in[], dg_val out[])
{
    (void)conf;
    out[0] = dg_backward(b, in[0], 0);
}
static const dg_node_class backward = {
    DG_NODE_CLASS,
    .name = "toy.backward",
    .role = DG_ROLE_GRADIENT,
    .brief = "Gradients.",
    .ports = backward_ports,
    .lower = backward_lower,
};

typedef struct step_conf {
    double lr;
} step_conf;
static const dg_port step_ports[] = { DG_IN("gradients", "gradients", "gradients"),
                                      DG_OUT("parameters", "parameters", "after the step"),
                                      { 0 } };
static const dg_attr step_attrs[] = { DG_NUM(step_conf, lr, 1e-3, 0, 1, "learning rate"), { 0 } };
static void step_lower(dg_build *b, const void *conf, const dg_val in[], dg_val out[])
{
    static const dg_group rest = { NULL, NULL, 0 };
    const dg_adamw_attr attr = { 0.9, 0.999, 1e-8, 0, 0, 1, &rest };

    (void)conf;
    out[0] = dg_adamw(b, in[0], DG_NONE, &attr);
}
static const dg_node_class step = {
    DG_NODE_CLASS,
    .name = "toy.step",
    .role = DG_ROLE_OPTIMIZER,
    .brief = "An optimizer.",
    .ports = step_ports,
    .attrs = step_attrs,
    .conf_size = sizeof(step_conf),
    .lower = step_lower,
};

static const dg_port ema_ports[] = { DG_IN("of", "parameters", "parameters"),
                                     DG_OUT("parameters", "parameters", "their average"),
                                     { 0 } };
static void ema_lower(dg_build *b, const void *conf, const dg_val in[], dg_val out[])
{
    (void)conf;
    out[0] = dg_ema(b, in[0]);
}
static const dg_node_class ema = {
    DG_NODE_CLASS,
    .name = "toy.ema",
    .role = DG_ROLE_OPTIMIZER,
    .brief = "An average.",
    .ports = ema_ports,
    .lower = ema_lower,
};

static const dg_port score_ports[] = { DG_IN("in", "{logits:f[B,C]}", "predictions"),
                                       DG_OUT("metrics", "metrics", "AP"),
                                       { 0 } };
static int score_begin(void **state, const void *conf, const dg_sink_args *args, dg_diag *d)
{
    (void)conf, (void)args, (void)d;
    *state = NULL;
    return 0;
}
static int score_take(void *state, const dg_sink_batch *in, dg_diag *d)
{
    (void)state, (void)in, (void)d;
    return 0;
}
static int score_finish(void **state, dg_metrics *m, dg_diag *d)
{
    (void)state, (void)m, (void)d;
    return 0;
}
static const dg_node_class score = {
    DG_NODE_CLASS,
    .name = "toy.score",
    .role = DG_ROLE_EVALUATE,
    .brief = "A score.",
    .ports = score_ports,
    .begin = score_begin,
    .take = score_take,
    .finish = score_finish,
};

static const dg_port log_ports[] = { DG_IN("in", "any", "numbers"), { 0 } };
static const dg_node_class log_class = {
    DG_NODE_CLASS,
    .name = "toy.log",
    .role = DG_ROLE_SINK,
    .brief = "Shows numbers.",
    .ports = log_ports,
};

const dg_node_class *const toy_classes[] = {
    &loader, &sampler,  &augment, &batch, &conv,  &norm,      &head, &split,
    &loss,   &backward, &step,    &ema,   &score, &log_class, NULL,
};

/* ---- helpers --------------------------------------------------------------------------------- */

dg_registry *toy_registry(dg_diag *d)
{
    dg_registry *r = dg_registry_open();

    for (int i = 0; toy_classes[i]; i++)
        if (dg_registry_add(r, toy_classes[i], d) < 0)
            break;
    return r;
}

int toy_load(dg_graph **g, dg_registry *r, const char *text, bool check, dg_diag *d)
{
    int rc = dg_graph_parse(g, text, strlen(text), "t.xml", NULL, 0, r, d);

    return rc == 0 && check ? dg_graph_check(*g, d) : rc;
}

static const char *source(void *g, const char *file, size_t *n)
{
    return g ? dg_graph_source(g, file, n) : NULL;
}

char *toy_print(const dg_diag *d, dg_graph *g)
{
    dg_str out = { 0 };

    dg_diag_print(&out, d, source, g, false);
    dg_str_add(&out, "");
    return out.s;
}

static const dg_node *in_scope(const dg_scope *s, const char *path)
{
    for (int i = 0; s && i < s->n_nodes; i++)
        if (strcmp(s->nodes[i]->path, path) == 0)
            return s->nodes[i];
    return NULL;
}

const dg_node *toy_node(const dg_graph *g, const char *path)
{
    const dg_node *n = in_scope(g->train, path);

    for (int i = 0; i < g->n_models && !n; i++)
        n = in_scope(g->models[i], path);
    for (int i = 0; i < g->n_evaluates && !n; i++)
        n = in_scope(g->evaluates[i], path);
    return n;
}
