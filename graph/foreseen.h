/* foreseen.h: finds numbers that are known before their batch is made, so that loader threads can
 * use them. */
#ifndef DG_GRAPH_FORESEEN_H
#define DG_GRAPH_FORESEEN_H

#include "graph/graph.h"

/* The source of a number that is known before its batch, also through a <broadcast> (*root: its
 * rank, else -1). NULL: known only during the step. */
const dg_node *dg_wire_foreseen(const dg_wire *wire, int *root);
/* The number by which a resize node chooses the size. */
const dg_wire *dg_resize_wire(const dg_node *node);

#endif
