/* comm_watched.h: a communicator seen by the flight recorder: every collective's begin and end are written down, and while
 * it waits for other ranks the recorder says so. */
#ifndef DG_RUNTIME_COMM_WATCHED_H
#define DG_RUNTIME_COMM_WATCHED_H

#include "kernels/comm.h"
#include "runtime/recorder.h"

/* Takes comm over: closing the result closes it. The recorder outlives it. */
dg_comm *dg_comm_watched(dg_comm *comm, dg_recorder *r);

#endif
