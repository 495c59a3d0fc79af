/* evaluate.c: one pass over an evaluation's data. Parameters, device and preprocessing are those of training,
 * because they are the same memory, the same executor and the same stream. */
#include "runtime/session.h"

#include "base/file.h"

enum { N_PICTURES = 9 };
static const double picture_threshold = 0.4;

/* Ranks that share one plan have equally many batches: one that is asked to stop stops all. Others go on to the end,
 * unless they are told to stop at once. */
static int stop_together(dg_run *run, const dg_evaluation *e, bool shared, dg_diag *d)
{
    int  asked = e->stop ? e->stop(e->ctx) : 0, rc = 0;
    bool stop = shared ? asked > 0 : asked > 1;

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

static int run_batches(dg_run *run, dg_evaluation *e, const dg_data *data, dg_sinks *sinks, dg_pictures *pictures, dg_diag *d)
{
    dg_stream       *stream = NULL;
    dg_stream_batch *batch = NULL;
    bool             shared = run->world.ranks == 1 || (!data->chain.n_choices && dg_run_shares(run, data->chain.sampler));
    int              rc = dg_run_stream(run, e->scope, NULL, 1, &stream, d);

    while (rc == 0) {
        DG_TRY(dg_stream_next(stream, &batch, d));
        if (!batch)
            break;
        DG_TRY(run_batch(run, e, sinks, batch, d));
        if (pictures && !dg_pictures_full(pictures))
            DG_TRY(dg_pictures_add_found(pictures, run, data, batch, picture_threshold, d));
        dg_stream_give_back(stream, batch);
        rc = stop_together(run, e, shared, d);
    }
out:
    dg_stream_close(&stream);
    return rc;
}

static int count_images(dg_run *run, dg_evaluation *e, const dg_data *data, dg_diag *d)
{
    double n = (double)e->n_images;
    int    rc = dg_run_deals(run, data) ? dg_world_sum(&run->world, &n, "counted images", d) : 0;

    e->n_images = (int64_t)n;
    return rc;
}

int dg_run_evaluate_scope(dg_run *run, dg_evaluation *e, dg_diag *d)
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
    DG_TRY(dg_sinks_join(sinks, run, d));
    if (run->world.rank == 0)
        rc = dg_sinks_finish(&sinks, e->metrics, d);
    if (rc == 0 && pictures)
        rc = dg_pictures_write(pictures, dg_printf(e->metrics->arena, "%s/step-%06lld.jpg", e->folder,
                                                   (long long)run->progress.step), d);
    DG_TRY(dg_world_agree(&run->world, rc, "evaluated", d));
    DG_TRY(dg_metrics_share(&run->world, e->metrics, d));
    DG_TRY(count_images(run, e, data, d));
    dg_run_log_warnings(run, d);
out:
    (void)dg_sinks_finish(&sinks, NULL, d);
    dg_pictures_close(&pictures);
    return rc;
}
