/* drill.c: a plugin that injects faults. <drill.net> is a detector of a few hundred weights that
 * trains a step in a millisecond; at a given step, one rank kills or stops itself, kills its
 * launcher, exits, fails, makes a NaN, sleeps or leaves a child that does. The fault creates the
 * file `once` and does not recur while that file exists. <drill.loss> is its loss. The other nodes
 * break their declarations: they drop an item, give a rank-dependent number, or omit a tensor. */
#define _GNU_SOURCE
#include <detrgraph/kernel.h>
#include <detrgraph/plugin.h>

#include <fcntl.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* ---- the fault: an op that copies x, and has its moment -------------------------------------- */

enum { NONE, KILL, STOP, EXIT, SEGV, ERROR, NAN_OUT, SLEEP, ORPHAN, FORK, LIE };

typedef struct fault_attr {
    int64_t what, step, rank, batch, ranks;
    double seconds;
    char once[256];
} fault_attr;

static const dg_field fault_fields[] = { { "what", DG_FIELD_INT, offsetof(fault_attr, what), 1 },
                                         { "step", DG_FIELD_INT, offsetof(fault_attr, step), 1 },
                                         { "rank", DG_FIELD_INT, offsetof(fault_attr, rank), 1 },
                                         { 0 } };

/* Creates `once` and writes the time, in seconds since 1970, for tests that measure. */
static bool first_time(const char *once)
{
    struct timespec now;
    char text[64];
    int fd = open(once, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644), n;

    if (fd < 0)
        return false;
    clock_gettime(CLOCK_REALTIME, &now);
    n = snprintf(text, sizeof text, "%lld.%09ld\n", (long long)now.tv_sec, now.tv_nsec);
    n = (int)write(fd, text, (size_t)n);
    close(fd);
    return n > 0;
}

static int happen(const fault_attr *f, const dg_tensor *y)
{
    switch (f->what) {
    case KILL:
        raise(SIGKILL);
        break;
    case STOP:
        raise(SIGSTOP);
        break;
    case ORPHAN:
        kill(getppid(), SIGKILL);
        break;
    case EXIT:
        _exit(3);
    case SEGV:
        signal(SIGSEGV, SIG_DFL);
        raise(SIGSEGV);
        break;
    case ERROR:
        return -DG_EIO;
    case LIE: /* a number that differs from the other ranks' */
        if (y->dtype == DG_F64)
            ((double *)y->data)[0] += 1;
        else
            ((float *)y->data)[0] += 1;
        break;
    case NAN_OUT:
        if (y->dtype == DG_F64)
            ((double *)y->data)[0] = NAN;
        else
            ((float *)y->data)[0] = NAN;
        break;
    case FORK: /* a child that has all open that this process has */
        if (fork() == 0) {
            sleep((unsigned)f->seconds);
            _exit(0);
        }
        break;
    case SLEEP: {
        struct timespec t = { (time_t)f->seconds, (long)(1e9 * (f->seconds - floor(f->seconds))) };

        nanosleep(&t, NULL);
        break;
    }
    default:
        break;
    }
    return 0;
}

/* A rank is identified by its first sample. */
static int fault_run(const dg_args *a)
{
    const fault_attr *f = a->attr;
    size_t n = 1;

    for (int i = 0; i < a->t[0].shape.rank; i++)
        n *= (size_t)a->t[0].shape.d[i];
    if (a->t[0].data != a->t[1].data)
        memcpy(a->t[1].data, a->t[0].data, n * (a->t[0].dtype == DG_F64 ? 8 : 4));
    if (f->what == NONE || a->control->step != f->step ||
        a->control->sample / f->batch % f->ranks != f->rank || !first_time(f->once))
        return 0;
    return happen(f, &a->t[1]);
}

static int fault_shape(dg_infer *s)
{
    s->out[0] = s->in[0];
    return 0;
}

static void fault_grad(dg_build *b, dg_grad_call *g)
{
    (void)b;
    g->din[0] = g->dout[0];
}

static const dg_kernel fault_kernel = { .run = fault_run };
static const dg_op fault = { DG_OP_ROW,
                            .name = "fault",
                            .signature = "x -> y",
                            .effect = DG_PURE,
                            .precision = DG_WIDE,
                            .attr_bytes = sizeof(fault_attr),
                            .fields = fault_fields,
                            .shape = fault_shape,
                            .grad = fault_grad,
                            .ref32 = &fault_kernel,
                            .ref64 = &fault_kernel,
                            .host = &fault_kernel };

/* ---- the net --------------------------------------------------------------------------------- */

typedef struct net_conf {
    int64_t what, step, rank, batch, ranks, width, ballast;
    double seconds;
    const char *once;
} net_conf;

