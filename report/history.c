/* history.c: see history.h. */
#include "report/history.h"

#include <dirent.h>
#include <errno.h>
#include <math.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

#include "base/diag.h"
#include "base/dir.h"
#include "base/file.h"
#include "base/map.h"

/* ---- metrics.jsonl --------------------------------------------------------------------------- */

typedef struct reading {
    dg_history *h;
    dg_map *places; /* "SCOPE\nNAME" -> 1 + index in its track */
} reading;

/* True for a valid name of an evaluation: it is also a folder name, so it must not lead
 * elsewhere. */
static bool is_scope(const char *name)
{
    return *name && *name != '.' && !strchr(name, '/');
}

static dg_track *track_of(dg_history *h, const char *scope)
{
    if (!scope)
        return &h->train;
    for (int i = 0; i < h->evaluations.n; i++)
        if (strcmp(h->evaluations.items[i].scope, scope) == 0)
            return &h->evaluations.items[i];
    DG_PUSH(h->arena, h->evaluations, (dg_track){ .scope = dg_strdup(h->arena, scope) });
    return &h->evaluations.items[h->evaluations.n - 1];
}

static dg_series *series_of(reading *r, dg_track *t, const char *name, dg_arena *scratch)
{
    dg_arena *a = r->h->arena;
    const char *key = dg_printf(scratch, "%s\n%s", t->scope ? t->scope : "", name);
    uintptr_t place = (uintptr_t)dg_map_get(r->places, key);

    if (!place) {
        DG_PUSH(a, t->series, (dg_series){ .name = dg_strdup(a, name) });
        place = (uintptr_t)t->series.n;
        dg_map_set(r->places, key, (void *)place);
    }
    return &t->series.items[place - 1];
}

static void take_line(reading *r, const dg_json *o, dg_arena *scratch)
{
    const dg_json *step = dg_json_get(o, "step"), *scope = dg_json_get(o, "evaluate");
    dg_track *t;

    if (!step || step->kind != DG_JSON_NUMBER || !(fabs(step->number) < 1e15) ||
        (scope && (scope->kind != DG_JSON_STRING || !is_scope(scope->text))))
        return;
    t = track_of(r->h, scope ? scope->text : NULL);
    for (int i = 0; i < o->n; i++) {
        const dg_json *v = &o->items[i];
        bool number = v->kind == DG_JSON_NUMBER || v->kind == DG_JSON_NULL;

        if (!number || v == step)
            continue;
        dg_series *s = series_of(r, t, v->key, scratch);

        DG_PUSH(r->h->arena, s->points,
                ((dg_point){ step->number, v->kind == DG_JSON_NULL ? NAN : v->number }));
    }
}

static int read_metrics(dg_history *h, const char *path, dg_diag *d)
{
    reading r = { h, NULL };
    dg_diag *ignored;
    char *text;
    size_t n;
    int rc = dg_file_read(&text, &n, path, 0, d), odd = 0;

    if (rc < 0)
        return rc;
    ignored = dg_diag_open();
    r.places = dg_map_new(h->arena);
    for (size_t at = 0; at < n;) {
        const char *newline = memchr(text + at, '\n', n - at);
        size_t len = newline ? (size_t)(newline - text) - at : n - at;
        dg_arena *scratch = dg_arena_open();
        const dg_json *o;

        if (len && dg_json_parse(&o, scratch, text + at, len, path, ignored) == 0 &&
            o->kind == DG_JSON_OBJECT)
            take_line(&r, o, scratch);
        else if (newline) /* a run in progress, or one that was killed, leaves half a line */
            odd++;
        dg_arena_close(&scratch);
        at += len + 1;
    }
    if (odd)
        dg_warn(d, (dg_where){ .file = path }, "report-part",
                "%d of its lines %s no JSON object and %s left out", odd, odd == 1 ? "is" : "are",
                odd == 1 ? "is" : "are");
    dg_diag_close(&ignored);
    dg_free(text);
    return 0;
}

/* ---- the other files ------------------------------------------------------------------------- */

