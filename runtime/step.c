/* step.c: one batch forward and back, and the update where it is due. What must not happen is checked here: a
 * number that is not finite ends the run before anything was changed by it. */
#include "runtime/available.h"
#include "runtime/steer.h"
#include "runtime/watched.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

void dg_run_compute_control(dg_run *run)
{
    const dg_scope    *train = run->graph->train;
    const dg_progress *p = &run->progress;
    dg_control        *c = &run->control;
    const dg_clock     clock = {
        .step = p->step,
        .epoch = p->epoch,
        .n_steps = run->n_steps,
        .n_epochs = run->n_epochs,
        .steps_per_epoch = train && train->accumulate > 0 ? run->per_epoch / train->accumulate : run->per_epoch,
        .minutes = p->minutes,
    };

    *c = (dg_control){
        .seed = run->seed,
        .step = p->step,
        .batch = p->batch,
        .epoch = p->epoch,
        .sample = p->sample,
        .accumulated = run->accumulated,
    };
    for (int i = 0; train && i < train->n_nodes; i++)
        if (train->nodes[i]->class->control)
            train->nodes[i]->class->control(train->nodes[i]->conf, &clock, c);
    dg_steer_rates(run, c);
    if (run->o.control)
        run->o.control(run->o.control_ctx, c);
}

/* What a number from outside the graph follows from: the batch's place in the run, and this rank. */
static dg_supply_args supply_args(const dg_run *run, const dg_node *node, int rank, int64_t number)
{
    char           own[256];
    dg_supply_args a = {
        .rank = rank,
        .free_bytes = -1,
        .shared = dg_draw_begin(run->seed, node->path, (uint64_t)number),
    };

    snprintf(own, sizeof own, "%s/%d", node->path, rank);
    a.own = dg_draw_begin(run->seed, own, (uint64_t)number);
    return a;
}

double dg_run_foresee(const dg_run *run, const dg_node *node, int rank, int64_t number, const dg_clock *clock)
{
    dg_supply_args a = supply_args(run, node, rank, number);

    a.clock = *clock;
    return node->class->supply(node->conf, &a);
}

/* Numbers from outside the graph, before each batch: by its clock, as what was foreseen of it. */
static int feed_numbers(dg_run *run, const dg_stream_batch *batch, dg_diag *d)
{
    const dg_scope *s = run->current->scope;
    int             rc = 0;

    for (int i = 0; i < s->n_nodes && rc == 0; i++) {
        const dg_node *node = s->nodes[i];
        char           name[256];

        if (!node->class->supply || node->class->lower)
            continue;
        snprintf(name, sizeof name, "%s.%s", node->id, node->out_ports[0]->name);
        if (!dg_program_input(run->current->program, name))
            continue; /* nobody reads it */

        dg_supply_args args = supply_args(run, node, run->world.rank, batch->number);

        args.clock = batch->clock;
        args.clock.minutes = run->progress.minutes;
        args.seconds = 60 * run->progress.minutes;
        args.free_bytes = (double)dg_memory_available();

        double         real = node->class->supply(node->conf, &args);
        int32_t        whole = (int32_t)real;
        bool           is_real = node->out_contracts[0]->dtype == DG_REAL;
        dg_tensor      t = { is_real ? DG_F64 : DG_I32, DG_SCALAR, is_real ? (void *)&real : &whole };

        rc = dg_exec_write(run->current->exec, name, &t, d);
    }
    return rc;
}

static const dg_feed *find_feed(const dg_stream_batch *b, const char *key)
{
    for (int i = 0; i < b->n_feeds; i++)
        if (strcmp(b->feeds[i].key, key) == 0 && b->data[i])
            return &b->feeds[i];
    return NULL;
}

static int broken_feed(const dg_node *node, const char *key, const dg_stream_batch *b, const dg_feed *f, dg_shape declared, dg_diag *d)
{
    char   found[96], wanted[96];
    size_t n = strcspn(key, ".");

    if (f)
        dg_fail(d, DG_EINTERNAL, node->where, "contract-shape",
                "broke a declared contract: node \"%s\" port \"%.*s\" gave %s%s for batch %lld, declared %s", node->path, (int)n, key,
                key, dg_shape_print(f->shape, found, sizeof found), (long long)b->number + 1,
                dg_shape_print(declared, wanted, sizeof wanted));
    else
        dg_fail(d, DG_EINTERNAL, node->where, "contract-absent",
                "broke a declared contract: node \"%s\" port \"%.*s\" gave no %s for batch %lld, declared always there", node->path,
                (int)n, key, key, (long long)b->number + 1);
    dg_help(d, "`feeds` of <%s> lists the same tensors each time that it is asked for the same image size", node->class->name);
    return -DG_EINTERNAL;
}

/* What the batch node gives is what its program was made for. */
static int check_feeds(const dg_run *run, const dg_node *node, const dg_stream_batch *b, dg_diag *d)
{
    const dg_program *p = run->current->program;
    size_t            n = strlen(node->id);

    for (int i = 0; i < p->inputs.n; i++) {
        const dg_binding *in = &p->inputs.items[i];
        const char       *key = in->name + n + 1;
        dg_shape          declared = p->values.items[in->value].shape;

        if (strncmp(in->name, node->id, n) != 0 || in->name[n] != '.')
            continue;
        const dg_feed *f = find_feed(b, key);

        if (!f || !dg_shape_equal(f->shape, declared))
            return broken_feed(node, key, b, f, declared, d);
    }
    return 0;
}

