/* proof.h: checks before a run: types, gradient coverage, and above all rank invariance: follows
 * what differs between ranks along wires, guards and loops to collectives, gradients and state.
 * docs/invariance.md explains what is proved and why. */
#ifndef DG_PROOF_PROOF_H
#define DG_PROOF_PROOF_H

#include "graph/monitor.h"

/* Whether a run may begin: everything below; what it accepts, a run executes. */
int dg_graph_validate(const dg_graph *g, dg_diag *d) DG_MUST_USE;

/* The proof, after loading: lowers every scope at every size that its sampler lists; checks
 * declared port types against the program, gradient coverage, and rank invariance. Needs no data
 * and no kernels. */
int dg_graph_check(const dg_graph *g, dg_diag *d) DG_MUST_USE;
/* The error of several ranks for a pipeline without a mesh. */
int dg_graph_unshared(const dg_graph *g, int64_t ranks, dg_diag *d) DG_MUST_USE;
/* Refuses what no run executes: ids "not-run", "data-choice". */
int dg_graph_runnable(const dg_graph *g, dg_diag *d) DG_MUST_USE;
/* Refuses what is proved, and no run has yet: id "planned". */
int dg_graph_planned(const dg_graph *g, dg_diag *d) DG_MUST_USE;

/* Refuses a score to choose by that the evaluation does not give: id "best-score". program: of its
 * scope, or NULL. Part of dg_graph_check. */
int dg_best_check(const dg_graph *g, const dg_program *program, dg_diag *d) DG_MUST_USE;

/* Warns of what a run never comes to. Part of dg_graph_check. */
void dg_late_check(const dg_graph *g, dg_diag *d);
/* Warns of padding that is taken for image, and of evaluations that fit images otherwise than
 * training. Part of dg_graph_check. */
void dg_padding_check(const dg_graph *g, dg_diag *d);

/* Lists what the proof takes on trust in a checked graph, as opposed to what follows from wires and
 * built-in instructions. With several ranks it lowers each scope once. The list lives in a. */
int dg_monitors_make(dg_monitors **out, const dg_graph *g, dg_arena *a, dg_diag *d) DG_MUST_USE;

/* What a picture of the graph shows of the proof. */
typedef struct dg_vary_marks {
    /* by node number and output: the axes over which its value differs, "dp", or NULL */
    const char ***varies;
    bool *path; /* by node number: on the path of a rejection */
} dg_vary_marks;

/* Proves the graph for its mesh: reports all errors, with ids DG-...; consequences of others are
 * folded. If dp has one rank, what two ranks would break is a warning. params: of the programs
 * lowered so far. marks (or NULL) is filled, in the arena. */
int dg_vary_check(const dg_graph *g, dg_params *params, dg_vary_marks *marks, dg_arena *arena,
                  dg_diag *d) DG_MUST_USE;

#endif
