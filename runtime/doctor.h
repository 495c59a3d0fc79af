/* doctor.h: reads what a failed run left in OUT/flight and says what happened: which rank, where in the pipeline, and what
 * to change. */
#ifndef DG_RUNTIME_DOCTOR_H
#define DG_RUNTIME_DOCTOR_H

#include "base/arena.h"
#include "base/str.h"

int dg_doctor_examine(dg_str *out, const char *folder, dg_diag *d) DG_MUST_USE;

#endif
