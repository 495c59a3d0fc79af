/* collective.h: executes collective instructions: passes their operands to the communicator. One
 * function per kind, chosen by the op's row. */
#ifndef DG_EXEC_COLLECTIVE_H
#define DG_EXEC_COLLECTIVE_H

#include "base/diag.h"
#include "kernels/backend.h"
#include "kernels/comm.h"
#include "tensor/program.h"

/* Gradient buckets in flight, and pinned memory for operands if the communicator cannot use device
 * memory. */
typedef struct dg_staging {
    int64_t *tickets; /* per bucket */
    void **buckets;   /* per bucket, pinned; NULL: reduce in place */
    int n_buckets;
    /* by instruction: where a collective is, for the communicator; NULL for others */
    const dg_comm_place **places;
    void *operand; /* pinned, for any other collective; as large as the largest of their operands */
    dg_event *brought; /* an operand is there; NULL: reduce in place */
} dg_staging;
int dg_staging_open(dg_staging *s, dg_arena *a, const dg_program *p, dg_backend *backend,
                    const dg_comm *comm, dg_diag *d) DG_MUST_USE;
void dg_staging_close(dg_staging *s, dg_backend *backend);

typedef struct dg_collective_call {
    dg_comm *comm;
    dg_backend *backend;
    const dg_program *program;
    const dg_instr *in;
    const dg_args *args;       /* operands with addresses */
    const dg_control *control; /* of the step, the host's */
    const dg_staging *staging;
    int64_t *n_waits;    /* counts the host's waits for the device */
    bool *device_failed; /* out: the status is the device's, not the communicator's */
} dg_collective_call;

/* Fails with the communicator's status and reason, naming the instruction's node; or with the
 * device's status and no diagnostic: the device knows which instruction failed. */
int dg_collective_run(const dg_collective_call *c, dg_diag *d) DG_MUST_USE;
int dg_gradient_buckets(const dg_program *p); /* number of tickets needed */

#endif
