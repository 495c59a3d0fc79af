/* train.c: a whole training: batches from the feeder, steps, and when due evaluations and
 * checkpoints. All state that later parts of the run need is in dg_progress, so that a stopped and
 * resumed run continues as if uninterrupted. */
#include "runtime/train.h"

#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "control/link.h"
#include "control/monitor_digests.h"
#include "report/memory_info.h"
#include "runtime/control_hooks.h"
#include "runtime/evaluate.h"
#include "runtime/metrics_out.h"
#include "runtime/run_json.h"
#include "runtime/run_log.h"
#include "runtime/step.h"

enum { FIRST_BATCHES = 3 };

/* ---- one step -------------------------------------------------------------------------------- */

static int show_first_pictures(dg_train *t, const dg_feeder_batch *batch, dg_diag *d)
{
    int rc;

    if (!t->first_pictures)
        return 0;
    DG_TRY(dg_pictures_add_batch(t->first_pictures, batch, d));
    if (dg_pictures_full(t->first_pictures) || batch->number + 1 >= FIRST_BATCHES)
        dg_keep_pictures(t);
out:
    return rc;
}

/* True if no image of the batch has an object. */
static bool has_no_objects(const dg_feeder_batch *b)
{
    const int32_t *count = dg_feeder_batch_data(b, DG_FEED_COUNT, NULL);
    int64_t n = 0;

    for (int slot = 0; count && slot < b->n; slot++)
        n += count[slot];
    return count && n == 0;
}

/* Advances the progress past this batch. */
static void advance_progress(dg_train *t, const dg_feeder_batch *b)
{
    dg_progress *p = t->progress;

    p->epoch = t->epoch = b->epoch;
    p->index = b->index + 1;
    p->sample = (int64_t)b->next_sample;
    if (p->index >= b->n_in_epoch) {
        p->epoch++;
        p->index = 0;
        t->crossed = true;
    }
}

/* Takes the next batch; if the feeder ends with its epoch, opens the next one. */
static int next_batch(dg_train *t, dg_feeder_batch **b, dg_diag *d)
{
    int rc = dg_feeder_next(t->feeder, b, d);

    if (rc < 0 || *b || (t->horizon->n_epochs && t->progress->epoch >= t->horizon->n_epochs))
        return rc;
    dg_feeder_close(&t->feeder);
    DG_TRY(dg_run_open_feeder(t->run, t->scope, t->progress, t->horizon->n_epochs, &t->feeder, d));
    DG_TRY(dg_feeder_next(t->feeder, b, d));
out:
    return rc;
}

static bool may_vote(const dg_chain *c)
{
    bool votes = dg_feeder_votes(c->loader) || dg_feeder_votes(c->batch);

    for (int i = 0; i < c->n_items; i++)
        votes |= dg_feeder_votes(c->items[i]);
    return votes;
}

/* The first error; warnings about replaced images may precede it. */
static const dg_err *first_error(const dg_diag *d)
{
    for (int i = 0; i < dg_diag_n(d); i++)
        if (dg_diag_at(d, i)->severity == DG_ERROR)
            return dg_diag_at(d, i);
    return NULL;
}

/* on_fail="vote": if one rank cannot make a batch, all skip it. It keeps its number, and is not a
 * step. */
static int vote_on_batch(dg_train *t, const dg_feeder_batch *b, bool *leave, dg_diag *d)
{
    enum { MOST = 16 };
    const dg_err *why = b->spoilt ? first_error(b->diag) : NULL;
    int rc;

    *leave = false;
    if (!may_vote(&t->data->chain))
        return 0;
    DG_TRY(
        dg_world_any(t->world, b->spoilt, leave, "looked whether all could make their batches", d));
    t->n_left_out = *leave ? t->n_left_out + 1 : 0;
    if (why)
        dg_warn(d, why->at, "batch-left-out", "%s: all ranks leave this batch out", why->text);
    dg_log_warnings(t->env, d);
    if (t->n_left_out > MOST)
        rc = dg_fail(d, DG_EINPUT, t->data->chain.loader->where, "batches-left-out",
                     "%d batches in a row could not be made by all ranks", t->n_left_out);
out:
    return rc;
}

