/* trained.c: see trained.h. */
#include "cli/trained.h"

#include <string.h>

#include "base/file.h"
#include "cli/progress.h"
#include "config.h"
#include "runtime/trained.h"

bool dg_trained_given(const char *verb, const char *place, const char *weights)
{
    if (weights || dg_is_folder(place) || (dg_exists(place) && !dg_path_ends(place, ".xml")))
        return true;
    if (dg_trained_published(place, NULL))
        dg_say_error("detrgraph %s: %s is the name of published weights: --weights %s\n", verb,
                     place, place);
    else if (!dg_exists(place))
        dg_say_error("detrgraph %s: %s: there is no such folder or file; the folder of a run is "
                     "expected, or a pipeline and --weights FILE\n",
                     verb, place);
    else
        dg_say_error(
            "detrgraph %s: --weights FILE is needed, or a run's folder in the place of the "
            "pipeline\n",
            verb);
    return false;
}

bool dg_trained_alone(const char *verb, const char *place, const char *weights, const char *usage)
{
    if (weights && dg_trained_published(place, weights)) {
        if (*place)
            dg_say_error("detrgraph %s: \"%s\" is neither a run nor a pipeline; published weights "
                         "need none\n",
                         verb, place);
        return !*place;
    }
    if (*place)
        return dg_trained_given(verb, place, weights);
    dg_say_error("detrgraph %s: a run or --weights is expected\nusage: detrgraph %s %s\n", verb,
                 verb, usage);
    return false;
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
    dg_detector_options o = { .size = sizeof o,
                              .model = w->place,
                              .weights = w->weights,
                              .last = w->which && strcmp(w->which, "last") == 0,
                              .precision = w->precision,
                              .device = dg_device_asked(w->device),
                              .threads = (int)w->threads,
                              .program = "detrgraph " PACKAGE_VERSION,
                              .n_sets = w->sets->n,
                              .sets = w->sets->v,
                              .log = dg_log_warning };
    int rc = dg_detector_open(out, &o, d);

    if (rc == 0 && *threshold < 0)
        *threshold = dg_detector_threshold(*out);
    return rc;
}
