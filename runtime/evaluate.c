/* evaluate.c: one pass over an evaluation's data. Parameters, device and preprocessing are those of
 * training: the same memory, executor and feeder. */
#include "runtime/evaluate.h"

#include <math.h>

#include "base/file.h"
#include "runtime/control_hooks.h"
#include "runtime/data.h"
#include "runtime/pictures.h"
#include "runtime/programs.h"
#include "runtime/run_log.h"
#include "runtime/sinks.h"
#include "runtime/step.h"
#include "runtime/trained.h"

enum { N_PICTURES = 12 }; /* the six with the most misses, truth and detections */

/* Ranks that share a plan, or each have all of it, have the same number of batches: one that is
 * asked to stop stops all. So does one that evaluates alone. Others continue to the end, unless
 * told to stop at once. */
static int stop_together(const dg_world *w, const dg_evaluation *e, bool shared, dg_diag *d)
{
    int asked = e->stop ? e->stop(e->ctx) : 0, rc = 0;
    bool stop = shared || e->scope->on >= 0 ? asked > 0 : asked > 1;

    if (shared) {
        const dg_world own = dg_world_of(w, e->scope->id);

        rc = dg_world_any(&own, stop, &stop, "evaluated a batch", d);
    }
    return rc < 0 || !stop ? rc
                           : dg_fail(d, DG_ESTOP, DG_NOWHERE, "stopped",
                                     "stopped in the middle of an evaluation");
}

static int run_batch(dg_run *run, dg_evaluation *e, dg_sinks *sinks, const dg_feeder_batch *batch,
                     dg_diag *d)
{
    dg_programs *g = dg_run_programs(run);
    int rc;

    DG_TRY(dg_programs_use(g, e->scope, batch->size, e->ema, d));
    DG_TRY(dg_run_feed_batch(run, batch, d));
    DG_TRY(dg_run_forward_batch(run, d));
    DG_TRY(dg_sinks_take(sinks, g->current, batch, d));
    for (int i = 0; i < batch->n; i++)
        e->n_images += !batch->padding[i];
out:
    return rc;
}

/* Warns the waiting ranks and the control plane if the single rank of on="0" exceeds its budget. */
static void watch_budget(const dg_env *env, const dg_evaluation *e, double begin_s, bool *told)
{
    const dg_when *budget = &e->scope->budget;
    double minutes = (env->now_s() - begin_s) / 60;

    if (*told || e->scope->on < 0 || budget->unit != DG_MINUTES || minutes <= budget->n)
        return;
    *told = true;
    dg_log_line(env, DG_WARN,
                "%s: rank %lld evaluates alone for %.1f min now, its budget is %g min: the other "
                "ranks wait",
                e->scope->id, (long long)e->scope->on, minutes, budget->n);
}

static int run_batches(dg_run *run, dg_evaluation *e, const dg_data *data, dg_sinks *sinks,
                       dg_pictures *pictures, dg_diag *d)
{
    const dg_world *w = dg_run_world(run);
    const dg_env *env = dg_run_env(run);
    dg_feeder *feeder = NULL;
    dg_feeder_batch *batch = NULL;
    bool dealt = !data->chain.n_choices &&
                 dg_node_is_dealt(dg_run_pipeline(run)->graph, data->chain.sampler);
    bool shared =
        w->ranks == 1 || (e->scope->on < 0 && (dealt || !dg_run_has_own_images(run, data)));
    bool told = false;
    double begin_s = env->now_s();
    int rc = dg_run_open_feeder(run, e->scope, NULL, 1, &feeder, d);

    while (rc == 0) {
        DG_TRY(dg_feeder_next(feeder, &batch, d));
        if (!batch)
            break;
        DG_TRY(run_batch(run, e, sinks, batch, d));
        if (pictures)
            DG_TRY(dg_pictures_add_found(pictures, dg_run_programs(run)->current, batch, d));
        dg_feeder_give_back(feeder, batch);
        watch_budget(env, e, begin_s, &told);
        rc = stop_together(w, e, shared, d);
    }
out:
    dg_feeder_close(&feeder);
    return rc;
}

