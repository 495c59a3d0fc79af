/* shm.h: the communicator between CPU ranks of one machine: anonymous shared memory, which the
 * launcher creates and passes down as a file descriptor. The kernel frees it when the last process
 * that has it ends. */
#ifndef DG_COMM_SHM_H
#define DG_COMM_SHM_H

#include "base/diag.h"
#include "kernels/comm.h"

enum { DG_COMM_SHM_MOST = 1024 }; /* ranks */

/* For the launcher: creates the memory, close-on-exec (dup2 it into the child). Create it anew for
 * every start of the ranks: an abort makes it unusable. */
int dg_comm_shm_make(int *fd, dg_diag *d) DG_MUST_USE;
/* For each rank. Does not wait for others. Takes ownership of fd, which is closed with the
 * communicator. */
int dg_comm_shm_open(dg_comm **comm, int fd, int rank, int ranks, dg_diag *d) DG_MUST_USE;

#endif
