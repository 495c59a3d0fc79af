/* render.h: draws a pipeline as a picture. */
#ifndef DG_REPORT_RENDER_H
#define DG_REPORT_RENDER_H

#include "graph/graph.h"

/* Writes the graph in Graphviz's language: nodes coloured by role, with ports; contracts and shapes
 * on wires; scopes as clusters; errors among `faults` in red at their nodes. Also works for graphs
 * with load errors. */
void dg_render_dot(dg_str *out, const dg_graph *g, const dg_diag *faults);

/* Where the time of a step goes: seconds by node path. */
typedef struct dg_heat {
    int n;
    struct dg_heat_row {
        const char *path;
        double seconds;
    } *rows;
} dg_heat;
/* Appends the picture as SVG without prologue, to embed in a page. Nodes are coloured by their
 * share of the time, also given in words; heat NULL: by role. */
int dg_render_svg(dg_str *out, const dg_graph *g, const dg_heat *heat, dg_diag *d) DG_MUST_USE;
/* Writes what dg_render_svg lays out if there is heat. */
void dg_render_heat(dg_str *out, const dg_graph *g, const dg_heat *heat);

/* Lays the picture out and writes it to path, by extension: svg, png, pdf or dot. */
int dg_render_file(const char *path, const dg_graph *g, const dg_diag *faults, dg_diag *d)
    DG_MUST_USE;

#endif
