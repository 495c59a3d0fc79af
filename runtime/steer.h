/* steer.h: the control plane's part in a session and a training: what the ranks compare, the word of every batch, and what
 * people ask for while a run goes on. Without a link all of it does nothing, and succeeds. */
#ifndef DG_RUNTIME_STEER_H
#define DG_RUNTIME_STEER_H

#include "runtime/train.h"

/* A run that began with more ranks keeps its batch: each of those that are left takes more of it. Refuses at the start a
 * batch that those who may be left do not divide. */
int  dg_steer_deal(dg_run *run, dg_diag *d) DG_MUST_USE;
/* Scores that nobody makes would be missed by all who wait for them: before a training or an evaluation, is there every rank that
 * evaluates alone, and will there be whatever is lost? */
int  dg_steer_places(const dg_run *run, dg_diag *d) DG_MUST_USE;
/* Before anything depends on it: is this the same pipeline on every rank? Before the first step: the same data? */
int  dg_steer_meet_pipeline(dg_run *run, dg_diag *d) DG_MUST_USE;
int  dg_steer_meet_data(dg_train *t, dg_diag *d) DG_MUST_USE;
void dg_steer_folder(const dg_train *t); /* rank 0 has opened it */

/* This rank begins a batch, and has ended one: then what was asked for is done. */
int  dg_steer_begin(dg_train *t, const dg_stream_batch *b, dg_diag *d) DG_MUST_USE;
int  dg_steer_end(dg_train *t, dg_diag *d) DG_MUST_USE;
/* The learning rates of the step, if somebody has set one, now or before the run was resumed. */
void dg_steer_rates(dg_run *run, dg_control *c);

/* For whoever asks where this rank is: in a node, or in another element of the pipeline under this name. */
void dg_steer_at(const dg_run *run, const dg_where *at, const char *name);
void dg_steer_saved(const dg_run *run, int64_t step);

#endif
