/* trained.c: see trained.h. */
#include "runtime/trained.h"

#include <math.h>
#include <string.h>

#include "base/diag.h"
#include "base/file.h"
#include "media/json.h"
#include "report/history.h"
#include "weights/archive.h"
#include "weights/published.h"

enum { PARENTS = 3 }; /* RUN/checkpoints/NAME/FILE */

/* A folder with an unreadable run.json still has its pipeline. */
static const dg_json *run_sets(const char *folder, dg_arena *a)
{
    const char *path = dg_path_join(a, folder, "run.json");
    const dg_json *root = NULL, *sets;
    dg_diag *ignored = dg_diag_open();

    if (!dg_exists(path) || dg_json_read(&root, a, path, ignored) < 0)
        root = NULL;
    dg_diag_close(&ignored);
    sets = dg_json_get(root, "sets");
    return sets && sets->kind == DG_JSON_ARRAY ? sets : NULL;
}

int dg_trained_sets(const char *run, int n_sets, const char *const *sets, dg_arena *a,
                    const char *const **out)
{
    const dg_json *of_run = run_sets(run, a);
    const int n_run = of_run ? of_run->n : 0;
    const char **all = DG_NEW_N(a, n_run + n_sets + 1, const char *);
    int n = 0;

    for (int i = 0; i < n_run; i++)
        if (of_run->items[i].kind == DG_JSON_STRING)
            all[n++] = of_run->items[i].text;
    for (int i = 0; i < n_sets; i++)
        all[n++] = sets[i];
    *out = all;
    return n;
}

static bool has_pipeline(const char *folder, dg_arena *a)
{
    return dg_exists(dg_path_join(a, folder, "pipeline.xml"));
}

const char *dg_trained_best(const char *place, dg_arena *a)
{
    const char *best = dg_path_join(a, place, "checkpoints/best");

    return has_pipeline(place, a) && dg_is_folder(best) ? best : place;
}

/* The run that a checkpoint, or a file in one, belongs to; NULL: none. */
static const char *run_around(const char *path, dg_arena *a)
{
    char *at = dg_strdup(a, path);

    for (size_t n = strlen(at); n > 1 && at[n - 1] == '/'; n--)
        at[n - 1] = '\0';
    for (int i = 0; i < PARENTS; i++) {
        at = dg_path_folder(a, at);
        if (has_pipeline(at, a))
            return at;
    }
    return NULL;
}

const char *dg_trained_run(const char *place, dg_arena *a)
{
    return has_pipeline(place, a) ? place : run_around(place, a);
}

const char *dg_trained_set(const char *place, const char *name, dg_arena *a)
{
    const char *run = dg_trained_run(place, a), *const * sets;
    const size_t len = strlen(name);
    const char *found = NULL;

    for (int i = 0, n = run ? dg_trained_sets(run, 0, NULL, a, &sets) : 0; i < n; i++)
        if (strncmp(sets[i], name, len) == 0 && sets[i][len] == '=')
            found = sets[i] + len + 1;
    return found;
}

static int fail_model(const char *model, const char *text, dg_diag *d)
{
    dg_fail(d, DG_EINPUT, (dg_where){ .file = model }, "detector-model", "%s", text);
    dg_help(d, "name the folder of a run, or a pipeline and a file of weights");
    return -DG_EINPUT;
}

const dg_published *dg_trained_published(const char *model, const char *weights)
{
    const char *name = weights ? weights : model;
    const dg_published *p = name && !dg_exists(name) ? dg_published_find(name) : NULL;
    dg_arena *a = dg_arena_open();

    if (p && weights && model &&
        (dg_path_ends(model, ".xml") || dg_exists(dg_path_join(a, model, "pipeline.xml"))))
        p = NULL; /* a pipeline or a run, with weights that are not there */
    dg_arena_close(&a);
    return p;
}

static int find_published(dg_trained *t, const char *name, int n_sets, const char *const *sets,
                          dg_arena *a, dg_diag *d)
{
    const char **all = DG_NEW_N(a, n_sets + 1, const char *);
    int rc;

    *t = (dg_trained){ .published = true, .n_sets = n_sets + 1, .sets = all };
    DG_TRY(dg_published_detector(&t->file, &t->weights, name, a, d));
    all[0] = "batch=1"; /* a preset's is for training */
    for (int i = 0; i < n_sets; i++)
        all[i + 1] = sets[i];
out:
    return rc;
}

