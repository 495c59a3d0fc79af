/* comm_recorded.h: a communicator that logs to the flight recorder: begin and end of every
 * collective, and when the thread waits for other ranks. */
#ifndef DG_CONTROL_COMM_RECORDED_H
#define DG_CONTROL_COMM_RECORDED_H

#include "kernels/comm.h"
#include "control/recorder.h"

/* Takes ownership of comm, which is closed with the result. The recorder must outlive it. */
dg_comm *dg_comm_recorded(dg_comm *comm, dg_recorder *r);

#endif
