/* log.c: <log>: numbers for the progress line and metrics.jsonl: each averaged over the batches
 * between two reports that have it, tensors also over their elements. */
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

/* The sum of a key over the batches that had it. */
typedef struct number {
    char *key;
    double sum;
    int64_t n;
} number;

typedef struct state {
    int n;
    number *numbers;
} state;

static int begin_log(void **out, const void *self, const dg_sink_args *args, dg_diag *d)
{
    state *s = calloc(1, sizeof *s);

    (void)self;
    (void)args;
    *out = s;
    return s ? 0 : dg_fail(d, DG_EMEMORY, DG_NOWHERE, "out-of-memory", "no memory for a log");
}

/* The number of this key, a new one if there is none yet; NULL: no memory. The key is copied: it
 * belongs to the caller. */
static number *number_of(state *s, const char *key)
{
    const char *port = "in.";
    number *more;

    key += strncmp(key, port, strlen(port)) == 0 ? strlen(port) : 0;
    for (int i = 0; i < s->n; i++)
        if (strcmp(s->numbers[i].key, key) == 0)
            return &s->numbers[i];
    more = realloc(s->numbers, ((size_t)s->n + 1) * sizeof *more);
    if (!more)
        return NULL;
    s->numbers = more;
    more[s->n] = (number){ .key = strdup(key) };
    return more[s->n].key ? &more[s->n++] : NULL;
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

    for (int i = 0; i < b->n_in; i++) {
        number *x = number_of(s, b->keys[i]);

        if (!x)
            return dg_fail(d, DG_EMEMORY, DG_NOWHERE, "out-of-memory",
                           "no memory for a log of %d numbers", b->n_in);
        x->sum += mean(&b->in[i]);
        x->n++;
    }
    return 0;
}

static int finish_log(void **self, dg_metrics *m, dg_diag *d)
{
    state *s = *self;

    (void)d;
    for (int i = 0; i < s->n; i++) {
        if (m)
            dg_metric(m, s->numbers[i].sum / (double)s->numbers[i].n, "%s", s->numbers[i].key);
        free(s->numbers[i].key);
    }
    free(s->numbers);
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
