/* toy.c: see toy.h. */
#include "tests/train/toy.h"

#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"

enum { CLASSES = 2, WIDTH = 8 };

/* ---- the net --------------------------------------------------------------------------------- */

typedef struct net_conf {
    int64_t width, ballast;
    bool fixed;
} net_conf;
static const dg_port net_ports[] = {
    DG_IN("images", "f[B,H,W,3]", "images"),
    DG_OUT("out", "{logits:f[B,Q,C],boxes:f[B,Q,4]}", "predictions"),
    { 0 },
};
static const dg_attr net_attrs[] = {
    DG_INT(net_conf, width, WIDTH, 1, 64, "channels"),
    DG_INT(net_conf, ballast, 0, 0, 1e9, "elements of a frozen parameter that nobody reads"),
    DG_BOOL(net_conf, fixed, false, "norm by running statistics: no image depends on another"),
    { 0 },
};

static dg_val norm(dg_build *b, dg_val x, int64_t width, bool fixed)
{
    dg_shape shape = DG_SHAPE(width);
    dg_val s = dg_param(b, "norm.weight", shape, dg_init_const(1)),
           k = dg_param(b, "norm.bias", shape, dg_init_zero());
    dg_val m = dg_buffer(b, "norm.running_mean", shape, dg_init_zero()),
           v = dg_buffer(b, "norm.running_var", shape, dg_init_const(1));
    dg_val mean, var, y;

    dg_export_counter(b, "norm.num_batches_tracked");
    if (fixed || !dg_training(b))
        return dg_batch_norm_fixed(b, x, s, k, m, v, 1e-5);
    y = dg_batch_norm(b, x, s, k, 1e-5, &mean, &var);
    dg_stat_update(b, m, v, mean, var, dg_dim(b, x, 0) * dg_dim(b, x, 1) * dg_dim(b, x, 2), 0.1);
    return y;
}

static void net_lower(dg_build *b, const void *self, const dg_val in[], dg_val out[])
{
    int64_t w = ((const net_conf *)self)->width;
    dg_val x =
        dg_conv2d(b, in[0], dg_param(b, "conv.weight", DG_SHAPE(w, 3, 3, 3), dg_init_fan_in(27)),
                  DG_NONE, 2, 1);
    dg_val y = dg_relu(b, norm(b, x, w, ((const net_conf *)self)->fixed));
    dg_val tokens = dg_reshape(b, y, DG_SHAPE(dg_dim(b, y, 0), -1, w));
    dg_val score_w = dg_param(b, "score.weight", DG_SHAPE(CLASSES, w), dg_init_fan_in(w));
    dg_val score_b = dg_param(b, "score.bias", DG_SHAPE(CLASSES), dg_init_const(-2));
    dg_val box_w = dg_param(b, "box.weight", DG_SHAPE(4, w), dg_init_fan_in(w));
    dg_val box_b = dg_param(b, "box.bias", DG_SHAPE(4), dg_init_zero());
    dg_val logits = dg_linear(b, tokens, score_w, score_b),
           boxes = dg_linear(b, tokens, box_w, box_b);

    if (((const net_conf *)self)->ballast)
        dg_param_frozen(b, "ballast", DG_SHAPE(((const net_conf *)self)->ballast), dg_init_zero());
    out[0] = dg_record(b);
    dg_record_set(b, out[0], "logits", dg_name(b, logits, "logits"));
    dg_record_set(b, out[0], "boxes", dg_sigmoid(b, boxes));
}

static const dg_rule net_rules[] = {
    { DG_RULE_STATE, .from = "images", .when = "!fixed",
      .why = "keeps running statistics of the images that it sees", .flags = DG_RULE_TRAIN },
    { 0 },
};
static const dg_node_class net = {
    DG_NODE_CLASS,
    .name = "toy.net",
    .role = DG_ROLE_BACKBONE,
    .brief = "A few hundred weights.",
    .ports = net_ports,
    .attrs = net_attrs,
    .conf_size = sizeof(net_conf),
    .reference = "net",
    .lower = net_lower,
    .rules = net_rules,
};

