/* due.c: what is due between steps: evaluations, checkpoints, the end of patience. Ranks make the
 * same decisions, because they use the same numbers: steps, scores, and rank 0's time. */
#include "runtime/train.h"

#include "base/file.h"
#include "runtime/control_hooks.h"
#include "runtime/evaluate.h"
#include "runtime/metrics_out.h"
#include "runtime/run_json.h"

static double minutes_now(const dg_train *t)
{
    return t->minutes_before + (t->env->now_s() - t->started) / 60;
}

/* Takes rank 0's time on all ranks. */
int dg_train_tick(dg_train *t, dg_diag *d)
{
    double minutes = minutes_now(t);
    int rc = dg_world_broadcast(t->world, &minutes, sizeof minutes, "took the time", d);

    t->progress->minutes = minutes;
    return rc;
}

double dg_train_steps_between(const dg_train *t, const dg_scope *evaluate)
{
    const dg_when *w = &evaluate->every;

    return w->unit == DG_STEPS    ? w->n
           : w->unit == DG_EPOCHS ? w->n * (double)t->horizon->per_epoch
                                  : 0;
}

double dg_train_left_s(const dg_train *t)
{
    double steps = (double)(t->horizon->n_steps - t->progress->step), all = steps * t->step_s;

    if (t->horizon->n_steps <= 0)
        return -1;
    for (int i = 0; i < t->graph->n_evaluates; i++) {
        const double every = dg_train_steps_between(t, t->graph->evaluates[i]);

        all += every > 0 ? steps / every * t->evaluate_s : 0;
    }
    return all;
}

static bool is_due(const dg_train *t, const dg_when *w, double last_minutes)
{
    const dg_progress *p = t->progress;

    switch (w->unit) {
    case DG_STEPS:
        return w->n >= 1 && p->step % (int64_t)w->n == 0;
    case DG_EPOCHS:
        return w->n >= 1 && t->crossed && p->epoch % (int64_t)w->n == 0;
    case DG_MINUTES:
        return p->minutes - last_minutes >= w->n;
    case DG_SHARE: /* refused by graph/load.c */
    case DG_NEVER:
        break;
    }
    return false;
}

/* True if this is the checkpoint metric's best value so far. */
static int keep_best(dg_train *t, const dg_scope *scope, const dg_metrics *m, dg_diag *d)
{
    dg_progress *p = t->progress;
    const double *v;

    if (!t->conf->best || t->conf->best->scope != scope)
        return 0;
    v = dg_metrics_find(m, t->conf->best_key);
    if (!v) {
        const char *near = dg_nearest(t->conf->best_key, m->names.items, m->names.n);

        dg_fail(d, DG_EINPUT, t->conf->where, "best-unknown",
                "best=\"@%s.%s\": the evaluation gives no \"%s\"", t->conf->best->id,
                t->conf->best_key, t->conf->best_key);
        if (near)
            dg_help(d, "did you mean \"%s\"?", near);
        return -DG_EINPUT;
    }
    if (p->has_best && *v <= p->best)
        return 0;
    p->has_best = true;
    p->best = *v;
    p->best_step = p->step;
    p->best_epoch = p->epoch;
    p->best_minutes = p->minutes;
    return 0;
}

static int run_evaluation(dg_train *t, const dg_scope *scope, dg_diag *d)
{
    dg_evaluation e = { .scope = scope,
                        .ema = scope->weights != NULL,
                        .goes_on = true,
                        .stop = t->o->stop,
                        .ctx = t->o->ctx,
                        .metrics = dg_metrics_open() };
    double begin = t->env->now_s();
    int rc;

    dg_control_hooks_at(t->world->link, &scope->where, scope->id);
    e.folder = t->out && !t->homeless ? dg_path_join(t->arena, t->out, scope->id) : NULL;
    DG_TRY(dg_run_evaluate_scope(t->run, &e, d));
    t->evaluate_s = t->env->now_s() - begin;
    DG_TRY(dg_train_tick(t, d));
    DG_TRY(keep_best(t, scope, e.metrics, d));
    if (t->o->report)
        t->o->report(t->o->ctx,
                     &(dg_run_report){ .step = t->progress->step,
                                       .n_steps = t->horizon->n_steps,
                                       .epoch = t->progress->epoch,
                                       .left_s = dg_train_left_s(t),
                                       .images_per_s = (double)e.n_images / t->evaluate_s,
                                       .scope = scope->id,
                                       .n = e.metrics->names.n,
                                       .names = e.metrics->names.items,
                                       .values = e.metrics->values.items,
                                       .n_notes = e.metrics->notes.n,
                                       .notes = e.metrics->notes.items });
    dg_metric(e.metrics, t->evaluate_s, "seconds");
    dg_metric(e.metrics, t->progress->minutes, "minutes");
    dg_trace_span(t->trace, DG_TIMELINE_STEP, begin, t->env->now_s(), NULL, "%s", scope->id);
    DG_TRY(dg_metrics_out(t, t->progress->epoch, scope->id, e.metrics, d));
    DG_TRY(dg_run_json_gather(t, d));
    dg_run_json_write(t, "running", "");
out:
    dg_metrics_close(&e.metrics);
    return rc;
}

int dg_train_evaluate(dg_train *t, bool all, dg_diag *d)
{
    dg_progress *p = t->progress;
    bool any = false;
    int rc = 0;

    for (int i = 0; rc == 0 && i < t->graph->n_evaluates; i++) {
        const dg_scope *scope = t->graph->evaluates[i];

        if (p->evaluated == p->step || (!all && !is_due(t, &scope->every, t->evaluated_minutes[i])))
            continue;
        rc = run_evaluation(t, scope, d);
        t->evaluated_minutes[i] = p->minutes;
        t->saved_step = -1; /* the saved checkpoint of this step lacks the result */
        any = true;
    }
    if (rc == 0 && any) {
        p->evaluated = p->step;
        dg_run_json_report(t);
    }
    return rc;
}

int dg_train_save_due(dg_train *t, dg_diag *d)
{
    const dg_progress *p = t->progress;
    bool best = p->has_best && p->best_step == p->step && p->evaluated == p->step;

    return best || (t->conf->present && is_due(t, &t->conf->every, t->saved_minutes))
               ? dg_keep_save(t, d)
               : 0;
}

bool dg_train_out_of_patience(const dg_train *t)
{
    const dg_progress *p = t->progress;
    const dg_when *w = &t->scope->patience;
    double since = w->unit == DG_EPOCHS    ? (double)(p->epoch - p->best_epoch)
                   : w->unit == DG_MINUTES ? p->minutes - p->best_minutes
                                           : (double)(p->step - p->best_step);
    double most = w->unit == DG_SHARE ? w->n / 100 * (double)t->horizon->n_steps : w->n;

    return w->unit != DG_NEVER && p->has_best && since >= most;
}