static const dg_port net_ports[] = {
    DG_IN("images", "f[B,H,W,3]", "images"),
    DG_OUT("out", "{logits:f[B,Q,C],boxes:f[B,Q,4]}", "predictions"),
    { 0 },
};
static const dg_attr net_attrs[] = {
    DG_ENUM(net_conf, what, 0, "none|kill|stop|exit|segv|error|nan|sleep|orphan|fork", "the fault"),
    DG_INT(net_conf, step, 5, 0, 1e9, "steps finished before it"),
    DG_INT(net_conf, rank, 0, 0, 1e6, "whose"),
    DG_INT(net_conf, batch, 1, 1, 1e6, "batch of a rank"),
    DG_INT(net_conf, ranks, 1, 1, 1e6, "ranks"),
    DG_INT(net_conf, width, 8, 1, 4096, "channels"),
    DG_INT(net_conf, ballast, 0, 0, 1e9, "elements of a frozen parameter that nobody reads"),
    DG_NUM(net_conf, seconds, 1, 0, 1e6, "of sleep"),
    DG_STR(net_conf, once, "", "file that is made when it happens"),
    { 0 },
};

static void net_lower(dg_build *b, const void *self, const dg_val in[], dg_val out[])
{
    const net_conf *c = self;
    int64_t w = c->width;
    dg_val kernel = dg_param(b, "conv.weight", DG_SHAPE(w, 3, 3, 3), dg_init_fan_in(27)), y;
    dg_val score_w = dg_param(b, "score.weight", DG_SHAPE(2, w), dg_init_fan_in(w));
    dg_val score_b = dg_param(b, "score.bias", DG_SHAPE(2), dg_init_const(-2));
    dg_val box_w = dg_param(b, "box.weight", DG_SHAPE(4, w), dg_init_fan_in(w));
    dg_val box_b = dg_param(b, "box.bias", DG_SHAPE(4), dg_init_zero());
    fault_attr f = { .what = c->what,
                     .step = c->step,
                     .rank = c->rank,
                     .batch = c->batch,
                     .ranks = c->ranks,
                     .seconds = c->seconds };

    if (c->ballast)
        dg_param_frozen(b, "ballast", DG_SHAPE(c->ballast), dg_init_zero());
    strncpy(f.once, c->once, sizeof f.once - 1);
    y = dg_relu(b, dg_conv2d(b, in[0], kernel, DG_NONE, 2, 1));
    y = dg_reshape(b, y, DG_SHAPE(dg_dim(b, y, 0), -1, w));
    if (dg_training(b) && f.what != NONE) {
        dg_val x = y;

        dg_emit(b, &fault, &f, 1, &x, &y);
    }
    out[0] = dg_record(b);
    dg_record_set(b, out[0], "logits", dg_linear(b, y, score_w, score_b));
    dg_record_set(b, out[0], "boxes", dg_sigmoid(b, dg_linear(b, y, box_w, box_b)));
}

static const dg_node_class net = {
    DG_NODE_CLASS,
    .name = "drill.net",
    .role = DG_ROLE_BACKBONE,
    .brief = "A few hundred weights, and a fault.",
    .ports = net_ports,
    .attrs = net_attrs,
    .conf_size = sizeof(net_conf),
    .reference = "net",
    .lower = net_lower,
};

/* ---- the loss -------------------------------------------------------------------------------- */

static const dg_port loss_ports[] = {
    DG_IN("predictions", "{logits:f[B,Q,C],boxes:f[B,Q,4]}", "predictions"),
    DG_IN("targets", "{labels:i[B,M],boxes:f[B,M,4],count:i[B]}", "objects"),
    DG_OUT("total", "f[]", "sum of the terms"),
    DG_OUT("terms", "{loss_class:f[],loss_box:f[]}", "terms"),
    { 0 },
};

static void loss_lower(dg_build *b, const void *self, const dg_val in[], dg_val out[])
{
    dg_val logits = dg_record_get(b, in[0], "logits"), boxes = dg_record_get(b, in[0], "boxes");
    dg_val truth = dg_slice(b, dg_record_get(b, in[1], "boxes"), 1, 0, 1),
           count = dg_real(b, dg_record_get(b, in[1], "count"));
    dg_val wish = dg_reshape(b, dg_scale(b, count, 0.1, 0), DG_SHAPE(dg_dim(b, logits, 0), 1, 1));
    dg_val miss = dg_sub(b, dg_sigmoid(b, logits), wish);
    dg_val a = dg_mean(b, dg_mul(b, miss, miss), DG_ALL_AXES, false);
    dg_val c = dg_mean(b, dg_abs(b, dg_sub(b, boxes, truth)), DG_ALL_AXES, false);

    (void)self;
    out[0] = dg_add(b, a, c);
    out[1] = dg_record(b);
    dg_record_set(b, out[1], "loss_class", a);
    dg_record_set(b, out[1], "loss_box", c);
}

