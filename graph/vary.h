/* vary.h: the proof of rank invariance: what differs among ranks, followed along wires, guards and
 * loops to collectives, gradients and state. docs/invariance.md says what is proved and why. */
#ifndef DG_GRAPH_VARY_H
#define DG_GRAPH_VARY_H

#include "graph/graph.h"

typedef struct dg_vary_axis {
    const char *name;
    int64_t     size;
} dg_vary_axis;

/* What a picture of the graph shows of the proof. */
typedef struct dg_vary_marks {
    const char ***varies; /* by node number and output: "dp" where its value differs, or NULL */
    bool         *path;   /* by node number: lies on the path of a rejection */
} dg_vary_marks;

/* Proves the graph for its mesh: errors with the ids DG-..., all of them, those that follow from
 * another folded. Where dp has one rank, what two ranks would make wrong is a warning. params: of
 * the programs lowered so far. marks may be NULL; else it is filled, in the arena. */
int dg_vary_check(const dg_graph *g, dg_params *params, dg_vary_marks *marks, dg_arena *arena,
                  dg_diag *d) DG_MUST_USE;

/* Appends what the proof takes on trust. opaque, by node number: what the node computes is known to
 * its class alone. */
void dg_vary_monitors(dg_monitors *m, const bool *opaque, const dg_graph *g, dg_params *params,
                      dg_arena *arena);

/* Refuses words that are proved and that no run executes: id "only-proved". */
int dg_graph_runnable(const dg_graph *g, dg_diag *d) DG_MUST_USE;

/* Who gives a number that is known before its batch: a source, or where the wire comes from a
 * <broadcast> of one, that of rank *root (else -1). NULL: it is known in the step alone. */
const dg_node *dg_wire_foreseen(const dg_wire *wire, int *root);
/* The number by which a resize node chooses. */
const dg_wire *dg_resize_wire(const dg_node *node);
/* Has the node's class a row of this kind that holds? */
bool dg_node_has_row(const dg_graph *g, const dg_node *node, dg_rule_kind kind);
/* The first of them behind `after`, or of all (NULL); NULL where there is none. */
const dg_rule *dg_node_row(const dg_graph *g, const dg_node *node, dg_rule_kind kind, const dg_rule *after);

/* The graph as ranks compare it: elements and attributes after expansion, without what cannot
 * matter; and its digest, 16 hexadecimal digits. */
void     dg_graph_canonical(dg_str *out, const dg_graph *g);
uint64_t dg_graph_digest(const dg_graph *g);
/* Fails with DG-DIGEST where another graph differs, and names the first difference. */
int dg_graph_compare(const dg_graph *g, const dg_graph *other, dg_diag *d) DG_MUST_USE;

#endif
