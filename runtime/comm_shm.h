/* comm_shm.h: the communicator between CPU ranks of one machine: one piece of shared memory without a name, which
 * whoever starts the ranks makes and hands down by file descriptor. It goes when the last process that has it ends. */
#ifndef DG_RUNTIME_COMM_SHM_H
#define DG_RUNTIME_COMM_SHM_H

#include "base/diag.h"
#include "kernels/comm.h"

enum { DG_COMM_SHM_MOST = 1024 }; /* ranks */

/* For who starts the ranks: the memory, close-on-exec (dup2 it into the child). A new one for every start of the ranks:
 * after an abort it is spent. */
int dg_comm_shm_make(int *fd, dg_diag *d) DG_MUST_USE;
/* For each rank. Waits for nobody; takes fd over and closes it with the communicator. */
int dg_comm_shm_open(dg_comm **comm, int fd, int rank, int ranks, dg_diag *d) DG_MUST_USE;

#endif
