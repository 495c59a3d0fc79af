/* render.h: a pipeline as a picture. */
#ifndef DG_GRAPH_RENDER_H
#define DG_GRAPH_RENDER_H

#include "graph/graph.h"

/* The graph in Graphviz' language: nodes coloured by role, their ports, contracts and shapes on
 * the wires, scopes as clusters; the errors among `faults` in red at their nodes. Also of a
 * graph that did not load well. */
void dg_render_dot(dg_str *out, const dg_graph *g, const dg_diag *faults);

/* Laid out and written to path, by its extension: svg, png, pdf or dot. */
int dg_render_file(const char *path, const dg_graph *g, const dg_diag *faults, dg_diag *d)
    DG_MUST_USE;

#endif
