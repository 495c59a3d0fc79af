/* run.c: the public interface of a session: parameters by name, programs fed and read by hand. */
#include "runtime/run.h"

#include <string.h>

#include "runtime/programs.h"
#include "runtime/step.h"
#include "weights/weights.h"

/* ---- parameters ------------------------------------------------------------------------------ */

/* Parameter number i of those that have memory; the others exist only in checkpoints. */
static int param_number(const dg_params *params, int i)
{
    for (int k = 0; k < dg_params_n(params); k++)
        if (dg_params_at(params, k)->offset >= 0 && i-- == 0)
            return k;
    return -1;
}

int dg_run_n_params(const dg_run *run)
{
    const dg_params *params = dg_run_programs(run)->conf.params;
    int n = 0;

    for (int k = 0; k < dg_params_n(params); k++)
        n += dg_params_at(params, k)->offset >= 0;
    return n;
}

dg_run_param dg_run_param_at(const dg_run *run, int i)
{
    const dg_params *params = dg_run_programs(run)->conf.params;
    const dg_param_info *p = dg_params_at(params, param_number(params, i));

    return (dg_run_param){ p->name, p->shape, p->kind == DG_TRAINABLE, p->kind == DG_BUFFER };
}

static const dg_space spaces[] = {
    [DG_RUN_WEIGHTS] = DG_WEIGHTS, [DG_RUN_GRADIENTS] = DG_GRADIENTS,
    [DG_RUN_MOMENT1] = DG_MOMENT1, [DG_RUN_MOMENT2] = DG_MOMENT2,
    [DG_RUN_EMA] = DG_EMA,
};

static int find_param(const dg_store *s, dg_run_space space, const char *name, int64_t n, int *out,
                      dg_diag *d)
{
    int i = dg_params_find(s->params, name);
    int64_t elements;

    if (i < 0 || dg_params_at(s->params, i)->offset < 0)
        return dg_fail(d, DG_EINPUT, DG_NOWHERE, "parameter-unknown",
                       "the model has no parameter \"%s\"", name);
    if (!dg_store_has(s, spaces[space], i))
        return dg_fail(d, DG_EINPUT, DG_NOWHERE, "parameter-space", "%s has no %s in this run",
                       name, dg_space_name(spaces[space]));
    elements = dg_shape_elements(dg_params_at(s->params, i)->shape);
    if (n != elements)
        return dg_fail(d, DG_EINPUT, DG_NOWHERE, "parameter-size", "%s has %lld elements, not %lld",
                       name, (long long)elements, (long long)n);
    *out = i;
    return 0;
}

int dg_run_get(dg_run *run, dg_run_space space, const char *name, double *out, int64_t n,
               dg_diag *d)
{
    const dg_store *s = dg_run_programs(run)->store;
    int i = 0, rc = find_param(s, space, name, n, &i, d);

    return rc < 0 ? rc : dg_store_get(s, spaces[space], i, out, d);
}

int dg_run_set(dg_run *run, dg_run_space space, const char *name, const double *in, int64_t n,
               dg_diag *d)
{
    dg_store *s = dg_run_programs(run)->store;
    int i = 0, rc = find_param(s, space, name, n, &i, d);

    return rc < 0 ? rc : dg_store_set(s, spaces[space], i, in, d);
}

int dg_run_reset_ema(dg_run *run, dg_diag *d)
{
    dg_store *s = dg_run_programs(run)->store;

    dg_run_step_state(run)->ema_initial_share = 1;
    return s->space[DG_EMA] ? dg_store_copy(s, DG_EMA, DG_WEIGHTS, d) : 0;
}

int dg_run_load(dg_run *run, const char *file, dg_diag *d)
{
    return dg_run_load_part(run, file, false, d);
}

