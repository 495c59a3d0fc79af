/* lower.h: lowering with somebody watching: what each node took and gave, while its program is
 * being built. */
#ifndef DG_GRAPH_LOWER_H
#define DG_GRAPH_LOWER_H

#include "graph/graph.h"

/* in and out have the node's ports; DG_NONE where nothing flows in the program (data, metrics). */
typedef void dg_lowered_fn(void *ctx, dg_build *b, const dg_node *node, const dg_val in[],
                           const dg_val out[]);

/* What does not fire or gives nothing: a bit for each output of a node, by its number; all bits:
 * the node itself. Nodes that always need such an output do not fire either. */
typedef uint64_t dg_absence;
#define DG_ABSENT_NODE UINT64_MAX

/* As dg_graph_lower; batch 0: as the scope's sampler says. watch may be NULL. */
int dg_lower(dg_program **p, const dg_graph *g, const dg_scope *scope, dg_size size, int batch,
             dg_params *params, dg_lowered_fn *watch, void *ctx, dg_diag *d) DG_MUST_USE;

/* The first image size that the scope's sampler lists; 0,0 for a scope without data. */
int dg_scope_size(dg_size *size, const dg_scope *scope, dg_diag *d) DG_MUST_USE;

/* The same program without what absent names (one entry for each node of the graph). */
int dg_lower_without(dg_program **p, const dg_graph *g, const dg_scope *scope, dg_size size,
                     int batch, const dg_absence *absent, dg_params *params, dg_lowered_fn *watch,
                     void *ctx, dg_diag *d) DG_MUST_USE;

#endif
