/* train.c: a whole training: batches from the stream, steps, and at their clocks evaluations and checkpoints.
 * Everything that a later part of the run needs stands in dg_progress, so a run that was stopped and resumed does
 * what it would have done. */
#include "runtime/train.h"

#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "runtime/account.h"
#include "runtime/available.h"
#include "runtime/datareport.h"
#include "runtime/link.h"
#include "runtime/report.h"
#include "runtime/steer.h"
#include "runtime/tell.h"
#include "runtime/witness.h"

enum { FIRST_BATCHES = 3 };

/* ---- one step ---------------------------------------------------------------------------------------------- */

static int write_first(dg_train *t, dg_diag *d)
{
    int rc = dg_pictures_write(t->first, dg_path_join(t->arena, t->out, "first-batches.jpg"), d);

    dg_pictures_close(&t->first);
    return rc;
}

static int show_first(dg_train *t, const dg_stream_batch *batch, dg_diag *d)
{
    int rc;

    if (!t->first)
        return 0;
    DG_TRY(dg_pictures_add_batch(t->first, batch, d));
    if (dg_pictures_full(t->first) || batch->number + 1 >= FIRST_BATCHES)
        DG_TRY(write_first(t, d));
out:
    return rc;
}

/* Has no image of the batch an object? */
static bool is_empty(const dg_stream_batch *b)
{
    int64_t n = 0;

    for (int i = 0; i < b->n_feeds; i++) {
        const int32_t *count = strcmp(b->feeds[i].key, "targets.count") == 0 ? b->data[i] : NULL;

        if (!count)
            continue;
        for (int slot = 0; slot < b->n; slot++)
            n += count[slot];
        return n == 0;
    }
    return false;
}

/* The next batch is the one after this. */
static void advance(dg_train *t, const dg_stream_batch *b)
{
    dg_progress *p = &t->run->progress;

    p->epoch = t->epoch = b->epoch;
    p->index = b->index + 1;
    p->sample = (int64_t)b->next_sample;
    if (p->index >= b->n_in_epoch) {
        p->epoch++;
        p->index = 0;
        t->crossed = true;
    }
}

/* A stream that ends with its epoch is followed by the next one's. */
static int next_batch(dg_train *t, dg_stream_batch **b, dg_diag *d)
{
    dg_run *run = t->run;
    int     rc = dg_stream_next(t->stream, b, d);

    if (rc < 0 || *b || (run->n_epochs && run->progress.epoch >= run->n_epochs))
        return rc;
    dg_stream_close(&t->stream);
    DG_TRY(dg_run_stream(run, t->scope, &run->progress, run->n_epochs, &t->stream, d));
    DG_TRY(dg_stream_next(t->stream, b, d));
out:
    return rc;
}

static bool may_vote(const dg_chain *c)
{
    bool votes = dg_stream_votes(c->loader) || dg_stream_votes(c->batch);

    for (int i = 0; i < c->n_items; i++)
        votes |= dg_stream_votes(c->items[i]);
    return votes;
}

/* Warnings of images that were replaced may stand before it. */
static const dg_err *first_error(const dg_diag *d)
{
    for (int i = 0; i < dg_diag_n(d); i++)
        if (dg_diag_at(d, i)->severity == DG_ERROR)
            return dg_diag_at(d, i);
    return NULL;
}

/* on_fail="vote": a batch that one rank cannot make is left out by all. It has its number, and is no step. */
static int vote(dg_train *t, const dg_stream_batch *b, bool *leave, dg_diag *d)
{
    enum { MOST = 16 };
    dg_run       *run = t->run;
    const dg_err *why = b->spoilt ? first_error(b->diag) : NULL;
    int           rc;

    *leave = false;
    if (!may_vote(&t->data->chain))
        return 0;
    DG_TRY(dg_world_any(&run->world, b->spoilt, leave, "looked whether all could make their batches", d));
    t->n_left_out = *leave ? t->n_left_out + 1 : 0;
    if (why)
        dg_warn(d, why->at, "batch-left-out", "%s: all ranks leave this batch out", why->text);
    dg_run_log_warnings(run, d);
    if (t->n_left_out > MOST)
        rc = dg_fail(d, DG_EINPUT, t->data->chain.loader->where, "batches-left-out",
                     "%d batches in a row could not be made by all ranks", t->n_left_out);
out:
    return rc;
}