/* Traces waiting for a batch, and its making on a loader's thread. */
static void trace_batch(dg_train *t, const dg_feeder_batch *b, double begin)
{
    dg_trace_span(t->trace, DG_TIMELINE_STEP, begin, t->env->now_s(), NULL, "wait for data");
    if (b)
        dg_trace_span(t->trace, DG_TIMELINE_LOADER + b->thread, b->begin_s, b->begin_s + b->seconds,
                      t->data->chain.loader->path, "batch %lld, %d image%s",
                      (long long)b->number + 1, b->n, dg_plural(b->n, "s"));
}

/* Feeds the batch, before its word is sent, which has digests of what the host made. */
static int feed_batch(dg_train *t, const dg_feeder_batch *b, dg_diag *d)
{
    double begin = t->env->now_s();
    int rc = 0;

    if (b->spoilt) /* empty */
        dg_monitor_digests_begin(dg_run_digests(t->run), t->graph, t->scope, t->progress->step,
                                 NULL);
    else
        rc = dg_run_feed_batch(t->run, b, d);
    dg_trace_span(t->trace, DG_TIMELINE_STEP, begin, t->env->now_s(), NULL, "feed");
    return rc;
}

/* Sends the next batch to a late device while it computes this one, if it is ready and its program
 * exists. */
static int send_next(void *self, dg_diag *d)
{
    const dg_train *t = self;
    const dg_feeder_batch *next = dg_feeder_peek(t->feeder);
    const dg_compiled *c = next ? dg_programs_made(t->programs, t->scope, next->size) : NULL;

    return c ? dg_run_send_ahead(c, next, d) : 0;
}

/* Forward, backward and update, with the observers that time them. */
static int train_batch(dg_train *t, const dg_feeder_batch *b, bool *updated, dg_diag *d)
{
    int rc;

    dg_run_json_hook(t, true);
    t->step->meanwhile = t->programs->memory.landing.backend ? send_next : NULL;
    t->step->meanwhile_ctx = t;
    rc = dg_run_train_batch(t->run, b, updated, d);
    t->step->meanwhile = NULL;
    dg_run_json_hook(t, false);
    dg_trace_end_node(t->trace);
    return rc;
}

static int one_batch(dg_train *t, bool *updated, bool *end, dg_diag *d)
{
    dg_feeder_batch *b = NULL;
    bool leave;
    double begin;
    int rc;

    dg_control_hooks_at(t->world->link, &t->data->chain.loader->where, NULL);
    begin = t->env->now_s();
    rc = next_batch(t, &b, d);
    t->no_data = rc < 0 && rc != -DG_ESTOP;
    if (rc < 0)
        return rc;
    t->data_s += t->env->now_s() - begin;
    trace_batch(t, b, begin);
    *end = b == NULL;
    if (!b)
        return 0;
    t->progress->epoch = b->epoch;
    t->progress->sample = (int64_t)b->first_sample;
    DG_TRY(dg_programs_use(t->programs, t->scope, b->size, false, d));
    DG_TRY(feed_batch(t, b, d));
    begin = t->env->now_s();
    DG_TRY(dg_control_hooks_begin(t, b, d));
    dg_trace_span(t->trace, DG_TIMELINE_CONTROL, begin, t->env->now_s(), NULL,
                  "is the batch before confirmed?");
    DG_TRY(vote_on_batch(t, b, &leave, d));
    if (leave) {
        t->programs->store->counter = ++t->progress->batch;
    } else {
        t->n_empty += has_no_objects(b);
        DG_TRY(show_first_pictures(t, b, d));
        DG_TRY(train_batch(t, b, updated, d));
        DG_TRY(dg_sinks_take(t->sinks, t->programs->current, b, d));
        if (b->diag)
            dg_diag_merge(d, b->diag);
    }
    advance_progress(t, b);
out:
    if (b)
        dg_feeder_give_back(t->feeder, b);
    return rc;
}

