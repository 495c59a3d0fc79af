/* doctor.h: explains a failed run from OUT/flight: which rank, where in the pipeline, and what to
 * change. */
#ifndef DG_CONTROL_DOCTOR_H
#define DG_CONTROL_DOCTOR_H

#include "base/arena.h"
#include "base/str.h"

/* Reads what there is: files that are empty, cut or damaged are named. */
int dg_doctor_examine(dg_str *out, const char *folder, dg_diag *d) DG_MUST_USE;
/* Only where the ranks parted, in one line; nothing if they did not. */
int dg_doctor_compare(dg_str *out, const char *folder, dg_diag *d) DG_MUST_USE;

#endif