/* Waiting for a batch, and how it was made on a loader's thread meanwhile. */
static void trace_batch(dg_train *t, const dg_stream_batch *b, double begin)
{
    dg_trace_span(t->trace, DG_LANE_STEP, begin, t->run->env.now_s(), NULL, "wait for data");
    if (b)
        dg_trace_span(t->trace, DG_LANE_LOADER + b->thread, b->begin_s, b->begin_s + b->seconds, t->data->chain.loader->path, "batch %lld, %d images",
                      (long long)b->number + 1, b->n);
}

/* Before the batch's word, which says what the host has made of it. */
static int feed(dg_train *t, const dg_stream_batch *b, dg_diag *d)
{
    dg_run *run = t->run;
    double  begin = run->env.now_s();
    int     rc = 0;

    if (b->spoilt) /* nothing of it is there */
        dg_witness_begin(run->witness, run->graph, t->scope, run->progress.step, NULL);
    else
        rc = dg_run_feed_batch(run, b, d);
    dg_trace_span(t->trace, DG_LANE_STEP, begin, run->env.now_s(), NULL, "feed");
    return rc;
}

/* Forward, backward and the update, with whoever takes their time. */
static int train_batch(dg_train *t, const dg_stream_batch *b, bool *updated, dg_diag *d)
{
    int rc;

    dg_account_hook(t, true);
    rc = dg_run_train_batch(t->run, b, updated, d);
    dg_account_hook(t, false);
    dg_trace_end_node(t->trace);
    return rc;
}

static int one_batch(dg_train *t, bool *updated, bool *end, dg_diag *d)
{
    dg_stream_batch *b = NULL;
    dg_run          *run = t->run;
    bool             leave;
    double           begin;
    int              rc;

    dg_steer_at(run, &t->data->chain.loader->where, NULL);
    begin = run->env.now_s();
    DG_TRY(next_batch(t, &b, d));
    t->data_s += run->env.now_s() - begin;
    trace_batch(t, b, begin);
    *end = b == NULL;
    if (!b)
        return 0;
    run->progress.epoch = b->epoch;
    run->progress.sample = (int64_t)b->first_sample;
    DG_TRY(dg_run_use(run, t->scope, b->size, false, d));
    DG_TRY(feed(t, b, d));
    begin = run->env.now_s();
    DG_TRY(dg_steer_begin(t, b, d));
    dg_trace_span(t->trace, DG_LANE_CONTROL, begin, run->env.now_s(), NULL, "is the batch before confirmed?");
    DG_TRY(vote(t, b, &leave, d));
    if (leave) {
        run->store->counter = ++run->progress.batch;
    } else {
        t->n_empty += is_empty(b);
        DG_TRY(show_first(t, b, d));
        DG_TRY(train_batch(t, b, updated, d));
        DG_TRY(dg_sinks_take(t->sinks, run, b, d));
        if (b->diag)
            dg_diag_merge(d, b->diag);
    }
    advance(t, b);
out:
    if (b)
        dg_stream_give_back(t->stream, b);
    return rc;
}

/* Seconds that this rank has waited so far: for batches, and for other ranks. */
typedef struct waits {
    double data_s, wait_s;
} waits;

static waits waits_of(const dg_train *t)
{
    return (waits){ t->data_s, t->run->world.comm ? t->run->world.comm->cost.wait_s : 0 };
}

static double result_or(dg_run *run, const char *name, double other)
{
    double v;

    return dg_program_result(run->current->program, name) && dg_exec_read(run->current->exec, name, &v, NULL) == 0 ? v : other;
}

