/* choice.h: the plan of an epoch: which items of a data set stay (partition, filter, equalize), the batches that the
 * sampler makes of them, and which of these stay. */
#ifndef DG_RUNTIME_CHOICE_H
#define DG_RUNTIME_CHOICE_H

#include "base/diag.h"
#include "graph/graph.h"

typedef struct dg_planning {
    const dg_chain *chain;
    dg_dataset     *data;
    uint64_t        seed;   /* of the run */
    int             rank, ranks;
    uint32_t        dealt;  /* bit i: choice i of the chain works over the ranks; else over one */
    bool            whole;  /* the sampler's plan is for this rank alone; else its batches are dealt to the ranks */
    bool            own;    /* this rank has other images than the others */
    int64_t       (*least)(void *ctx, int64_t n, dg_diag *d); /* the least n of all ranks; NULL: n. < 0: a status, and why in d.
                                                              * n < 0: this rank asks no more, and the others need not */
    void           *ctx;
    bool            joint;  /* choices ask `least`: ranks end each plan together, those that could not make theirs too */
} dg_planning;

/* This rank's part of the plan: picks have plan->batch items each, which are those of the data set, ~item where it is
 * padding. There is at least one pick, or it is an error. left (or NULL) receives how many items, or batches, each choice has left. */
int dg_plan_epoch(dg_schedule *plan, dg_arena *arena, const dg_planning *p, int64_t epoch, int64_t *left, dg_diag *d) DG_MUST_USE;

#endif
