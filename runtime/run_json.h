/* run_json.h: OUT/run.json: a run's description besides the numbers of its steps: pipeline,
 * machine, versions, sizes, data, time by node and op, what each rank did, and how it ended.
 * Written whole at the start, at each evaluation and at the end; docs/reports.md lists its fields.
 * Also OUT/graph.svg, the pipeline coloured by time per node. Written at the start (uncoloured),
 * after the first profile and at the end; readers lack the plugins to draw it. A file that cannot
 * be written is only a warning. */
#ifndef DG_RUNTIME_RUN_JSON_H
#define DG_RUNTIME_RUN_JSON_H

#include "runtime/train.h"

void dg_run_json_open(dg_train *t);
void dg_run_json_close(dg_train *t);
void dg_run_json_restart(dg_train *t); /* counts the ranks' costs from here on */

/* Around the batches of a step: some steps are timed instruction by instruction. */
void dg_run_json_begin_step(dg_train *t);
void dg_run_json_hook(dg_train *t, bool on); /* attaches to the current program */
void dg_run_json_end_step(dg_train *t, double seconds);

/* Gathers what every rank has done so far on rank 0. */
int dg_run_json_gather(dg_train *t, dg_diag *d) DG_MUST_USE;
/* state: "running", "done", "stopped" or "failed"; why: the log's explanation. Only rank 0
 * writes. */
void dg_run_json_write(dg_train *t, const char *state, const char *why);

/* Writes report.html; failure is only a warning, because the folder has all of its data. */
void dg_run_json_report(const dg_train *t);

#endif
