/* metrics_out.c: see metrics_out.h. metrics.jsonl is the record: lines that cannot be written
 * wait in memory, and the run ends if that is so at its end. The other two are copies for other
 * programs: if they cannot be written, the run continues with one warning. */
#include "runtime/metrics_out.h"

#include <math.h>
#include <string.h>

#include "base/file.h"

static void give_up_events(dg_train *t, const dg_diag *d)
{
    dg_log_line(t->env, DG_WARN, "%s: %s; TensorBoard sees the run up to step %lld",
                dg_tensorboard_name, dg_diag_at(d, 0)->text, (long long)t->progress->step);
    dg_tensorboard_close(&t->tensorboard);
}

static void open_events(dg_train *t)
{
    dg_diag *own = dg_diag_open();

    if (dg_tensorboard_open(&t->tensorboard, dg_path_join(t->arena, t->out, dg_tensorboard_name),
                            t->progress->step, t->graph, own) < 0)
        give_up_events(t, own);
    dg_diag_close(&own);
}

int dg_metrics_out_open(dg_train *t, dg_diag *d)
{
    int rc = dg_metrics_jsonl_open(&t->jsonl, dg_path_join(t->arena, t->out, "metrics.jsonl"),
                                   t->progress->step, d);

    if (rc == 0)
        open_events(t);
    return rc;
}

int dg_metrics_out_port(dg_train *t, dg_diag *d)
{
    int rc;

    if (t->o->metrics_port <= 0 || t->world->rank > 0)
        return 0;
    rc = dg_prometheus_open(&t->prometheus, (int)t->o->metrics_port, d);
    if (rc == 0)
        dg_log_line(t->env, DG_INFO, "metrics at http://127.0.0.1:%d/metrics",
                    dg_prometheus_port(t->prometheus));
    return rc;
}

void dg_metrics_out_close(dg_train *t)
{
    dg_metrics_jsonl_close(&t->jsonl);
    dg_tensorboard_close(&t->tensorboard);
    dg_prometheus_close(&t->prometheus);
}

/* ---- TensorBoard ----------------------------------------------------------------------------- */

static int add_events(dg_train *t, const char *scope, const dg_metrics *m, dg_diag *d)
{
    int64_t step = t->progress->step;
    const char *picture =
        scope ? dg_printf(m->arena, "%s/%s/step-%06lld.jpg", t->out, scope, (long long)step) : NULL;
    int rc = dg_tensorboard_scalars(t->tensorboard, step, scope ? scope : t->scope->id, m, d);

    if (rc == 0 && picture && dg_exists(picture))
        rc = dg_tensorboard_picture(t->tensorboard, step, dg_printf(m->arena, "%s/found", scope),
                                    picture, d);
    return rc;
}

/* ---- Prometheus ------------------------------------------------------------------------------ */

/* Escapes backslash, quote and newline, as the format requires. */
static void add_label(dg_str *s, const char *name, const char *value)
{
    dg_str_fmt(s, "%s=\"", name);
    for (; *value; value++)
        if (*value == '\n')
            dg_str_add(s, "\\n");
        else
            dg_str_fmt(s, *value == '"' || *value == '\\' ? "\\%c" : "%c", *value);
    dg_str_add(s, "\"");
}

static void add_sample(dg_str *s, const char *family, const char *help, double v)
{
    dg_str_fmt(s, "# HELP detrgraph_%s %s\n# TYPE detrgraph_%s gauge\ndetrgraph_%s ", family, help,
               family, family);
    if (isfinite(v))
        dg_str_json_real(s, v);
    else
        dg_str_add(s, isnan(v) ? "NaN" : v > 0 ? "+Inf" : "-Inf");
    dg_str_add(s, "\n");
}

static void add_numbers(dg_str *s, const char *scope, const dg_metrics *m)
{
    for (int i = 0; i < m->names.n; i++) {
        if (!isfinite(m->values.items[i]))
            continue;
        dg_str_add(s, scope ? "detrgraph_score{" : "detrgraph_train{");
        if (scope) {
            add_label(s, "evaluation", scope);
            dg_str_add(s, ",");
        }
        add_label(s, "name", m->names.items[i]);
        dg_str_add(s, "} ");
        dg_str_json_real(s, m->values.items[i]);
        dg_str_add(s, "\n");
    }
}