/* Reads a JSON file that may be missing; one that cannot be read is a warning. */
static const dg_json *read_json(dg_history *h, const char *name, dg_diag *d)
{
    const char *path = dg_path_join(h->arena, h->folder, name);
    const dg_json *o = NULL;
    dg_diag *own;

    if (!dg_exists(path))
        return NULL;
    own = dg_diag_open();
    if (dg_json_read(&o, h->arena, path, own) == 0 && o->kind == DG_JSON_OBJECT) {
        dg_diag_close(&own);
        return o;
    }
    dg_warn(d, (dg_where){ .file = path }, "report-part", "it cannot be read: %s",
            dg_diag_n(own) ? dg_diag_at(own, 0)->text : "an object is expected");
    dg_diag_close(&own);
    return NULL;
}

const dg_json *dg_verdict_of(dg_arena *a, const char *folder)
{
    const dg_json *o = NULL, *first = NULL;
    dg_diag *ignored = dg_diag_open();

    if (dg_json_read(&o, a, dg_path_join(a, folder, "flight/verdict.json"), ignored) == 0 &&
        o->kind == DG_JSON_ARRAY && o->n)
        first = &o->items[0];
    dg_diag_close(&ignored);
    return *dg_json_text(first, "message") ? first : NULL;
}

static const char *read_text(dg_history *h, const char *name)
{
    enum { MOST = 4 << 20 };
    const char *path = dg_path_join(h->arena, h->folder, name), *kept = NULL;
    dg_diag *ignored = dg_diag_open();
    char *text = NULL;
    size_t n;

    if (dg_exists(path) && dg_file_read(&text, &n, path, MOST, ignored) == 0)
        kept = dg_strndup(h->arena, text, n);
    dg_free(text);
    dg_diag_close(&ignored);
    return kept;
}

/* The latest SCOPE/step-NNNNNN.jpg. */
static const char *last_pictures(dg_history *h, const char *scope)
{
    const char *folder = dg_path_join(h->arena, h->folder, scope), *last = "";
    DIR *dir = opendir(folder);

    for (struct dirent *e; dir && (e = readdir(dir));) {
        size_t n = strlen(e->d_name);

        if (strncmp(e->d_name, "step-", 5) == 0 && n > 9 &&
            strcmp(e->d_name + n - 4, ".jpg") == 0 &&
            (strlen(last) < n || (strlen(last) == n && strcmp(last, e->d_name) < 0)))
            last = dg_strdup(h->arena, e->d_name);
    }
    if (dir)
        closedir(dir);
    return *last ? dg_path_join(h->arena, folder, last) : NULL;
}

static void find_best(dg_history *h)
{
    h->best_step = -1;
    for (int i = 0; i < h->evaluations.n && h->best_step < 0;
         /* use the first evaluation with AP */
         i++) {
        const dg_series *ap = dg_track_find(&h->evaluations.items[i], "AP");

        for (int k = 0; ap && k < ap->points.n; k++)
            if (isfinite(ap->points.items[k].y) &&
                (h->best_step < 0 || ap->points.items[k].y > h->best)) {
                h->best = ap->points.items[k].y;
                h->best_step = (int64_t)ap->points.items[k].x;
                h->best_scope = h->evaluations.items[i].scope;
            }
    }
}

/* "runs/first/" -> "first"; "." -> "." */
static const char *name_of(dg_arena *a, const char *folder)
{
    size_t n = strlen(folder);

    while (n > 1 && folder[n - 1] == '/')
        n--;
    return dg_path_name(dg_strndup(a, folder, n));
}

/* True if the run holds its log's lock, or the launcher runs: not every file system has locks, and
 * a job killed with its launcher leaves the control file behind. */
static bool is_alive(dg_history *h, dg_diag *d)
{
    const dg_json *control = read_json(h, "control", d), *process = dg_json_get(control, "process");
    const char *host = dg_history_text(h, "host");
    char here[256] = "";

    if (dg_is_locked(dg_path_join(h->arena, h->folder, "run.log")))
        return true;
    (void)gethostname(here, sizeof here - 1);
    if (!process || process->kind != DG_JSON_NUMBER ||
        !(process->number > 0 && process->number < INT32_MAX))
        return false;
    return (host && strcmp(host, here) != 0) || kill((pid_t)process->number, 0) == 0 ||
           errno == EPERM;
}

