/* trained.h: where the pipeline, weights and settings of a trained model are: a run's folder has
 * all of them. */
#ifndef DG_RUNTIME_TRAINED_H
#define DG_RUNTIME_TRAINED_H

#include <detrgraph/run.h>

#include "base/arena.h"
#include "graph/graph.h"

typedef struct dg_trained {
    const char *file, *weights;
    int n_sets;
    const char *const *sets; /* the run's, then the given ones: the last of a name counts */
    bool published;          /* by others; its data are not here */
    const char *run;         /* whose evaluation proposes a threshold; NULL: none */
} dg_trained;

/* model: a pipeline; a run's folder; or a checkpoint or file inside of one, which are its weights.
 * weights: a file or folder, the name of published weights, or NULL. Either may be the name of a
 * published detector that stands alone. last: of a run's folder not the best ones. Error
 * "detector-model": there are no weights, or no pipeline. */
int dg_trained_find(dg_trained *t, const char *model, const char *weights, bool last, int n_sets,
                    const char *const *sets, dg_arena *a, dg_diag *d) DG_MUST_USE;
/* The run that a place is, or is in, or a checkpoint of which it is; NULL: none. */
const char *dg_trained_run(const char *place, dg_arena *a);
/* Where the weights of a place are: of a run's folder in the checkpoint with the best score, if it
 * keeps one; else the place itself. */
const char *dg_trained_best(const char *place, dg_arena *a);
/* Opens its pipeline and loads its weights. how: the other options; those of the pipeline are
 * filled in here. */
int dg_trained_open(dg_run **run, const dg_trained *t, dg_run_options how, dg_diag *d) DG_MUST_USE;
/* The settings of the run in a folder, then the given ones; returns their number. */
int dg_trained_sets(const char *run, int n_sets, const char *const *sets, dg_arena *a,
                    const char *const **out);
/* The published detector that is asked for in place of files: by the name of weights, or of a model
 * without weights; NULL: none, these are files. */
const struct dg_published *dg_trained_published(const char *model, const char *weights);
/* A setting of that run; NULL: there is none. */
const char *dg_trained_set(const char *place, const char *name, dg_arena *a);
/* The least score of what an evaluation shows, by its best F1 and the threshold of that: this one,
 * or 0.4 where the F1 is that of guesses, or NaN: there is none. */
double dg_shown_from(double f1, double threshold);
/* The same of the run's evaluation, of this scope, of these weights; 0.4 if they were not
 * evaluated, or there is no run. Warning "threshold-lost": 0.4, because the run's numbers cannot be
 * read. */
double dg_trained_threshold(const dg_trained *t, const dg_scope *scope, dg_diag *d);

#endif
