/* follow.h: the numbers of a run as they come: each look reads what metrics.jsonl has grown by. */
#ifndef DG_RUNTIME_FOLLOW_H
#define DG_RUNTIME_FOLLOW_H

#include "base/arena.h"
#include "base/str.h"

typedef struct dg_follow dg_follow;

typedef struct dg_now {
    int64_t step, n_steps, epoch;  /* n_steps 0: no end is known */
    double  loss, mean_loss, lr;   /* mean: running, over some twenty steps; NaN where not known */
    double  images_per_s, step_s;  /* running means */
    double  data_share, wait_share; /* of the step: rank 0 waited for data, for other ranks */
    double  memory_bytes, left_s;  /* of rank 0; left_s below 0: not known */
    double  best;                  /* AP */
    int64_t best_step;             /* -1: no evaluation yet */
    const char *state, *why;       /* of run.json: how it ended, or "running"; "": there is none. Where the launcher has said
                                    * why a run failed, state is "failed", and why its word: a rank knows only what it saw,
                                    * and one that was killed nothing */
} dg_now;

dg_follow *dg_follow_open(const char *folder);
void       dg_follow_close(dg_follow **f);
/* What is not there yet is not known; texts hold until the next look. */
const dg_now *dg_follow_look(dg_follow *f);

#endif
