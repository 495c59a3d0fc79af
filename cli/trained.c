/* trained.c: see trained.h. */
#include "cli/trained.h"

#include <string.h>

#include "base/file.h"
#include "cli/coco_names.h"
#include "cli/fetch.h"
#include "cli/progress.h"
#include "cli/published.h"
#include "config.h"

bool dg_trained_given(const char *verb, const char *place, const char *weights)
{
    if (weights || dg_is_folder(place) || (dg_exists(place) && !dg_path_ends(place, ".xml")))
        return true;
    dg_say_error("detrgraph %s: --weights FILE is needed, or a run's folder in the place of the "
                 "pipeline\n",
                 verb);
    return false;
}

static const dg_published *published(const dg_trained_words *w, dg_arena *a)
{
    const dg_published *p =
        w->weights && !dg_exists(w->weights) ? dg_published_find(w->weights) : NULL;

    return p && !dg_path_ends(w->place, ".xml") &&
                   !dg_exists(dg_path_join(a, w->place, "pipeline.xml"))
               ? p
               : NULL;
}

bool dg_trained_published(const dg_trained_words *w, int *code)
{
    dg_arena *a = dg_arena_open();
    const dg_published *p = published(w, a);
    const dg_where at = { .file = w->weights };
    const char *weights, *file;
    dg_fetched x;
    dg_diag *d;

    if (!p) {
        dg_arena_close(&a);
        return false;
    }
    d = dg_diag_open();
    weights = dg_published_place(a, p->name);
    file = dg_published_pipeline(a, p->preset);
    if (!(p->ap > 0)) {
        dg_fail(d, DG_EINPUT, at, "weights-backbone",
                "this is a backbone, which detects nothing by itself");
        dg_help(d, "detrgraph init --data DIR --pretrained %s trains a detector from it", p->name);
    } else if (!weights || !dg_exists(weights)) {
        dg_fail(d, DG_EINPUT, at, "weights-unfetched", "these weights are not fetched yet");
        dg_help(d, "detrgraph weights fetch %s", p->name);
    } else if (!file) {
        dg_fail(d, DG_EINPUT, at, "weights-preset",
                "the pipeline %s.xml is not beside the program, nor installed", p->preset);
        dg_help(d, "name the pipeline before the weights: %s.xml --weights %s", p->preset, weights);
    } else {
        (void)!dg_fetch_check(&x, weights, d);
    }
    *code = dg_diag_n(d) ? DG_EXIT_FAILED : DG_EXIT_OK;
    dg_print_diag(d, NULL);
    dg_diag_close(&d);
    dg_arena_close(&a);
    return true;
}

bool dg_trained_least(double *out, const char *verb, const char *asked)
{
    *out = -1;
    if (!asked || (dg_parse_f64(asked, out) && *out >= 0 && *out <= 1))
        return true;
    dg_say_error("detrgraph %s: --threshold %s: a score from 0 to 1 is expected\n", verb, asked);
    return false;
}

int dg_trained_detector(dg_detector **out, const dg_trained_words *w, double *threshold, dg_diag *d)
{
    dg_arena *a = dg_arena_open();
    const dg_published *p = published(w, a);
    const char **sets = DG_NEW_N(a, w->sets->n + 1, const char *);
    dg_detector_options o = { .size = sizeof o,
                              .model = w->place,
                              .weights = w->weights,
                              .last = w->which && strcmp(w->which, "last") == 0,
                              .precision = w->precision,
                              .device = dg_device_asked(w->device),
                              .threads = (int)w->threads,
                              .program = "detrgraph " PACKAGE_VERSION,
                              .log = dg_log_warning };
    int rc;

    if (p) {
        o.model = dg_published_pipeline(a, p->preset);
        o.weights = dg_published_place(a, p->name);
        o.names = dg_coco_classes(a);
        o.n_names = DG_COCO_NAMES;
        o.log = NULL;                 /* that their data are not here is no news */
        sets[o.n_sets++] = "batch=1"; /* a preset's is for training */
    }
    for (int i = 0; i < w->sets->n; i++)
        sets[o.n_sets++] = w->sets->v[i];
    o.sets = sets;
    rc = dg_detector_open(out, &o, d);
    if (rc == 0 && *threshold < 0)
        *threshold = dg_detector_threshold(*out);
    dg_arena_close(&a);
    return rc;
}
