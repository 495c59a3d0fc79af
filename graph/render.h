/* render.h: a pipeline as a picture. */
#ifndef DG_GRAPH_RENDER_H
#define DG_GRAPH_RENDER_H

#include "graph/graph.h"

/* The graph in Graphviz' language: nodes coloured by role, their ports, contracts and shapes on
 * the wires, scopes as clusters; the errors among `faults` in red at their nodes. Also of a
 * graph that did not load well. */
void dg_render_dot(dg_str *out, const dg_graph *g, const dg_diag *faults);

/* Where the time of a step goes: seconds by path of node. */
typedef struct dg_heat {
    int n;
    struct dg_heat_row {
        const char *path;
        double      seconds;
    } *rows;
} dg_heat;
/* The same, laid out as SVG without a prologue, for a page; nodes are coloured by their share of the time, which stands
 * beside it in words; heat NULL: by their roles. */
int dg_render_svg(dg_str *out, const dg_graph *g, const dg_heat *heat, dg_diag *d) DG_MUST_USE;
/* What dg_render_svg lays out where there is heat. */
void dg_render_heat(dg_str *out, const dg_graph *g, const dg_heat *heat);

/* Laid out and written to path, by its extension: svg, png, pdf or dot. */
int dg_render_file(const char *path, const dg_graph *g, const dg_diag *faults, dg_diag *d)
    DG_MUST_USE;

#endif
