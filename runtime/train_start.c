/* train_start.c: a training before its first step: the run's folder, the data and the number of
 * steps, the checkpoint to continue from, and whether all ranks agree on these. */
#include "runtime/train.h"

#include <math.h>
#include <stdio.h>

#include "exec/estimate.h"
#include "graph/rule.h"
#include "runtime/control_hooks.h"
#include "runtime/evaluate.h"
#include "runtime/metrics_out.h"
#include "runtime/replicas.h"
#include "runtime/run_log.h"
#include "runtime/step.h"

enum { FIRST_PICTURES = 12, PLANNED_EPOCHS = 1000 };

/* True if every epoch has the same number of batches: no choices, and a number that depends only on
 * the number of items. */
static bool epochs_alike(const dg_chain *c)
{
    return dg_node_has_row(c->sampler, DG_RULE_ENDLESS) ||
           (!c->n_choices && !dg_node_has_row(c->sampler, DG_RULE_RATE));
}

/* Counts the batches of all epochs. If items are chosen, or sizes change, each epoch is planned; of
 * very many epochs the last ones count like the last one planned. */
static int count_batches(dg_train *t, int64_t *all, int64_t *fewest, int64_t *most, dg_diag *d)
{
    const int64_t epochs = t->scope->epochs;
    const int64_t planned = epochs_alike(&t->data->chain) ? 1
                            : epochs < PLANNED_EPOCHS     ? epochs
                                                          : PLANNED_EPOCHS;
    int64_t n = t->horizon->per_epoch;

    *all = *fewest = *most = n;
    for (int64_t e = 1; e < planned; e++) {
        int rc = dg_run_epoch_batches(t->run, t->data, e, &n, NULL, d);

        if (rc < 0)
            return rc;
        *all += n;
        *fewest = n < *fewest ? n : *fewest;
        *most = n > *most ? n : *most;
    }
    *all += epochs > planned ? (epochs - planned) * n : 0;
    return 0;
}

static int count_steps(dg_train *t, dg_diag *d)
{
    int64_t dropped = 0, all = 0, fewest, most,
            k = t->scope->accumulate > 0 ? t->scope->accumulate : 1;
    char range[64];
    int rc;

    if (dg_run_has_own_images(t->run, t->data))
        t->batch *= t->world->ranks;
    DG_TRY(dg_run_epoch_batches(t->run, t->data, 0, &t->horizon->per_epoch, &dropped, d));
    DG_TRY(count_batches(t, &all, &fewest, &most, d));
    t->horizon->n_epochs = t->scope->epochs;
    t->horizon->n_steps = t->scope->steps > 0 ? t->scope->steps : all / k;
    if (t->horizon->n_steps < 1)
        return dg_fail(d, DG_EINPUT, t->scope->where, "steps-none",
                       "%lld batch%s in %lld epoch%s make no step of accumulate=\"%lld\" batches",
                       (long long)all, dg_plural(all, "es"), (long long)t->scope->epochs,
                       dg_plural(t->scope->epochs, "s"), (long long)k);
    snprintf(range, sizeof range, fewest < most ? "%lld to %lld" : "%lld", (long long)fewest,
             (long long)most);
    dg_log_line(t->env, DG_INFO,
                "%s batch%s of %d an epoch (%lld image%s left out of %s), %lld step%s in all",
                range, dg_plural(most, "es"), t->batch, (long long)dropped, dg_plural(dropped, "s"),
                fewest < most ? "the first" : "each", (long long)t->horizon->n_steps,
                dg_plural(t->horizon->n_steps, "s"));
out:
    return rc;
}

/* Digest of the data of all ranks, if each has files of its own. */
static int digest_data(const dg_train *t, uint64_t *digest, dg_diag *d)
{
    const dg_world *w = t->world;
    uint64_t *all = DG_NEW_N(t->arena, w->ranks, uint64_t);
    int rc;

    *digest = t->data->set->digest;
    if (!t->data->own_files || w->ranks == 1)
        return 0;
    rc = dg_world_gather(w, digest, sizeof *digest, all, "looked at the data", d);
    *digest = dg_fnv1a(all, (size_t)w->ranks * sizeof *all);
    return rc;
}

