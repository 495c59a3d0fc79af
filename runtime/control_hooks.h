/* control_hooks.h: the control plane's part in a session and a training: what the ranks compare,
 * the word of every batch, and requests of people. Without a link everything succeeds without doing
 * anything. */
#ifndef DG_RUNTIME_CONTROL_HOOKS_H
#define DG_RUNTIME_CONTROL_HOOKS_H

#include "runtime/train.h"

/* Keeps the total batch of a run that began with more ranks: each remaining rank takes more of it.
 * At the start refuses a batch that a possible number of remaining ranks does not divide. */
int dg_control_hooks_deal(const dg_graph *g, const dg_world *w, dg_diag *d) DG_MUST_USE;
/* Before a training or an evaluation: checks that every rank that evaluates alone exists, whatever
 * losses are allowed; otherwise all others would wait for its scores. */
int dg_control_hooks_places(const dg_graph *g, const dg_world *w, dg_diag *d) DG_MUST_USE;
/* Compares the pipeline on all ranks, before anything depends on it, and the data, before the first
 * step. */
int dg_control_hooks_meet_pipeline(const dg_run *run, dg_diag *d) DG_MUST_USE;
int dg_control_hooks_meet_data(dg_train *t, dg_diag *d) DG_MUST_USE;
void dg_control_hooks_folder(const dg_train *t); /* rank 0 has opened the folder */

/* Before and after a batch of this rank; `end` carries out the coordinator's orders. */
int dg_control_hooks_begin(dg_train *t, const dg_feeder_batch *b, dg_diag *d) DG_MUST_USE;
int dg_control_hooks_end(dg_train *t, dg_diag *d) DG_MUST_USE;
/* Applies a learning rate that a person has set, now or before the run was resumed. */
void dg_control_hooks_rates(dg_link *link, dg_progress *p, dg_control *c);

/* Records this rank's position: a node, or another element of the pipeline under this name. */
void dg_control_hooks_at(dg_link *link, const dg_where *at, const char *name);
void dg_control_hooks_saved(dg_link *link, int64_t step);
void dg_control_hooks_saving(dg_link *link, int64_t step); /* beside the run; 0: no more */

#endif
