/* lower.h: lowering with an observer of each node's inputs and outputs. */
#ifndef DG_GRAPH_LOWER_H
#define DG_GRAPH_LOWER_H

#include "graph/graph.h"

/* in and out have an entry per port; DG_NONE for values outside the program (data, metrics). */
typedef void dg_lowered_fn(void *ctx, dg_build *b, const dg_node *node, const dg_val in[],
                           const dg_val out[]);

/* Absence of a node's outputs: bit i: output i; all bits: the node does not fire. Nodes that
 * require an absent output do not fire either, except with connect="zero". */
typedef uint64_t dg_absence;
#define DG_ABSENT_NODE UINT64_MAX

/* Like dg_graph_lower; batch 0: the sampler's. watch may be NULL. */
int dg_lower(dg_program **p, const dg_graph *g, const dg_scope *scope, dg_size size, int batch,
             dg_params *params, dg_lowered_fn *watch, void *ctx, dg_diag *d) DG_MUST_USE;

/* The sizes that the scope's sampler lists, and its batch size; none for a scope without data. */
int dg_scope_listed(const dg_size **sizes, int *n, int *batch, const dg_scope *scope, dg_diag *d)
    DG_MUST_USE;
/* The first size that the scope's sampler lists; 0,0 for a scope without data. */
int dg_scope_size(dg_size *size, const dg_scope *scope, dg_diag *d) DG_MUST_USE;

/* Gives zeros for the input `port` of a node with connect="zero", which is absent; DG_NONE: none.
 */
typedef dg_val dg_zeros_fn(void *ctx, dg_build *b, const dg_node *node, int port);

/* What is left out of a lowering, and what stands for it. */
typedef struct dg_without {
    const dg_absence *absent; /* one entry per node of the graph */
    dg_zeros_fn *zeros;       /* with the ctx of watch */
} dg_without;

/* Lowers the scope without something. */
int dg_lower_without(dg_program **p, const dg_graph *g, const dg_scope *scope, dg_size size,
                     int batch, const dg_without *without, dg_params *params, dg_lowered_fn *watch,
                     void *ctx, dg_diag *d) DG_MUST_USE;

#endif
