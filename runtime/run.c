/* run.c: the session as the outside sees it: parameters by name, programs fed and read by hand. */
#include "runtime/session.h"

#include <string.h>

#include "runtime/weights.h"

/* ---- parameters ------------------------------------------------------------------------------------------ */

/* Parameter number i of those that have memory; the others only checkpoints see. */
static int param_number(const dg_run *run, int i)
{
    for (int k = 0; k < dg_params_n(run->params); k++)
        if (dg_params_at(run->params, k)->offset >= 0 && i-- == 0)
            return k;
    return -1;
}

int dg_run_n_params(const dg_run *run)
{
    int n = 0;

    for (int k = 0; k < dg_params_n(run->params); k++)
        n += dg_params_at(run->params, k)->offset >= 0;
    return n;
}

dg_run_param dg_run_param_at(const dg_run *run, int i)
{
    const dg_param_info *p = dg_params_at(run->params, param_number(run, i));

    return (dg_run_param){ p->name, p->shape, p->kind == DG_TRAINABLE, p->kind == DG_BUFFER };
}

static const dg_space spaces[] = {
    [DG_RUN_WEIGHTS] = DG_WEIGHTS, [DG_RUN_GRADIENTS] = DG_GRADIENTS, [DG_RUN_MOMENT1] = DG_MOMENT1,
    [DG_RUN_MOMENT2] = DG_MOMENT2, [DG_RUN_EMA] = DG_EMA,
};

static int find_param(const dg_run *run, dg_run_space space, const char *name, int64_t n, int *out, dg_diag *d)
{
    int i = dg_params_find(run->params, name);

    if (i < 0 || dg_params_at(run->params, i)->offset < 0)
        return dg_fail(d, DG_EINPUT, DG_NOWHERE, "parameter-unknown", "the model has no parameter \"%s\"", name);
    if (!dg_store_has(run->store, spaces[space], i))
        return dg_fail(d, DG_EINPUT, DG_NOWHERE, "parameter-space", "%s has no %s in this run", name,
                       dg_space_name(spaces[space]));
    if (n != dg_shape_elements(dg_params_at(run->params, i)->shape))
        return dg_fail(d, DG_EINPUT, DG_NOWHERE, "parameter-size", "%s has %lld elements, not %lld", name,
                       (long long)dg_shape_elements(dg_params_at(run->params, i)->shape), (long long)n);
    *out = i;
    return 0;
}

int dg_run_get(dg_run *run, dg_run_space space, const char *name, double *out, int64_t n, dg_diag *d)
{
    int i, rc = find_param(run, space, name, n, &i, d);

    return rc < 0 ? rc : dg_store_get(run->store, spaces[space], i, out, d);
}

int dg_run_set(dg_run *run, dg_run_space space, const char *name, const double *in, int64_t n, dg_diag *d)
{
    int i, rc = find_param(run, space, name, n, &i, d);

    return rc < 0 ? rc : dg_store_set(run->store, spaces[space], i, in, d);
}

int dg_run_reset_ema(dg_run *run, dg_diag *d)
{
    run->fresh = 1;
    return run->store->space[DG_EMA] ? dg_store_copy(run->store, DG_EMA, DG_WEIGHTS, d) : 0;
}

int dg_run_load(dg_run *run, const char *file, dg_diag *d)
{
    return dg_run_load_part(run, file, false, d);
}

int dg_run_load_part(dg_run *run, const char *file, bool partial, dg_diag *d)
{
    dg_archive *a = NULL;
    int         rc;

    DG_TRY(dg_archive_open(&a, file, d));
    DG_TRY(dg_weights_adopt(run->store, a, partial, &run->n_loaded, d));
    DG_TRY(dg_run_reset_ema(run, d));
    run->fresh = 0;
    dg_log_line(&run->env, DG_INFO, "%lld tensors from %s%s%s", (long long)run->n_loaded, file, a->part ? ", its " : "",
                a->part ? a->part : "");
    dg_run_log_warnings(run, d);
out:
    dg_archive_close(&a);
    return rc;
}

int dg_run_save(dg_run *run, dg_run_space space, const char *file, dg_diag *d)
{
    if (space != DG_RUN_WEIGHTS && space != DG_RUN_EMA)
        return dg_fail(d, DG_EINPUT, DG_NOWHERE, "save-space", "weights or averages can be saved, not %s",
                       dg_space_name(spaces[space]));
    if (!run->store->space[spaces[space]])
        return dg_fail(d, DG_EINPUT, DG_NOWHERE, "parameter-space", "this run keeps no %s", dg_space_name(spaces[space]));
    return dg_weights_save(run->store, spaces[space], file, NULL, d);
}

/* ---- programs -------------------------------------------------------------------------------------------- */

static const dg_scope *find_scope(const dg_run *run, const char *name, dg_diag *d)
{
    const dg_graph *g = run->graph;

    if (g->train && (strcmp(name, "train") == 0 || strcmp(name, g->train->id) == 0))
        return g->train;
    for (int i = 0; i < g->n_evaluates; i++)
        if (strcmp(name, "evaluate") == 0 || strcmp(name, g->evaluates[i]->id) == 0)
            return g->evaluates[i];
    dg_fail(d, DG_EINPUT, (dg_where){ .file = g->file }, "scope-unknown", "the pipeline has no scope \"%s\"", name);
    return NULL;
}