int dg_run_feed_batch(dg_run *run, const dg_stream_batch *batch, dg_diag *d)
{
    dg_chain chain;
    int      rc = dg_graph_chain(&chain, run->current->scope, d);

    dg_witness_begin(run->witness, run->graph, run->current->scope, run->progress.step, batch);
    if (rc == 0)
        rc = check_feeds(run, chain.batch, batch, d);
    for (int i = 0; rc == 0 && i < batch->n_feeds; i++) {
        const dg_feed  *f = &batch->feeds[i];
        const dg_tensor t = { f->dtype == DG_REAL ? DG_F32 : f->dtype, f->shape, batch->data[i] };
        char            name[256];

        snprintf(name, sizeof name, "%s.%s", chain.batch->id, f->key);
        if (t.data && dg_program_input(run->current->program, name))
            rc = dg_exec_write(run->current->exec, name, &t, d);
    }
    if (rc == 0)
        rc = feed_numbers(run, batch, d);
    return rc < 0 ? rc : dg_exec_see_inputs(run->current->exec, d);
}

/* ---- what is not finite ------------------------------------------------------------------------------------ */

/* Loss terms are results named "loss.TERM"; where there is no loss node, every scalar counts. Their sum says nothing
 * that they do not say. */
static bool is_term(const dg_program *p, int i)
{
    const dg_value *v = &p->values.items[p->results.items[i].value];
    const char     *name = p->results.items[i].name;
    bool            sums = dg_program_result(p, "loss.total") != 0;

    if (dg_shape_elements(v->shape) != 1 || strcmp(name, "grad_norm") == 0 || dg_watched_is(name))
        return false;
    return !sums || (strncmp(name, "loss.", 5) == 0 && strcmp(name, "loss.total") != 0);
}

/* Lists the terms that are not finite: "loss_vfl_dn_0 is NaN, loss_vfl is infinite"; *at: the node of the first. */
static int list_terms(dg_run *run, dg_str *out, dg_where *at)
{
    const dg_program *p = run->current->program;
    int               n = 0;

    for (int i = 0; i < p->results.n; i++) {
        const dg_value *v = &p->values.items[p->results.items[i].value];
        const char     *name = strrchr(p->results.items[i].name, '.');
        double          x = 0;

        if (!is_term(p, i) || dg_exec_get(run->current->exec, p->results.items[i].value, &x, NULL) < 0 || isfinite(x))
            continue;
        if (n++ == 0 && v->producer >= 0)
            *at = p->instrs.items[v->producer].origin.where;
        if (n <= 8)
            dg_str_fmt(out, "%s%s is %s", n > 1 ? ", " : "", name ? name + 1 : p->results.items[i].name,
                       isnan(x) ? "NaN" : "infinite");
    }
    if (n > 8)
        dg_str_fmt(out, " and %d more", n - 8);
    return n;
}

static void list_images(dg_str *out, const dg_stream_batch *batch)
{
    for (int i = 0; batch && i < batch->n; i++)
        if (!batch->padding || !batch->padding[i])
            dg_str_fmt(out, "%s%lld", out->n ? ", " : "", (long long)batch->samples[i].image_id);
}

/* The first parameter whose gradient is not finite, or NULL. */
static const char *bad_gradient(dg_run *run)
{
    const char *found = NULL;

    for (int i = 0; !found && i < dg_params_n(run->params); i++) {
        const dg_param_info *p = dg_params_at(run->params, i);
        int64_t              n = dg_shape_elements(p->shape);
        double              *v = p->kind == DG_TRAINABLE ? dg_try_alloc((size_t)n * sizeof *v) : NULL;

        if (v && dg_store_get(run->store, DG_GRADIENTS, i, v, NULL) == 0)
            for (int64_t k = 0; !found && k < n; k++)
                found = isfinite(v[k]) ? NULL : p->name;
        dg_free(v);
    }
    return found;
}

static int not_finite(dg_run *run, const dg_stream_batch *batch, dg_diag *d)
{
    dg_str   terms = { 0 }, images = { 0 };
    dg_where at = run->graph->train ? run->graph->train->where : DG_NOWHERE;
    int      n = list_terms(run, &terms, &at), rc;

    list_images(&images, batch);
    if (n) {
        rc = dg_fail(d, DG_ENUMERIC, at, "loss-not-finite", "step %lld, node %s: %s; images %s; nothing was updated",
                     (long long)run->progress.step + 1, at.node ? at.node : "?", terms.s, images.s ? images.s : "fed by hand");
    } else {
        const char *name = bad_gradient(run);

        rc = dg_fail(d, DG_ENUMERIC, at, "gradient-not-finite",
                     "step %lld: the loss is finite and the gradient is not, first in %s; images %s; nothing was updated",
                     (long long)run->progress.step + 1, name ? name : "its norm", images.s ? images.s : "fed by hand");
    }
    dg_help(d, "a smaller learning rate or a longer warm-up is the usual way out%s; look at these images and their boxes",
            run->low == DG_BF16 ? ", or precision=\"f32\"" : "");
    dg_str_free(&terms);
    dg_str_free(&images);
    return rc;
}

