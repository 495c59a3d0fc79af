/* load.h: what the files that make a graph out of items share. */
#ifndef DG_GRAPH_LOAD_H
#define DG_GRAPH_LOAD_H

#include "graph/graph.h"
#include "graph/report.h"
#include "graph/structure.h"

typedef struct dg_loader {
    dg_graph         *g;
    dg_arena         *arena;
    dg_reporter       report;
    dg_scope         *scope;      /* being filled */
    dg_frame         *top;        /* the frame that the scope's own element stands in */
    dg_map           *later;      /* ids of the scope that stand somewhere in it: id -> dg_where */
    DG_VEC(dg_node *) nodes;      /* of the scope */
    dg_map           *counts;     /* of the scope: element name -> int, how many so far */
    dg_map           *references; /* of the scope: names of checkpoints that are taken */
    const dg_node    *loop;       /* the innermost <loop> that is being read, or NULL */
} dg_loader;

/* Reads one attribute into conf by its row; reports what is wrong with it. */
bool dg_load_attr(dg_loader *l, const dg_item *item, const dg_item_attr *a, const dg_attr *row,
                  void *conf);
/* All attributes of a table: known ones are read, required ones must be there. others: names
 * that are dealt with elsewhere, separated by spaces, or NULL. Returns whether all is well. */
bool dg_load_attrs(dg_loader *l, const dg_item *item, const char *called, const dg_attr *table,
                   void *conf, const char *others);
/* Fails where w counts anything else than minutes. */
void dg_load_minutes(dg_loader *l, const dg_item *item, const char *name, dg_when w);
/* Reports attribute a as unknown; names: what is known. */
void dg_load_unknown(dg_loader *l, const dg_item *item, const dg_item_attr *a, const char *called,
                     const char *const names[], int n);

/* The node of an element inside a scope, appended to l->nodes. */
void dg_load_node(dg_loader *l, const dg_item *item);

/* The id of an element with the prefix of its frames inside the scope. */
const char *dg_load_id(dg_loader *l, const dg_frame *frame, const char *id);
/* Resolves "@node.port.key" for one of a node's wires. False after an error. */
bool dg_load_wire(dg_loader *l, dg_node *node, dg_wire *w, const dg_item_attr *a);
/* Resolves the upward kinds "@ema" and "@coco.AP" among the nodes of some scopes; *rest: what
 * follows the id. */
const dg_node *dg_load_upward(dg_loader *l, const dg_item *item, const dg_item_attr *a,
                              dg_scope *const scopes[], int n, const char *what, const char **rest);
/* Makes a wire's two ends agree. */
void dg_load_agree(dg_loader *l, dg_node *node, int port, const dg_item_attr *a);
/* A guard is a scalar. */
void dg_load_guard(dg_loader *l, dg_node *node, const dg_item_attr *a);

/* Contracts of a node's ports. conf_ok: its conf struct may be handed to class->type. */
void dg_load_contracts(dg_loader *l, dg_node *node, bool conf_ok);
/* Calls class->check. */
void dg_load_check(dg_loader *l, dg_node *node);

extern const dg_attr dg_common_attrs[]; /* that any node may have, in dg_node itself */

/* "<loss.rtdetr id="loss">", for messages. */
const char *dg_node_called(dg_arena *a, const dg_node *node);

#endif
