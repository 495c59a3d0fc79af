/* fire.h: when a node fires: the guards that lowering sets around its instructions
 * (docs/invariance.md: when, on, presence, skip, stop). */
#ifndef DG_GRAPH_FIRE_H
#define DG_GRAPH_FIRE_H

#include "graph/graph.h"
#include "tensor/build.h"

/* Begins a node; returns the number of guards set. when: its flag, or DG_NONE. fired: per input,
 * the guard under which its producer fires. */
int dg_fire_begin(dg_build *b, const dg_graph *g, const dg_node *node, dg_val when,
                  const dg_val in[], const dg_val fired[]);
/* Ends these guards. Outputs are zeros if the node does not fire; with connect="zero" they count as
 * present. */
void dg_fire_end(dg_build *b, const dg_node *node, int guards, dg_val out[]);
/* Handles the consequences of a node that fires under this guard (DG_NONE: always). For <skip>,
 * <stop>, and sinks that may not fire it publishes a flag (DG_RESULT_SKIP, _STOP, _FIRED), nonzero
 * if they fired. All nodes after a skip get its guard. */
void dg_fire_course(dg_build *b, const dg_node *node, dg_val fired);

#endif
