/* sinks.h: nodes of a scope that take results on the host: logs, evaluations. */
#ifndef DG_RUNTIME_SINKS_H
#define DG_RUNTIME_SINKS_H

#include "base/metrics.h"
#include "comm/world.h"
#include "exec/compiled.h"
#include "feed/feeder.h"
#include "graph/graph.h"

/* The active sinks of a scope, with the state that begin made for each. */
typedef struct dg_sinks dg_sinks;
int dg_sinks_open(dg_sinks **s, const dg_scope *scope, const dg_sink_args *args, dg_diag *d)
    DG_MUST_USE;
/* c: the program that computed the batch */
int dg_sinks_take(dg_sinks *s, const dg_compiled *c, const dg_feeder_batch *batch, dg_diag *d)
    DG_MUST_USE;
int dg_sinks_finish(dg_sinks **s, dg_metrics *m, dg_diag *d); /* m NULL: abandon */
/* Merges the ranks' state on rank 0, for every sink that gathers over an axis. */
int dg_sinks_join(dg_sinks *s, const dg_graph *g, const dg_world *w, dg_diag *d) DG_MUST_USE;
/* Sends rank root's numbers and notes to every rank. */
int dg_metrics_share(const dg_world *w, int root, dg_metrics *m, dg_diag *d) DG_MUST_USE;

#endif