/* ---- the loss -------------------------------------------------------------------------------- */

typedef struct loss_conf {
    double breaks;
    bool cliff;
} loss_conf;
static const dg_port loss_ports[] = {
    DG_IN("predictions", "{logits:f[B,Q,C],boxes:f[B,Q,4]}", "predictions"),
    DG_IN("targets", "{labels:i[B,M],boxes:f[B,M,4],count:i[B]}", "objects"),
    DG_OUT("total", "f[]", "sum of the terms"),
    DG_OUT("terms", "{loss_class:f[],loss_box:f[]}", "terms"),
    { 0 },
};
static const dg_attr loss_attrs[] = {
    DG_NUM(loss_conf, breaks, 1e6, 0, 1e9, "objects of an image that make the loss NaN"),
    DG_BOOL(loss_conf, cliff, false, "a term that is 0 and infinitely steep"),
    { 0 }
};

/* class: scores towards the number of objects; box: boxes towards the first object's, shaken. */
static void loss_lower(dg_build *b, const void *self, const dg_val in[], dg_val out[])
{
    dg_val logits = dg_record_get(b, in[0], "logits"), boxes = dg_record_get(b, in[0], "boxes");
    dg_val truth = dg_slice(b, dg_record_get(b, in[1], "boxes"), 1, 0, 1),
           count = dg_real(b, dg_record_get(b, in[1], "count"));
    dg_val wish = dg_reshape(b, dg_scale(b, count, 0.1, 0), DG_SHAPE(dg_dim(b, logits, 0), 1, 1));
    dg_val miss = dg_sub(b, dg_sigmoid(b, logits), wish);
    dg_val noise = dg_scale(b, dg_uniform(b, "shake", DG_SHAPE(dg_dim(b, boxes, 0), 1, 4)), 0.1, 0);
    dg_val off = dg_abs(b, dg_sub(b, boxes, dg_add(b, truth, noise)));
    dg_val room = dg_scale(b, dg_reduce_max(b, count, DG_ALL_AXES, false), -1,
                           ((const loss_conf *)self)->breaks);
    dg_val a = dg_mean(b, dg_mul(b, miss, miss), DG_ALL_AXES, false);
    dg_val c = dg_add(b, dg_mean(b, off, DG_ALL_AXES, false), dg_scale(b, dg_log(b, room), 0, 0));

    out[0] = dg_add(b, a, c);
    if (((const loss_conf *)self)->cliff)
        out[0] = dg_add(b, out[0], dg_sqrt(b, dg_sub(b, a, dg_detach(b, a))));
    out[1] = dg_record(b);
    dg_record_set(b, out[1], "loss_class", a);
    dg_record_set(b, out[1], "loss_box", c);
}

static const dg_node_class loss = {
    DG_NODE_CLASS,
    .name = "toy.loss",
    .role = DG_ROLE_LOSS,
    .brief = "Two terms.",
    .ports = loss_ports,
    .attrs = loss_attrs,
    .conf_size = sizeof(loss_conf),
    .lower = loss_lower,
};

/* ---- data of which one item cannot be read --------------------------------------------------- */

typedef struct data_conf {
    int64_t images, broken;
} data_conf;
typedef struct set {
    dg_dataset pub;
    data_conf conf;
} set;
static const dg_coco_class data_classes[] = { { 1, "dark" }, { 2, "light" } };
static const dg_port data_ports[] = { DG_OUT("out", "dataset", "gray images with one box each"),
                                      { 0 } };
static const dg_attr data_attrs[] = {
    DG_INT(data_conf, images, 40, 1, 1000, "how many"),
    DG_INT(data_conf, broken, -1, -1, 1000,
           "the first that cannot be read; those behind it cannot, either"),
    { 0 },
};