int dg_run_load_part(dg_run *run, const char *file, bool partial, dg_diag *d)
{
    dg_programs *g = dg_run_programs(run);
    dg_archive *a = NULL;
    int rc;

    DG_TRY(dg_archive_open(&a, file, d));
    DG_TRY(dg_weights_adopt(g->store, a, partial, &g->n_loaded, d));
    DG_TRY(dg_run_reset_ema(run, d));
    dg_run_step_state(run)->ema_initial_share = 0;
    dg_log_line(dg_run_env(run), DG_INFO, "%lld tensor%s from %s%s%s", (long long)g->n_loaded,
                dg_plural(g->n_loaded, "s"), file, a->part ? ", its " : "", a->part ? a->part : "");
    dg_log_warnings(dg_run_env(run), d);
out:
    dg_archive_close(&a);
    return rc;
}

int dg_run_save(dg_run *run, dg_run_space space, const char *file, dg_diag *d)
{
    const dg_store *s = dg_run_programs(run)->store;

    if (space != DG_RUN_WEIGHTS && space != DG_RUN_EMA)
        return dg_fail(d, DG_EINPUT, DG_NOWHERE, "save-space",
                       "weights or averages can be saved, not %s", dg_space_name(spaces[space]));
    if (!s->space[spaces[space]])
        return dg_fail(d, DG_EINPUT, DG_NOWHERE, "parameter-space", "this run keeps no %s",
                       dg_space_name(spaces[space]));
    return dg_weights_save(s, spaces[space], file, NULL, NULL, d);
}

/* ---- programs -------------------------------------------------------------------------------- */

static const dg_scope *find_scope(const dg_run *run, const char *name, dg_diag *d)
{
    const dg_graph *g = dg_run_pipeline(run)->graph;

    if (g->train && (strcmp(name, "train") == 0 || strcmp(name, g->train->id) == 0))
        return g->train;
    for (int i = 0; i < g->n_evaluates; i++)
        if (strcmp(name, "evaluate") == 0 || strcmp(name, g->evaluates[i]->id) == 0)
            return g->evaluates[i];
    dg_fail(d, DG_EINPUT, (dg_where){ .file = g->file }, "scope-unknown",
            "the pipeline has no scope \"%s\"", name);
    return NULL;
}

int dg_run_select(dg_run *run, const char *scope, int64_t w, int64_t h, dg_diag *d)
{
    const dg_scope *s = find_scope(run, scope, d);

    return s ? dg_programs_use(dg_run_programs(run), s, (dg_size){ w, h }, false, d) : -DG_EINPUT;
}

static int none_selected(dg_diag *d)
{
    return dg_fail(d, DG_EINPUT, DG_NOWHERE, "run-not-selected",
                   "no program is selected yet: dg_run_select comes first");
}

static dg_run_tensor describe(const dg_program *p, dg_binding b)
{
    const dg_value *v = &p->values.items[b.value];

    return (dg_run_tensor){ b.name, dg_dtype_is_real(v->dtype) ? DG_F64 : DG_I32, v->shape };
}

int dg_run_n_inputs(const dg_run *run)
{
    const dg_programs *g = dg_run_programs(run);
    const dg_program *p = g->current ? g->current->program : NULL;

    return !p ? 0 : p->inputs.n + (g->feed_draws ? p->draws.n : 0);
}

dg_run_tensor dg_run_input_at(const dg_run *run, int i)
{
    const dg_program *p = dg_run_programs(run)->current->program;

    return describe(p, i < p->inputs.n ? p->inputs.items[i] : p->draws.items[i - p->inputs.n]);
}

int dg_run_n_values(const dg_run *run)
{
    const dg_programs *g = dg_run_programs(run);

    return g->current ? g->visible.n : 0;
}

dg_run_tensor dg_run_value_at(const dg_run *run, int i)
{
    const dg_programs *g = dg_run_programs(run);

    return describe(g->current->program, g->visible.items[i]);
}

