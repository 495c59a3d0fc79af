/* fit_time.h: how long a training step takes here, before there is a run. */
#ifndef DG_RUNTIME_FIT_TIME_H
#define DG_RUNTIME_FIT_TIME_H

#include "runtime/run.h"

/* Seconds of a step of the pipeline's training on one rank, at its largest size, without its data:
 * by a probe of its kernels, which takes a part of a second. 0: it cannot be told, because the
 * device works later than it is called, or because the pipeline does not open. */
double dg_fit_step_seconds(const dg_run_options *o);

#endif