static void data_info(void *self, int item, dg_item_info *out)
{
    (void)self;
    *out = (dg_item_info){ .id = item, .name = "gray", .w = 32, .h = 32, .n_objects = 1 };
}

static int data_sample(void *self, int item, dg_sample *out, dg_scratch *s, dg_diag *d)
{
    const set *x = self;
    int rc;

    if (x->conf.broken >= 0 && item >= x->conf.broken)
        return dg_fail(d, DG_EINPUT, DG_NOWHERE, "toy-broken", "item %d is broken", item);
    *out = (dg_sample){ .size = sizeof *out,
                        .path = "gray",
                        .orig_w = 32,
                        .orig_h = 32,
                        .n_objects = 1,
                        .image_id = item,
                        .scratch = s };
    rc = dg_image_new(&out->image, s, 32, 32, d);
    out->objects = rc < 0 ? NULL : dg_scratch_alloc(s, sizeof *out->objects);
    if (!out->objects)
        return -DG_EMEMORY;
    memset(out->image.rgb, 6 * item, sizeof(uint8_t[32 * 32 * 3]));
    out->objects[0] =
        (dg_object){ .box = { 4, 4, 12 + item % 16, 20 }, .label = item % 2, .area = 100 };
    return 0;
}

static void data_close(void *self)
{
    free(self);
}

static int data_open(dg_dataset **out, const void *conf, uint64_t seed, dg_diag *d)
{
    set *x = calloc(1, sizeof *x);

    (void)seed, (void)d;
    assert_non_null(x);
    x->conf = *(const data_conf *)conf;
    x->pub = (dg_dataset){ .size = sizeof x->pub,
                           .n_items = (int)x->conf.images,
                           .n_classes = 2,
                           .classes = data_classes,
                           .self = x,
                           .info = data_info,
                           .sample = data_sample,
                           .close = data_close };
    *out = &x->pub;
    return 0;
}

static const dg_node_class data = {
    DG_NODE_CLASS,
    .name = "toy.data",
    .role = DG_ROLE_LOADER,
    .brief = "Gray images.",
    .ports = data_ports,
    .attrs = data_attrs,
    .conf_size = sizeof(data_conf),
    .open = data_open,
};

const dg_node_class *const toy_classes[] = { &net, &loss, &data, NULL };

const char *toy_pipeline(dg_arena *a, toy_text t)
{
    return dg_printf(a,
                     "<pipeline version=\"1\" name=\"toy\" seed=\"3\">\n"
                     "  <let scenes=\"40\" batch=\"4\" lr=\"1e-2\" width=\"8\" ballast=\"0\"/>\n"
                     "  <model id=\"m\"><input id=\"images\"/><toy.net id=\"net\" "
                     "images=\"@images\" width=\"$width\" ballast=\"$ballast\" %s/></model>\n"
                     "  <train %s>\n"
                     "    <loader.synthetic id=\"data\" images=\"$scenes\" width=\"32\" "
                     "height=\"32\" classes=\"2\" max_objects=\"3\" seed=\"1\"/>\n"
                     "    <sampler.bucket id=\"pick\" in=\"@data\" batch=\"$batch\" sizes=\"32\" "
                     "tail=\"drop\"/>\n"
                     "    <augment id=\"aug\" in=\"@pick\"><flip p=\"0.5\"/></augment>\n"
                     "    <batch id=\"b\" in=\"@aug\" max_objects=\"4\"/>\n"
                     "    <use id=\"out\" model=\"m\" images=\"@b.images\"/>\n"
                     "    <toy.loss id=\"loss\" predictions=\"@out\" targets=\"@b.targets\" %s/>\n"
                     "    <backward id=\"grad\" loss=\"@loss.total\"/>\n"
                     "    <optimizer.adamw id=\"opt\" gradients=\"@grad\" lr=\"$lr\" clip=\"1\"/>\n"
                     "    <ema id=\"ema\" of=\"@opt\" decay=\"0.9\" warmup=\"5\"/>\n"
                     "    <log in=\"@loss.terms\"/>\n"
                     "  </train>\n"
                     "  <evaluate weights=\"@ema\" %s>\n"
                     "    <loader.synthetic id=\"data\" images=\"9\" width=\"32\" height=\"32\" "
                     "classes=\"2\" max_objects=\"3\" seed=\"2\"/>\n"
                     "    <sampler.bucket id=\"pick\" in=\"@data\" batch=\"$batch\" sizes=\"32\" "
                     "shuffle=\"false\" tail=\"keep\"/>\n"
                     "    <batch id=\"b\" in=\"@pick\" max_objects=\"4\"/>\n"
                     "    <use id=\"out\" model=\"m\" images=\"@b.images\"/>\n"
                     "    <detect id=\"found\" in=\"@out\" most=\"20\"/>\n"
                     "    <evaluate.coco id=\"coco\" in=\"@found\"/>\n"
                     "  </evaluate>\n"
                     "  %s\n"
                     "</pipeline>\n",
                     t.net ? t.net : "", t.train ? t.train : "steps=\"12\"", t.loss ? t.loss : "",
                     t.evaluate ? t.evaluate : "every=\"6 steps\"", t.end ? t.end : "");
}

