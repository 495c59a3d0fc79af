/* sinks.c: nodes of a scope that take results on the host: logs, evaluations. */
#include "runtime/sinks.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

typedef struct sink {
    const dg_node *node;
    void *state;
} sink;

struct dg_sinks {
    dg_arena *arena, *batch; /* batch: tensors of the current batch */
    DG_VEC(sink) sinks;
};

int dg_sinks_open(dg_sinks **out, const dg_scope *scope, const dg_sink_args *args, dg_diag *d)
{
    dg_arena *a = dg_arena_open();
    dg_sinks *s = DG_NEW(a, dg_sinks);
    int rc = 0;

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

/* Reads a result: f64 for f64 runs, else f32; integers i32. */
static int fetch_value(dg_arena *a, const dg_compiled *c, int32_t value, dg_tensor *out, dg_diag *d)
{
    const dg_value *v = &c->program->values.items[value];
    int64_t n = dg_shape_elements(v->shape);
    double *x = DG_NEW_N(a, n, double);
    int rc = dg_exec_get(c->exec, value, x, d);

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

/* False where this step has no value for the key, whose zeros are then no numbers of anything. */
static int is_there(bool *there, const dg_compiled *c, const dg_binding *taken, dg_diag *d)
{
    const dg_program *p = c->program;
    double flag = 1;
    int rc = 0;

    for (int i = 0; i < p->results.n && rc == 0; i++) {
        const dg_binding *r = &p->results.items[i];

        if (r->kind == DG_RESULT_TAKEN_THERE && r->index == taken->index &&
            strcmp(r->key, taken->key) == 0)
            rc = dg_exec_get(c->exec, r->value, &flag, d);
    }
    *there = flag != 0;
    return rc;
}

/* True if the node always needs "port.key": its port says so, unless it takes anything. */
static bool is_needed(const dg_node *node, const char *key)
{
    const size_t len = strcspn(key, ".");
    const dg_contract *record;
    bool optional = false;

    for (int i = 0; i < node->n_in && key[len]; i++)
        if (strlen(node->in_ports[i]->name) == len &&
            strncmp(node->in_ports[i]->name, key, len) == 0)
            return node->in_types[i]->kind == DG_TYPE_RECORD &&
                   dg_contract_key(node->in_types[i], key + len + 1, &record, &optional) &&
                   !optional;
    return false;
}

/* Passes the node's inputs to it; nothing if it lacks one that it needs. */
static int take_one(dg_sinks *s, const sink *k, const dg_compiled *c, const dg_feeder_batch *batch,
                    dg_diag *d)
{
    const dg_program *p = c->program;
    const char **keys = DG_NEW_N(s->batch, p->results.n + 1, const char *);
    dg_tensor *in = DG_NEW_N(s->batch, p->results.n + 1, dg_tensor);
    int32_t flag = dg_program_result_of(p, DG_RESULT_FIRED, k->node->number);
    double fired = 1;
    dg_sink_batch b = {
        .n = batch->n, .samples = batch->samples, .padding = batch->padding, .keys = keys, .in = in
    };

    if (flag && dg_exec_get(c->exec, flag, &fired, d) < 0)
        return -DG_EINTERNAL;
    if (fired == 0)
        return 0;
    for (int i = 0; i < p->results.n; i++) {
        const dg_binding *r = &p->results.items[i];
        bool there = false;
        int rc;

        if (r->kind != DG_RESULT_TAKEN || r->index != k->node->number)
            continue;
        rc = is_there(&there, c, r, d);
        if (rc == 0 && !there && is_needed(k->node, r->key))
            return 0;
        keys[b.n_in] = r->key;
        if (rc == 0 && there)
            rc = fetch_value(s->batch, c, r->value, &in[b.n_in++], d);
        if (rc < 0)
            return rc;
    }
    return k->node->class->take(k->state, &b, d);
}

int dg_sinks_take(dg_sinks *s, const dg_compiled *c, const dg_feeder_batch *batch, dg_diag *d)
{
    int rc = 0;

    s->batch = dg_arena_open();
    for (int i = 0; rc == 0 && i < s->sinks.n; i++)
        rc = take_one(s, &s->sinks.items[i], c, batch, d);
    dg_arena_close(&s->batch);
    return rc;
}

/* Merges one sink on rank 0 with what the others have packed. */
static int join_sink(const sink *k, const dg_world *w, dg_diag *d)
{
    const dg_node_class *class = k->node->class;
    const dg_world own = dg_world_of(w, k->node->path);
    void *mine = NULL, *all = NULL;
    size_t n = 0, *sizes = dg_try_alloc((size_t)w->ranks * sizeof *sizes);
    const char *at;
    int rc = sizes ? class->pack(k->state, &mine, &n, d)
                   : dg_fail(d, DG_EMEMORY, DG_NOWHERE, "out-of-memory", "no memory for %d sizes",
                             w->ranks);

    DG_TRY(dg_world_agree(&own, rc, "packed what they have seen", d));
    DG_TRY(dg_world_collect(&own, mine, n, &all, sizes, "gathered what they have seen", d));
    assert(all && sizes);
    at = all;
    for (int r = 0; w->rank == 0 && rc == 0 && r < w->ranks; r++) {
        if (r > 0)
            rc = class->merge(k->state, at, sizes[r], d);
        at += sizes[r];
    }
    rc = dg_world_agree(&own, rc, "joined what they have seen", d);
out:
    free(mine);
    dg_free(all);
    dg_free(sizes);
    return rc;
}

int dg_sinks_join(dg_sinks *s, const dg_graph *g, const dg_world *w, dg_diag *d)
{
    int rc = 0;

    for (int i = 0; i < s->sinks.n && rc == 0; i++)
        if (s->sinks.items[i].node->class->pack && w->ranks > 1 &&
            dg_node_is_dealt(g, s->sinks.items[i].node))
            rc = join_sink(&s->sinks.items[i], w, d);
    return rc;
}

static void write_metrics(dg_str *out, const dg_metrics *m)
{
    const int32_t n[2] = { m->names.n, m->notes.n };

    dg_str_add_n(out, (const char *)n, sizeof n);
    if (m->values.n)
        dg_str_add_n(out, (const char *)m->values.items,
                     (size_t)m->values.n * sizeof *m->values.items);
    for (int i = 0; i < m->names.n; i++)
        dg_str_add_n(out, m->names.items[i], strlen(m->names.items[i]) + 1);
    for (int i = 0; i < m->notes.n; i++)
        dg_str_add_n(out, m->notes.items[i], strlen(m->notes.items[i]) + 1);
}

static void read_metrics(dg_metrics *m, const char *text)
{
    int32_t n[2];
    const char *values = text + sizeof n, *at;

    assert(text);
    memcpy(n, text, sizeof n);
    at = values + (size_t)n[0] * sizeof(double);
    for (int i = 0; i < n[0]; i++, at += strlen(at) + 1) {
        double v;

        memcpy(&v, values + (size_t)i * sizeof v, sizeof v);
        dg_metric(m, v, "%s", at);
    }
    for (int i = 0; i < n[1]; i++, at += strlen(at) + 1)
        dg_metric_note(m, "%s", at);
}

int dg_metrics_share(const dg_world *w, int root, dg_metrics *m, dg_diag *d)
{
    static const char what[] = "shared the scores";
    dg_str text = { 0 };
    uint64_t n;
    char *other = NULL;
    int rc;

    if (w->ranks == 1)
        return 0;
    if (w->rank == root)
        write_metrics(&text, m);
    n = text.n;
    DG_TRY(dg_world_broadcast_from(w, root, &n, sizeof n, what, d));
    other = w->rank == root ? NULL : dg_try_alloc((size_t)n);
    DG_TRY(dg_world_agree(w, w->rank == root || other ? 0 : -DG_EMEMORY, what, d));
    DG_TRY(dg_world_broadcast_from(w, root, w->rank == root ? text.s : other, (size_t)n, what, d));
    if (w->rank != root)
        read_metrics(m, other);
out:
    dg_str_free(&text);
    dg_free(other);
    return rc;
}

int dg_sinks_finish(dg_sinks **out, dg_metrics *m, dg_diag *d)
{
    dg_sinks *s = *out;
    int rc = 0;

    if (!s)
        return 0;
    for (int i = 0; i < s->sinks.n; i++) {
        sink *k = &s->sinks.items[i];
        int one = k->node->class->finish(&k->state, rc == 0 || rc == -DG_EIO ? m : NULL, d);

        rc = rc < 0 ? rc : one;
    }
    dg_arena *a = s->arena;

    dg_arena_close(&a);
    *out = NULL;
    return rc;
}