/* What a rank says of an update that it has just made. */
typedef struct verdict {
    double  loss;
    int64_t bad; /* a term of its own is not finite */
} verdict;

/* The loss over all ranks, and the first rank with a bad term, or -1. */
static int compare(dg_run *run, verdict own, int *bad, dg_diag *d)
{
    int      n = run->world.ranks, rc;
    verdict *all = dg_try_alloc((size_t)n * sizeof *all);

    if (!all)
        return dg_fail(d, DG_EMEMORY, DG_NOWHERE, "out-of-memory", "no memory for a word of each rank");
    rc = dg_world_gather(&run->world, &own, sizeof own, all, "compared their losses", d);
    *bad = -1;
    run->loss = 0;
    for (int r = n - 1; r >= 0 && rc == 0; r--)
        *bad = all[r].bad ? r : *bad;
    for (int r = 0; r < n && rc == 0; r++)
        run->loss += all[r].loss / n;
    dg_free(all);
    return rc;
}

static int bad_elsewhere(const dg_run *run, int rank, dg_diag *d)
{
    return dg_fail(d, DG_ENUMERIC, DG_NOWHERE, "loss-not-finite", "step %lld: the loss of rank %d is not finite; nothing was updated",
                   (long long)run->progress.step + 1, rank);
}

static bool terms_finite(dg_run *run)
{
    dg_str   terms = { 0 };
    dg_where at;
    bool     fine = list_terms(run, &terms, &at) == 0;

    dg_str_free(&terms);
    return fine;
}

/* ok: the value that says so for all ranks alike. */
static int check(dg_run *run, const dg_stream_batch *batch, int32_t ok, dg_diag *d)
{
    const dg_program *p = run->current->program;
    int32_t           total = dg_program_result(p, "loss.total");
    double            fine = 1;
    verdict           own = { 0 };
    int               bad = -1, rc;

    if (ok && p->values.items[ok].producer >= 0)
        DG_TRY(dg_exec_get(run->current->exec, ok, &fine, d));
    own.bad = !terms_finite(run);
    if (total)
        DG_TRY(dg_exec_get(run->current->exec, total, &own.loss, d));
    DG_TRY(compare(run, own, &bad, d));
    if (bad >= 0 && !own.bad)
        return bad_elsewhere(run, bad, d);
    if (fine == 0 || own.bad)
        return not_finite(run, batch, d);
out:
    return rc;
}

/* ---- skip and stop ------------------------------------------------------------------------------------------- */

/* *who: the first node whose result "KIND/ID" is not 0, or NULL. Results of the update have a meaning after one alone. */
static int find_fired(dg_run *run, const char *kind, bool update, const char **who, dg_diag *d)
{
    const dg_program *p = run->current->program;
    size_t            n = strlen(kind);
    int               rc = 0;

    *who = NULL;
    for (int i = 0; i < p->results.n && rc == 0 && !*who; i++) {
        const dg_binding *r = &p->results.items[i];
        int               producer = p->values.items[r->value].producer;
        double            flag = 0;

        if (strncmp(r->name, kind, n) != 0 || r->name[n] != '/' ||
            (!update && producer >= 0 && p->instrs.items[producer].segment == DG_SEG_UPDATE))
            continue;
        rc = dg_exec_get(run->current->exec, r->value, &flag, d);
        *who = flag != 0 ? r->name + n + 1 : NULL;
    }
    return rc;
}

/* ---- the step ---------------------------------------------------------------------------------------------- */

int dg_run_train_batch(dg_run *run, const dg_stream_batch *batch, bool *updated, dg_diag *d)
{
    const dg_program *p = run->current->program;
    const char       *skipped_by = NULL;
    int               rc;

    *updated = false;
    dg_run_compute_control(run);
    DG_TRY(dg_exec_run(run->current->exec, DG_SEG_BATCH, &run->control, d));
    if (run->accumulated + 1 < p->accumulate) {
        DG_TRY(check(run, batch, p->ok_batch, d));
        if (!run->stopped_by)
            DG_TRY(find_fired(run, "stop", false, &run->stopped_by, d));
        run->accumulated++;
    } else {
        DG_TRY(dg_exec_run(run->current->exec, DG_SEG_UPDATE, &run->control, d));
        DG_TRY(find_fired(run, "skip", true, &skipped_by, d));
        if (!skipped_by) {
            DG_TRY(check(run, batch, p->ok, d));
            run->fresh *= run->control.ema_decay;
        }
        if (!run->stopped_by)
            DG_TRY(find_fired(run, "stop", true, &run->stopped_by, d));
        run->accumulated = 0;
        run->progress.step++;
        *updated = true;
    }
    run->progress.batch++;
    run->store->counter = run->progress.batch;
out:
    return rc;
}
