/* load.h: shared by the files that build a graph from items. */
#ifndef DG_GRAPH_LOAD_H
#define DG_GRAPH_LOAD_H

#include "graph/graph.h"
#include "graph/load_error.h"
#include "graph/structure.h"

typedef struct dg_loader {
    dg_graph *g;
    dg_arena *arena;
    dg_load_errors report;
    dg_scope *scope;         /* the scope being read */
    dg_frame *top;           /* the frame of the scope's own element */
    dg_map *later;           /* ids defined anywhere in the scope: id -> dg_where */
    DG_VEC(dg_node *) nodes; /* of the scope */
    dg_map *counts;          /* of the scope: element name -> number of them so far (int) */
    dg_map *references;      /* of the scope: names in checkpoints that are taken */
} dg_loader;

/* Reads one attribute into conf by its row; reports errors. */
bool dg_load_attr(dg_loader *l, const dg_item *item, const dg_item_attr *a, const dg_attr *row,
                  void *conf);
/* Reads the attributes of a table and reports missing and unknown ones. others: names handled
 * elsewhere, separated by spaces, or NULL. False: conf lacks something, which was reported. */
bool dg_load_attrs(dg_loader *l, const dg_item *item, const char *called, const dg_attr *table,
                   void *conf, const char *others);
/* Fails unless w is in minutes. */
void dg_load_minutes(dg_loader *l, const dg_item *item, const char *name, dg_when w);
/* Reports attribute a as unknown; names: the known ones. */
void dg_load_unknown(dg_loader *l, const dg_item *item, const dg_item_attr *a, const char *called,
                     const char *const names[], int n);

/* Reports an attribute (with this value) or an element that the language leaves out on purpose,
 * with the reason and the way out; false: it is no such word. */
bool dg_load_left_out(dg_loader *l, const dg_item *item, const dg_item_attr *a);
bool dg_load_left_out_element(dg_loader *l, const dg_item *item);

/* Makes the node of an element and appends it to l->nodes. */
void dg_load_node(dg_loader *l, const dg_item *item);

/* An id with the prefixes of its frames inside the scope. */
const char *dg_load_id(dg_loader *l, const dg_frame *frame, const char *id);
/* Resolves "@node.port.key" for one of a node's wires. False after an error. */
bool dg_load_wire(dg_loader *l, dg_node *node, dg_wire *w, const dg_item_attr *a);
/* Resolves references to other scopes, "@ema" and "@coco.AP", among the nodes of `scopes`; *rest:
 * what follows the id. */
const dg_node *dg_load_upward(dg_loader *l, const dg_item *item, const dg_item_attr *a,
                              dg_scope *const scopes[], int n, const char *what, const char **rest);
/* Checks that a wire's two ends agree. */
void dg_load_agree(dg_loader *l, dg_node *node, int port, const dg_item_attr *a);
/* Checks that a guard is a scalar. */
void dg_load_guard(dg_loader *l, dg_node *node, const dg_item_attr *a);

/* Sets the contracts of a node's ports. conf_ok: conf is valid for class->type. */
void dg_load_contracts(dg_loader *l, dg_node *node, bool conf_ok);
/* Calls class->check. */
void dg_load_check(dg_loader *l, dg_node *node);

#endif
