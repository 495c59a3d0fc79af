/* exec.h: a plan that moves: its operands bound to memory, its segments run instruction by
 * instruction on a backend. The memory is the caller's: the slab and the batch may be shared by
 * plans that never run at once, the parameter spaces are shared by all. */
#ifndef DG_RUNTIME_EXEC_H
#define DG_RUNTIME_EXEC_H

#include "kernels/comm.h"
#include "tensor/plan.h"

typedef struct dg_exec dg_exec;

/* Device memory of every space that the plan uses: slab plan->slab_bytes, constants
 * plan->constant_bytes, io plan->io_bytes, weights and ema dg_params_elements, gradients and
 * moments dg_params_trainable elements. To evaluate the averages, bind weights to them. */
typedef struct dg_spaces {
    void *at[DG_N_SPACES];
} dg_spaces;

/* Writes the plan's constants. comm is NULL for one rank. The plan must outlive it. */
int  dg_exec_open(dg_exec **x, const dg_plan *plan, const dg_backend *backend,
                  const dg_spaces *spaces, dg_comm *comm, dg_diag *d) DG_MUST_USE;
void dg_exec_close(dg_exec **x);
/* Other memory for the same plan; constants are written again where that space changed. */
int dg_exec_bind(dg_exec *x, const dg_spaces *spaces, dg_diag *d) DG_MUST_USE;

/* Runs the instructions of one segment. A kernel's failure names the instruction and its node. */
int dg_exec_run(dg_exec *x, dg_segment segment, const dg_control *control, dg_diag *d) DG_MUST_USE;

/* Copies a host tensor into an input of the batch; the shape must agree, real types are
 * converted. */
int dg_exec_write(dg_exec *x, const char *input, const dg_tensor *from, dg_diag *d) DG_MUST_USE;
/* A result, converted; out has as many elements as its shape. */
int dg_exec_read(const dg_exec *x, const char *result, double *out, dg_diag *d) DG_MUST_USE;
/* Any value, by number; what it holds is defined only while the plan keeps it. */
int       dg_exec_get(const dg_exec *x, int32_t value, double *out, dg_diag *d) DG_MUST_USE;
int       dg_exec_set(dg_exec *x, int32_t value, const double *in, dg_diag *d) DG_MUST_USE;
dg_tensor dg_exec_tensor(const dg_exec *x, int32_t value); /* in device memory */

/* From now on draw `name` ("node path/name") gives these values, which are copied; NULL: drawn
 * again. */
int dg_exec_draw(dg_exec *x, const char *name, const double *values, dg_diag *d) DG_MUST_USE;

/* Called after every instruction that ran, with the seconds it took; NULL: never, and no clock is
 * read. */
typedef void dg_exec_hook_fn(void *ctx, int instr, double seconds);
void         dg_exec_hook(dg_exec *x, dg_exec_hook_fn *hook, void *ctx);

/* From now on the recorder is told whose instructions run; NULL: nobody is. */
typedef struct dg_recorder dg_recorder;
void                       dg_exec_watch(dg_exec *x, dg_recorder *r);

/* From now on the witness sees the results named "watch/.." and "fires/..": those that an
 * instruction makes when it has run, and before a collective the coordinator is told. */
typedef struct dg_witness dg_witness;
void                      dg_exec_attend(dg_exec *x, dg_witness *w);
int                       dg_exec_see_inputs(dg_exec *x, dg_diag *d) DG_MUST_USE; /* those that the host has written */

#endif
