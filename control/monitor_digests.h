/* monitor_digests.h: digests of values that are declared equal on all ranks, per batch and monitor.
 * Digests of values that the host makes are sent in the step's word; those of values that a program
 * makes are sent before the rank next waits for others, so that a differing guard is detected even
 * if it keeps a rank from coming.
 *
 * All functions accept NULL for "nothing is monitored": one rank, no control plane, or no declared
 * value. */
#ifndef DG_CONTROL_MONITOR_DIGESTS_H
#define DG_CONTROL_MONITOR_DIGESTS_H

#include "graph/monitor.h"
#include "control/message.h"
#include "exec/exec.h"
#include "feed/feeder.h"
#include "comm/world.h"

typedef struct dg_monitor_digests dg_monitor_digests;

/* NULL if nothing is compared. Allocated in the arena; monitors and link must outlive it. */
dg_monitor_digests *dg_monitor_digests_open(dg_arena *a, const dg_monitors *m, const dg_world *w);

/* Begins a batch of a scope: discards earlier digests and takes those of its plan (b; NULL:
 * none). */
void dg_monitor_digests_begin(dg_monitor_digests *w, const dg_graph *g, const dg_scope *scope,
                              int64_t step, const dg_feeder_batch *b);
/* Takes the values that a program makes, and sends their digests to the coordinator: before a
 * collective, even a skipped one, and after the program. Only complete digests are sent. */
dg_exec_observer dg_monitor_digests_observer(dg_monitor_digests *w);
/* The digests for a word about to be sent; they then count as sent. */
dg_digests dg_monitor_digests_take(dg_monitor_digests *w);
double dg_monitor_digests_seconds(const dg_monitor_digests *w); /* time spent on all of it */

#endif
