/* comm.h: collectives between ranks, as the executor sees them. One rank needs none; shm, gloo and nccl fill
 * this table when ranks move in. */
#ifndef DG_KERNELS_COMM_H
#define DG_KERNELS_COMM_H

#include <detrgraph/kernel.h>

typedef struct dg_comm dg_comm;

struct dg_comm {
    const char *name;
    int         rank, ranks;
    /* Begins the reduction of x in place over all ranks; in plan order, the same on every rank. */
    int (*start)(dg_comm *self, dg_tensor x, dg_reduce op, int *ticket);
    int (*wait)(dg_comm *self, int ticket);
    void (*abort)(dg_comm *self); /* makes every start and wait return -DG_ESTOP, now and later */
    void (*close)(dg_comm **self);
};

#endif
