/* start.c: what a training does before its first step: the run's folder, the data and how many steps they make, the
 * checkpoint that it goes on from, and whether all ranks have the same of it. */
#include "runtime/train.h"

#include <stdio.h>

#include "graph/vary.h"
#include "runtime/steer.h"
#include "runtime/tell.h"

enum { FIRST_PICTURES = 12, PLANNED_EPOCHS = 1000 };

/* Nothing is chosen, and the number of batches hangs on the number of items alone. */
static bool epochs_alike(const dg_run *run, const dg_chain *c)
{
    return dg_node_has_row(run->graph, c->sampler, DG_RULE_ENDLESS) ||
           (!c->n_choices && !dg_node_has_row(run->graph, c->sampler, DG_RULE_RATE));
}

/* Batches of all epochs: where items are chosen, or sizes end, no epoch tells another's, and each is planned; of very many the
 * last ones count as the last that was. */
static int count_batches(dg_train *t, int64_t *all, int64_t *fewest, int64_t *most, dg_diag *d)
{
    dg_run       *run = t->run;
    const int64_t epochs = t->scope->epochs;
    const int64_t planned = epochs_alike(run, &t->data->chain) ? 1 : epochs < PLANNED_EPOCHS ? epochs : PLANNED_EPOCHS;
    int64_t       n = run->per_epoch;

    *all = *fewest = *most = n;
    for (int64_t e = 1; e < planned; e++) {
        int rc = dg_run_length(run, t->data, e, &n, NULL, d);

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
    dg_run *run = t->run;
    int64_t dropped = 0, all = 0, fewest, most, k = t->scope->accumulate > 0 ? t->scope->accumulate : 1;
    char    range[64];
    int     rc;

    if (dg_run_deals(run, t->data))
        t->batch *= run->world.ranks;
    DG_TRY(dg_run_length(run, t->data, 0, &run->per_epoch, &dropped, d));
    DG_TRY(count_batches(t, &all, &fewest, &most, d));
    run->n_epochs = t->scope->epochs;
    run->n_steps = t->scope->steps > 0 ? t->scope->steps : all / k;
    if (run->n_steps < 1)
        return dg_fail(d, DG_EINPUT, t->scope->where, "steps-none",
                       "%lld batches in %lld epochs make no step of accumulate=\"%lld\" batches", (long long)all,
                       (long long)t->scope->epochs, (long long)k);
    snprintf(range, sizeof range, fewest < most ? "%lld to %lld" : "%lld", (long long)fewest, (long long)most);
    dg_log_line(&run->env, DG_INFO, "%s batches of %d an epoch (%lld images left out of %s), %lld steps in all", range, t->batch,
                (long long)dropped, fewest < most ? "the first" : "each", (long long)run->n_steps);
out:
    return rc;
}

/* Of the data of all ranks, where each has files of its own. */
static int digest_data(const dg_train *t, uint64_t *digest, dg_diag *d)
{
    const dg_world *w = &t->run->world;
    uint64_t       *all = DG_NEW_N(t->arena, w->ranks, uint64_t);
    int             rc;

    *digest = t->data->set->digest;
    if (!t->data->own_files || w->ranks == 1)
        return 0;
    rc = dg_world_gather(w, digest, sizeof *digest, all, "looked at the data", d);
    *digest = dg_hash(all, (size_t)w->ranks * sizeof *all);
    return rc;
}

static int identify(dg_train *t, dg_diag *d)
{
    char     features[128];
    uint64_t digest;
    int      rc = digest_data(t, &digest, d);

    t->identity = (dg_identity){
        .seed = t->run->seed,
        .pipeline = dg_folder_digest(t->run),
        .data = digest,
        .batch = t->batch,
        .accumulate = t->scope->accumulate > 0 ? t->scope->accumulate : 1,
        .per_epoch = t->run->per_epoch,
        .precision = t->run->precision,
        .threads = t->run->env.threads,
        .ranks = t->run->world.ranks,
        .by_ranks = dg_run_plans_by_ranks(t->run, &t->data->chain),
        .cpu = dg_strdup(t->arena, dg_cpu_features(features, sizeof features)),
        .versions = t->run->versions,
    };
    return rc;
}

/* The share of the averages' first value after p->step steps, as if they were all made here. */
static void count_fresh(dg_run *run)
{
    const int64_t step = run->progress.step;

    run->fresh = 1;
    for (run->progress.step = 0; run->progress.step < step && run->fresh > 1e-6; run->progress.step++) {
        dg_run_compute_control(run);
        run->fresh *= run->control.ema_decay;
    }
    run->progress.step = step;
}

/* Going back to an earlier checkpoint leaves later ones, which would be taken for newer. */
static int read_checkpoint(dg_train *t, const char *folder, dg_diag *d)
{
    dg_run *run = t->run;
    int     rc = dg_checkpoint_read(folder, run->store, &run->progress, &t->identity, d), later;

    if (rc < 0 || !t->out || t->o->resume != DG_RUN_RESUME || !t->o->resume_from)
        return rc;
    later = dg_checkpoint_later(t->out, run->progress.step);
    if (later && !t->o->force) {
        dg_fail(d, DG_EINPUT, (dg_where){ .file = t->out }, "resume-earlier", "it holds %d checkpoint%s after step %lld", later,
                later == 1 ? "" : "s", (long long)run->progress.step);
        dg_help(d, "--force drops %s, --out names another folder for the run from here", later == 1 ? "it" : "them");
        return -DG_EINPUT;
    }
    dg_checkpoint_drop(t->out, run->progress.step);
    return 0;
}

/* Rank 0 reads; the others have what it has. */
static int resume_from(dg_train *t, const char *folder, dg_diag *d)
{
    dg_run *run = t->run;
    int     rc = run->world.rank == 0 ? read_checkpoint(t, folder, d) : 0;

    DG_TRY(dg_world_agree(&run->world, rc, "read a checkpoint", d));
    DG_TRY(dg_run_share(run, d));
    t->minutes_before = run->progress.minutes;
    t->saved_step = run->progress.step;
    t->crossed = run->progress.epoch > 0 && run->progress.index == 0;
    t->saved_minutes = run->progress.minutes;
    for (int i = 0; i < run->graph->n_evaluates; i++)
        t->evaluated_minutes[i] = run->progress.minutes;
    count_fresh(run);
out:
    return rc;
}

/* The folder is rank 0's; whether there is something in it to go on from, everybody must know. */
static int open_folder(dg_train *t, const char **resume, dg_diag *d)
{
    const dg_world *w = &t->run->world;
    int32_t         resumes;
    int             rc = 0;

    *resume = NULL;
    if (w->rank == 0)
        rc = dg_folder_open(t, resume, d);
    DG_TRY(dg_world_agree(w, rc, "opened the run's folder", d));
    dg_steer_folder(t);
    resumes = *resume != NULL;
    DG_TRY(dg_world_broadcast(w, &resumes, sizeof resumes, "opened the run's folder", d));
    if (resumes && w->rank > 0)
        *resume = "rank 0's checkpoint";
out:
    return rc;
}

static int read_data(dg_train *t, dg_diag *d)
{
    dg_run        *run = t->run;
    const dg_data *other;
    int            rc;

    DG_TRY(dg_run_prepare(run, true, run->graph->n_evaluates > 0, d));
    dg_run_log_start(run);
    DG_TRY(dg_run_data(run, t->scope, &t->data, d));
    for (int i = 0; i < run->graph->n_evaluates; i++) /* their faults must not wait for the first evaluation */
        if (dg_run_evaluates(run, run->graph->evaluates[i]))
            DG_TRY(dg_run_data(run, run->graph->evaluates[i], &other, d));
out:
    return rc;
}

/* Ranks may ask each other how many they have: each has its data. */
static int count_data(dg_train *t, dg_diag *d)
{
    dg_run  *run = t->run;
    dg_size *sizes;
    int      n, rc;

    DG_TRY(dg_run_sizes(run, t->scope, t->arena, &sizes, &n, &t->batch, d));
    DG_TRY(count_steps(t, d));
out:
    return rc;
}

int dg_train_start(dg_train *t, dg_diag *d)
{
    dg_run     *run = t->run;
    const char *resume;
    int         rc;

    DG_TRY(dg_steer_places(run, d));
    DG_TRY(open_folder(t, &resume, d));
    DG_TRY(dg_world_agree(&run->world, read_data(t, d), "looked at the data", d));
    DG_TRY(dg_world_agree(&run->world, count_data(t, d), "counted the batches", d));
    DG_TRY(identify(t, d));
    if (resume)
        DG_TRY(resume_from(t, resume, d));
    DG_TRY(dg_steer_meet_data(t, d));
    DG_TRY(dg_world_agree(&run->world, dg_folder_begin(t, d), "began", d));
    DG_TRY(dg_run_compare(run, "before the first step", d));
    if (resume)
        dg_log_line(&run->env, DG_INFO, "resumed from %s: step %lld, epoch %lld", resume, (long long)run->progress.step,
                    (long long)run->progress.epoch);
    dg_run_log_warnings(run, d);
    if (t->out && !resume)
        t->first = dg_pictures_open(FIRST_PICTURES, t->data->set);
    DG_TRY(dg_world_agree(&run->world, dg_tell_port(t, d), "opened the metrics port", d));
    DG_TRY(dg_run_stream(run, t->scope, &run->progress, run->n_epochs, &t->stream, d));
out:
    return rc;
}
