/* fire.h: when a node fires: the guards that lowering sets around its instructions
 * (docs/invariance.md: when, on, presence, skip, stop). */
#ifndef DG_GRAPH_FIRE_H
#define DG_GRAPH_FIRE_H

#include "graph/graph.h"
#include "tensor/build.h"

/* Begins a node: how many guards were set. when: its flag, or none. fired: one entry per input, the
 * guard under which the node before it fires. */
int dg_fire_begin(dg_build *b, const dg_graph *g, const dg_node *node, dg_val when,
                  const dg_val in[], const dg_val fired[]);
/* Ends them. Outputs are zeros where the node does not fire; with connect="zero" they are there all
 * the same. */
void dg_fire_end(dg_build *b, const dg_node *node, int guards, dg_val out[]);
/* What follows from a node that fires under this guard (none: always). Of <skip>, <stop>, and sinks
 * that may not fire it publishes "skip/ID", "stop/ID", "fired/ID": not 0 where they did. Everything
 * after a skip gets its guard. */
void dg_fire_course(dg_build *b, const dg_node *node, dg_val fired);

#endif
