/* collective.h: executes collective instructions: passes their operands to the communicator. One
 * function per kind, chosen by the op's row.
 *
 * On a device whose work is done when a call returns, the communicator works on the operands. On a
 * late device it works on pinned copies, in the order of the lane COMM: the host only queues copies
 * and calls there, and does not wait. Devices that exchange among themselves (kernels/peers.h) work
 * on the operands; the host meets the other ranks before each exchange. */
#ifndef DG_EXEC_COLLECTIVE_H
#define DG_EXEC_COLLECTIVE_H

#include "base/diag.h"
#include "kernels/backend.h"
#include "kernels/comm.h"
#include "tensor/program.h"

/* A collective of a program: what the communicator needs for it. */
typedef struct dg_exchange dg_exchange;

typedef struct dg_staging {
    dg_exchange **exchanges; /* per instruction; NULL: it is no collective */
    int64_t *tickets;        /* of gradient buckets in flight */
    /* on a late device only: pinned memory, for each bucket and for any other collective's operands
     * and result (NULL between devices), and the events that order the lanes */
    void **buckets;
    int n_buckets;
    void *operand;
    dg_event *ready, *done;
} dg_staging;
int dg_staging_open(dg_staging *s, dg_arena *a, const dg_program *p, dg_backend *backend,
                    dg_comm *comm, dg_diag *d) DG_MUST_USE;
void dg_staging_close(dg_staging *s, dg_backend *backend);

typedef struct dg_collective_call {
    dg_comm *comm; /* NULL: one rank */
    dg_backend *backend;
    const dg_program *program;
    const dg_instr *in;
    const dg_args *args;       /* operands with addresses */
    const dg_control *control; /* of the step, the host's */
    const dg_staging *staging;
    int mark; /* of the instruction, on the backend */
} dg_collective_call;

/* If the communicator fails, reports its reason with the instruction's node and returns its status.
 * On a late device this fails with a diagnostic only if the communicator was called, to meet the
 * other ranks of devices that exchange. Else it has the device's status: the caller finds out which
 * instruction failed, and dg_collective_failed reports it if that was a collective. */
int dg_collective_run(const dg_collective_call *c, dg_diag *d) DG_MUST_USE;
/* The reason of the first failure, "" before: of the devices' exchange, or of the host's. */
const char *dg_collective_why(const dg_comm *comm);
/* Reports the communicator's failure at that instruction; returns rc. */
int dg_collective_failed(const dg_instr *in, const dg_comm *comm, int rc, dg_diag *d);

#endif
