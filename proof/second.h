/* second.h: a second look at what the proof of rank invariance accepted. The proof follows nodes
 * and wires; this follows the instructions that ranks execute, after gradients and passes, and
 * shares neither code nor tables with it. Where they disagree, one of them, or a plugin's row, is
 * wrong: `proof-disagrees`.
 *
 * It computes for every value the axes over which it differs. Values fed by the host, draws, and a
 * rank's own values differ; the result of an instruction differs over the axes of its operands and
 * its guard; a collective makes its result equal along its axis. These must be equal on all ranks:
 * the guard of every collective, what is written into weights, moments, averages and statistics,
 * and what ends the loop. */
#ifndef DG_PROOF_SECOND_H
#define DG_PROOF_SECOND_H

#include "graph/graph.h"

enum { DG_SECOND_AXES = 2 }; /* dp and tp. A set of axes is a bit mask. */

/* Axes over which something differs, and who made it so. */
typedef struct dg_second_cause {
    uint32_t axes;
    const dg_node *node; /* NULL: unknown */
    const char *why;     /* "deals batches over the axis" */
} dg_second_cause;

/* What a program does not show of one of its nodes. */
typedef struct dg_second_node {
    dg_second_cause fed;     /* the numbers that the host feeds for it */
    dg_second_cause inexact; /* the last bits of what it computes */
    /* what ops that are not built in give: it differs, or it is trusted not to */
    dg_second_cause own;
    bool alike;
} dg_second_node;

/* What a program does not show of itself. */
typedef struct dg_second_host {
    int n_axes;
    const char *axis[DG_SECOND_AXES];
    int64_t ranks[DG_SECOND_AXES];
    uint32_t live;          /* axes with more than one rank */
    uint32_t alone;         /* over which only one rank runs it */
    dg_second_cause rate;   /* the number of batches */
    dg_second_cause size;   /* the image size at one step */
    dg_second_cause sample; /* the numbers of samples, which draws follow */
    int n_nodes;
    dg_second_node *nodes; /* by node number */
} dg_second_host;

/* Finds out what is fed, from the classes of the nodes that make data and numbers. */
dg_second_host *dg_second_host_make(const dg_graph *g, const dg_scope *scope, dg_arena *a);

/* Looks at one program. */
int dg_second_look(const dg_program *p, const dg_second_host *h, dg_diag *d) DG_MUST_USE;
/* Compares the collectives of two programs that ranks may execute at the same step: of two image
 * sizes, or of two ranks. axes: over which they may. */
int dg_second_meet(const dg_program *p, const dg_program *q, uint32_t axes, const dg_second_host *h,
                   dg_diag *d) DG_MUST_USE;
/* True if a look at q, as it was lowered, would find what one at p finds: they differ in the image
 * size, and in what they exchange not at all. */
bool dg_second_alike(const dg_program *p, const dg_program *q);

/* The axes, among those of h, that a collective works over; 0: none of them. */
uint32_t dg_second_axes(const dg_instr *in, const dg_second_host *h);

#endif