int dg_run_feed(dg_run *run, const char *name, const void *data, int64_t n, dg_diag *d)
{
    const dg_compiled *c = dg_run_programs(run)->current;

    for (int i = 0; i < dg_run_n_inputs(run); i++) {
        dg_run_tensor t = dg_run_input_at(run, i);

        if (strcmp(t.name, name) != 0)
            continue;
        if (n != dg_shape_elements(t.shape))
            return dg_fail(d, DG_EINPUT, DG_NOWHERE, "feed-size",
                           "input \"%s\" has %lld elements, not %lld", name,
                           (long long)dg_shape_elements(t.shape), (long long)n);
        if (i >= c->program->inputs.n)
            return dg_exec_draw(c->exec, name, data, d);
        return dg_exec_write(c->exec, c->program->inputs.items[i].value,
                             &(dg_tensor){ t.dtype, t.shape, (void *)(uintptr_t)data }, d);
    }
    return c ? dg_fail(d, DG_EINPUT, DG_NOWHERE, "feed-unknown", "the program has no input \"%s\"",
                       name)
             : none_selected(d);
}

int dg_run_step(dg_run *run, dg_diag *d)
{
    const dg_compiled *c = dg_run_programs(run)->current;
    const dg_world *w = dg_run_world(run);
    dg_progress *p = dg_run_progress(run);
    int64_t batch = 1, sample = p->sample;
    bool updated = false;
    int rc;

    if (!c)
        return none_selected(d);
    if (!c->program->training)
        return dg_fail(d, DG_EINPUT, c->scope->where, "run-not-training",
                       "<%s> only evaluates; select the training scope", c->scope->id);
    if (c->program->inputs.n)
        batch = dg_run_input_at(run, 0).shape.d[0];
    p->sample += batch * w->rank;
    rc = dg_run_train_batch(run, NULL, &updated, d);
    p->sample = sample + (rc == 0 ? batch * w->ranks : 0);
    return rc;
}

int dg_run_forward(dg_run *run, bool ema, dg_diag *d)
{
    dg_programs *g = dg_run_programs(run);
    dg_compiled *c = g->current;
    int rc;

    if (!c)
        return none_selected(d);
    if (ema && !g->store->space[DG_EMA])
        return dg_fail(d, DG_EINPUT, DG_NOWHERE, "parameter-space", "this run keeps no %s",
                       dg_space_name(DG_EMA));
    if (c->program->training)
        return dg_fail(d, DG_EINPUT, c->scope->where, "run-training",
                       "<%s> trains; select an evaluation scope", c->scope->id);
    DG_TRY(dg_compiled_bind(c, &g->memory, g->store, ema, d));
    DG_TRY(dg_run_forward_batch(run, d));
out:
    return rc;
}

int dg_run_read(dg_run *run, const char *name, void *out, int64_t n, dg_diag *d)
{
    const dg_programs *g = dg_run_programs(run);
    const dg_compiled *c = g->current;

    for (int i = 0; i < dg_run_n_values(run); i++) {
        dg_run_tensor t = dg_run_value_at(run, i);
        int rc;

        if (strcmp(t.name, name) != 0)
            continue;
        if (n != dg_shape_elements(t.shape))
            return dg_fail(d, DG_EINPUT, DG_NOWHERE, "read-size",
                           "\"%s\" has %lld elements, not %lld", name,
                           (long long)dg_shape_elements(t.shape), (long long)n);
        if (t.dtype == DG_F64)
            return dg_exec_get(c->exec, g->visible.items[i].value, out, d);
        double *v = dg_try_alloc((size_t)n * sizeof *v);

        rc =
            v ? dg_exec_get(c->exec, g->visible.items[i].value, v, d)
              : dg_fail(d, DG_EMEMORY, DG_NOWHERE, "memory-plan", "no memory to read \"%s\"", name);
        for (int64_t k = 0; rc == 0 && k < n; k++)
            ((int32_t *)out)[k] = (int32_t)v[k];
        dg_free(v);
        return rc;
    }
    return c ? dg_fail(d, DG_EINPUT, DG_NOWHERE, "read-unknown",
                       "the program shows no value \"%s\"", name)
             : none_selected(d);
}

const char *dg_run_folder(const dg_run *run)
{
    const dg_checkpoint_conf *c = &dg_run_pipeline(run)->graph->checkpoint;

    return c->present ? c->to : NULL;
}

int64_t dg_run_step_number(const dg_run *run)
{
    return dg_run_progress(run)->step;
}
