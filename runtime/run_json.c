/* run_json.c: see run_json.h. */
#include "runtime/run_json.h"

#include <stdio.h>
#include <string.h>
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>

#include "base/file.h"
#include "media/json.h"
#include "report/memory_info.h"
#include "report/profile.h"
#include "report/render.h"
#include "report/report.h"

/* Which steps are timed: one in TIMED_EVERY, and a few of the first ones. */
enum { TIMED_EVERY = 32, TIMED_FIRST = 5, SETTLED = 2 };

typedef struct rank_cost { /* of the steps after t->costs_from */
    char host[64];
    double steps, seconds, data_s, wait_s, work_s, control_s, collectives, bytes, peak_bytes;
} rank_cost;

struct dg_run_json {
    dg_arena *arena;
    dg_profile *profile;
    dg_exec_observer observer; /* times this step's instructions */
    bool timed;                /* this step */
    enum { UNDRAWN, DRAWN, COLOURED } graph;
    double seconds;   /* of all steps */
    rank_cost *ranks; /* as of the last gathering */
    int n_ranks;      /* number gathered */
    /* began: the run, perhaps before it was stopped and resumed; continued: this part, or NULL */
    const char *began, *continued;
};

/* "2026-11-21T18:30:05Z" */
static const char *moment(dg_arena *a)
{
    struct timespec now;
    struct tm tm;
    char text[32];

    clock_gettime(CLOCK_REALTIME, &now);
    gmtime_r(&now.tv_sec, &tm);
    strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &tm);
    return dg_strdup(a, text);
}

/* When the run in this folder began that is resumed now; NULL: unknown. */
static const char *began_before(const dg_train *t, dg_arena *a)
{
    dg_diag *ignored = dg_diag_open();
    const dg_json *old = NULL;
    const char *began = NULL;

    if (t->progress->step > 0 && t->out &&
        dg_json_read(&old, a, dg_path_join(a, t->out, "run.json"), ignored) == 0)
        began = dg_json_text(old, "began");
    dg_diag_close(&ignored);
    return began && *began ? began : NULL;
}

void dg_run_json_open(dg_train *t)
{
    dg_arena *a = dg_arena_open();
    dg_run_json *k = DG_NEW(a, dg_run_json);
    const char *now = moment(a), *before = began_before(t, a);

    *k = (dg_run_json){ .arena = a,
                        .profile = dg_profile_open(),
                        .ranks = DG_NEW_N(a, t->world->ranks, rank_cost),
                        .began = before ? before : now,
                        .continued = before ? now : NULL };
    t->run_json = k;
}

void dg_run_json_close(dg_train *t)
{
    dg_arena *a = t->run_json ? t->run_json->arena : NULL;

    if (t->run_json)
        dg_profile_close(&t->run_json->profile);
    dg_arena_close(&a);
    t->run_json = NULL;
}

void dg_run_json_restart(dg_train *t)
{
    t->run_json->seconds = 0;
}

/* ---- time ------------------------------------------------------------------------------------ */

void dg_run_json_begin_step(dg_train *t)
{
    int64_t n = t->progress->step - t->first_step - SETTLED;

    t->run_json->timed = n >= 0 && (n < TIMED_FIRST || n % TIMED_EVERY == 0);
}

static void measured(void *ctx, int instr, const dg_ran *how)
{
    dg_train *t = ctx;
    const bool here = t->programs->conf.backend->immediate;

    if (t->run_json->timed)
        dg_profile_add(t->run_json->profile, t->programs->current->plan, instr,
                       how->end_s - how->begin_s, how->pieces);
    dg_trace_instr(t->trace, here ? DG_TIMELINE_STEP : DG_TIMELINE_DEVICE,
                   t->programs->current->plan, instr, how->begin_s, how->end_s);
}

void dg_run_json_hook(dg_train *t, bool on)
{
    if (!t->run_json->timed && !t->trace)
        return;
    t->run_json->observer = (dg_exec_observer){ .ctx = t, .ran = measured };
    if (on)
        dg_exec_observe(t->programs->current->exec, &t->run_json->observer);
    else
        dg_exec_unobserve(t->programs->current->exec, &t->run_json->observer);
}

void dg_run_json_end_step(dg_train *t, double seconds)
{
    t->run_json->seconds += seconds;
    t->run_json->profile->steps += t->run_json->timed;
}

int dg_run_json_gather(dg_train *t, dg_diag *d)
{
    const dg_world *w = t->world;
    const dg_comm_cost c = dg_world_cost(w);
    dg_run_json *k = t->run_json;
    rank_cost own = { .steps = (double)(t->progress->step - t->costs_from),
                      .seconds = k->seconds,
                      .data_s = t->data_s,
                      .control_s = t->control_s,
                      .peak_bytes = (double)dg_memory_peak() };
    int rc;

    (void)gethostname(own.host, sizeof own.host - 1);
    own.wait_s = c.wait_s - t->cost.wait_s;
    own.work_s = c.work_s - t->cost.work_s;
    own.collectives = (double)(c.n - t->cost.n);
    own.bytes = (double)(c.bytes - t->cost.bytes);
    rc = dg_world_gather(w, &own, sizeof own, k->ranks, "told what they have done", d);
    k->n_ranks = rc == 0 ? w->ranks : 0;
    return rc;
}

