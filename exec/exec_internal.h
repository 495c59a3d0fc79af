/* exec_internal.h: an executor's state, for the files that implement it: exec.c binds and runs,
 * replay.c runs what was recorded, landing.c brings batches, staged.c runs what the
 * device has no kernel for, values.c moves numbers between host and device, observe.c calls
 * observers, timing.c times them, collective.c exchanges. */
#ifndef DG_EXEC_EXEC_INTERNAL_H
#define DG_EXEC_EXEC_INTERNAL_H

#include "exec/collective.h"
#include "exec/exec.h"
#include "exec/monitor_probe.h"

/* Values that replace a draw: tests replay those of a reference. */
typedef struct dg_drawn {
    const double *values; /* NULL: the kernel draws */
    int operand;          /* the output that they replace */
} dg_drawn;

typedef struct dg_observed {
    const dg_exec_observer *by;
    uint32_t *places; /* per instruction: this observer's place number; or NULL */
} dg_observed;

typedef struct dg_lives dg_lives;   /* debug.c */
typedef struct dg_timing dg_timing; /* timing.c */

/* Instructions of a segment that the device can replay by itself, kept at the first of them. */
typedef struct dg_piece {
    dg_recording *recording; /* NULL: not yet, or refused */
    bool seen, refused;
} dg_piece;

struct dg_exec {
    dg_arena *arena;
    const dg_plan *plan;
    const dg_program *p;
    dg_backend *backend;
    dg_comm *comm;
    dg_spaces spaces;
    dg_args *args;          /* per instruction */
    dg_tensor **t;          /* per instruction: operands with addresses */
    int first_mark;         /* on the backend, of instruction 0 */
    dg_launch *launches;    /* per instruction: its kernel; NULL for aliases and collectives */
    dg_drawn *draws;        /* per instruction */
    dg_control *control;    /* the host's, pinned: for the next run */
    dg_control *control_at; /* the device's copy; the same memory if the device is the host */
    bool told;              /* the device has the current one */
    void *report;           /* DG_REPORT on the device */
    void *report_host;      /* its copy, pinned; the same memory if the device is the host */
    bool settled;           /* nothing has run since the copy was made */
    void *piece;            /* a copy of a value that is not in the report */
    size_t piece_bytes;
    dg_event *event;
    dg_exec_counts n;
    int32_t *landed; /* inputs of the batch that is in the landing */
    int n_landed;
    dg_staging staging;
    void *staged_at; /* pinned, for the operands of one op that the device lacks; or NULL */
    dg_tensor *staged_t;
    dg_observed observed[DG_MAX_OBSERVERS];
    int n_observers;
    bool timed;        /* an observer wants the times of instructions */
    bool at_once;      /* and one wants to be told before the next begins */
    dg_timing *timing; /* by the device's clock; NULL: no clock, or not asked for yet */
    bool host_places;  /* one wants to be called at every place */
    dg_piece *pieces;  /* per instruction; NULL: the backend does not record */
    dg_debug debug;
    dg_lives *lives;         /* of memory; NULL: poison was not asked for */
    dg_monitor_probe *probe; /* NULL: no observer wants values */
};

/* Waits until the device has finished, and fetches its report. A failure names the instruction that
 * caused it. */
int dg_exec_settle(dg_exec *x, dg_diag *d) DG_MUST_USE;
/* The bytes of a value on the host, valid until the next call with x. */
int dg_exec_peek(dg_exec *x, int32_t v, const void **bytes, dg_diag *d) DG_MUST_USE;
/* Copies n elements, converted, to device memory. */
int dg_exec_upload(dg_exec *x, dg_tensor to, const void *from, dg_dtype type, dg_diag *d)
    DG_MUST_USE;
size_t dg_exec_tensor_bytes(const dg_tensor *t);
/* Reports a failure: of the instruction where the device says that it began, or else of instr; -1:
 * unknown. */
int dg_exec_failed(const dg_exec *x, int instr, int rc, dg_diag *d);

/* Without times. */
int dg_exec_run_instr(dg_exec *x, int i, dg_diag *d) DG_MUST_USE;
int dg_exec_run_one(dg_exec *x, int i, dg_diag *d) DG_MUST_USE;
int dg_debug_run(dg_exec *x, int i, dg_diag *d) DG_MUST_USE;

/* Puts instruction i, no collective, on the device, or all that go with it; does nothing for one
 * that went with another. */
int dg_exec_launch(dg_exec *x, int i) DG_MUST_USE;
/* Whether instruction i, no collective, has anything to do. */
bool dg_exec_has_work(const dg_exec *x, int i);

/* Whether this run may replay. */
bool dg_replay_possible(const dg_exec *x);
/* The end of the piece that begins there: the first instruction that needs the host, or one past
 * the last. */
int dg_replay_end(const dg_exec *x, int begin, dg_segment segment);
/* Replays that piece; its second call makes the recording. Unless *done, the caller runs the
 * instructions one by one. */
int dg_replay(dg_exec *x, int begin, int end, dg_segment segment, bool *done) DG_MUST_USE;
void dg_replay_forget(dg_exec *x); /* the recordings: what they do has changed */

/* The landing: write an input there, for the next run or ahead of it; move it all to DG_IO. */
int dg_landing_put(dg_exec *x, int32_t input, const dg_tensor *from) DG_MUST_USE;
int dg_landing_put_ahead(dg_exec *x, int64_t batch, int32_t input, const dg_tensor *from)
    DG_MUST_USE;
int dg_landing_take(dg_exec *x) DG_MUST_USE;

/* Ops that the device lacks. */
int dg_staged_open(dg_exec *x, dg_diag *d) DG_MUST_USE;
void dg_staged_close(dg_exec *x);
int dg_staged_run(dg_exec *x, int i) DG_MUST_USE;

/* before: the previous instruction; -1: none */
void dg_observe_place(dg_exec *x, int instr, int before);
void dg_observe_ran(dg_exec *x, int instr, const dg_ran *how);
/* timing.c: the times of instructions, where the device's clock takes them. A run begins with
 * timing_begin, and timing_end waits and tells the observers. */
int dg_timing_begin(dg_exec *x) DG_MUST_USE;
int dg_timing_run(dg_exec *x, int i, dg_diag *d) DG_MUST_USE;
int dg_timing_end(dg_exec *x, dg_diag *d) DG_MUST_USE;
/* Around instructions of runs without times. Once the device has done them, read_stretches adds
 * what they took to n.device_s. */
int dg_timing_stretch_begin(dg_exec *x) DG_MUST_USE;
int dg_timing_stretch_end(dg_exec *x) DG_MUST_USE;
int dg_timing_read_stretches(dg_exec *x) DG_MUST_USE;
void dg_timing_close(dg_exec *x);
/* Shows the values made since the last call, then announces a possible wait. */
int dg_observe_before_wait(dg_exec *x, dg_diag *d) DG_MUST_USE;

#endif