static int report_step(dg_train *t, dg_metrics *m, double seconds, const waits *waited, dg_diag *d)
{
    dg_run             *run = t->run;
    const dg_control   *c = &run->control;
    const dg_progress  *p = &run->progress;
    double              loss = run->loss, rate = t->batch / seconds;
    int                 rc = dg_sinks_finish(&t->sinks, m, d);
    const dg_run_report r = {
        .step = p->step, .n_steps = run->n_steps, .epoch = t->epoch, .loss = loss,
        .images_per_s = (double)t->identity.accumulate * t->batch / t->step_s, .left_s = dg_train_left_s(t),
        .n = m->names.n, .names = m->names.items, .values = m->values.items,
    };

    if (rc == 0 && t->o->report)
        t->o->report(t->o->ctx, &r);
    dg_metric(m, loss, "loss");
    if (dg_program_result(run->current->program, "grad_norm"))
        dg_metric(m, result_or(run, "grad_norm", 0), "grad_norm");
    dg_metric(m, c->n_groups ? c->lr[c->n_groups - 1] : 0, "lr");
    dg_metric(m, seconds, "seconds");
    dg_metric(m, rate * (double)t->identity.accumulate, "images_per_s");
    dg_metric(m, waited->data_s, "data_seconds");
    if (run->world.comm)
        dg_metric(m, waited->wait_s, "wait_seconds");
    dg_metric(m, (double)dg_memory_resident(), "memory_bytes");
    return rc < 0 ? rc : dg_tell(t, t->epoch, NULL, m, d);
}

/* What was traced is gathered from all ranks, and written by rank 0; where it cannot be, the run goes on without. */
static int end_trace(dg_train *t, dg_diag *d)
{
    const char *path = t->out ? dg_path_join(t->arena, t->out, "trace.json") : NULL;
    dg_diag    *own = dg_diag_open();
    int         rc = t->trace ? dg_trace_write(t->trace, &t->run->world, dg_link_recorder(t->run->world.link), path, own, d) : 0;

    if (dg_diag_n(own))
        dg_log_line(&t->run->env, DG_WARN, "no trace: %s: %s", path, dg_diag_at(own, 0)->text);
    else if (rc == 0 && t->trace && path)
        dg_log_line(&t->run->env, DG_INFO, "traced up to step %lld: %s; ui.perfetto.dev shows it", (long long)t->run->progress.step, path);
    dg_trace_close(&t->trace);
    dg_diag_close(&own);
    return rc;
}

/* The steps after the first one, which also sets up kernels, are traced, as many as were asked for. */
static int trace_step(dg_train *t, double begin, double seconds, dg_diag *d)
{
    int64_t n = t->run->progress.step - t->first_step;

    if (t->o->trace <= 0)
        return 0;
    dg_trace_span(t->trace, DG_LANE_STEP, begin, begin + seconds, NULL, "step %lld", (long long)t->run->progress.step);
    dg_trace_number(t->trace, "loss", t->run->loss);
    dg_trace_number(t->trace, "memory, MiB", (double)dg_memory_resident() / (1 << 20));
    if (n == 1)
        return dg_trace_open(&t->trace, &t->run->world, d);
    return n == t->o->trace + 1 ? end_trace(t, d) : 0;
}

static int one_step(dg_train *t, bool *end, dg_diag *d)
{
    const dg_sink_args args = { .data = t->data->set, .scope = t->scope->id, .step = t->run->progress.step, .ema_weight = 1, .n_loaded = -1 };
    dg_metrics        *m = dg_metrics_open();
    bool               updated = false;
    double             begin = t->run->env.now_s(), seconds;
    waits              before = waits_of(t), now;
    int                rc;

    t->crossed = false;
    dg_account_begin_step(t);
    DG_TRY(dg_sinks_open(&t->sinks, t->scope, &args, d));
    while (!updated && !*end)
        DG_TRY(one_batch(t, &updated, end, d));
    seconds = t->run->env.now_s() - begin;
    if (updated) {
        t->step_s = t->step_s > 0 ? 0.9 * t->step_s + 0.1 * seconds : seconds;
        DG_TRY(dg_train_tick(t, d));
        dg_account_end_step(t, seconds);
        now = waits_of(t);
        DG_TRY(trace_step(t, begin, seconds, d));
        DG_TRY(report_step(t, m, seconds, &(waits){ now.data_s - before.data_s, now.wait_s - before.wait_s }, d));
    }
out:
    (void)dg_sinks_finish(&t->sinks, NULL, d);
    dg_metrics_close(&m);
    dg_run_log_warnings(t->run, d);
    return rc;
}

