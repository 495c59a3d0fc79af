/* limits.h: the process's limits (ulimit) that a run needs more of. */
#ifndef DG_CONTROL_LIMITS_H
#define DG_CONTROL_LIMITS_H

#include "base/diag.h"

/* Raises the soft limits of open files, of the stack and of threads, which ranks inherit, to what a
 * launcher of that many ranks needs, each with that many kernel threads (0: an equal share of the
 * cores); an error if the hard limits are too small. */
int dg_limits_raise(int ranks, int threads, dg_diag *d) DG_MUST_USE;
/* For a process that a signal ended: what limits memory or time, and the way out. False: nothing
 * does. */
bool dg_limits_reached(dg_str *out, int signal);
void dg_limits_help(dg_diag *d, int signal); /* the same as help of the latest error */

#endif