/* Puts the latest step's numbers, and the latest of each evaluation. */
static void put_scrape(dg_train *t, int64_t epoch, const char *scope, const dg_metrics *m)
{
    const dg_graph *g = t->graph;
    dg_str all = { 0 }, *part = &t->numbers;

    for (int i = 0; scope && i < g->n_evaluates; i++)
        if (strcmp(g->evaluates[i]->id, scope) == 0)
            part = &t->scores[i];
    dg_str_free(part);
    add_numbers(part, scope, m);
    add_sample(&all, "step", "Updates of the weights so far.", (double)t->progress->step);
    add_sample(&all, "steps", "Updates of the whole run; 0 where it has no end.",
               (double)t->horizon->n_steps);
    add_sample(&all, "epoch", "Epochs begun before this one.", (double)epoch);
    add_sample(&all, "ranks", "Processes that train together.", t->world->ranks);
    add_sample(&all, "left_seconds", "Until the end, as far as it can be told; below 0: not known.",
               dg_train_left_s(t));
    dg_str_add(&all, "# HELP detrgraph_train Numbers of the last step, by the names of "
                     "metrics.jsonl.\n# TYPE detrgraph_train gauge\n");
    dg_str_add(&all, t->numbers.s ? t->numbers.s : "");
    dg_str_add(
        &all,
        "# HELP detrgraph_score Numbers of the last evaluation.\n# TYPE detrgraph_score gauge\n");
    for (int i = 0; i < g->n_evaluates; i++)
        dg_str_add(&all, t->scores[i].s ? t->scores[i].s : "");
    dg_prometheus_put(t->prometheus, &all);
}

static int add_line(dg_train *t, int64_t epoch, const char *scope, const dg_metrics *m, dg_diag *d)
{
    dg_diag *own = dg_diag_open();
    int rc = dg_metrics_jsonl_add(t->jsonl, t->progress->step, epoch, scope, m, own);
    const bool waits = rc < 0, full = dg_metrics_jsonl_is_full(t->jsonl);

    if (waits && full)
        dg_diag_merge(d, own);
    else if (waits && !t->lines_wait)
        dg_log_line(t->env, DG_WARN,
                    "%s: %s [%s]; lines from step %lld on wait in memory, and the run goes on",
                    dg_diag_at(own, 0)->at.file, dg_diag_at(own, 0)->text, dg_diag_at(own, 0)->id,
                    (long long)t->progress->step);
    else if (!waits && t->lines_wait)
        dg_log_line(t->env, DG_INFO, "metrics.jsonl has all lines again, up to step %lld",
                    (long long)t->progress->step);
    t->lines_wait = waits;
    dg_diag_close(&own);
    return waits && full ? rc : 0;
}

int dg_metrics_out_finish(dg_train *t, dg_diag *d)
{
    int rc = t->jsonl ? dg_metrics_jsonl_flush(t->jsonl, d) : 0;

    if (rc == 0 && t->numbers_gone) {
        rc = dg_metrics_jsonl_again(t->jsonl, d);
        t->numbers_gone = rc < 0;
    }
    return rc;
}

int dg_metrics_out_again(dg_train *t, dg_diag *d)
{
    int rc = t->jsonl ? dg_metrics_jsonl_again(t->jsonl, d) : 0;

    dg_tensorboard_close(&t->tensorboard);
    if (rc == 0) {
        t->numbers_gone = false;
        open_events(t);
    }
    return rc;
}

int dg_metrics_out(dg_train *t, int64_t epoch, const char *scope, const dg_metrics *m, dg_diag *d)
{
    dg_diag *own;
    int rc = t->jsonl ? add_line(t, epoch, scope, m, d) : 0;

    if (rc == 0 && t->tensorboard) {
        own = dg_diag_open();
        if (add_events(t, scope, m, own) < 0)
            give_up_events(t, own);
        dg_diag_close(&own);
    }
    if (rc == 0 && t->prometheus)
        put_scrape(t, epoch, scope, m);
    return rc;
}
