/* runner.h: runs the kernels of kernels/cuda on one thread of the CPU, threads and blocks in their
 * order; fast, where tests/cuda/fibers.h looks for faults. */
#ifndef DG_TESTS_CUDA_RUNNER_H
#define DG_TESTS_CUDA_RUNNER_H

#include "kernels/cuda/cuda.h"

/* One launch, at once. A process has one runner: the caller sees to it that one thread at a time is
 * in here. A block whose threads wait for ever ends the process. */
void runner_run(dg_cuda_function f, dg_cuda_grid grid, const void *params, const int32_t *guard,
                dg_cuda_place here);

#endif