static int identify_run(dg_train *t, dg_diag *d)
{
    char features[128];
    uint64_t digest;
    int rc = digest_data(t, &digest, d);

    t->identity = (dg_identity){
        .seed = dg_run_pipeline(t->run)->seed,
        .pipeline = dg_folder_digest(dg_run_pipeline(t->run)),
        .data = digest,
        .batch = t->batch,
        .accumulate = t->scope->accumulate > 0 ? t->scope->accumulate : 1,
        .per_epoch = t->horizon->per_epoch,
        .precision = t->programs->precision,
        .threads = t->env->threads,
        .ranks = t->world->ranks,
        .by_ranks = dg_chain_plans_by_ranks(t->graph, &t->data->chain),
        .cpu = dg_strdup(t->arena, dg_cpu_features(features, sizeof features)),
        .versions = dg_run_pipeline(t->run)->versions,
    };
    return rc;
}

/* Share of the averages' initial value after p->step steps, as if all were made in this run. */
static double initial_share(dg_run *run)
{
    dg_progress *p = dg_run_progress(run);
    const dg_control *c = &dg_run_step_state(run)->control;
    const int64_t step = p->step;
    double share = 1;

    for (p->step = 0; p->step < step && share > 1e-6; p->step++) {
        dg_run_compute_control(run);
        share *= c->ema_decay;
    }
    p->step = step;
    return share;
}

/* Reads a checkpoint. Later ones, which would be taken for newer, are an error, or removed with
 * --force. */
static int read_checkpoint(dg_train *t, const char *folder, bool *same_pipeline, dg_diag *d)
{
    int rc = dg_checkpoint_read(folder, t->programs->store, t->progress, &t->identity,
                                same_pipeline, d),
        later;

    if (rc < 0 || !t->out || t->o->resume != DG_RUN_RESUME || !t->o->resume_from)
        return rc;
    later = dg_checkpoint_later(t->out, t->progress->step);
    if (later && !t->o->force) {
        dg_fail(d, DG_EINPUT, (dg_where){ .file = t->out }, "resume-earlier",
                "it holds %d checkpoint%s after step %lld", later, dg_plural(later, "s"),
                (long long)t->progress->step);
        dg_help(d, "--force drops %s, --out names another folder for the run from here",
                later == 1 ? "it" : "them");
        return -DG_EINPUT;
    }
    dg_checkpoint_drop(t->out, t->progress->step);
    return 0;
}

static int off_plan(const char *folder, const dg_progress *p, dg_diag *d, const char *than)
{
    return dg_fail(d, DG_EINPUT, (dg_where){ .file = folder }, "checkpoint-plan",
                   "its state says that after %lld batches the next one is batch %lld of epoch "
                   "%lld, but %s",
                   (long long)p->batch, (long long)p->index + 1, (long long)p->epoch + 1, than);
}

/* Holds the place in the epoch against the plans that the data make: a place that does not exist
 * would be waited for in vain. With the checkpoint's own pipeline the epochs before it must have
 * had all other batches. Ranks may ask each other for the length of an epoch. */
static int check_place(dg_train *t, const char *folder, bool same_pipeline, dg_diag *d)
{
    const dg_progress *p = t->progress;
    const bool all = same_pipeline && (epochs_alike(&t->data->chain) || p->epoch <= PLANNED_EPOCHS);
    int64_t n = t->horizon->per_epoch;
    double before = (double)n * (double)p->epoch;
    int rc = 0;

    if (!epochs_alike(&t->data->chain)) {
        before = 0;
        for (int64_t e = all ? 0 : p->epoch; e < p->epoch; e++) {
            DG_TRY(dg_run_epoch_batches(t->run, t->data, e, &n, NULL, d));
            before += (double)n;
        }
        if (p->index > 0)
            DG_TRY(dg_run_epoch_batches(t->run, t->data, p->epoch, &n, NULL, d));
    }
    if (p->index > 0 && p->index >= n)
        rc = off_plan(folder, p, d, dg_printf(t->arena, "that epoch has %lld", (long long)n));
    else if (all && before + (double)p->index != (double)p->batch)
        rc = off_plan(folder, p, d, dg_printf(t->arena, "the epochs before it have %.0f", before));
out:
    return rc;
}

