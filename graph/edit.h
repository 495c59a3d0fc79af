/* edit.h: help that can be followed word by word: edits of a pipeline's file.
 *
 *   write NAME="VALUE" in <class id="x"> (line 7)      a new value, or a new attribute
 *   write NAME="VALUE" in place of NAME="OLD" at line 7
 *   take NAME="VALUE" out of <class id="x"> (line 7)
 *   take <class id="x"> out (line 7)
 *   put <class .../> before <class id="x"> (line 7)
 *
 *   take the tags of <class id="x"> out (line 7)       what is between them stays
 *
 * joined by ", and "; of another file: (FILE:7). What stands before a colon says why.
 * tests/proof/advice makes these edits, and validates what comes of them. All texts are in the
 * graph's arena; NULL if there is no such edit. */
#ifndef DG_GRAPH_EDIT_H
#define DG_GRAPH_EDIT_H

#include "graph/graph.h"

const char *dg_edit_placed(const dg_graph *g, const dg_node *node);       /* "<skip> (line 7)" */
const char *dg_edit_and(const dg_graph *g, const char *a, const char *b); /* each may be NULL */
const char *dg_edit_write(const dg_graph *g, const dg_node *node, const char *name,
                          const char *value);
const char *dg_edit_drop(const dg_graph *g, const dg_node *node, const char *name);
const char *dg_edit_instead(const dg_graph *g, const dg_item_attr *old, const char *value);
/* The same of an element that is no node: <mesh>, <evaluate>. */
const char *dg_edit_write_part(const dg_graph *g, const dg_item *item, const char *name,
                               const char *value);
const char *dg_edit_drop_part(const dg_graph *g, const dg_item *item, const char *name);
/* The node goes; what read it reads what its first input reads. */
const char *dg_edit_without(const dg_graph *g, const dg_node *node);
/* The elements inside stay. */
const char *dg_edit_unwrap(const dg_graph *g, const dg_item *item);
const char *dg_edit_without_part(const dg_graph *g, const dg_item *item); /* with what is inside */
/* Of an error that lowering the node reports under this id. */
const char *dg_edit_of(const dg_graph *g, const dg_node *node, const char *id);
/* Inserts a node before the input `name`: what: its class and attributes, "agree op="any""; id: its
 * preferred id, changed if taken; axes NULL: the node is a source and has no input. */
const char *dg_edit_insert(const dg_graph *g, const dg_node *node, const char *name,
                           const dg_wire *w, const char *what, const char *id, const char *axes);

/* The node of this path, "train/loss"; NULL: none. */
const dg_node *dg_edit_node(const dg_graph *g, const char *path);

#endif
