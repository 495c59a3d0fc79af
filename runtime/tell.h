/* tell.h: who hears the numbers of a step or an evaluation: metrics.jsonl, TensorBoard's file, the metrics port. On rank 0
 * of a run with a folder; elsewhere nothing happens. */
#ifndef DG_RUNTIME_TELL_H
#define DG_RUNTIME_TELL_H

#include "runtime/train.h"

int  dg_tell_open(dg_train *t, dg_diag *d) DG_MUST_USE; /* once it is known where the run begins */
void dg_tell_close(dg_train *t);
int  dg_tell_port(dg_train *t, dg_diag *d) DG_MUST_USE; /* opens it, where one was asked for */
/* scope NULL: of a training step. */
int  dg_tell(dg_train *t, int64_t epoch, const char *scope, const dg_metrics *m, dg_diag *d) DG_MUST_USE;

#endif