/* Why the run ends after this step, or NULL. */
static const char *reason_to_end(const dg_train *t)
{
    const dg_run *run = t->run;

    if (run->n_steps > 0 && run->progress.step >= run->n_steps)
        return "all steps are done";
    if (dg_train_out_of_patience(t))
        return "no better result within the patience of <train>";
    if (run->stopped_by)
        return dg_printf(t->arena, "<stop id=\"%s\"> has fired", run->stopped_by);
    return NULL;
}

/* Why it stops before its end, or NULL. */
static const char *reason_to_stop(const dg_train *t)
{
    if (t->o->steps > 0 && t->run->progress.step >= t->o->steps)
        return "--steps is reached";
    if (t->o->max_minutes > 0 && t->run->progress.minutes - t->minutes_before >= t->o->max_minutes)
        return "--max-time is reached";
    return NULL;
}

/* ---- the loop ---------------------------------------------------------------------------------------------- */

/* The end is agreed: what all have done is told, and saved. */
static int end_with(dg_train *t, const char *state, const char *why, dg_diag *d)
{
    int rc = end_trace(t, d);

    if (rc == 0)
        rc = dg_account_gather(t, d);
    t->state = state;
    t->why = why;
    return rc < 0 ? rc : dg_train_save(t, d);
}

static int interrupted(dg_train *t, dg_diag *d)
{
    int rc = end_with(t, "stopped", "it was asked to stop", d);

    return rc < 0 ? rc
                  : dg_fail(d, DG_ESTOP, DG_NOWHERE, "stopped", "stopped after step %lld%s%s",
                            (long long)t->run->progress.step, t->out ? ", which is saved; --resume auto continues with --out " : "",
                            t->out ? t->out : "");
}

/* Asked to stop in the middle of an evaluation, or it failed: the step before it is whole, and saved. */
static int leave_evaluation(dg_train *t, int rc, dg_diag *d)
{
    if (rc != -DG_ESTOP && t->run->world.ranks == 1 && dg_train_save(t, d) < 0) /* the steps before it are good */
        return rc;
    if (rc != -DG_ESTOP || (t->run->world.ranks > 1 && t->run->world.comm->why[0]))
        return rc;
    dg_diag_clear(d);
    return interrupted(t, d);
}

static int finish(dg_train *t, const char *why, dg_diag *d)
{
    int rc = dg_train_evaluate(t, true, d);

    if (rc < 0)
        return leave_evaluation(t, rc, d);
    dg_log_line(&t->run->env, DG_INFO, "done: %s", why);
    return end_with(t, "done", why, d);
}

/* Whether any rank was asked to stop. */
static int asked_to_stop(const dg_train *t, bool *stop, dg_diag *d)
{
    return dg_world_any(&t->run->world, t->o->stop && t->o->stop(t->o->ctx) > 0, stop, "ended a step", d);
}

/* What the ranks cost each other is counted from here on: once a run begins, and again after its first step, in which they
 * wait for what each does but once. */
static void begin_costs(dg_train *t)
{
    t->costs_from = t->run->progress.step;
    t->steer_s = t->data_s = 0;
    t->watched_s = dg_witness_seconds(t->run->witness);
    dg_account_restart(t);
    if (t->run->world.comm)
        t->cost = t->run->world.comm->cost;
}