static const dg_node_class loss = {
    DG_NODE_CLASS,
    .name = "drill.loss",
    .role = DG_ROLE_LOSS,
    .brief = "Two terms.",
    .ports = loss_ports,
    .lower = loss_lower,
};

/* ---- augment: faults on a loader thread --- */

typedef struct crop_conf {
    int64_t image, drops;
    const char *once;
} crop_conf;

static const dg_port crop_ports[] = { DG_IN("in", "samples", "samples"),
                                      DG_OUT("out", "samples", "the same"),
                                      { 0 } };
static const dg_attr crop_attrs[] = { DG_INT(crop_conf, image, -1, -1, 1e9, "this image fails"),
                                      DG_INT(crop_conf, drops, -1, -1, 1e9, "this one is dropped"),
                                      DG_STR(crop_conf, once, "",
                                             "file that is made when it happens"),
                                      { 0 } };

static int crop_item(const void *conf, dg_sample *sm, dg_draw *draw, const dg_clock *clock,
                     dg_diag *d)
{
    const crop_conf *c = conf;

    (void)draw, (void)clock;
    if (sm->image_id != c->drops && sm->image_id != c->image)
        return 0;
    (void)first_time(c->once);
    return sm->image_id == c->drops
               ? 1
               : dg_fail(d, DG_EINPUT, DG_NOWHERE, "drill-crop", "image %lld cannot be cropped",
                         (long long)sm->image_id);
}

static const dg_node_class crop = {
    DG_NODE_CLASS,
    .name = "drill.crop",
    .role = DG_ROLE_AUGMENT,
    .brief = "Fails on one image.",
    .ports = crop_ports,
    .attrs = crop_attrs,
    .conf_size = sizeof(crop_conf),
    .item = crop_item,
};

/* Drops the same items, and declares it. */
static const dg_port sieve_ports[] = { DG_IN("in", "samples", "samples"),
                                       DG_OUT_FLAGS("out", "samples", DG_PORT_DROPS,
                                                    "those that are kept"),
                                       { 0 } };
static const dg_node_class sieve = {
    DG_NODE_CLASS,
    .name = "drill.sieve",
    .role = DG_ROLE_AUGMENT,
    .brief = "Drops one image.",
    .ports = sieve_ports,
    .attrs = crop_attrs,
    .conf_size = sizeof(crop_conf),
    .item = crop_item,
};

/* ---- lies: rank-dependent numbers that no table declares --- */

enum { LIES_NOT, LIES_FLAG, LIES_PULSE };

typedef struct lie_conf {
    int64_t lies, step, rank, batch, ranks;
    const char *once;
} lie_conf;

static const dg_attr lie_attrs[] = {
    DG_ENUM(lie_conf, lies, 0, "none|flag|pulse", "who lies"),
    DG_INT(lie_conf, step, 5, 0, 1e9, "steps finished before it"),
    DG_INT(lie_conf, rank, 0, 0, 1e6, "whose"),
    DG_INT(lie_conf, batch, 1, 1, 1e6, "batch of a rank"),
    DG_INT(lie_conf, ranks, 1, 1, 1e6, "ranks"),
    DG_STR(lie_conf, once, "", "file that is made when it happens"),
    { 0 },
};

/* From the host: 0, but 1 once. */
static const dg_port flag_ports[] = { DG_OUT("out", "i[]", "0"), { 0 } };

static double flag_supply(const void *self, dg_supply_args *a)
{
    const lie_conf *c = self;

    return c->lies == LIES_FLAG && a->clock.step == c->step && a->rank == c->rank &&
           first_time(c->once);
}

static const dg_node_class flag = {
    DG_NODE_CLASS,
    .name = "drill.flag",
    .role = DG_ROLE_CONTROL,
    .brief = "0.",
    .ports = flag_ports,
    .attrs = lie_attrs,
    .conf_size = sizeof(lie_conf),
    .supply = flag_supply,
};

/* From an op of its own: 0, but 1 once. */
static const dg_port pulse_ports[] = { DG_OUT("out", "f[]", "0"), { 0 } };

static void pulse_lower(dg_build *b, const void *self, const dg_val in[], dg_val out[])
{
    const lie_conf *c = self;
    dg_val x = dg_number(b, 0);
    fault_attr f = { .what = c->lies == LIES_PULSE ? LIE : NONE,
                     .step = c->step,
                     .rank = c->rank,
                     .batch = c->batch,
                     .ranks = c->ranks };

    (void)in;
    strncpy(f.once, c->once, sizeof f.once - 1);
    dg_emit(b, &fault, &f, 1, &x, out);
}

