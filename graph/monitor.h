/* monitor.h: properties that the proof of rank invariance trusts from classes' tables, each with
 * the monitor that checks it at run time. proof/monitors.c makes the list; lowering keeps the
 * monitored values readable. */
#ifndef DG_GRAPH_MONITOR_H
#define DG_GRAPH_MONITOR_H

#include "graph/graph.h"

typedef enum dg_monitor_kind {
    /* ranks report digests, and the coordinator compares them */
    DG_MONITOR_DATA, /* a loader: the same data set on all ranks; compared at the start */
    /* a stream: the same number of items, or batches, per epoch; in each step's word */
    DG_MONITOR_COUNT,
    DG_MONITOR_SIZE, /* a sampler: the same image size for the batches of a step; in the word */
    /* an output: equal; in the word if the host makes it, else sent before the next collective */
    DG_MONITOR_VALUE,
    DG_MONITOR_FIRING, /* a guarded node: fires on all ranks or on none; sent likewise */
    /* each rank checks locally */
    DG_MONITOR_LISTED,  /* a sampler picks sizes that it lists, in batches of its size */
    DG_MONITOR_DROPS,   /* a node does not drop samples */
    DG_MONITOR_PRESENT, /* a batch node feeds everything that it declares */
    DG_MONITOR_SHAPE,   /* and in the shapes that were lowered */
    DG_N_MONITORS
} dg_monitor_kind;

typedef struct dg_monitor {
    dg_monitor_kind kind;
    const dg_scope *scope;
    const dg_node *node;
    int output;       /* -1 for FIRING */
    int turn;         /* for a node in a model: which use of it in the scope, from 0 */
    const char *axes; /* "dp (2 ranks)"; NULL for local checks */
    uint32_t over;    /* the same, a bit for each of the proof's axes */
} dg_monitor;

/* Ordered by scope and node. A monitor's index is its number. */
struct dg_monitors {
    DG_VEC(dg_monitor) list;
};

bool dg_monitor_is_joint(const dg_monitor *m);              /* the coordinator compares digests */
const char *dg_monitor_attribute(const dg_monitor *m);      /* "value" */
const char *dg_monitor_port(const dg_monitor *m);           /* "out"; "" for FIRING */
void dg_monitor_declares(dg_str *out, const dg_monitor *m); /* "the same on all ranks of dp" */

/* A table for people, or one JSON array of objects. */
void dg_monitors_print(dg_str *out, const dg_monitors *m);
void dg_monitors_json(dg_str *out, const dg_monitors *m);

#endif