static int loop(dg_train *t, dg_diag *d)
{
    const char *why = reason_to_end(t);
    bool        end = false, stop;
    int         rc = why || t->run->progress.step == 0 ? 0 : dg_train_evaluate(t, false, d); /* of a step that was cut short */

    if (rc < 0)
        return leave_evaluation(t, rc, d);
    while (!why) {
        if (reason_to_stop(t)) {
            dg_log_line(&t->run->env, DG_INFO, "stopped at step %lld: %s%s", (long long)t->run->progress.step, reason_to_stop(t),
                        t->out ? "; --resume goes on from here" : "");
            return end_with(t, "stopped", reason_to_stop(t), d);
        }
        DG_TRY(one_step(t, &end, d));
        if (t->run->progress.step == t->first_step + 1)
            begin_costs(t);
        why = end ? "the data of all epochs were seen" : reason_to_end(t);
        if (!end && !why) {
            rc = dg_train_evaluate(t, false, d);
            if (rc < 0)
                return leave_evaluation(t, rc, d);
            DG_TRY(dg_train_save_due(t, d));
            DG_TRY(dg_steer_end(t, d));
            why = reason_to_end(t);
        }
        DG_TRY(asked_to_stop(t, &stop, d));
        if (stop)
            return interrupted(t, d);
    }
    return finish(t, why, d);
out:
    return rc;
}

/* What the ranks have cost each other, and how often one had nothing to find. */
static int log_ranks(const dg_train *t, dg_diag *d)
{
    const dg_world     *w = &t->run->world;
    const dg_comm_cost *c = w->ranks > 1 ? &w->comm->cost : NULL;
    double              steps = (double)(t->run->progress.step - t->costs_from), empty = (double)t->n_empty;
    int                 rc = c ? dg_world_sum(w, &empty, "counted empty batches", d) : 0;

    if (rc < 0 || !c || steps < 1)
        return rc;
    dg_log_line(&t->run->env, DG_INFO, "a step has %.0f collectives: %.2f ms of adding and copying, %.2f ms of waiting for other ranks",
                (double)(c->n - t->cost.n) / steps, 1e3 * (c->work_s - t->cost.work_s) / steps,
                1e3 * (c->wait_s - t->cost.wait_s) / steps);
    dg_log_line(&t->run->env, DG_INFO, "the control plane takes %.0f us of a step, monitors %.1f us more", 1e6 * t->steer_s / steps,
                1e6 * (dg_witness_seconds(t->run->witness) - t->watched_s) / steps);
    dg_log_line(&t->run->env, DG_INFO, "batches without an object: %.0f of %.0f, all ranks together", empty,
                (double)(t->run->progress.step - t->first_step) * (double)t->identity.accumulate * w->ranks);
    return 0;
}

/* What stands in the data is told once: a run does not end with another look at them. */
static void write_data_report(const dg_train *t)
{
    dg_diag *d = dg_diag_open();

    if (t->out && dg_data_report_write(dg_path_join(t->arena, t->out, "data.json"), t->run, d) < 0)
        dg_log_line(&t->run->env, DG_WARN, "no data report: %s", dg_diag_at(d, 0)->text);
    dg_diag_close(&d);
}

/* A page that cannot be written is no reason to fail: everything that stands in it lies in the folder. */
static void write_report(const dg_train *t)
{
    dg_diag *d = dg_diag_open();

    if (dg_report_write(dg_path_join(t->arena, t->out, "report.html"), &t->out, 1, d) < 0)
        dg_log_line(&t->run->env, DG_WARN, "no report: %s", dg_diag_at(d, 0)->text);
    dg_diag_close(&d);
}

/* How it ended, for the run's folder. */
static void tell_end(dg_train *t, int rc, dg_diag *d)
{
    bool failed = rc < 0 && !(rc == -DG_ESTOP && t->state);

    if (failed)
        dg_account_write(t, "failed", dg_diag_text(d));
    else
        dg_account_write(t, t->state, t->why);
    if (!failed && t->out)
        write_report(t);
}

