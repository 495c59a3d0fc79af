/* account.h: OUT/run.json: what a run tells of itself besides the numbers of its steps: pipeline, machine, versions, sizes,
 * data, where the time of its steps goes, what each rank did, and how it ended. Written at the start, at each evaluation and
 * at the end, always whole; docs/reports.md lists its fields. And OUT/graph.svg, the pipeline in the colours of that time,
 * which who reads the folder could draw only with its plugins: at the start still without them, once there is a profile, and
 * at the end. A file that cannot be written is a warning, never the end. */
#ifndef DG_RUNTIME_ACCOUNT_H
#define DG_RUNTIME_ACCOUNT_H

#include "runtime/train.h"

void dg_account_open(dg_train *t);
void dg_account_close(dg_train *t);
void dg_account_restart(dg_train *t); /* what ranks cost is counted from here on */

/* Around the batches of a step: some of a run's steps are timed instruction by instruction. */
void dg_account_begin_step(dg_train *t);
void dg_account_hook(dg_train *t, bool on); /* on the current program */
void dg_account_end_step(dg_train *t, double seconds);

/* What every rank has done so far reaches rank 0. */
int  dg_account_gather(dg_train *t, dg_diag *d) DG_MUST_USE;
/* state: "running", "done", "stopped" or "failed"; why: what the log says of it. Rank 0 writes, the others do nothing. */
void dg_account_write(dg_train *t, const char *state, const char *why);

#endif