static const dg_node_class pulse = {
    DG_NODE_CLASS,
    .name = "drill.pulse",
    .role = DG_ROLE_CONTROL,
    .brief = "0.",
    .ports = pulse_ports,
    .attrs = lie_attrs,
    .conf_size = sizeof(lie_conf),
    .lower = pulse_lower,
};

/* From one image on, batches lack a tensor or have one of another shape. `seen` is state that a
 * careless class would keep. */
typedef struct batch_conf {
    int64_t max_objects, lies, image;
} batch_conf;
enum { LIES_ABSENT = 1, LIES_SHAPE };
static _Atomic int seen;

static const dg_port batch_ports[] = {
    DG_IN("in", "samples", "samples"),
    DG_OUT_MAIN("images", "f[B,H,W,3]", "pixels"),
    DG_OUT("targets", "{labels:i[B,M],boxes:f[B,M,4],count:i[B]}", "objects"),
    { 0 },
};
static const dg_attr batch_attrs[] = {
    DG_INT(batch_conf, max_objects, 4, 1, 100, "slots"),
    DG_ENUM(batch_conf, lies, 0, "none|absent|shape", "from that image on"),
    DG_INT(batch_conf, image, -1, -1, 1e9, "this one"),
    { 0 },
};

static int batch_feeds(const void *self, dg_size size, int batch, dg_feed out[], int n)
{
    const batch_conf *c = self;
    int64_t m = c->max_objects, channels = seen && c->lies == LIES_SHAPE ? 4 : 3;
    const dg_feed all[] = { { "images", DG_REAL, DG_SHAPE(batch, size.h, size.w, channels) },
                            { "targets.labels", DG_I32, DG_SHAPE(batch, m) },
                            { "targets.boxes", DG_REAL, DG_SHAPE(batch, m, 4) },
                            { "targets.count", DG_I32, DG_SHAPE(batch) } };
    int have = seen && c->lies == LIES_ABSENT ? 3 : 4;

    for (int i = 0; i < have && i < n; i++)
        out[i] = all[i];
    return have;
}

static int batch_fill(const void *self, dg_size size, int batch, int slot, dg_sample *sm,
                      void *const data[], dg_diag *d)
{
    const batch_conf *c = self;

    (void)batch, (void)d;
    if (c->image >= 0 && sm->image_id == c->image)
        seen = 1;
    if (data[0])
        dg_image_to_f32((float *)data[0] + slot * size.h * size.w * 3, &sm->image);
    return 0;
}

static const dg_node_class careless = {
    DG_NODE_CLASS,
    .name = "drill.batch",
    .role = DG_ROLE_BATCH,
    .brief = "Pixels, and no objects.",
    .ports = batch_ports,
    .attrs = batch_attrs,
    .conf_size = sizeof(batch_conf),
    .feeds = batch_feeds,
    .fill = batch_fill,
};

/* Deals items; after the first epoch it omits a rank's last one, so ranks end up with different
 * counts. */
typedef struct deal_conf {
    const char *axis;
    int64_t rank;
} deal_conf;

static const dg_port deal_ports[] = { DG_IN("in", "dataset", "images"),
                                      DG_OUT("out", "dataset", "this rank's"),
                                      { 0 } };
static const dg_attr deal_attrs[] = { DG_AXES_REQUIRED(deal_conf, axis, "mesh axis"),
                                      DG_INT(deal_conf, rank, -1, -1, 1e6, "who loses one"),
                                      { 0 } };
static const dg_rule deal_rules[] = {
    { DG_RULE_VALUE, .to = "out", .axis = "axis", .why = "deals items over the axis" }, { 0 }
};

static int deal_choose(dg_choice *out, const void *self, const dg_choose_args *a, dg_diag *d)
{
    int32_t *own = a->alloc(a->arena, (size_t)(a->n + 1) * sizeof *own);
    int64_t n = a->n / a->ranks;

    (void)d;
    for (int64_t i = 0; i < n; i++)
        own[i] = a->items[i * a->ranks + a->rank];
    *out = (dg_choice){ n - (a->epoch > 0 && a->rank == ((const deal_conf *)self)->rank), own };
    return 0;
}

static const dg_node_class deal = {
    DG_NODE_CLASS,
    .name = "drill.deal",
    .role = DG_ROLE_SAMPLER,
    .brief = "Deals items.",
    .ports = deal_ports,
    .attrs = deal_attrs,
    .conf_size = sizeof(deal_conf),
    .rules = deal_rules,
    .choose = deal_choose,
};

DG_PLUGIN("drill", "1", &net, &loss, &crop, &sieve, &flag, &pulse, &careless, &deal);
