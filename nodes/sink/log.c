/* log.c: <log>: numbers for the progress line and metrics.jsonl: each averaged over the batches
 * between two reports, tensors also over their elements. */
#include "nodes/builtin.h"

#include <stdlib.h>
#include <string.h>

typedef struct conf {
    int64_t unused;
} conf;

static const dg_port ports[] = {
    DG_IN("in", "any", "a number, a tensor (shown by its mean), or a record of these"),
    { 0 },
};

static const dg_attr attrs[] = {
    { 0 },
};

typedef struct state {
    int64_t n_batches;
    int n;
    double *sums;
    char **keys;
} state;

static int begin_log(void **out, const void *self, const dg_sink_args *args, dg_diag *d)
{
    state *s = calloc(1, sizeof *s);

    (void)self;
    (void)args;
    *out = s;
    return s ? 0 : dg_fail(d, DG_EMEMORY, DG_NOWHERE, "out-of-memory", "no memory for a log");
}

/* Takes the keys from the first batch; they belong to the caller. */
static int open_keys(state *s, const dg_sink_batch *b, dg_diag *d)
{
    s->sums = calloc((size_t)b->n_in + 1, sizeof *s->sums);
    s->keys = calloc((size_t)b->n_in + 1, sizeof *s->keys);
    for (int i = 0; s->sums && s->keys && i < b->n_in; i++) {
        const char *port = "in.", *key = b->keys[i];

        s->keys[i] = strdup(strncmp(key, port, strlen(port)) ? key : key + strlen(port));
        if (!s->keys[i])
            break;
        s->n++;
    }
    return s->n == b->n_in ? 0
                           : dg_fail(d, DG_EMEMORY, DG_NOWHERE, "out-of-memory",
                                     "no memory for a log of %d numbers", b->n_in);
}

static double element(const dg_tensor *t, int64_t i)
{
    switch (t->dtype) {
    case DG_F64:
        return ((const double *)t->data)[i];
    case DG_I32:
        return ((const int32_t *)t->data)[i];
    default:
        return (double)((const float *)t->data)[i];
    }
}

static double mean(const dg_tensor *t)
{
    int64_t n = dg_shape_elements(t->shape);
    double sum = 0;

    for (int64_t i = 0; i < n; i++)
        sum += element(t, i);
    return n ? sum / (double)n : 0;
}

static int take_numbers(void *self, const dg_sink_batch *b, dg_diag *d)
{
    state *s = self;

    if (!s->keys && open_keys(s, b, d))
        return -DG_EMEMORY;
    for (int i = 0; i < s->n && i < b->n_in; i++)
        s->sums[i] += mean(&b->in[i]);
    s->n_batches++;
    return 0;
}

static int finish_log(void **self, dg_metrics *m, dg_diag *d)
{
    state *s = *self;

    (void)d;
    for (int i = 0; i < s->n; i++) {
        if (m && s->n_batches)
            dg_metric(m, s->sums[i] / (double)s->n_batches, "%s", s->keys[i]);
        free(s->keys[i]);
    }
    free(s->keys);
    free(s->sums);
    free(s);
    *self = NULL;
    return 0;
}

const dg_node_class dg_node_log = {
    DG_NODE_CLASS,
    .name = "log",
    .role = DG_ROLE_SINK,
    .brief = "Shows numbers in the progress line and writes them to metrics.jsonl.",
    .ports = ports,
    .attrs = attrs,
    .conf_size = sizeof(conf),
    .begin = begin_log,
    .take = take_numbers,
    .finish = finish_log,
};
