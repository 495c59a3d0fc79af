/* fibers.h: a device for the kernels of kernels/cuda, on one thread of the CPU.
 *
 * Blocks run one after another in a random order. The threads of a block are fibers: one runs until
 * it waits for others or ends, then another one that can go on, drawn at random; in most blocks a
 * warp or a thread comes last wherever it can. Shared memory begins as rubbish, and is exactly as
 * large as asked for. So a kernel that lacks a barrier, or whose result depends on an order, gives
 * other bits with another seed. */
#ifndef DG_TESTS_CUDA_FIBERS_H
#define DG_TESTS_CUDA_FIBERS_H

#include "kernels/cuda/device.h"

/* What the library of convolutions has plans for; bare: without bias, residual, function. */
typedef enum fibers_plans { FIBERS_ALL, FIBERS_BARE, FIBERS_NONE } fibers_plans;

typedef struct fibers {
    dg_cuda_queue queue; /* first: what kernels are put on; they run at once */
    uint64_t seed;
    fibers_plans plans;
    bool combines;                            /* sums of a warp as the stand-in has them */
    int64_t launches, switches, convolutions; /* so far */
    char why[200]; /* of the first fault: threads that wait for ever, no block */
} fibers;

fibers fibers_open(uint64_t seed);

/* Runs one op; the workspace is rubbish, and exactly as large as asked for. */
int fibers_run(fibers *f, const dg_cuda_kernel *k, const dg_tensor *t, int n, const void *attr,
               const dg_control *control, const int32_t *guard);

#endif