/* ---- the file -------------------------------------------------------------------------------- */

static void add_text(dg_str *s, const char *key, const char *v)
{
    dg_str_fmt(s, ",\n\"%s\":", key);
    dg_str_json(s, v);
}

static void add_real(dg_str *s, const char *key, double v)
{
    dg_str_fmt(s, "%s\"%s\":", s->s[s->n - 1] == '{' ? "" : ",", key);
    dg_str_json_real(s, v);
}

static void add_int(dg_str *s, const char *key, int64_t v)
{
    dg_str_fmt(s, ",\n\"%s\":%lld", key, (long long)v);
}

/* The processor's name from the kernel. */
static const char *cpu_name(dg_arena *a)
{
    FILE *f = fopen("/proc/cpuinfo", "re");
    char line[256];
    const char *name = "";

    while (f && !*name && fgets(line, sizeof line, f)) {
        char *colon = strchr(line, ':');

        if (colon && strncmp(line, "model name", 10) == 0)
            name = dg_strndup(a, colon + 2, strcspn(colon + 2, "\n"));
    }
    if (f)
        fclose(f);
    return name;
}

static void add_machine(dg_str *s, const dg_train *t, dg_arena *a)
{
    struct utsname u;
    char host[256] = "";

    (void)gethostname(host, sizeof host - 1);
    add_text(s, "host", host);
    if (uname(&u) == 0)
        add_text(s, "system", dg_printf(a, "%s %s %s", u.sysname, u.release, u.machine));
    add_text(s, "cpu", cpu_name(a));
    add_text(s, "features", t->identity.cpu);
    add_int(s, "cores", sysconf(_SC_NPROCESSORS_ONLN));
    add_int(s, "memory_bytes", (int64_t)sysconf(_SC_PHYS_PAGES) * sysconf(_SC_PAGESIZE));
}

static void add_pipeline(dg_str *s, const dg_train *t)
{
    const dg_pipeline *p = dg_run_pipeline(t->run);

    add_text(s, "pipeline", t->graph->name ? t->graph->name : "");
    add_text(s, "file", t->graph->file);
    dg_str_add(s, ",\n\"sets\":[");
    for (int i = 0; i < p->n_sets; i++) {
        dg_str_add(s, i ? "," : "");
        dg_str_json(s, p->sets[i]);
    }
    /* a number would lose bits above 2^53 */
    dg_str_fmt(s, "],\n\"seed\":\"%llu\"", (unsigned long long)p->seed);
    add_text(s, "versions", p->versions);
    add_text(s, "precision", t->programs->precision);
    add_int(s, "threads", t->env->threads);
    add_int(s, "ranks", t->world->ranks);
    add_int(s, "machines", t->world->nodes);
    add_int(s, "batch", t->batch);
    add_int(s, "accumulate", t->identity.accumulate);
    add_int(s, "batches_per_epoch", t->horizon->per_epoch);
    add_int(s, "steps", t->horizon->n_steps);
    add_int(s, "from_step", t->first_step);
    add_int(s, "parameters", dg_programs_elements(t->programs, DG_TRAINABLE));
    add_int(s, "frozen", dg_programs_elements(t->programs, DG_FROZEN));
    add_int(s, "planned_bytes", dg_programs_bytes(t->programs, true));
}

static void add_data_set(dg_str *s, const dg_data *data, dg_arena *a)
{
    const dg_dataset *set = data->set;
    int64_t *n = DG_NEW_N(a, set->n_classes + 1, int64_t);

    for (int64_t i = 0; i < set->n_truths; i++)
        n[set->truths[i].label] += !set->truths[i].crowd;
    dg_str_add(s, "{\"scope\":");
    dg_str_json(s, data->scope->id);
    add_text(s, "name", set->name);
    add_int(s, "images", set->n_items);
    if (set->report)
        add_int(s, "empty", set->report->n_empty);
    dg_str_fmt(s, ",\n\"digest\":\"%016llx\",\"classes\":[", (unsigned long long)set->digest);
    for (int i = 0; i < set->n_classes; i++) {
        dg_str_fmt(s, "%s{\"id\":%lld,\"name\":", i ? "," : "", (long long)set->classes[i].id);
        dg_str_json(s, set->classes[i].name);
        dg_str_fmt(s, ",\"objects\":%lld}", (long long)n[i]);
    }
    dg_str_add(s, "]}");
}

static void add_data(dg_str *s, const dg_train *t, dg_arena *a)
{
    const dg_data_sets *sets = dg_run_data_sets(t->run);

    dg_str_add(s, ",\n\"data\":[");
    for (int i = 0; i < sets->open.n; i++) {
        dg_str_add(s, i ? ",\n" : "");
        add_data_set(s, sets->open.items[i], a);
    }
    dg_str_add(s, "]");
}

