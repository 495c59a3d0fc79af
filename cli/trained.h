/* trained.h: a trained model as verbs name it: a pipeline and a file of weights, or a run's folder,
 * which has both, and its settings. */
#ifndef DG_CLI_TRAINED_H
#define DG_CLI_TRAINED_H

#include <detrgraph/run.h>

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
/* The score from which detections are shown: the one that was asked for (NULL: none was; false if
 * it is none from 0 to 1, after reporting that for the verb), else that of the best F1 in the
 * evaluation of these weights by the run in `folder` (NULL: no run), else, and if nothing was
 * learned, 0.4. */
bool dg_trained_threshold(double *out, const char *verb, const char *asked, const char *folder,
                          bool best);

/* How a verb computes with them. */
typedef struct dg_trained_how {
    const char *precision, *device; /* as the options were given */
    int64_t threads;
    void (*log)(void *ctx, int level, const char *line); /* NULL: what is not wrong is not said */
    void *log_ctx;
} dg_trained_how;
/* Opens the pipeline and loads the weights. */
int dg_trained_open(dg_run **run, const dg_trained *t, const dg_trained_how *how, dg_diag *d)
    DG_MUST_USE;
/* only the settings */
dg_words dg_trained_sets(const char *run, const dg_words *given, dg_arena *a);

#endif
