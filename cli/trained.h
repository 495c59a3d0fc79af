/* trained.h: a model that was trained, as verbs are told of it: a pipeline and a file of weights, or a run's folder, which has
 * both and knows what was set. */
#ifndef DG_CLI_TRAINED_H
#define DG_CLI_TRAINED_H

#include "cli/cli.h"

typedef struct dg_trained {
    const char *file, *weights;
    dg_words    sets; /* of the run, then those given: the last of a name counts */
} dg_trained;

/* place: a pipeline, or a run's folder; weights: a file, a folder that holds some, or NULL: those of the run. False, after
 * saying so for the verb: there are none. */
bool     dg_trained_find(dg_trained *t, const char *verb, const char *place, const char *weights, const dg_words *sets, dg_arena *a);
dg_words dg_trained_sets(const char *run, const dg_words *given, dg_arena *a); /* these alone */

#endif
