/* step.h: one batch forward and backward, and the update when it is due. */
#ifndef DG_RUNTIME_STEP_H
#define DG_RUNTIME_STEP_H

#include "exec/compiled.h"
#include "feed/feeder.h"
#include "runtime/run.h"

struct dg_step_state {
    dg_control control;       /* of the latest batch: learning rates, decays, counters */
    int32_t accumulated;      /* batches summed in the gradients now */
    double loss;              /* of the latest update, mean over all ranks */
    double ema_initial_share; /* share of the initial weights in the averages */
    const char *stopped_by;   /* id of the <stop> that fired, or NULL */
    void (*adjust)(void *ctx, dg_control *c); /* the caller's hook on control, or NULL */
    void *adjust_ctx;
    /* Called when a step's work is on its way to a late device and before the first wait for it;
     * or NULL. */
    int (*meanwhile)(void *ctx, dg_diag *d);
    void *meanwhile_ctx;
};

/* Computes learning rates, decays and counters for the current progress into
 * dg_run_step_state(run)->control. */
void dg_run_compute_control(dg_run *run);
/* Copies a batch into the current program, with the numbers that the scope's sources supply. */
int dg_run_feed_batch(dg_run *run, const dg_feeder_batch *batch, dg_diag *d) DG_MUST_USE;
/* Begins to copy a batch into program c while the one before is computed; feeding it will find it
 * there. Only on a late device. */
int dg_run_send_ahead(const dg_compiled *c, const dg_feeder_batch *batch, dg_diag *d) DG_MUST_USE;
/* Runs the current program up to its update, without updating. */
int dg_run_forward_batch(dg_run *run, dg_diag *d) DG_MUST_USE;
/* Forward and backward of the fed batch and, when due, the update: then *updated. A loss or
 * gradient that is not finite gives -DG_ENUMERIC with an error naming term, node and image (batch
 * may be NULL), and changes nothing. */
int dg_run_train_batch(dg_run *run, const dg_feeder_batch *batch, bool *updated, dg_diag *d)
    DG_MUST_USE;
/* What a foreseeable source supplies for a rank's batch `number`; from any thread. */
double dg_foresee_supply(uint64_t seed, const dg_node *node, int rank, int64_t number,
                         const dg_clock *clock);

#endif