/* Seconds so far of waiting for batches and for other ranks, and of the device's work. */
typedef struct times {
    double data_s, wait_s, device_s;
} times;

static times spent_so_far(const dg_train *t)
{
    return (times){ t->data_s, dg_world_cost(t->world).wait_s, dg_programs_device_s(t->programs) };
}

/* Two logs may have numbers of one name: the later ones become NAME_2, NAME_3; so do all that have
 * a name of the run's own (`own`). */
static void rename_from(dg_metrics *m, int first, const char *own)
{
    for (int i = first, n = 2; i < m->names.n; i++, n = 2) {
        const char *name = m->names.items[i], *next = name;
        bool taken = own && strcmp(name, own) == 0;

        for (int k = 0; k < i && !own; k++)
            taken |= strcmp(name, m->names.items[k]) == 0;
        while (taken) {
            next = dg_printf(m->arena, "%s_%d", name, n++);
            taken = dg_metrics_find(m, next) != NULL;
        }
        m->names.items[i] = next;
    }
}

static void own_metric(dg_metrics *m, double value, const char *name)
{
    rename_from(m, 0, name);
    dg_metric(m, value, "%s", name);
}

static int report_step(dg_train *t, dg_metrics *m, double seconds, const times *spent, dg_diag *d)
{
    const dg_control *c = &t->step->control;
    const dg_progress *p = t->progress;
    double loss = t->step->loss, rate = t->batch / seconds, v;
    int32_t norm = dg_program_result_of(t->programs->current->program, DG_RESULT_GRAD_NORM, 0);
    dg_backend *device = t->programs->conf.backend;
    int64_t left, total;
    int rc = dg_sinks_finish(&t->sinks, m, d);

    rename_from(m, 0, NULL);
    const dg_run_report r = {
        .step = p->step,
        .n_steps = t->horizon->n_steps,
        .epoch = t->epoch,
        .loss = loss,
        .images_per_s = (double)t->identity.accumulate * t->batch / t->step_s,
        .left_s = dg_train_left_s(t),
        .n = m->names.n,
        .names = m->names.items,
        .values = m->values.items,
        .n_epochs = t->horizon->n_epochs,
    };

    if (rc == 0 && t->o->report)
        t->o->report(t->o->ctx, &r);
    own_metric(m, loss, "loss");
    if (norm)
        own_metric(m, dg_exec_get(t->programs->current->exec, norm, &v, NULL) == 0 ? v : 0,
                   "grad_norm");
    own_metric(m, c->n_groups ? c->lr[c->n_groups - 1] : 0, "lr");
    own_metric(m, seconds, "seconds");
    own_metric(m, rate * (double)t->identity.accumulate, "images_per_s");
    own_metric(m, spent->data_s, "data_seconds");
    if (t->world->comm)
        own_metric(m, spent->wait_s, "wait_seconds");
    if (spent->device_s > 0)
        own_metric(m, spent->device_s, "device_seconds");
    own_metric(m, (double)dg_memory_resident(), "memory_bytes");
    if (!device->immediate && device->memory(device, &left, &total) == 0)
        own_metric(m, (double)(total - left), "device_memory_bytes");
    return rc < 0 ? rc : dg_metrics_out(t, t->epoch, NULL, m, d);
}

/* Gathers the trace from all ranks and writes it on rank 0; if that fails, the run continues
 * without. */
static int end_trace(dg_train *t, dg_diag *d)
{
    const char *path = t->out ? dg_path_join(t->arena, t->out, "trace.json") : NULL;
    dg_diag *own = dg_diag_open();
    int rc = t->trace ? dg_trace_write(t->trace, t->world, dg_link_recorder(t->world->link), path,
                                       own, d)
                      : 0;

    if (dg_diag_n(own))
        dg_log_line(t->env, DG_WARN, "no trace: %s: %s", path, dg_diag_at(own, 0)->text);
    else if (rc == 0 && t->trace && path)
        dg_log_line(t->env, DG_INFO, "traced up to step %lld: %s; ui.perfetto.dev shows it",
                    (long long)t->progress->step, path);
    dg_trace_close(&t->trace);
    dg_diag_close(&own);
    return rc;
}

