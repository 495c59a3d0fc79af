/* keeps.h: does a node keep in its instructions what its tables say? What can be seen there need not
 * be trusted. */
#ifndef DG_GRAPH_KEEPS_H
#define DG_GRAPH_KEEPS_H

#include "graph/graph.h"

typedef struct dg_lowered {
    const dg_graph *g;
    dg_build       *b;
    dg_diag        *d;
    int64_t        *bound;   /* what letters are, one entry per variable, 0: not yet; left so */
    int             first;   /* the node's first instruction */
    int             pending; /* statistics that waited for their update before it */
    bool            without; /* something was left out on purpose */
} dg_lowered;

/* Types of its ports, keys of its records; collectives and state, which the proof knows by rows of
 * its class alone. */
int dg_lowered_keeps(const dg_lowered *l, const dg_node *node, const dg_val in[],
                     const dg_val out[]) DG_MUST_USE;

#endif
