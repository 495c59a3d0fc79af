/* collective.h: instructions of effect COLLECTIVE at work: exec walks the plan, these hand its operands to the
 * communicator. One function a kind, chosen by the op's row. */
#ifndef DG_RUNTIME_COLLECTIVE_H
#define DG_RUNTIME_COLLECTIVE_H

#include "base/diag.h"
#include "kernels/backend.h"
#include "kernels/comm.h"
#include "tensor/program.h"

typedef struct dg_collective_call {
    dg_comm          *comm;
    const dg_backend *backend;
    const dg_program *program;
    const dg_instr   *in;
    const dg_args    *args;    /* operands with addresses; control of the step */
    int64_t          *tickets; /* of every bucket that is under way */
} dg_collective_call;

/* Fails with the status of the communicator, its reason and the node that the instruction belongs to. */
int dg_collective_run(const dg_collective_call *c, dg_diag *d) DG_MUST_USE;
int dg_collective_buckets(const dg_program *p); /* how many tickets that takes */

#endif
