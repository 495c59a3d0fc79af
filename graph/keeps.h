/* keeps.h: checks that a node's instructions match its tables. What these checks cover need not be
 * trusted. */
#ifndef DG_GRAPH_KEEPS_H
#define DG_GRAPH_KEEPS_H

#include "graph/graph.h"

typedef struct dg_lowered {
    const dg_graph *g;
    dg_build *b;
    dg_diag *d;
    int64_t *bound; /* size of each letter, per variable; 0: unbound; restored afterwards */
    int first;      /* index of the node's first instruction */
    int pending;    /* statistics that were waiting for their update before the node */
    bool without;   /* something was left out on purpose */
} dg_lowered;

/* Poison, with an error, if an input or the guard (`when`) is the gradient or the parameters of the
 * whole model, and the node does not say that it takes them: read as a tensor, they are their first
 * element. Else DG_NONE. */
dg_val dg_lowered_takes(const dg_lowered *l, const dg_node *node, dg_val when, const dg_val in[])
    DG_MUST_USE;
/* Checks types of ports, keys of records, and that collectives and state are declared by the
 * class's rules, the only way for the proof to know them. */
int dg_lowered_keeps(const dg_lowered *l, const dg_node *node, const dg_val in[],
                     const dg_val out[]) DG_MUST_USE;

#endif
