/* tell.c: see tell.h. metrics.jsonl is the record, and a run that cannot write it ends; the other two are copies for
 * programs that look on: where they cannot be written the run goes on, and says so once. */
#include "runtime/tell.h"

#include <math.h>
#include <string.h>

#include "base/file.h"

static void give_up_events(dg_train *t, const dg_diag *d)
{
    dg_log_line(&t->run->env, DG_WARN, "%s: %s; TensorBoard sees the run up to step %lld", dg_events_name, dg_diag_at(d, 0)->text,
                (long long)t->run->progress.step);
    dg_events_close(&t->events);
}

int dg_tell_open(dg_train *t, dg_diag *d)
{
    dg_diag *own = dg_diag_open();
    int64_t  step = t->run->progress.step;
    int      rc = dg_journal_open(&t->journal, dg_path_join(t->arena, t->out, "metrics.jsonl"), step, d);

    if (rc == 0 && dg_events_open(&t->events, dg_path_join(t->arena, t->out, dg_events_name), step, t->run->graph, own) < 0)
        give_up_events(t, own);
    dg_diag_close(&own);
    return rc;
}

int dg_tell_port(dg_train *t, dg_diag *d)
{
    int rc;

    if (t->o->metrics_port <= 0 || t->run->world.rank > 0)
        return 0;
    rc = dg_scrape_open(&t->scrape, (int)t->o->metrics_port, d);
    if (rc == 0)
        dg_log_line(&t->run->env, DG_INFO, "metrics at http://127.0.0.1:%d/metrics", dg_scrape_port(t->scrape));
    return rc;
}

void dg_tell_close(dg_train *t)
{
    dg_journal_close(&t->journal);
    dg_events_close(&t->events);
    dg_scrape_close(&t->scrape);
}

/* ---- TensorBoard ------------------------------------------------------------------------------------------------------------ */

static int add_events(dg_train *t, const char *scope, const dg_metrics *m, dg_diag *d)
{
    int64_t     step = t->run->progress.step;
    const char *picture = scope ? dg_printf(m->arena, "%s/%s/step-%06lld.jpg", t->out, scope, (long long)step) : NULL;
    int         rc = dg_events_scalars(t->events, step, scope ? scope : t->scope->id, m, d);

    if (rc == 0 && picture && dg_exists(picture))
        rc = dg_events_picture(t->events, step, dg_printf(m->arena, "%s/found", scope), picture, d);
    return rc;
}

/* ---- Prometheus --------------------------------------------------------------------------------------------------------------- */

/* As the format has it: backslash, quote and newline escaped. */
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
    dg_str_fmt(s, "# HELP detrgraph_%s %s\n# TYPE detrgraph_%s gauge\ndetrgraph_%s ", family, help, family, family);
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

/* The last step's numbers, and of each evaluation the last ones. */
static void put_scrape(dg_train *t, int64_t epoch, const char *scope, const dg_metrics *m)
{
    const dg_graph *g = t->run->graph;
    dg_str          all = { 0 }, *part = &t->numbers;

    for (int i = 0; scope && i < g->n_evaluates; i++)
        if (strcmp(g->evaluates[i]->id, scope) == 0)
            part = &t->scores[i];
    dg_str_free(part);
    add_numbers(part, scope, m);
    add_sample(&all, "step", "Updates of the weights so far.", (double)t->run->progress.step);
    add_sample(&all, "steps", "Updates of the whole run; 0 where it has no end.", (double)t->run->n_steps);
    add_sample(&all, "epoch", "Epochs begun before this one.", (double)epoch);
    add_sample(&all, "ranks", "Processes that train together.", t->run->world.ranks);
    add_sample(&all, "left_seconds", "Until the end, as far as it can be told; below 0: not known.", dg_train_left_s(t));
    dg_str_add(&all, "# HELP detrgraph_train Numbers of the last step, by the names of metrics.jsonl.\n# TYPE detrgraph_train gauge\n");
    dg_str_add(&all, t->numbers.s ? t->numbers.s : "");
    dg_str_add(&all, "# HELP detrgraph_score Numbers of the last evaluation.\n# TYPE detrgraph_score gauge\n");
    for (int i = 0; i < g->n_evaluates; i++)
        dg_str_add(&all, t->scores[i].s ? t->scores[i].s : "");
    dg_scrape_put(t->scrape, &all);
}

int dg_tell(dg_train *t, int64_t epoch, const char *scope, const dg_metrics *m, dg_diag *d)
{
    dg_diag *own;
    int      rc = t->journal ? dg_journal_add(t->journal, t->run->progress.step, epoch, scope, m, d) : 0;

    if (rc == 0 && t->events) {
        own = dg_diag_open();
        if (add_events(t, scope, m, own) < 0)
            give_up_events(t, own);
        dg_diag_close(&own);
    }
    if (rc == 0 && t->scrape)
        put_scrape(t, epoch, scope, m);
    return rc;
}
