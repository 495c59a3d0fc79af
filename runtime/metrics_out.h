/* metrics_out.h: sends the numbers of a step or an evaluation to metrics.jsonl, TensorBoard's file
 * and the metrics port. Only on rank 0 of a run with a folder; elsewhere it does nothing. */
#ifndef DG_RUNTIME_METRICS_OUT_H
#define DG_RUNTIME_METRICS_OUT_H

#include "runtime/train.h"

/* call once it is known where the run begins */
int dg_metrics_out_open(dg_train *t, dg_diag *d) DG_MUST_USE;
void dg_metrics_out_close(dg_train *t);
/* opens the port, if one was asked for */
int dg_metrics_out_port(dg_train *t, dg_diag *d) DG_MUST_USE;
/* scope NULL: a training step. What a full disk refuses waits in memory, after a warning; finish
 * writes it, or is an error; again writes the files of a folder that was deleted. */
int dg_metrics_out(dg_train *t, int64_t epoch, const char *scope, const dg_metrics *m, dg_diag *d)
    DG_MUST_USE;
int dg_metrics_out_finish(dg_train *t, dg_diag *d) DG_MUST_USE;
int dg_metrics_out_again(dg_train *t, dg_diag *d) DG_MUST_USE;

#endif
