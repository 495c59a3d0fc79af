/* saver.h: writes checkpoints beside the run. On a device that works later than it is called, the
 * parameters are copied to pinned memory in the order of its work, and a thread writes the files
 * from there while the device goes on. One checkpoint at a time; all calls from one thread. */
#ifndef DG_RUNTIME_SAVER_H
#define DG_RUNTIME_SAVER_H

#include "runtime/checkpoint.h"

typedef struct dg_saver dg_saver;

/* NULL: the device works at once, or there is not enough memory for a copy. */
dg_saver *dg_saver_open(const dg_store *s);
void dg_saver_close(dg_saver **v); /* none is under way */

/* Begins a checkpoint of what the device has been given so far. None is under way. */
int dg_saver_begin(dg_saver *v, const dg_checkpoint_args *c, dg_diag *d) DG_MUST_USE;
/* The step of the one under way; -1: none. */
int64_t dg_saver_step(const dg_saver *v);
/* To be called when the device has been waited for: starts to write. True: finish will not wait. */
bool dg_saver_ready(dg_saver *v);
/* Waits for the one under way; whether it could be written. */
int dg_saver_finish(dg_saver *v, dg_diag *d) DG_MUST_USE;

#endif
