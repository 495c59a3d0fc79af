/* peers.h: collectives between the devices of several ranks: operands stay in device memory. A
 * communicator of the host that has one (kernels/comm.h) brings the ranks together; kernels/cuda
 * implements it with NCCL.
 *
 * A call first meets the other ranks on the host, at the communicator's place: ranks that come to
 * different collectives are named before anything moves. Then it puts work on the lane COMM and
 * returns. Results have the bits that the host's communicator gives: the same order of ranks.
 *
 * Status: 0 or -DG_E...; the communicator's `why`, or else `why` here, has the reason. What fails
 * later is the device's fault, at the mark of the call; `why` has the reason then. */
#ifndef DG_KERNELS_PEERS_H
#define DG_KERNELS_PEERS_H

#include "kernels/comm.h"

typedef struct dg_peers dg_peers;
struct dg_peers {
    const char *name;      /* "NCCL 2.28.9" */
    char why[DG_COMM_WHY]; /* written once, its first byte last, atomically */
    /* Makes room for reductions of so many bytes, and of `given` bytes where this rank only gives;
     * while nothing is under way. */
    int (*reserve)(dg_peers *self, size_t bytes, size_t given);
    /* y <- x, reduced: f32, f64, i32. y may be x; NULL: this rank only gives. */
    int (*reduce)(dg_peers *self, dg_tensor x, void *y, dg_reduce op, int mark);
    int (*broadcast)(dg_peers *self, void *p, size_t bytes, int root, int mark);
    /* all: ranks * bytes, in rank order. */
    int (*gather)(dg_peers *self, const void *mine, size_t bytes, void *all, int mark);
    /* Waits for what is under way, unless it failed. */
    void (*close)(dg_peers **self);
};

#endif
