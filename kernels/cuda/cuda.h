/* cuda.h: kernels for CUDA devices, as the host sees them.
 *
 * A source of this folder holds the kernels of some ops and, for each op, a function of the host
 * that puts them on a queue: how many blocks, and their parameters. It is C and CUDA C at once:
 * nvcc compiles it for devices, the C compiler for tests/cuda, which runs it thread by thread. A
 * queue is a stream of a device or that test.
 *
 * Sources are compiled with DG_CUDA_BITS 16 (bf16), 32 (f32) and 64 (f64), like those of
 * kernels/ref; docs/decisions/cuda.md tells why, and what no device has confirmed. */
#ifndef DG_KERNELS_CUDA_CUDA_H
#define DG_KERNELS_CUDA_CUDA_H

#include <detrgraph/kernel.h>

typedef void (*dg_cuda_function)(void); /* a kernel, to be called by a queue alone */

enum { DG_CUDA_WARP = 32, DG_CUDA_THREADS = 256 /* the most of a block */ };

typedef struct dg_cuda_grid {
    int64_t blocks;
    int threads;   /* of a block, a multiple of DG_CUDA_WARP */
    size_t shared; /* bytes of shared memory of a block */
} dg_cuda_grid;

typedef struct dg_cuda_queue dg_cuda_queue;
struct dg_cuda_queue {
    /* Runs the kernel behind all that was put there before, unless *guard (device memory; NULL: no
     * guard) is 0. The parameters are copied. Returns 0 or -DG_E.... */
    int (*launch)(dg_cuda_queue *q, dg_cuda_function f, dg_cuda_grid grid, const void *params,
                  size_t bytes, const int32_t *guard);
    size_t shared_limit; /* bytes of shared memory that a block may have; at least 48 KiB */
};

/* One call of an op: operands, control and workspace are device memory. */
typedef struct dg_cuda_call {
    const dg_args *a;
    const int32_t *guard;
    dg_cuda_queue *queue;
} dg_cuda_call;

/* base: prepare gives the workspace; there is no run. */
typedef struct dg_cuda_kernel {
    dg_kernel base;
    int (*enqueue)(const dg_cuda_call *c);
} dg_cuda_kernel;

/* The kernel of an op for operands of these types; NULL: there is none. */
const dg_cuda_kernel *dg_cuda_find(const char *op, const dg_tensor *t, int n);

#endif
