/* trained.c: see trained.h. */
#include "cli/trained.h"

#include <stdio.h>

#include "base/file.h"
#include "cli/fetch.h"
#include "cli/published.h"
#include "config.h"
#include "media/json.h"
#include "report/history.h"

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

dg_words dg_trained_sets(const char *run, const dg_words *given, dg_arena *a)
{
    const dg_json *sets = run_sets(run, a);
    const int n = sets ? sets->n : 0;
    const char **all = DG_NEW_N(a, n + given->n, const char *);
    dg_words joined = { 0, all };

    for (int i = 0; i < n; i++)
        if (sets->items[i].kind == DG_JSON_STRING)
            all[joined.n++] = sets->items[i].text;
    for (int i = 0; i < given->n; i++)
        all[joined.n++] = given->v[i];
    return joined;
}

bool dg_trained_find(dg_trained *t, const char *verb, const char *place, const char *weights,
                     const dg_words *sets, dg_arena *a)
{
    bool run = dg_is_folder(place);

    if (!run && !weights) {
        dg_say_error(
            "detrgraph %s: --weights FILE is needed, or a run's folder in the place of the "
            "pipeline\n",
            verb);
        return false;
    }
    *t = (dg_trained){ 0 };
    t->file = run ? dg_path_join(a, place, "pipeline.xml") : place;
    t->weights = weights ? weights : place; /* of a folder: the averages, if present */
    t->sets = run ? dg_trained_sets(place, sets, a) : *sets;
    return true;
}

bool dg_trained_published(dg_trained *t, const char *weights, const char *place,
                          const dg_words *sets, dg_arena *a, int *code)
{
    const dg_published *p = weights && !dg_exists(weights) ? dg_published_find(weights) : NULL;
    const char **all = DG_NEW_N(a, sets->n + 1, const char *);
    dg_fetched x;
    dg_diag *d;

    if (!p || dg_path_ends(place, ".xml") || dg_exists(dg_path_join(a, place, "pipeline.xml")))
        return false;
    d = dg_diag_open();
    *t = (dg_trained){ .weights = dg_published_place(a, p->name), .published = true };
    t->file = dg_published_pipeline(a, p->preset);
    if (!(p->ap > 0)) {
        dg_fail(d, DG_EINPUT, (dg_where){ .file = weights }, "weights-backbone",
                "this is a backbone, which detects nothing by itself");
        dg_help(d, "detrgraph init --data DIR --pretrained %s trains a detector from it", p->name);
    } else if (!t->weights || !dg_exists(t->weights)) {
        dg_fail(d, DG_EINPUT, (dg_where){ .file = weights }, "weights-unfetched",
                "these weights are not fetched yet");
        dg_help(d, "detrgraph weights fetch %s", p->name);
    } else if (!t->file) {
        dg_fail(d, DG_EINPUT, (dg_where){ .file = weights }, "weights-preset",
                "the pipeline %s.xml is not beside the program, nor installed", p->preset);
        dg_help(d, "name the pipeline before the weights: %s.xml --weights %s", p->preset,
                t->weights);
    } else {
        (void)!dg_fetch_check(&x, t->weights, d);
    }
    /* a preset's batch is for training */
    all[0] = "batch=1";
    for (int i = 0; i < sets->n; i++)
        all[i + 1] = sets->v[i];
    t->sets = (dg_words){ sets->n + 1, all };
    *code = dg_diag_n(d) ? DG_EXIT_FAILED : DG_EXIT_OK;
    dg_print_diag(d, NULL);
    dg_diag_close(&d);
    return true;
}

void dg_trained_best(dg_trained *t, const char *place, const char *weights, dg_arena *a)
{
    const char *best = dg_path_join(a, place, "checkpoints/best");

    if (!weights && dg_is_folder(best))
        t->weights = best;
}

/* The threshold of the best F1 in the run's evaluation; fallback if there is none. */
static double proposed(const char *folder, bool best, double fallback)
{
    static const double least_f1 = 0.05;
    dg_diag *ignored = dg_diag_open();
    dg_history *h = NULL;
    double found = fallback;

    if (dg_is_folder(folder) && dg_history_open(&h, folder, ignored) == 0)
        for (int i = 0; i < h->evaluations.n; i++) {
            const dg_track *t = &h->evaluations.items[i];
            const dg_series *f1 = dg_track_find(t, "F1"), *at = dg_track_find(t, "threshold");

            for (int k = 0; f1 && at && k < f1->points.n && k < at->points.n; k++)
                if ((!best || (int64_t)f1->points.items[k].x == h->best_step) &&
                    f1->points.items[k].y >= least_f1)
                    found = at->points.items[k].y;
        }
    if (h)
        dg_history_close(&h);
    dg_diag_close(&ignored);
    return found;
}

bool dg_trained_threshold(double *out, const char *verb, const char *asked, const char *folder,
                          bool best)
{
    *out = 0.4;
    if (asked && (!dg_parse_f64(asked, out) || !(*out >= 0 && *out <= 1))) {
        dg_say_error("detrgraph %s: --threshold %s: a score from 0 to 1 is expected\n", verb,
                     asked);
        return false;
    }
    if (!asked && folder)
        *out = proposed(folder, best, *out);
    return true;
}

int dg_trained_open(dg_run **run, const dg_trained *t, const dg_trained_how *how, dg_diag *d)
{
    const dg_run_options options = {
        .size = sizeof options,
        .file = t->file,
        .n_sets = t->sets.n,
        .sets = t->sets.v,
        .precision = how->precision,
        .device = dg_device_asked(how->device),
        .program = "detrgraph " PACKAGE_VERSION,
        .threads = (int)how->threads,
        .no_pretrained = true,                 /* the weights are all of them */
        .log = t->published ? NULL : how->log, /* that their data are not here is no news */
        .log_ctx = how->log_ctx,
    };
    int rc;

    DG_TRY(dg_run_open(run, &options, d));
    DG_TRY(dg_run_load(*run, t->weights, d));
out:
    return rc;
}