static int count_images(dg_run *run, dg_evaluation *e, dg_diag *d)
{
    const dg_world own = dg_world_of(dg_run_world(run), e->scope->id), *w = &own;
    const dg_data *data;
    double n = (double)e->n_images;
    int rc;

    if (e->scope->on >= 0) {
        rc = dg_world_broadcast_from(w, (int)e->scope->on, &n, sizeof n, "counted images", d);
    } else {
        rc = dg_run_data(run, e->scope, &data, d);
        if (rc == 0 && dg_run_has_own_images(run, data))
            rc = dg_world_sum(w, &n, "counted images", d);
    }
    e->n_images = (int64_t)n;
    return rc;
}

bool dg_run_evaluates(const dg_run *run, const dg_scope *scope)
{
    return scope->on < 0 || scope->on == dg_run_world(run)->rank;
}

/* What could not be written is a warning for who trains, and otherwise an error. */
static int excuse(const dg_run *run, const dg_evaluation *e, int rc, const dg_diag *own, dg_diag *d)
{
    const dg_err *why = dg_diag_n(own) ? dg_diag_at(own, dg_diag_n(own) - 1) : NULL;

    if (rc == -DG_EIO && e->goes_on && why) {
        dg_log_line(dg_run_env(run), DG_WARN, "%s: %s%s%s; the run goes on without it",
                    e->scope->id, why->at.file ? why->at.file : "", why->at.file ? ": " : "",
                    why->text);
        return 0;
    }
    dg_diag_merge(d, own);
    return rc;
}

static int write_pictures(dg_run *run, const dg_evaluation *e, dg_pictures *pictures, dg_diag *d)
{
    dg_diag *own = dg_diag_open();
    const int64_t step = dg_run_progress(run)->step;
    const double *f1 = dg_metrics_find(e->metrics, "F1"),
                 *at = dg_metrics_find(e->metrics, "threshold");
    int rc = dg_pictures_settle(pictures, dg_shown_from(f1 ? *f1 : NAN, at ? *at : NAN), own);

    if (rc == 0)
        rc = dg_pictures_write(pictures,
                               dg_printf(e->metrics->arena, "%s/step-%06lld.jpg", e->folder,
                                         (long long)step),
                               own);
    if (rc == 0)
        rc = dg_pictures_write_each(pictures, e->folder, step, own);
    rc = excuse(run, e, rc, own, d);
    dg_diag_close(&own);
    return rc;
}

static int finish_sinks(const dg_run *run, dg_sinks **sinks, const dg_evaluation *e, dg_diag *d)
{
    dg_diag *own = dg_diag_open();
    int rc = excuse(run, e, dg_sinks_finish(sinks, e->metrics, own), own, d);

    dg_diag_close(&own);
    return rc;
}

static int open_folder(const dg_run *run, dg_evaluation *e, dg_diag *d)
{
    dg_diag *own = dg_diag_open();
    int made = !e->folder   ? 0
               : e->goes_on ? dg_mkdir(e->folder, own)
                            : dg_mkdirs(e->folder, own),
        rc = excuse(run, e, made, own, d);

    if (made < 0)
        e->folder = NULL;
    dg_diag_close(&own);
    return rc;
}