static void add_profile(dg_str *s, dg_profile *p)
{
    dg_profile_sort(p);
    dg_str_fmt(s, ",\n\"profile\":{\"steps\":%lld,\n", (long long)p->steps);
    dg_profile_json(s, "nodes", &p->nodes, p->steps);
    dg_str_add(s, ",\n");
    dg_profile_json(s, "ops", &p->ops, p->steps);
    dg_str_add(s, "}");
}

static void add_ranks(dg_str *s, const dg_run_json *k)
{
    dg_str_add(s, ",\n\"per_rank\":[");
    for (int r = 0; r < k->n_ranks; r++) {
        const rank_cost *c = &k->ranks[r];

        dg_str_add(s, r ? ",\n{\"host\":" : "\n{\"host\":");
        dg_str_json(s, c->host);
        add_real(s, "steps", c->steps);
        add_real(s, "seconds", c->seconds);
        add_real(s, "data_seconds", c->data_s);
        add_real(s, "wait_seconds", c->wait_s);
        add_real(s, "work_seconds", c->work_s);
        add_real(s, "control_seconds", c->control_s);
        add_real(s, "collectives", c->collectives);
        add_real(s, "bytes", c->bytes);
        add_real(s, "peak_bytes", c->peak_bytes);
        dg_str_add(s, "}");
    }
    dg_str_add(s, "]");
}

static void add_end(dg_str *s, const dg_train *t, const char *state, const char *why, dg_arena *a)
{
    const dg_progress *p = t->progress;

    dg_str_add(s, ",\n\"end\":{\"state\":");
    dg_str_json(s, state);
    dg_str_add(s, ",\"why\":");
    dg_str_json(s, why);
    add_real(s, "step", (double)p->step);
    add_real(s, "epoch", (double)p->epoch);
    add_real(s, "minutes", p->minutes);
    add_real(s, "peak_bytes", (double)dg_memory_peak());
    dg_str_add(s, ",\"at\":");
    dg_str_json(s, moment(a));
    dg_str_add(s, "}}\n");
}

static void draw_graph(dg_train *t, bool ended, dg_arena *a, dg_diag *d)
{
    const dg_profile *p = t->run_json->profile;
    dg_heat heat = { p->nodes.n, DG_NEW_N(a, p->nodes.n + 1, struct dg_heat_row) };
    dg_str svg = { 0 };
    int rc;

    if (!ended && t->run_json->graph >= (p->steps ? COLOURED : DRAWN))
        return;
    for (int i = 0; i < heat.n; i++)
        heat.rows[i] = (struct dg_heat_row){ p->nodes.items[i].name,
                                             p->nodes.items[i].seconds / (double)p->steps };
    rc = dg_render_svg(&svg, t->graph, p->steps ? &heat : NULL, d);
    if (rc == 0)
        rc = dg_file_write(dg_path_join(a, t->out, "graph.svg"), svg.s, svg.n, d);
    if (rc < 0)
        dg_log_line(t->env, DG_WARN, "no picture of the graph: %s", dg_diag_at(d, 0)->text);
    dg_diag_clear(d);
    dg_str_free(&svg);
    t->run_json->graph = p->steps ? COLOURED : DRAWN;
}

void dg_run_json_write(dg_train *t, const char *state, const char *why)
{
    dg_arena *a;
    dg_diag *d;
    dg_str s = { 0 };

    if (!t->out || !t->run_json || t->homeless)
        return;
    a = dg_arena_open();
    d = dg_diag_open();
    dg_str_add(&s, "{\"format\":1");
    add_text(&s, "began", t->run_json->began);
    if (t->run_json->continued)
        add_text(&s, "continued", t->run_json->continued);
    add_pipeline(&s, t);
    add_machine(&s, t, a);
    add_data(&s, t, a);
    add_profile(&s, t->run_json->profile);
    add_ranks(&s, t->run_json);
    add_end(&s, t, state, why, a);
    if (dg_file_write(dg_path_join(a, t->out, "run.json"), s.s, s.n, d) < 0)
        dg_log_line(t->env, DG_WARN, "%s", dg_diag_at(d, 0)->text);
    dg_diag_clear(d);
    draw_graph(t, strcmp(state, "running") != 0, a, d);
    dg_str_free(&s);
    dg_diag_close(&d);
    dg_arena_close(&a);
}

void dg_run_json_report(const dg_train *t)
{
    dg_diag *d = dg_diag_open();
    dg_arena *a = dg_arena_open();

    if (t->out && !t->homeless &&
        dg_report_write(dg_path_join(a, t->out, "report.html"), &t->out, 1, d) < 0)
        dg_log_line(t->env, DG_WARN, "no report: %s", dg_diag_at(d, 0)->text);
    dg_arena_close(&a);
    dg_diag_close(&d);
}
