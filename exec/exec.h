/* exec.h: executes a plan: binds its operands to memory and runs its segments on a backend,
 * instruction by instruction. The caller owns the memory: plans that never run at once may share
 * slab and batch, all share the parameter spaces. */
#ifndef DG_EXEC_EXEC_H
#define DG_EXEC_EXEC_H

#include "exec/debug.h"
#include "exec/landing.h"
#include "kernels/comm.h"
#include "tensor/plan.h"

typedef struct dg_exec dg_exec;

/* Device memory of every space that the plan uses: slab plan->slab_bytes, constants
 * plan->constant_bytes, io plan->io_bytes, weights and ema dg_params_elements, gradients and
 * moments dg_params_trainable elements. To evaluate the averages, bind weights to them. */
typedef struct dg_spaces {
    void *at[DG_N_SPACES];
    dg_landing *landing; /* for what the host writes to io; NULL: it goes there at once */
} dg_spaces;

/* Opens an executor and writes the plan's constants. comm is NULL for one rank. The plan must
 * outlive it. */
int dg_exec_open(dg_exec **x, const dg_plan *plan, dg_backend *backend, const dg_spaces *spaces,
                 dg_comm *comm, dg_diag *d) DG_MUST_USE;
void dg_exec_close(dg_exec **x);
/* Binds other memory; needed only when a space has moved. Writes the constants again if their space
 * has. */
int dg_exec_bind(dg_exec *x, const dg_spaces *spaces, dg_diag *d) DG_MUST_USE;

/* Runs the instructions of one segment. A failing kernel's error names the instruction and its
 * node. */
int dg_exec_run(dg_exec *x, dg_segment segment, const dg_control *control, dg_diag *d) DG_MUST_USE;

/* Copies a host tensor into an input of the batch (a value of the program's inputs; 0 fails);
 * shapes must be equal, real types are converted. */
int dg_exec_write(dg_exec *x, int32_t input, const dg_tensor *from, dg_diag *d) DG_MUST_USE;
/* The same for a later batch, number `batch`, while the previous run still works. Runs use it only
 * after dg_exec_take_ahead; any other write discards it. Needs a landing. */
int dg_exec_write_ahead(dg_exec *x, int64_t batch, int32_t input, const dg_tensor *from, dg_diag *d)
    DG_MUST_USE;
/* The next run takes what was written ahead for this batch. False: nothing was; call
 * dg_exec_write. */
bool dg_exec_take_ahead(dg_exec *x, int64_t batch);
/* Reads a result, converted to double; out has as many elements as its shape. */
int dg_exec_read(dg_exec *x, const char *result, double *out, dg_diag *d) DG_MUST_USE;
/* What an executor has done so far. */
typedef struct dg_exec_counts {
    int64_t bindings;            /* of all operands to memory */
    int64_t launches;            /* of single instructions */
    int64_t recordings, replays; /* of stretches of instructions; a device may have none */
    /* times the host has waited for the device: once per run whose results are read, and once for
     * each other value that is read; 0 if the device is the host */
    int64_t waits;
    int64_t ahead;   /* batches that had been written ahead of time */
    double waited_s; /* in those waits */
    /* in which the device worked on what the host has waited for since, by the device's clock;
     * without the work of collectives. 0: it has none */
    double device_s;
} dg_exec_counts;
dg_exec_counts dg_exec_count(const dg_exec *x);
/* Reads or writes any value by number; its contents are defined only while the plan keeps it. */
int dg_exec_get(dg_exec *x, int32_t value, double *out, dg_diag *d) DG_MUST_USE;
int dg_exec_set(dg_exec *x, int32_t value, const double *in, dg_diag *d) DG_MUST_USE;
dg_tensor dg_exec_tensor(const dg_exec *x, int32_t value); /* in device memory */

/* Replaces the numbers of draw `name` ("node path/name") by copies of these values; NULL: draw
 * again. */
int dg_exec_draw(dg_exec *x, const char *name, const double *values, dg_diag *d) DG_MUST_USE;

/* What an instruction has taken, with those that were given to the device together with it. Times
 * are of the monotonic clock; where the device has one they are its own, and begin with the run. */
typedef struct dg_ran {
    double begin_s, end_s;
    int64_t pieces; /* of work: kernels, products, copies; 0 where work is done at once */
} dg_ran;

/* Observer of an executing plan: the flight recorder, the monitors, a profile. Functions may be
 * NULL. The caller owns the observer, which must outlive the executor or be removed before. */
typedef struct dg_exec_observer {
    void *ctx;
    /* returns a number for the place of an instruction; called once per instruction, by
     * dg_exec_observe */
    uint32_t (*place)(void *ctx, const dg_where *at);
    /* instructions of another place begin. An asynchronous device's lane writes the place to *word
     * instead (NULL: not wanted) */
    void (*at)(void *ctx, uint32_t place);
    uint32_t *word;
    /* a collective follows, or the segment ends: this rank may now wait for others */
    void (*before_wait)(void *ctx);
    /* value: n bytes of monitor i's value, in pieces; then value_end. A value skipped by its guard
     * has an end but no bytes. */
    void (*value)(void *ctx, int monitor, const void *bytes, size_t n);
    void (*value_end)(void *ctx, int monitor);
    /* an instruction has run; said behind the run where the device has a clock, else every
     * instruction is awaited separately */
    void (*ran)(void *ctx, int instr, const dg_ran *how);
    bool at_once; /* ran is said before the next instruction begins, on every device */
} dg_exec_observer;

/* Runs instruction by instruction from now on, without recordings. */
void dg_exec_debug(dg_exec *x, const dg_debug *debug);

enum { DG_MAX_OBSERVERS = 4 };
void dg_exec_observe(dg_exec *x, const dg_exec_observer *o);
/* does nothing if o is not observing */
void dg_exec_unobserve(dg_exec *x, const dg_exec_observer *o);
/* Passes monitored values that the host wrote into the batch to the observers. */
int dg_exec_show_inputs(dg_exec *x, dg_diag *d) DG_MUST_USE;

#endif
