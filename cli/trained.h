/* trained.h: a trained model as verbs name it: a pipeline and a file of weights, or a run's folder,
 * which has both, and its settings. */
#ifndef DG_CLI_TRAINED_H
#define DG_CLI_TRAINED_H

#include "cli/cli.h"

typedef struct dg_trained {
    const char *file, *weights;
    dg_words sets;  /* the run's, then the given ones: the last of a name counts */
    bool published; /* weights of others, which know the classes of COCO */
} dg_trained;

/* place: a pipeline, or a run's folder; weights: a file, a folder with weights, or NULL: the run's.
 * False if there are none, after reporting that for the verb. */
bool dg_trained_find(dg_trained *t, const char *verb, const char *place, const char *weights,
                     const dg_words *sets, dg_arena *a);
/* True if weights is the name of published weights and place is no pipeline: fills t from the cache
 * and the preset. *code: DG_EXIT_OK, or the failure that was reported. */
bool dg_trained_published(dg_trained *t, const char *weights, const char *place,
                          const dg_words *sets, dg_arena *a, int *code);
/* Takes the weights of the run's best checkpoint, if it has one and no others were asked for. */
void dg_trained_best(dg_trained *t, const char *place, const char *weights, dg_arena *a);
/* The threshold of the best F1 in the run's evaluation of these weights; the default if nothing was
 * learned, or nothing is known. */
double dg_trained_threshold(const char *folder, bool best);
/* only the settings */
dg_words dg_trained_sets(const char *run, const dg_words *given, dg_arena *a);

#endif
