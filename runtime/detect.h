/* detect.h: a detector on a run that is open; <detrgraph/detect.h> has the rest. */
#ifndef DG_RUNTIME_DETECT_H
#define DG_RUNTIME_DETECT_H

#include <detrgraph/detect.h>

/* Prepares and computes images as the first evaluation of the run's pipeline does, with the run's
 * weights. The run stays the caller's and must outlive the detector. */
int dg_detector_on(dg_detector **out, dg_run *run, dg_diag *d) DG_MUST_USE;

#endif
