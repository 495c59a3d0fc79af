/* evaluate.h: one pass over an evaluation's data. */
#ifndef DG_RUNTIME_EVALUATE_H
#define DG_RUNTIME_EVALUATE_H

#include "base/metrics.h"
#include "runtime/run.h"

typedef struct dg_evaluation {
    const dg_scope *scope;
    const char *folder; /* NULL: write nothing; only rank 0 writes */
    bool ema;
    bool goes_on; /* files that cannot be written are warnings: numbers are what matters */
    int (*stop)(void *ctx);
    void *ctx;
    dg_metrics *metrics; /* result */
    int64_t n_images;    /* result */
} dg_evaluation;
int dg_run_evaluate_scope(dg_run *run, dg_evaluation *e, dg_diag *d) DG_MUST_USE;
/* true if this rank takes part, false if it waits for the one of on="0" */
bool dg_run_evaluates(const dg_run *run, const dg_scope *scope);

#endif
