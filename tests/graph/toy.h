/* toy.h: small node classes for tests of the language, so that they depend on no real one. */
#ifndef DG_TESTS_GRAPH_TOY_H
#define DG_TESTS_GRAPH_TOY_H

#include "graph/graph.h"

/* All of them; NULL ends the list. */
extern const dg_node_class *const toy_classes[];

dg_registry *toy_registry(dg_diag *d);

/* Loads text as the file "t.xml"; check: lowers it too. Returns the status. */
int toy_load(dg_graph **g, dg_registry *r, const char *text, bool check, dg_diag *d);

/* Everything that was reported, with lines and carets. Freed by the caller. */
char *toy_print(const dg_diag *d, dg_graph *g);

/* A node by its path "train/loss"; NULL if there is none. */
const dg_node *toy_node(const dg_graph *g, const char *path);

#endif