/* Traces the requested number of steps after the first one, which also sets up kernels. */
static int trace_step(dg_train *t, double begin, double seconds, dg_diag *d)
{
    int64_t n = t->progress->step - t->first_step;

    if (t->o->trace <= 0)
        return 0;
    dg_trace_span(t->trace, DG_TIMELINE_STEP, begin, begin + seconds, NULL, "step %lld",
                  (long long)t->progress->step);
    dg_trace_number(t->trace, "loss", t->step->loss);
    dg_trace_number(t->trace, "memory, MiB", (double)dg_memory_resident() / (1 << 20));
    if (n == 1)
        return dg_trace_open(&t->trace, t->world, d);
    return n == t->o->trace + 1 ? end_trace(t, d) : 0;
}

static int one_step(dg_train *t, bool *end, dg_diag *d)
{
    const dg_sink_args args = { .data = t->data->set,
                                .scope = t->scope->id,
                                .step = t->progress->step,
                                .ema_weight = 1,
                                .n_loaded = -1 };
    dg_metrics *m = dg_metrics_open();
    bool updated = false;
    double begin = t->env->now_s(), seconds;
    times before = spent_so_far(t), now;
    int rc;

    t->crossed = false;
    dg_run_json_begin_step(t);
    DG_TRY(dg_sinks_open(&t->sinks, t->scope, &args, d));
    while (!updated && !*end)
        DG_TRY(one_batch(t, &updated, end, d));
    seconds = t->env->now_s() - begin;
    if (updated) {
        t->step_s = t->step_s > 0 ? 0.9 * t->step_s + 0.1 * seconds : seconds;
        DG_TRY(dg_train_tick(t, d));
        dg_run_json_end_step(t, seconds);
        now = spent_so_far(t);
        DG_TRY(trace_step(t, begin, seconds, d));
        DG_TRY(report_step(t, m, seconds,
                           &(times){ now.data_s - before.data_s, now.wait_s - before.wait_s,
                                     now.device_s - before.device_s },
                           d));
    }
out:
    (void)dg_sinks_finish(&t->sinks, NULL, d);
    dg_metrics_close(&m);
    dg_log_warnings(t->env, d);
    return rc;
}

/* Why the run is complete after this step, or NULL. */
static const char *reason_to_end(const dg_train *t)
{
    if (t->horizon->n_steps > 0 && t->progress->step >= t->horizon->n_steps)
        return "all steps are done";
    if (dg_train_out_of_patience(t))
        return "no better result within the patience of <train>";
    if (t->step->stopped_by)
        return dg_printf(t->arena, "<stop id=\"%s\"> has fired", t->step->stopped_by);
    return NULL;
}

/* Why the run stops early after this step, or NULL. */
static const char *reason_to_stop(const dg_train *t)
{
    if (t->o->steps > 0 && t->progress->step >= t->o->steps)
        return "--steps is reached";
    if (t->o->max_minutes > 0 && t->progress->minutes - t->minutes_before >= t->o->max_minutes)
        return "--max-time is reached";
    return NULL;
}

/* ---- the loop -------------------------------------------------------------------------------- */

/* Ends the run, as agreed by all ranks: reports and saves. */
static int end_with(dg_train *t, const char *state, const char *why, dg_diag *d)
{
    int rc = end_trace(t, d);

    if (rc == 0)
        rc = dg_run_json_gather(t, d);
    t->state = state;
    t->why = why;
    return rc < 0 ? rc : dg_keep_save_last(t, d);
}