int dg_trained_find(dg_trained *t, const char *model, const char *weights, bool last, int n_sets,
                    const char *const *sets, dg_arena *a, dg_diag *d)
{
    if (dg_trained_published(model, weights))
        return find_published(t, weights ? weights : model, n_sets, sets, a, d);

    const bool folder = dg_is_folder(model), whole = folder && has_pipeline(model, a);
    const char *run = whole                                    ? model
                      : folder || !dg_path_ends(model, ".xml") ? run_around(model, a)
                                                               : NULL;
    int rc;

    *t = (dg_trained){ 0 };
    if (weights) {
        DG_TRY(dg_published_file(&t->weights, weights, a, d));
        t->weights = last ? t->weights : dg_trained_best(t->weights, a);
    }
    if (!run && !weights)
        return fail_model(model,
                          folder             ? "this folder is neither a run's nor a checkpoint's"
                          : dg_exists(model) ? "no weights are given, and it is in no run's folder"
                                             : "there is no such file or folder",
                          d);
    if (!run) { /* a folder's own error is that of the file it lacks */
        t->file = folder ? dg_path_join(a, model, "pipeline.xml") : model;
        t->n_sets = n_sets;
        t->sets = sets;
        return 0;
    }
    t->file = dg_path_join(a, run, "pipeline.xml");
    t->n_sets = dg_trained_sets(run, n_sets, sets, a, &t->sets);
    if (weights)
        return 0;
    t->run = run;
    t->weights = last ? model : dg_trained_best(model, a);
    rc = 0;
out:
    return rc;
}

int dg_trained_open(dg_run **run, const dg_trained *t, dg_run_options how, dg_diag *d)
{
    int rc;

    how.size = sizeof how;
    how.file = t->file;
    how.n_sets = t->n_sets;
    how.sets = t->sets;
    how.no_pretrained = true; /* the weights are all of them */
    how.evaluates_only = true;
    DG_TRY(dg_run_open(run, &how, d));
    DG_TRY(dg_run_load(*run, t->weights, d));
out:
    return rc;
}

/* The step after which a checkpoint's file was written; a run's folder has those of its last one.
 * -1: unknown. */
static int64_t step_of(const char *file, dg_arena *a, dg_diag *d)
{
    const char *folder = dg_path_folder(a, file);
    const char *of = has_pipeline(folder, a) ? dg_path_join(a, folder, "checkpoints/last") : folder;
    const char *state = dg_path_join(a, of, "state.json");
    const dg_json *root = NULL;
    double step = -1;

    if (dg_exists(state) && dg_json_read(&root, a, state, d) == 0)
        step = dg_json_number(root, "step");
    return step >= 0 && step < 1e15 ? (int64_t)step : -1;
}

double dg_shown_from(double f1, double threshold)
{
    static const double least_f1 = 0.05, usual = 0.4;

    return f1 >= least_f1 && isfinite(threshold) ? threshold : usual;
}

/* An evaluation's threshold after a step, of which *best is the F1. */
static double threshold_at(const dg_track *e, int64_t step, double *best)
{
    const dg_series *f1 = dg_track_find(e, "F1"), *at = dg_track_find(e, "threshold");
    double found = NAN;

    for (int k = 0; f1 && at && k < f1->points.n && k < at->points.n; k++)
        if ((int64_t)f1->points.items[k].x == step) {
            *best = f1->points.items[k].y;
            found = at->points.items[k].y;
        }
    return found;
}

double dg_trained_threshold(const dg_trained *t, const dg_scope *scope, dg_diag *d)
{
    dg_arena *a = dg_arena_open();
    dg_diag *own = dg_diag_open();
    const char *file = dg_archive_place(a, t->weights, false), *name = dg_path_name(file);
    const bool averages = strcmp(name, "ema.safetensors") == 0;
    /* averages and weights as trained have scores of their own */
    const bool evaluated = scope && averages == (scope->weights != NULL) &&
                           (averages || strcmp(name, "model.safetensors") == 0);
    const int64_t step = t->run && evaluated ? step_of(file, a, own) : -1;
    dg_history *h = NULL;
    double best = NAN, found = NAN;

    if (step >= 0 && dg_history_open(&h, t->run, own) == 0) {
        for (int i = 0; i < h->evaluations.n; i++)
            if (strcmp(h->evaluations.items[i].scope, scope->id) == 0)
                found = threshold_at(&h->evaluations.items[i], step, &best);
        dg_history_close(&h);
    }
    if (!isfinite(found) && dg_diag_n(own)) {
        dg_warn(d, dg_diag_at(own, 0)->at, "threshold-lost",
                "the threshold of the best F1 cannot be read, %.2f is used: %s",
                dg_shown_from(NAN, NAN), dg_diag_at(own, 0)->text);
        dg_help(d, "say it with --threshold, or evaluate again");
    }
    dg_diag_close(&own);
    dg_arena_close(&a);
    return dg_shown_from(best, found);
}
