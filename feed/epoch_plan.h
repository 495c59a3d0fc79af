/* epoch_plan.h: plans an epoch: which items of a data set remain (partition, filter, equalize),
 * which batches the sampler makes of them, and which of these remain. */
#ifndef DG_FEED_EPOCH_PLAN_H
#define DG_FEED_EPOCH_PLAN_H

#include "base/diag.h"
#include "graph/graph.h"

typedef struct dg_planning {
    const dg_chain *chain;
    dg_dataset *data;
    uint64_t seed; /* the run's */
    int rank, ranks;
    uint32_t dealt; /* bit i: choice i works over all ranks; else over one */
    /* the sampler's plan is for this rank alone; false: its batches are divided over the ranks */
    bool own_plan;
    bool own_images; /* this rank's images differ from other ranks' */
    /* Smallest n over all ranks, which `of` asks for; NULL: n itself. Returns a negative status
     * after reporting to d. n < 0 withdraws this rank from the vote. */
    int64_t (*least)(void *ctx, const dg_node *of, int64_t n, dg_diag *d);
    void *ctx;
    /* some choice calls `least`: the ranks end each plan together, even if some have failed */
    bool ends_together;
} dg_planning;

/* Makes this rank's part of the plan: picks have plan->batch items of the data set each, ~item for
 * padding. No picks is an error. left (or NULL) receives how many items, or batches, remain after
 * each choice. */
int dg_epoch_plan_make(dg_schedule *plan, dg_arena *arena, const dg_planning *p, int64_t epoch,
                       int64_t *left, dg_diag *d) DG_MUST_USE;

#endif
