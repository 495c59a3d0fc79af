/* monitor.h: what the proof of rank invariance takes on trust from the tables of classes, each
 * attribute with the one monitor that watches it in a run. The list is made from the graph: what
 * follows from wires and from built-in instructions is proved and not in it. */
#ifndef DG_GRAPH_MONITOR_H
#define DG_GRAPH_MONITOR_H

#include "graph/graph.h"

typedef enum dg_monitor_kind {
    /* ranks tell the coordinator, which compares */
    DG_MONITOR_DATA,   /* a loader: the same data set on all ranks; told at the start */
    DG_MONITOR_COUNT,  /* a stream: as many items, or batches, in an epoch; in each step's word */
    DG_MONITOR_SIZE,   /* a sampler: one image size for the batches of a step; in the word */
    DG_MONITOR_VALUE,  /* an output is the same; where the host makes it in the word, else told before
                          the next collective */
    DG_MONITOR_FIRING, /* a node with a guard fires on all ranks or on none; told likewise */
    /* each rank looks for itself */
    DG_MONITOR_LISTED,  /* a sampler picks sizes that it lists, in batches as large as it says */
    DG_MONITOR_DROPS,   /* a node drops no sample */
    DG_MONITOR_PRESENT, /* a batch node feeds all that it declares */
    DG_MONITOR_SHAPE,   /* and in the shapes that were lowered */
    DG_N_MONITORS
} dg_monitor_kind;

typedef struct dg_monitor {
    dg_monitor_kind kind;
    const dg_scope *scope;
    const dg_node  *node;
    int             output; /* -1: of FIRING */
    int             turn;   /* of a node in a model: which use of it in the scope, from 0 */
    const char     *axes;   /* "dp (2 ranks)"; NULL where each rank looks for itself */
} dg_monitor;

/* In the order of scopes and nodes. A monitor's place here is its number. */
struct dg_monitors {
    DG_VEC(dg_monitor) list;
};

/* Of a graph that was checked; where there are several ranks each scope is lowered once. The list
 * lives in a. */
int dg_monitors_make(dg_monitors **out, const dg_graph *g, dg_arena *a, dg_diag *d) DG_MUST_USE;

/* The number of the first monitor of this kind for the node in the scope; -1. */
int dg_monitors_find(const dg_monitors *m, dg_monitor_kind kind, const dg_scope *scope,
                     const dg_node *node);
bool        dg_monitor_is_joint(const dg_monitor *m);    /* the coordinator compares digests */
const char *dg_monitor_attribute(const dg_monitor *m);   /* "value" */
const char *dg_monitor_port(const dg_monitor *m);        /* "out"; "" of FIRING */
void        dg_monitor_declares(dg_str *out, const dg_monitor *m); /* "the same on all ranks of dp" */
const char *dg_monitor_how(const dg_monitor *m);         /* "by each rank itself" */

/* A table for people, or one JSON array of objects. */
void dg_monitors_print(dg_str *out, const dg_monitors *m);
void dg_monitors_json(dg_str *out, const dg_monitors *m);

#endif
