/* digest.h: a digest of the graph, which ranks compare when they start, and the first difference
 * between two graphs. */
#ifndef DG_GRAPH_DIGEST_H
#define DG_GRAPH_DIGEST_H

#include "graph/graph.h"

/* Of elements and attributes after expansion, without what does not affect the run; printed with 16
 * hexadecimal digits. */
uint64_t dg_graph_digest(const dg_graph *g);
/* Fails with DG-DIGEST if the graphs differ; the error names the first difference. */
int dg_graph_compare(const dg_graph *g, const dg_graph *other, dg_diag *d) DG_MUST_USE;

#endif
