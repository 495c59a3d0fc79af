/* fit_batch.h: the batch that fits into memory, for `<let batch="auto"/>`. */
#ifndef DG_RUNTIME_FIT_BATCH_H
#define DG_RUNTIME_FIT_BATCH_H

#include "runtime/run.h"

typedef struct dg_fit {
    int batch, most;      /* images of a batch on each rank; the most that were allowed */
    double needs, larger; /* bytes of a training with it, and of the least that does not fit */
    double each;          /* bytes of an image more, about; 0, like these: unknown */
    double room;          /* bytes that it may need */
} dg_fit;

/* Finds the largest batch of 1..most with which the training of a pipeline fits into 80 % of what
 * is free for one of the ranks of w. It compiles the plan of each batch that it tries; it opens no
 * data and no weights, and exchanges nothing with other ranks. A batch that the pipeline refuses
 * does not fit; where it refuses each, the batch is `most`, so that opening the run says why.
 * trained: steps of this size, and no evaluations; NULL: the largest size of each. */
void dg_fit_batch(dg_fit *fit, const dg_run_options *o, const dg_world *w, int most,
                  const dg_size *trained);

/* Sets the batch that the pipeline leaves open, p->graph->open_batch: appends it to p->sets and
 * says why in p->batch_why. It is that of the run in o->resumes, else the largest that fits on
 * every rank. Every rank calls it. */
int dg_choose_batch(dg_pipeline *p, const dg_run_options *o, const dg_world *w, dg_arena *a,
                    dg_diag *d) DG_MUST_USE;

#endif