/* Rank 0 reads the checkpoint and broadcasts its state. */
static int resume_from(dg_train *t, const char *folder, dg_diag *d)
{
    bool same = false;
    int rc = t->world->rank == 0 ? read_checkpoint(t, folder, &same, d) : 0;

    DG_TRY(dg_world_agree(t->world, rc, "read a checkpoint", d));
    DG_TRY(dg_replicas_broadcast(t->world, t->programs->store, t->progress, d));
    DG_TRY(dg_world_broadcast(t->world, &same, sizeof same, "shared a checkpoint", d));
    DG_TRY(check_place(t, folder, same, d)); /* alike on all ranks */
    t->minutes_before = t->progress->minutes;
    t->saved_step = t->progress->step;
    t->kept_step = t->out ? t->saved_step : -1;
    t->crossed = t->progress->epoch > 0 && t->progress->index == 0;
    t->saved_minutes = t->progress->minutes;
    for (int i = 0; i < t->graph->n_evaluates; i++)
        t->evaluated_minutes[i] = t->progress->minutes;
    t->step->ema_initial_share = initial_share(t->run);
out:
    return rc;
}

/* Rank 0 opens the folder; all ranks must know whether there is a checkpoint to resume from. */
static int open_folder(dg_train *t, const char **resume, dg_diag *d)
{
    const dg_world *w = t->world;
    int32_t resumes;
    int rc = 0;

    *resume = NULL;
    if (w->rank == 0)
        rc = dg_folder_open(t, resume, d);
    DG_TRY(dg_world_agree(w, rc, "opened the run's folder", d));
    dg_control_hooks_folder(t);
    resumes = *resume != NULL;
    DG_TRY(dg_world_broadcast(w, &resumes, sizeof resumes, "opened the run's folder", d));
    if (resumes && w->rank > 0)
        *resume = "rank 0's checkpoint";
out:
    return rc;
}

static int read_data(dg_train *t, dg_diag *d)
{
    dg_run *run = t->run;
    const dg_data *other;
    int rc;

    DG_TRY(dg_programs_prepare(t->programs, true, t->graph->n_evaluates > 0, t->world, d));
    dg_run_log_start(run);
    DG_TRY(dg_run_data(run, t->scope, &t->data, d));
    for (int i = 0; i < t->graph->n_evaluates;
         /* report their faults now, not at the first evaluation */
         i++)
        if (dg_run_evaluates(run, t->graph->evaluates[i]))
            DG_TRY(dg_run_data(run, t->graph->evaluates[i], &other, d));
out:
    return rc;
}

/* Counts the data; ranks may ask each other for their numbers. */
static int count_data(dg_train *t, dg_diag *d)
{
    dg_size *sizes;
    int n, rc;

    DG_TRY(dg_scope_sizes(t->scope, t->arena, &sizes, &n, &t->batch, d));
    DG_TRY(count_steps(t, d));
out:
    return rc;
}

/* ---- what it will take ----------------------------------------------------------------------- */

/* Mean area of the scope's image sizes over the largest, which is the one that is planned. */
static double share_of_largest(const dg_train *t, const dg_scope *scope, int *batch)
{
    dg_diag *ignored = dg_diag_open();
    double sum = 0, most = 1;
    dg_size *sizes;
    int n = 0;

    if (dg_scope_sizes(scope, t->arena, &sizes, &n, batch, ignored) < 0)
        n = 0;
    dg_diag_close(&ignored);
    for (int i = 0; i < n; i++) {
        const double area = (double)sizes[i].w * (double)sizes[i].h;

        sum += area;
        most = fmax(most, area);
    }
    return n ? sum / n / most : 1;
}

