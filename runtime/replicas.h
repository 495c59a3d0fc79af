/* replicas.h: state replicated on all ranks: broadcasts rank 0's, compares all ranks'. */
#ifndef DG_RUNTIME_REPLICAS_H
#define DG_RUNTIME_REPLICAS_H

#include "comm/world.h"
#include "exec/store.h"
#include "runtime/checkpoint.h"

/* Fails unless the weights (in training also averages and moments) of all ranks are
 * bit-identical. */
int dg_replicas_compare(const dg_world *w, const dg_store *s, const char *when, dg_diag *d)
    DG_MUST_USE;
/* Copies rank 0's progress and parameter spaces to every rank. */
int dg_replicas_broadcast(const dg_world *w, dg_store *s, dg_progress *p, dg_diag *d) DG_MUST_USE;

#endif