static int end_interrupted(dg_train *t, dg_diag *d)
{
    int rc = end_with(t, "stopped", "it was asked to stop", d);

    return rc < 0 ? rc
                  : dg_fail(d, DG_ESTOP, DG_NOWHERE, "stopped", "stopped after step %lld%s%s",
                            (long long)t->progress->step,
                            t->out ? ", which is saved; --resume auto continues with --out " : "",
                            t->out ? dg_shell(t->arena, t->out) : "");
}

/* Handles an evaluation that failed or was asked to stop: the step before it is complete, and
 * saved. */
static int leave_evaluation(dg_train *t, int rc, dg_diag *d)
{
    /* the steps so far are valid */
    if (rc != -DG_ESTOP && t->world->ranks == 1 && dg_keep_save_now(t, d) < 0)
        return rc;
    if (rc != -DG_ESTOP || (t->world->ranks > 1 && t->world->comm->why[0]))
        return rc;
    dg_diag_clear(d);
    return end_interrupted(t, d);
}

static int finish_training(dg_train *t, const char *why, dg_diag *d)
{
    int rc = dg_train_evaluate(t, true, d);

    if (rc < 0)
        return leave_evaluation(t, rc, d);
    dg_log_line(t->env, DG_INFO, "done: %s", why);
    return end_with(t, "done", why, d);
}

/* *stop: some rank was asked to stop. */
static int asked_to_stop(const dg_train *t, bool *stop, dg_diag *d)
{
    return dg_world_any(t->world, t->o->stop && t->o->stop(t->o->ctx) > 0, stop, "ended a step", d);
}

/* Starts counting what the ranks cost each other: at the start of a run, and again after its first
 * step, which includes one-time waits. */
static void begin_costs(dg_train *t)
{
    t->costs_from = t->progress->step;
    t->control_s = t->data_s = 0;
    t->monitors_s = dg_monitor_digests_seconds(dg_run_digests(t->run));
    dg_run_json_restart(t);
    t->cost = dg_world_cost(t->world);
}

static int run_steps(dg_train *t, dg_diag *d)
{
    const char *why = reason_to_end(t);
    bool end = false, stop;
    int64_t batch;
    /* skipped after an incomplete step */
    int rc = why || t->progress->step == 0 ? 0 : dg_train_evaluate(t, false, d);

    if (rc < 0)
        return leave_evaluation(t, rc, d);
    while (!why) {
        if (reason_to_stop(t)) {
            dg_log_line(t->env, DG_INFO, "stopped at step %lld: %s%s", (long long)t->progress->step,
                        reason_to_stop(t), t->out ? "; --resume goes on from here" : "");
            return end_with(t, "stopped", reason_to_stop(t), d);
        }
        batch = t->progress->batch;
        rc = one_step(t, &end, d);
        if (rc < 0)
            return dg_keep_trained(t, batch, rc, d);
        dg_keep_folder(t);
        if (t->progress->step == t->first_step + 1)
            begin_costs(t);
        why = end ? "the data of all epochs were seen" : reason_to_end(t);
        if (!end && !why) {
            rc = dg_train_evaluate(t, false, d);
            if (rc < 0)
                return leave_evaluation(t, rc, d);
            DG_TRY(dg_train_save_due(t, d));
            DG_TRY(dg_control_hooks_end(t, d));
            why = reason_to_end(t);
        }
        DG_TRY(asked_to_stop(t, &stop, d));
        if (stop)
            return end_interrupted(t, d);
    }
    return finish_training(t, why, d);
out:
    return rc;
}

