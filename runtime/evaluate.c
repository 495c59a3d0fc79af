/* evaluate.c: one pass over an evaluation's data. Parameters, device and preprocessing are those of training,
 * because they are the same memory, the same executor and the same stream. */
#include "runtime/session.h"

#include "base/file.h"
#include "runtime/steer.h"

enum { N_PICTURES = 12 }; /* of six images */
static const double picture_threshold = 0.4;

/* Ranks that share one plan, or each have all of it, have equally many batches: one that is asked to stop stops all. So does one that evaluates
 * alone. Others go on to the end, unless they are told to stop at once. */
static int stop_together(dg_run *run, const dg_evaluation *e, bool shared, dg_diag *d)
{
    int  asked = e->stop ? e->stop(e->ctx) : 0, rc = 0;
    bool stop = shared || e->scope->on >= 0 ? asked > 0 : asked > 1;

    if (shared)
        rc = dg_world_any(&run->world, stop, &stop, "evaluated a batch", d);
    return rc < 0 || !stop ? rc : dg_fail(d, DG_ESTOP, DG_NOWHERE, "stopped", "stopped in the middle of an evaluation");
}

static int run_batch(dg_run *run, dg_evaluation *e, dg_sinks *sinks, const dg_stream_batch *batch, dg_diag *d)
{
    int rc;

    DG_TRY(dg_run_use(run, e->scope, batch->size, e->ema, d));
    DG_TRY(dg_run_feed_batch(run, batch, d));
    dg_run_compute_control(run);
    DG_TRY(dg_exec_run(run->current->exec, DG_SEG_BATCH, &run->control, d));
    DG_TRY(dg_sinks_take(sinks, run, batch, d));
    for (int i = 0; i < batch->n; i++)
        e->n_images += !batch->padding[i];
out:
    return rc;
}

/* The others wait for the one rank of on="0": they, and whoever watches, are told when it takes longer than was said. */
static void watch_budget(const dg_run *run, const dg_evaluation *e, double begin_s, bool *told)
{
    const dg_when *budget = &e->scope->budget;
    double         minutes = (run->env.now_s() - begin_s) / 60;

    if (*told || e->scope->on < 0 || budget->unit != DG_MINUTES || minutes <= budget->n)
        return;
    *told = true;
    dg_log_line(&run->env, DG_WARN, "%s: rank %lld evaluates alone for %.1f min now, its budget is %g min: the other ranks wait",
                e->scope->id, (long long)e->scope->on, minutes, budget->n);
}

static int run_batches(dg_run *run, dg_evaluation *e, const dg_data *data, dg_sinks *sinks, dg_pictures *pictures, dg_diag *d)
{
    dg_stream       *stream = NULL;
    dg_stream_batch *batch = NULL;
    bool             dealt = !data->chain.n_choices && dg_run_shares(run, data->chain.sampler);
    bool             shared = run->world.ranks == 1 || (e->scope->on < 0 && (dealt || !dg_run_deals(run, data)));
    bool             told = false;
    double           begin_s = run->env.now_s();
    int              rc = dg_run_stream(run, e->scope, NULL, 1, &stream, d);

    while (rc == 0) {
        DG_TRY(dg_stream_next(stream, &batch, d));
        if (!batch)
            break;
        DG_TRY(run_batch(run, e, sinks, batch, d));
        if (pictures && !dg_pictures_full(pictures))
            DG_TRY(dg_pictures_add_found(pictures, run, data, batch, picture_threshold, d));
        dg_stream_give_back(stream, batch);
        watch_budget(run, e, begin_s, &told);
        rc = stop_together(run, e, shared, d);
    }
out:
    dg_stream_close(&stream);
    return rc;
}

static int count_images(dg_run *run, dg_evaluation *e, dg_diag *d)
{
    const dg_data *data;
    double         n = (double)e->n_images;
    int            rc;

    if (e->scope->on >= 0) {
        rc = dg_world_broadcast_from(&run->world, (int)e->scope->on, &n, sizeof n, "counted images", d);
    } else {
        rc = dg_run_data(run, e->scope, &data, d);
        if (rc == 0 && dg_run_deals(run, data))
            rc = dg_world_sum(&run->world, &n, "counted images", d);
    }
    e->n_images = (int64_t)n;
    return rc;
}

bool dg_run_evaluates(const dg_run *run, const dg_scope *scope)
{
    return scope->on < 0 || scope->on == run->world.rank;
}

/* This rank's part, whose numbers are the reporter's to give. */
static int take_part(dg_run *run, dg_evaluation *e, int reporter, dg_diag *d)
{
    dg_pictures   *pictures = NULL;
    dg_sinks      *sinks = NULL;
    const dg_data *data;
    int            rc;

    DG_TRY(dg_run_data(run, e->scope, &data, d));

    const dg_sink_args args = {
        .data = data->set,
        .folder = e->folder,
        .scope = e->scope->id,
        .step = run->progress.step,
        .ema = e->ema,
        .ema_weight = e->ema ? 1 - run->fresh : 1,
        .n_loaded = run->n_loaded,
    };

    if (e->folder)
        DG_TRY(dg_mkdirs(e->folder, d));
    DG_TRY(dg_sinks_open(&sinks, e->scope, &args, d));
    pictures = e->folder ? dg_pictures_open(N_PICTURES, data->set) : NULL;
    DG_TRY(run_batches(run, e, data, sinks, pictures, d));
    if (e->scope->on < 0)
        DG_TRY(dg_sinks_join(sinks, run, d));
    if (run->world.rank == reporter)
        rc = dg_sinks_finish(&sinks, e->metrics, d);
    if (rc == 0 && pictures)
        rc = dg_pictures_write(pictures, dg_printf(e->metrics->arena, "%s/step-%06lld.jpg", e->folder,
                                                   (long long)run->progress.step), d);
    if (e->scope->on < 0)
        DG_TRY(dg_world_agree(&run->world, rc, "evaluated", d));
out:
    (void)dg_sinks_finish(&sinks, NULL, d);
    dg_pictures_close(&pictures);
    return rc;
}

int dg_run_evaluate_scope(dg_run *run, dg_evaluation *e, dg_diag *d)
{
    const bool alone = e->scope->on >= 0;
    int        reporter = alone ? (int)e->scope->on : 0, rc = dg_run_evaluates(run, e->scope) ? take_part(run, e, reporter, d) : 0;

    if (rc < 0 && (!alone || rc != -DG_ESTOP)) /* the others' waits end with this rank */
        return rc;
    if (alone) {
        dg_steer_at(run, &e->scope->where, dg_printf(e->metrics->arena, "%s of rank %d alone", e->scope->id, reporter)); /* to be seen there */
        DG_TRY(dg_world_agree(&run->world, rc, "waited for an evaluation", d));
    }
    DG_TRY(dg_metrics_share(&run->world, reporter, e->metrics, d));
    DG_TRY(count_images(run, e, d));
    dg_run_log_warnings(run, d);
out:
    return rc;
}
