/* witness.h: what a rank sees, in a batch, of values that are declared the same on all ranks: a digest of each, by the number
 * of its monitor. Those that the host makes go into the step's word; those that a program makes are told before the rank next
 * waits for others, so that a guard that differs is known even where it keeps a rank from coming.
 *
 * Every call takes NULL for "nobody watches": one rank, no control plane, or nothing that is trusted. */
#ifndef DG_RUNTIME_WITNESS_H
#define DG_RUNTIME_WITNESS_H

#include "graph/monitor.h"
#include "runtime/message.h"
#include "runtime/stream.h"
#include "runtime/world.h"

typedef struct dg_witness dg_witness;

/* NULL where nothing is compared. Lives in the arena; monitors and the link must outlive it. */
dg_witness *dg_witness_open(dg_arena *a, const dg_monitors *m, const dg_world *w);

/* A batch of a scope begins: nothing has been seen of it but what its stream says (b; NULL: nothing). */
void dg_witness_begin(dg_witness *w, const dg_graph *g, const dg_scope *scope, int64_t step, const dg_stream_batch *b);
/* n bytes of monitor i's value, in pieces, and then its end: what is told is whole. */
void dg_witness_see(dg_witness *w, int i, const void *bytes, size_t n);
void dg_witness_end(dg_witness *w, int i);
dg_where dg_witness_where(const dg_witness *w, int i); /* of the monitor's node */
/* Tells the coordinator what it has not heard yet: before a collective, be it skipped, and when the program has run. */
void dg_witness_tell(dg_witness *w);
/* The same for a word that is about to be told: so far, and then it counts as told. */
dg_digests dg_witness_take(dg_witness *w);
double     dg_witness_seconds(const dg_witness *w); /* that were spent on all of it */

#endif