/* Logs collective time per step and the number of batches without objects. */
static int log_ranks(const dg_train *t, dg_diag *d)
{
    const dg_world *w = t->world;
    const dg_comm_cost c = dg_world_cost(w);
    double steps = (double)(t->progress->step - t->costs_from), empty = (double)t->n_empty;
    int rc = w->ranks > 1 ? dg_world_sum(w, &empty, "counted empty batches", d) : 0;

    if (rc < 0 || w->ranks == 1 || steps < 1)
        return rc;
    dg_log_line(t->env, DG_INFO,
                "a step has %.0f collectives: %.2f ms of adding and copying, %.2f ms of waiting "
                "for other ranks",
                (double)(c.n - t->cost.n) / steps, 1e3 * (c.work_s - t->cost.work_s) / steps,
                1e3 * (c.wait_s - t->cost.wait_s) / steps);
    dg_log_line(t->env, DG_INFO, "the control plane takes %.0f us of a step, monitors %.1f us more",
                1e6 * t->control_s / steps,
                1e6 * (dg_monitor_digests_seconds(dg_run_digests(t->run)) - t->monitors_s) / steps);
    dg_log_line(t->env, DG_INFO, "batches without an object: %.0f of %.0f, all ranks together",
                empty,
                (double)(t->progress->step - t->first_step) * (double)t->identity.accumulate *
                    w->ranks);
    return 0;
}

/* Records in the run's folder how the run ended. */
static void write_end(dg_train *t, int rc, dg_diag *d)
{
    bool failed = rc < 0 && !(rc == -DG_ESTOP && t->state);

    dg_run_json_write(t, failed ? "failed" : t->state, failed ? dg_diag_text(d) : t->why);
    if (!failed)
        dg_run_json_report(t);
}

static dg_train begin_training(dg_run *run, const dg_run_train_options *o, dg_arena *a)
{
    const dg_graph *g = dg_run_pipeline(run)->graph;

    return (dg_train){
        .run = run,
        .graph = g,
        .world = dg_run_world(run),
        .env = dg_run_env(run),
        .programs = dg_run_programs(run),
        .progress = dg_run_progress(run),
        .horizon = dg_run_horizon(run),
        .step = dg_run_step_state(run),
        .o = o,
        .scope = g->train,
        .conf = &g->checkpoint,
        .arena = a,
        .started = dg_run_env(run)->now_s(),
        .saved_step = -1,
        .kept_step = -1,
        .evaluated_minutes = DG_NEW_N(a, g->n_evaluates + 1, double),
        .scores = DG_NEW_N(a, g->n_evaluates + 1, dg_str),
    };
}

int dg_run_train(dg_run *run, const dg_run_train_options *o, dg_diag *d)
{
    dg_run_train_options options = { 0 };
    dg_arena *a = dg_arena_open();
    dg_train t = begin_training(run, &options, a);
    int rc;

    t.step->stopped_by = NULL;
    memcpy(&options, o, o->size < sizeof options ? o->size : sizeof options);
    if (t.progress->step == 0)
        t.progress->evaluated = -1;
    if (t.scope) {
        DG_TRY(dg_train_start(&t, d));
        dg_run_log_of(run)->started = true;
        t.first_step = t.progress->step;
        dg_run_json_open(&t);
        begin_costs(&t);
        dg_run_json_write(&t, "running", "");
        dg_keep_data(&t);
        DG_TRY(run_steps(&t, d));
        DG_TRY(log_ranks(&t, d));
    } else {
        rc = dg_fail(d, DG_EINPUT, (dg_where){ .file = t.graph->file }, "pipeline-without-train",
                     "the pipeline has no <train>: there is nothing to train");
    }
out:
    if (rc < 0 && rc != -DG_ESTOP && t.world->ranks > 1)
        t.world->comm->abort(t.world->comm); /* no rank must wait for a failed one */
    /* the run ended before there were enough, perhaps because of what they show */
    if (t.first_pictures)
        dg_keep_pictures(&t);
    dg_keep_close(&t);
    dg_feeder_close(&t.feeder);
    dg_pictures_close(&t.first_pictures);
    dg_metrics_out_close(&t);
    dg_trace_close(&t.trace);
    dg_str_free(&t.numbers);
    for (int i = 0; i < t.graph->n_evaluates; i++)
        dg_str_free(&t.scores[i]);
    write_end(&t, rc, d);
    dg_run_json_close(&t);
    dg_run_log_close(dg_run_log_of(run), rc < 0 ? dg_diag_text(d) : NULL);
    dg_arena_close(&a);
    return rc;
}