int dg_run_select(dg_run *run, const char *scope, int64_t w, int64_t h, dg_diag *d)
{
    const dg_scope *s = find_scope(run, scope, d);

    return s ? dg_run_use(run, s, (dg_size){ w, h }, false, d) : -DG_EINPUT;
}

static int none_selected(dg_diag *d)
{
    return dg_fail(d, DG_EINPUT, DG_NOWHERE, "run-not-selected", "no program is selected yet: dg_run_select comes first");
}

static dg_run_tensor describe(const dg_run *run, dg_binding b)
{
    const dg_value *v = &run->current->program->values.items[b.value];

    return (dg_run_tensor){ b.name, dg_dtype_is_real(v->dtype) ? DG_F64 : DG_I32, v->shape };
}

int dg_run_n_inputs(const dg_run *run)
{
    const dg_program *p = run->current ? run->current->program : NULL;

    return !p ? 0 : p->inputs.n + (run->o.feed_draws ? p->draws.n : 0);
}

dg_run_tensor dg_run_input_at(const dg_run *run, int i)
{
    const dg_program *p = run->current->program;

    return describe(run, i < p->inputs.n ? p->inputs.items[i] : p->draws.items[i - p->inputs.n]);
}

int dg_run_n_values(const dg_run *run)
{
    return run->current ? run->visible.n : 0;
}

dg_run_tensor dg_run_value_at(const dg_run *run, int i)
{
    return describe(run, run->visible.items[i]);
}

int dg_run_feed(dg_run *run, const char *name, const void *data, int64_t n, dg_diag *d)
{
    for (int i = 0; i < dg_run_n_inputs(run); i++) {
        dg_run_tensor t = dg_run_input_at(run, i);

        if (strcmp(t.name, name) != 0)
            continue;
        if (n != dg_shape_elements(t.shape))
            return dg_fail(d, DG_EINPUT, DG_NOWHERE, "feed-size", "input \"%s\" has %lld elements, not %lld", name,
                           (long long)dg_shape_elements(t.shape), (long long)n);
        if (i >= run->current->program->inputs.n)
            return dg_exec_draw(run->current->exec, name, data, d);
        return dg_exec_write(run->current->exec, name, &(dg_tensor){ t.dtype, t.shape, (void *)(uintptr_t)data }, d);
    }
    return run->current ? dg_fail(d, DG_EINPUT, DG_NOWHERE, "feed-unknown", "the program has no input \"%s\"", name)
                        : none_selected(d);
}

int dg_run_step(dg_run *run, dg_diag *d)
{
    bool    updated = false;
    int     rc = 0;
    int64_t batch = 1, sample;

    if (!run->current)
        return none_selected(d);
    if (!run->current->program->training)
        return dg_fail(d, DG_EINPUT, run->current->scope->where, "run-not-training",
                       "<%s> only evaluates; select the training scope", run->current->scope->id);
    if (run->current->program->inputs.n)
        batch = dg_run_input_at(run, 0).shape.d[0];
    sample = run->progress.sample;
    run->progress.sample += batch * run->world.rank;
    rc = dg_run_train_batch(run, NULL, &updated, d);
    run->progress.sample = sample + (rc == 0 ? batch * run->world.ranks : 0);
    return rc;
}

int dg_run_forward(dg_run *run, bool ema, dg_diag *d)
{
    int rc;

    if (!run->current)
        return none_selected(d);
    if (ema && !run->store->space[DG_EMA])
        return dg_fail(d, DG_EINPUT, DG_NOWHERE, "parameter-space", "this run keeps no %s", dg_space_name(DG_EMA));
    if (run->current->program->training)
        return dg_fail(d, DG_EINPUT, run->current->scope->where, "run-training",
                       "<%s> trains; select an evaluation scope", run->current->scope->id);
    DG_TRY(dg_bucket_bind(run->current, &run->memory, run->store, ema, d));
    dg_run_compute_control(run);
    DG_TRY(dg_exec_run(run->current->exec, DG_SEG_BATCH, &run->control, d));
out:
    return rc;
}

int dg_run_read(dg_run *run, const char *name, void *out, int64_t n, dg_diag *d)
{
    for (int i = 0; i < dg_run_n_values(run); i++) {
        dg_run_tensor t = dg_run_value_at(run, i);
        int           rc;

        if (strcmp(t.name, name) != 0)
            continue;
        if (n != dg_shape_elements(t.shape))
            return dg_fail(d, DG_EINPUT, DG_NOWHERE, "read-size", "\"%s\" has %lld elements, not %lld", name,
                           (long long)dg_shape_elements(t.shape), (long long)n);
        if (t.dtype == DG_F64)
            return dg_exec_get(run->current->exec, run->visible.items[i].value, out, d);
        double *v = dg_try_alloc((size_t)n * sizeof *v);

        rc = v ? dg_exec_get(run->current->exec, run->visible.items[i].value, v, d)
               : dg_fail(d, DG_EMEMORY, DG_NOWHERE, "memory-plan", "no memory to read \"%s\"", name);
        for (int64_t k = 0; rc == 0 && k < n; k++)
            ((int32_t *)out)[k] = (int32_t)v[k];
        dg_free(v);
        return rc;
    }
    return run->current ? dg_fail(d, DG_EINPUT, DG_NOWHERE, "read-unknown", "the program shows no value \"%s\"", name)
                        : none_selected(d);
}

int64_t dg_run_step_number(const dg_run *run)
{
    return run->progress.step;
}

void dg_run_set_step(dg_run *run, int64_t step, int64_t epoch)
{
    run->progress.step = step;
    run->progress.epoch = epoch;
}
