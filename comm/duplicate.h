/* duplicate.h: how a communicator knows its duplicate, which another thread may use, close or see
 * aborted at the same time. */
#ifndef DG_COMM_DUPLICATE_H
#define DG_COMM_DUPLICATE_H

#include <pthread.h>

#include "kernels/comm.h"

/* Part of each original; a duplicate has a pointer to its original's. */
typedef struct dg_duplicate {
    pthread_mutex_t lock;
    dg_comm *comm; /* NULL: there is none, or it is closed */
} dg_duplicate;

void dg_duplicate_set(dg_duplicate *d, dg_comm *comm); /* NULL: before it is closed */
void dg_duplicate_abort(dg_duplicate *d);

#endif