/* Seconds of the evaluations that are due every so many steps, per step. */
static double evaluation_share(dg_train *t, const dg_speed *r)
{
    double all = 0;

    for (int i = 0; i < t->graph->n_evaluates; i++) {
        const dg_scope *scope = t->graph->evaluates[i];
        const double every = dg_train_steps_between(t, scope);
        const dg_compiled *c = dg_programs_of(t->programs, scope);
        dg_diag *ignored = dg_diag_open();
        const dg_data *data;
        int batch = 1;

        if (every > 0 && c && c->plan && dg_run_evaluates(t->run, scope) &&
            dg_run_data(t->run, scope, &data, ignored) == 0) {
            const double share = share_of_largest(t, scope, &batch);

            all += ceil((double)data->set->n_items / batch / t->world->ranks) * share *
                   dg_speed_seconds(r, c->plan, DG_SEG_BATCH) / every;
        }
        dg_diag_close(&ignored);
    }
    return all;
}

/* Says before the first step how long the run will take, and how much memory. The progress line
 * replaces it by what is measured. */
static void say_estimate(dg_train *t)
{
    const dg_compiled *c = dg_programs_of(t->programs, t->scope);
    const double left = (double)(t->horizon->n_steps - t->progress->step);
    const int64_t k = t->scope->accumulate > 0 ? t->scope->accumulate : 1;
    char whole[32], step[32], memory[32];
    dg_speed r;
    double s;
    int batch;

    dg_human_bytes((double)dg_programs_bytes(t->programs, true), memory, sizeof memory);
    if (!(left > 0) || !c || !c->plan || t->world->rank > 0 || /* the first speaks for all */
        !dg_speed_measure(&r, c->plan, t->programs->conf.backend)) {
        dg_log_line(t->env, DG_INFO, "%s of memory for parameters and a batch", memory);
        return;
    }
    s = dg_speed_seconds(&r, c->plan, DG_SEG_BATCH) * share_of_largest(t, t->scope, &batch) *
            (double)k +
        dg_speed_seconds(&r, c->plan, DG_SEG_UPDATE);
    dg_human_time((s + evaluation_share(t, &r)) * left, whole, sizeof whole);
    dg_log_line(t->env, DG_INFO,
                "about %s by a short probe, %s a step; %s of memory for parameters and a batch",
                whole, dg_human_time(s, step, sizeof step), memory);
}

int dg_train_start(dg_train *t, dg_diag *d)
{
    const char *resume;
    int rc;

    DG_TRY(dg_control_hooks_places(t->graph, t->world, d));
    DG_TRY(open_folder(t, &resume, d));
    DG_TRY(dg_world_agree(t->world, read_data(t, d), "looked at the data", d));
    DG_TRY(dg_world_agree(t->world, count_data(t, d), "counted the batches", d));
    DG_TRY(identify_run(t, d));
    if (resume)
        DG_TRY(resume_from(t, resume, d));
    DG_TRY(dg_control_hooks_meet_data(t, d));
    DG_TRY(dg_world_agree(t->world, dg_folder_begin(t, d), "began", d));
    DG_TRY(dg_replicas_compare(t->world, t->programs->store, "before the first step", d));
    if (resume)
        dg_log_line(t->env, DG_INFO, "resumed from %s: step %lld, epoch %lld", resume,
                    (long long)t->progress->step, (long long)t->progress->epoch);
    dg_log_warnings(t->env, d);
    dg_keep_room(t);
    if (t->out && !resume)
        t->first_pictures = dg_pictures_open(FIRST_PICTURES, t->data->set);
    DG_TRY(dg_world_agree(t->world, dg_metrics_out_port(t, d), "opened the metrics port", d));
    say_estimate(t);
    DG_TRY(dg_run_open_feeder(t->run, t->scope, t->progress, t->horizon->n_epochs, &t->feeder, d));
out:
    return rc;
}