/* Adds help if the folder holds folders of runs. */
static void help_runs(dg_arena *a, const char *folder, dg_diag *d)
{
    enum { SHOWN = 3 };
    dg_diag *ignored = dg_diag_open();
    dg_listing folders = { 0 };
    const char *names = "";
    int n = 0;

    if (dg_is_folder(folder))
        (void)!dg_dir_list(NULL, &folders, a, folder, ignored);
    for (int i = 0; i < folders.n; i++) {
        const char *inside = dg_path_join(a, folder, folders.v[i]);

        if (!dg_exists(dg_path_join(a, inside, "metrics.jsonl")))
            continue;
        if (n++ < SHOWN)
            names = dg_printf(a, "%s%s%s", names, n > 1 ? " " : "", inside);
    }
    if (n)
        dg_help(d, "there %s %d run%s in it: %s%s", n == 1 ? "is" : "are", n, dg_plural(n, "s"),
                names, n > SHOWN ? " ..." : "");
    dg_diag_close(&ignored);
}

int dg_history_open(dg_history **out, const char *folder, dg_diag *d)
{
    dg_arena *a = dg_arena_open();
    dg_history *h = DG_NEW(a, dg_history);
    const char *metrics = dg_path_join(a, folder, "metrics.jsonl");
    int rc = 0;

    *out = h;
    h->arena = a;
    h->folder = dg_strdup(a, folder);
    h->name = name_of(a, h->folder);
    h->run = read_json(h, "run.json", d);
    if (dg_exists(metrics))
        rc = read_metrics(h, metrics, d);
    else if (!h->run) {
        rc =
            dg_fail(d, DG_EINPUT, (dg_where){ .file = h->folder }, "report-nothing",
                    dg_exists(folder) ? "this is no run's folder: it has neither metrics.jsonl nor "
                                        "run.json"
                                      : "there is no such folder");
        help_runs(a, h->folder, d);
    }
    h->verdict = dg_verdict_of(a, h->folder);
    h->alive = is_alive(h, d);
    h->pipeline = read_text(h, "pipeline.xml");
    for (int i = 0; i < h->evaluations.n; i++) {
        dg_track *t = &h->evaluations.items[i];

        t->curves = read_json(h, dg_printf(a, "%s/curves.json", t->scope), d);
        t->review = read_json(h, dg_printf(a, "%s/review.json", t->scope), d);
        t->pictures = last_pictures(h, t->scope);
        t->each = read_json(h, dg_printf(a, "%s/pictures.json", t->scope), d);
    }
    find_best(h);
    if (rc < 0)
        dg_history_close(out);
    return rc;
}

void dg_history_close(dg_history **h)
{
    dg_arena *a = *h ? (*h)->arena : NULL;

    dg_arena_close(&a);
    *h = NULL;
}

/* ---- looking up ------------------------------------------------------------------------------ */

const dg_series *dg_track_find(const dg_track *t, const char *name)
{
    for (int i = 0; i < t->series.n; i++)
        if (strcmp(t->series.items[i].name, name) == 0)
            return &t->series.items[i];
    return NULL;
}

double dg_series_last(const dg_series *s)
{
    return s && s->points.n ? s->points.items[s->points.n - 1].y : NAN;
}

static const dg_json *find(const dg_history *h, const char *key)
{
    const char *dot = strchr(key, '.');
    const dg_json *o = h->run;
    char first[32];

    if (dot && (size_t)(dot - key) < sizeof first) {
        memcpy(first, key, (size_t)(dot - key));
        first[dot - key] = '\0';
        o = dg_json_get(o, first);
        key = dot + 1;
    }
    return dg_json_get(o, key);
}

const char *dg_history_text(const dg_history *h, const char *key)
{
    const dg_json *v = find(h, key);

    return v && v->kind == DG_JSON_STRING ? v->text : NULL;
}

double dg_history_number(const dg_history *h, const char *key)
{
    const dg_json *v = find(h, key);

    return v && v->kind == DG_JSON_NUMBER ? v->number : NAN;
}

double dg_history_step(const dg_history *h)
{
    /* run.json is only as recent as the latest evaluation */
    const dg_series *s = dg_track_find(&h->train, "loss");

    return s && s->points.n ? s->points.items[s->points.n - 1].x : dg_history_number(h, "end.step");
}

const char *dg_history_state(const dg_history *h)
{
    static const char *const known[] = { "done", "stopped", "failed", "running", NULL };
    const char *state = dg_history_text(h, "end.state");

    if (state && strcmp(state, "running") == 0 && !h->alive)
        return "failed"; /* it was killed before it could write its end */
    for (int i = 0; state && known[i]; i++)
        if (strcmp(state, known[i]) == 0)
            return known[i];
    return "unknown";
}