int dg_run_train(dg_run *run, const dg_run_train_options *o, dg_diag *d)
{
    dg_arena            *a = dg_arena_open();
    dg_run_train_options options = { 0 };
    dg_train             t = { .run = run, .o = &options, .scope = run->graph->train, .conf = &run->graph->checkpoint,
                               .arena = a, .started = run->env.now_s(), .saved_step = -1 };
    int                  rc;

    run->stopped_by = NULL;
    memcpy(&options, o, o->size < sizeof options ? o->size : sizeof options);
    if (run->progress.step == 0)
        run->progress.evaluated = -1;
    t.evaluated_minutes = DG_NEW_N(a, run->graph->n_evaluates + 1, double);
    t.scores = DG_NEW_N(a, run->graph->n_evaluates + 1, dg_str);
    if (t.scope) {
        DG_TRY(dg_train_start(&t, d));
        run->started = true;
        t.first_step = run->progress.step;
        dg_account_open(&t);
        begin_costs(&t);
        dg_account_write(&t, "running", "");
        write_data_report(&t);
        DG_TRY(loop(&t, d));
        DG_TRY(log_ranks(&t, d));
    } else {
        rc = dg_fail(d, DG_EINPUT, (dg_where){ .file = run->graph->file }, "pipeline-without-train",
                     "the pipeline has no <train>: there is nothing to train");
    }
out:
    if (rc < 0 && rc != -DG_ESTOP && run->world.ranks > 1)
        run->world.comm->abort(run->world.comm); /* nobody waits for a rank that has failed */
    if (t.first) { /* it ended before there were enough, maybe because of what they show */
        int own = write_first(&t, rc < 0 ? NULL : d);

        rc = rc < 0 ? rc : own;
    }
    dg_stream_close(&t.stream);
    dg_pictures_close(&t.first);
    dg_tell_close(&t);
    dg_trace_close(&t.trace);
    dg_str_free(&t.numbers);
    for (int i = 0; t.scores && i < run->graph->n_evaluates; i++)
        dg_str_free(&t.scores[i]);
    tell_end(&t, rc, d);
    dg_account_close(&t);
    if (run->log_file) {
        if (rc < 0)
            fputs(dg_diag_text(d), run->log_file);
        fclose(run->log_file);
        run->log_file = NULL;
    }
    dg_arena_close(&a);
    return rc;
}

int dg_run_evaluate(dg_run *run, const char *folder, bool ema, void (*report)(void *ctx, const dg_run_report *r), void *ctx,
                    dg_diag *d)
{
    int rc = 0;

    if (!run->graph->n_evaluates)
        return dg_fail(d, DG_EINPUT, (dg_where){ .file = run->graph->file }, "pipeline-without-evaluate",
                       "the pipeline has no <evaluate>");
    DG_TRY(dg_steer_places(run, d));
    dg_run_log_start(run);
    DG_TRY(dg_run_prepare(run, false, true, d));
    for (int i = 0; i < run->graph->n_evaluates; i++) {
        dg_evaluation e = { .scope = run->graph->evaluates[i], .ema = ema, .metrics = dg_metrics_open(), .folder = folder };
        double        begin = run->env.now_s();

        if (folder && run->graph->n_evaluates > 1)
            e.folder = dg_path_join(run->arena, folder, e.scope->id);
        rc = dg_run_evaluate_scope(run, &e, d);
        if (rc == 0 && report)
            report(ctx, &(dg_run_report){
                .step = run->progress.step, .left_s = -1, .scope = e.scope->id,
                .images_per_s = (double)e.n_images / (run->env.now_s() - begin), .n = e.metrics->names.n,
                .names = e.metrics->names.items, .values = e.metrics->values.items, .n_notes = e.metrics->notes.n,
                .notes = e.metrics->notes.items });
        dg_metrics_close(&e.metrics);
        if (rc < 0)
            break;
    }
out:
    return rc;
}
