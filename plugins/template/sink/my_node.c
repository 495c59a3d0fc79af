/* my.node: counting error of a detector: the mean over images of |objects found - objects
 * present|. */
#include <detrgraph/plugin.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* The attributes of the element; the engine fills it from the table below. */
typedef struct conf {
    double least;
    const char *axis;
} conf;

/* B images with K detections each */
static const dg_port ports[] = {
    DG_IN("in", "{labels:i[B,K],scores:f[B,K],boxes:f[B,K,4]}",
          "the K best detections of each image"),
    DG_OUT("metrics", "metrics", "miscount"),
    { 0 },
};

/* member, default, minimum, maximum, description */
static const dg_attr attrs[] = {
    DG_NUM(conf, least, 0.5, 0, 1, "score from which on a detection counts"),
    DG_AXES(conf, axis, NULL,
            "mesh axis whose ranks are joined; without it the number is that of one rank's images"),
    { 0 },
};

/* A number over all images, independent of their order and of the rank that saw them. */
static const dg_rule rules[] = {
    { DG_RULE_METRIC, .to = "metrics", .from = "in", .axis = "axis",
      .why = "counts in the images of all ranks" },
    { 0 },
};

/* What a checkpoint can be chosen by. */
static const dg_metric_row metrics[] = { { .names = "miscount" }, { 0 } };

/* Sent between ranks: numbers only, no pointers. */
typedef struct tally {
    double off;
    int64_t n_images;
} tally;

typedef struct state {
    const conf *conf;
    const dg_dataset *data;
    tally t;
} state;

static int begin(void **out, const void *self, const dg_sink_args *args, dg_diag *d)
{
    state *s = calloc(1, sizeof *s);

    if (!s)
        return dg_fail(d, DG_EMEMORY, DG_NOWHERE, "out-of-memory", "no memory to count");
    s->conf = self;
    s->data = args->data;
    *out = s;
    return 0;
}

/* Element i of a result, which is f32, or f64 if the pipeline says so. */
static double number(const dg_tensor *t, int64_t i)
{
    return t->dtype == DG_F64 ? ((const double *)t->data)[i] : (double)((const float *)t->data)[i];
}

/* Adds one batch. Padding slots have results too; they do not count. */
static int take(void *self, const dg_sink_batch *b, dg_diag *d)
{
    state *s = self;
    const dg_tensor *scores = NULL;

    (void)d;
    for (int i = 0; i < b->n_in; i++)
        scores = strcmp(b->keys[i], "in.scores") == 0 ? &b->in[i] : scores;
    for (int slot = 0; slot < b->n && scores; slot++) {
        int64_t k = scores->shape.d[1], found = 0;
        dg_item_info there;

        if (b->padding[slot])
            continue;
        for (int64_t i = slot * k; i < (slot + 1) * k; i++)
            found += number(scores, i) >= s->conf->least;
        s->data->info(s->data->self, b->samples[slot].item, &there);
        s->t.off += fabs((double)(found - there.n_objects));
        s->t.n_images++;
    }
    return 0;
}

/* m is NULL if the evaluation is abandoned. */
static int finish(void **self, dg_metrics *m, dg_diag *d)
{
    state *s = *self;

    (void)d;
    if (m)
        dg_metric(m, s->t.n_images ? s->t.off / (double)s->t.n_images : -1, "miscount");
    free(s);
    *self = NULL;
    return 0;
}

/* On several ranks, each packs its counts and rank 0 adds them to its own. */
static int pack(void *self, void **bytes, size_t *n, dg_diag *d)
{
    const state *s = self;

    *n = sizeof s->t;
    *bytes = malloc(*n);
    if (!*bytes)
        return dg_fail(d, DG_EMEMORY, DG_NOWHERE, "out-of-memory", "no memory to send a count");
    memcpy(*bytes, &s->t, *n);
    return 0;
}

static int merge(void *self, const void *bytes, size_t n, dg_diag *d)
{
    state *s = self;
    tally other;

    if (n != sizeof other)
        return dg_fail(d, DG_EINTERNAL, DG_NOWHERE, "count-size",
                       "a rank sent %zu bytes, where a count has %zu", n, sizeof other);
    memcpy(&other, bytes, n);
    s->t.off += other.off;
    s->t.n_images += other.n_images;
    return 0;
}

static const dg_node_class node_class = {
    DG_NODE_CLASS,
    .name = "my.node",
    .role = DG_ROLE_EVALUATE,
    .brief = "How well a detector counts objects.",
    .ports = ports,
    .attrs = attrs,
    .conf_size = sizeof(conf),
    .rules = rules,
    .metrics = metrics,
    .begin = begin,
    .take = take,
    .finish = finish,
    .pack = pack,
    .merge = merge,
};

DG_PLUGIN("my_node", "1.0", &node_class);
