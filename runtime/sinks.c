/* sinks.c: the nodes of a scope that take results on the host: logs, evaluations. */
#include "runtime/session.h"

#include <string.h>

typedef struct sink {
    const dg_node *node;
    void          *state;
} sink;

struct dg_sinks {
    dg_arena *arena, *batch; /* batch: tensors of the batch on its way */
    DG_VEC(sink) sinks;
};

int dg_sinks_open(dg_sinks **out, const dg_scope *scope, const dg_sink_args *args, dg_diag *d)
{
    dg_arena *a = dg_arena_open();
    dg_sinks *s = DG_NEW(a, dg_sinks);
    int       rc = 0;

    s->arena = a;
    for (int i = 0; rc == 0 && i < scope->n_nodes; i++) {
        sink k = { scope->nodes[i], NULL };

        if (!k.node->class->begin)
            continue;
        rc = k.node->class->begin(&k.state, k.node->conf, args, d);
        if (rc == 0)
            DG_PUSH(a, s->sinks, k);
    }
    if (rc < 0)
        (void)dg_sinks_finish(&s, NULL, d);
    *out = s;
    return rc;
}

/* A result on the host: f64 for f64 runs, f32 for the others, i32 for whole numbers. */
static int fetch(dg_arena *a, dg_run *run, int32_t value, dg_tensor *out, dg_diag *d)
{
    const dg_value *v = &run->current->program->values.items[value];
    int64_t         n = dg_shape_elements(v->shape);
    double         *x = DG_NEW_N(a, n, double);
    int             rc = dg_exec_get(run->current->exec, value, x, d);

    *out = (dg_tensor){ DG_F64, v->shape, x };
    if (rc < 0 || v->dtype == DG_F64)
        return rc;
    out->dtype = dg_dtype_is_real(v->dtype) ? DG_F32 : DG_I32;
    out->data = dg_alloc_n(a, (size_t)n, sizeof(float));
    for (int64_t i = 0; i < n; i++)
        if (out->dtype == DG_F32)
            ((float *)out->data)[i] = (float)x[i];
        else
            ((int32_t *)out->data)[i] = (int32_t)x[i];
    return 0;
}

/* The results named after the node, without its name. */
static int take_one(dg_sinks *s, const sink *k, dg_run *run, const dg_stream_batch *batch, dg_diag *d)
{
    const dg_program *p = run->current->program;
    size_t            len = strlen(k->node->id);
    const char      **keys = DG_NEW_N(s->batch, p->results.n + 1, const char *);
    dg_tensor        *in = DG_NEW_N(s->batch, p->results.n + 1, dg_tensor);
    dg_sink_batch     b = { .n = batch->n, .samples = batch->samples, .padding = batch->padding, .keys = keys, .in = in };

    for (int i = 0; i < p->results.n; i++) {
        const char *name = p->results.items[i].name;
        int         rc;

        if (strncmp(name, k->node->id, len) != 0 || name[len] != '.')
            continue;
        keys[b.n_in] = name + len + 1;
        rc = fetch(s->batch, run, p->results.items[i].value, &in[b.n_in++], d);
        if (rc < 0)
            return rc;
    }
    return k->node->class->take(k->state, &b, d);
}

int dg_sinks_take(dg_sinks *s, dg_run *run, const dg_stream_batch *batch, dg_diag *d)
{
    int rc = 0;

    s->batch = dg_arena_open();
    for (int i = 0; rc == 0 && i < s->sinks.n; i++)
        rc = take_one(s, &s->sinks.items[i], run, batch, d);
    dg_arena_close(&s->batch);
    return rc;
}

int dg_sinks_finish(dg_sinks **out, dg_metrics *m, dg_diag *d)
{
    dg_sinks *s = *out;
    int       rc = 0;

    if (!s)
        return 0;
    for (int i = 0; i < s->sinks.n; i++) {
        sink *k = &s->sinks.items[i];
        int   one = k->node->class->finish(&k->state, rc == 0 ? m : NULL, d);

        rc = rc < 0 ? rc : one;
    }
    dg_arena *a = s->arena;

    dg_arena_close(&a);
    *out = NULL;
    return rc;
}
