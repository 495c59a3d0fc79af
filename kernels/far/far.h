/* far.h: a device for tests of device discipline. It computes with the host's kernels, the same
 * bits, but keeps the contract of kernels/backend.h by its letter: its memory is closed to the host
 * (touching it is a segmentation fault), its work is done by a thread of its own and as late as the
 * contract allows, and what the caller promised about host memory is checked.
 *
 * Options, after a colon and separated by commas ("far:seed=7,memory=512M"):
 *
 *   ref          with the kernels of "ref"
 *   seed=N       order of lanes where events leave it free. 0 (default): only what a wait needs
 *                runs; others: lanes that nothing waits for may run ahead too
 *   eager        work begins when it is queued: for ThreadSanitizer
 *   patience=MS  pending work begins by itself that long after the last call, as a device's does;
 *                without it a rank that waits for another one's collective could hang (200)
 *   memory=SIZE  alloc fails beyond it; K, M, G
 *   fault=N      the N-th launch fails, with -DG_EIO
 *   lacks=OP     has no kernel for this op; may be repeated; "all": for none
 *
 * A fault's cause is in `describe`. */
#ifndef DG_KERNELS_FAR_FAR_H
#define DG_KERNELS_FAR_FAR_H

#include "kernels/backend.h"

int dg_far_open(dg_backend **b, const char *device, dg_diag *d) DG_MUST_USE;

#endif