/* Evaluates this rank's part; `reporter` provides the numbers. */
static int take_part(dg_run *run, dg_evaluation *e, int reporter, dg_diag *d)
{
    const dg_world *w = dg_run_world(run);
    dg_pictures *pictures = NULL;
    dg_sinks *sinks = NULL;
    const dg_data *data;
    int rc;

    DG_TRY(dg_run_data(run, e->scope, &data, d));
    DG_TRY(open_folder(run, e, d));

    const dg_sink_args args = {
        .data = data->set,
        .folder = e->folder,
        .scope = e->scope->id,
        .step = dg_run_progress(run)->step,
        .ema = e->ema,
        .ema_weight = e->ema ? 1 - dg_run_step_state(run)->ema_initial_share : 1,
        .n_loaded = dg_run_programs(run)->n_loaded,
    };

    DG_TRY(dg_sinks_open(&sinks, e->scope, &args, d));
    pictures = e->folder ? dg_pictures_open(N_PICTURES, data->set) : NULL;
    DG_TRY(run_batches(run, e, data, sinks, pictures, d));
    if (e->scope->on < 0)
        DG_TRY(dg_sinks_join(sinks, dg_run_pipeline(run)->graph, w, d));
    if (w->rank == reporter)
        rc = finish_sinks(run, &sinks, e, d);
    if (rc == 0 && pictures)
        rc = write_pictures(run, e, pictures, d);
    if (e->scope->on < 0)
        DG_TRY(dg_world_agree(w, rc, "evaluated", d));
out:
    (void)dg_sinks_finish(&sinks, NULL, d);
    dg_pictures_close(&pictures);
    return rc;
}

int dg_run_evaluate_scope(dg_run *run, dg_evaluation *e, dg_diag *d)
{
    const dg_world own = dg_world_of(dg_run_world(run), e->scope->id), *w = &own;
    const bool alone = e->scope->on >= 0;
    int reporter = alone ? (int)e->scope->on : 0,
        rc = dg_run_evaluates(run, e->scope) ? take_part(run, e, reporter, d) : 0;

    if (rc < 0 && (!alone || rc != -DG_ESTOP)) /* the other ranks' waits end with this rank */
        return rc;
    if (alone) {
        dg_control_hooks_at(w->link, &e->scope->where,
                            dg_printf(e->metrics->arena, "%s of rank %d alone", e->scope->id,
                                      reporter)); /* shown as the position */
        DG_TRY(dg_world_agree(w, rc, "waited for an evaluation", d));
    }
    DG_TRY(dg_metrics_share(w, reporter, e->metrics, d));
    DG_TRY(count_images(run, e, d));
    dg_log_warnings(dg_run_env(run), d);
out:
    return rc;
}

int dg_run_evaluate(dg_run *run, const char *folder, bool ema,
                    void (*report)(void *ctx, const dg_run_report *r), void *ctx, dg_diag *d)
{
    const dg_graph *g = dg_run_pipeline(run)->graph;
    const dg_env *env = dg_run_env(run);
    int rc = 0;

    if (!g->n_evaluates)
        return dg_fail(d, DG_EINPUT, (dg_where){ .file = g->file }, "pipeline-without-evaluate",
                       "the pipeline has no <evaluate>");
    DG_TRY(dg_control_hooks_places(g, dg_run_world(run), d));
    dg_run_log_start(run);
    DG_TRY(dg_programs_prepare(dg_run_programs(run), false, true, dg_run_world(run), d));
    for (int i = 0; i < g->n_evaluates; i++) {
        dg_evaluation e = {
            .scope = g->evaluates[i], .ema = ema, .metrics = dg_metrics_open(), .folder = folder
        };
        double begin = env->now_s();

        if (folder && g->n_evaluates > 1)
            e.folder = dg_path_join(e.metrics->arena, folder, e.scope->id);
        rc = dg_run_evaluate_scope(run, &e, d);
        if (rc == 0 && report)
            report(ctx,
                   &(dg_run_report){ .step = dg_run_progress(run)->step,
                                     .left_s = -1,
                                     .scope = e.scope->id,
                                     .images_per_s = (double)e.n_images / (env->now_s() - begin),
                                     .n = e.metrics->names.n,
                                     .names = e.metrics->names.items,
                                     .values = e.metrics->values.items,
                                     .n_notes = e.metrics->notes.n,
                                     .notes = e.metrics->notes.items });
        dg_metrics_close(&e.metrics);
        if (rc < 0)
            break;
    }
out:
    return rc;
}