/* ---- running --------------------------------------------------------------------------------- */

int toy_set_up(void **state)
{
    toy *t = calloc(1, sizeof *t);

    snprintf(t->folder, sizeof t->folder, "/tmp/detrgraph-train-XXXXXX");
    if (!mkdtemp(t->folder)) {
        free(t);
        return -1;
    }
    t->arena = dg_arena_open();
    t->d = dg_diag_open();
    *state = t;
    return 0;
}

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *at)
{
    (void)st, (void)type, (void)at;
    return remove(path);
}

int toy_tear_down(void **state)
{
    toy *t = *state;

    nftw(t->folder, remove_one, 16, FTW_DEPTH | FTW_PHYS);
    dg_str_free(&t->log);
    dg_diag_close(&t->d);
    dg_arena_close(&t->arena);
    free(t);
    return 0;
}

char *toy_path(toy *t, const char *name)
{
    return dg_path_join(t->arena, t->folder, name);
}

static void log_line(void *ctx, int level, const char *line)
{
    toy *t = ctx;

    (void)level;
    dg_str_fmt(&t->log, "%s\n", line);
}

dg_run *toy_open(toy *t, const char *text, int n, const char *const *sets)
{
    const dg_run_options o = {
        .size = sizeof o,
        .file = "toy.xml",
        .text = text,
        .n_sets = n,
        .sets = sets,
        .threads = t->threads ? t->threads : 1,
        .classes = toy_classes,
        .device = getenv("DETRGRAPH_DEVICE"),
        .log = log_line,
        .log_ctx = t,
    };
    dg_run *run;

    return dg_run_open(&run, &o, t->d) < 0 ? NULL : run;
}

static void report(void *ctx, const dg_run_report *r)
{
    toy *t = ctx;

    t->n_reports += !r->scope;
    if (!r->scope && t->after_step)
        t->after_step(t);
    t->n_evaluations += r->scope != NULL;
}

static int stop(void *ctx)
{
    toy *t = ctx;

    return t->stop_at && t->n_reports >= t->stop_at;
}

int toy_train(toy *t, const char *text, dg_run_train_options o)
{
    dg_run *run = toy_open(t, text, 0, NULL);
    int rc;

    if (!run)
        fail_msg("%s", dg_diag_text(t->d));
    o.size = sizeof o;
    o.stop = stop;
    o.report = report;
    o.ctx = t;
    t->n_reports = t->n_evaluations = 0;
    rc = dg_run_train(run, &o, t->d);
    dg_run_close(&run);
    return rc;
}
