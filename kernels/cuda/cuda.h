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

#include "kernels/backend.h"

typedef void (*dg_cuda_function)(void); /* a kernel, to be called by a queue alone */

enum { DG_CUDA_WARP = 32, DG_CUDA_THREADS = 256 /* the most of a block */ };

typedef struct dg_cuda_grid {
    int64_t blocks;
    int threads;   /* of a block, a multiple of DG_CUDA_WARP */
    size_t shared; /* bytes of shared memory of a block */
} dg_cuda_grid;

/* A launch as the device knows it while it runs: kernels write mark to *word, host memory that the
 * device sees, before anything else. NULL: they do not. */
typedef struct dg_cuda_place {
    int32_t *word;
    int64_t mark;
} dg_cuda_place;

/* y[i] = act(a[i] b[i] + bias + res[i]), i = 0..batch-1; all matrices in rows: a m x k (k x m if
 * trans_a), b k x n (n x k if trans_b), res and y m x n; bias: n numbers for every row. A
 * description without padding: equal ones have equal bytes. */
typedef struct dg_cuda_product {
    int64_t type, out; /* dg_dtype: of a and b; of the others. Sums are in f32, in f64 for f64 */
    int64_t trans_a, trans_b, batch, m, n, k;
    int64_t a_step, b_step; /* elements from one matrix to the next; 0: all have the same */
    int64_t bias, add;      /* there is a bias, not in f64; a residual, which may be y itself */
    int64_t act;            /* dg_act: none or, not in f64, relu */
    /* What the queue knows: all addresses are multiples of it, in bytes; f32 may be multiplied as
     * tf32, which has 10 bits behind the point. */
    int64_t alignment, tf32;
} dg_cuda_product;

/* bias and res are NULL where there are none. */
typedef struct dg_cuda_multiplied {
    const void *a, *b, *bias, *res;
    void *y;
} dg_cuda_multiplied;

/* x [images,h,w,i], y [images,out_h,out_w,o], kernel [o,kh,kw,i], all of one type; the formulas are
 * those of kernels/ref/conv.c. A description without padding: equal ones have equal bytes. */
typedef enum dg_cuda_wanted { DG_CUDA_Y, DG_CUDA_DX, DG_CUDA_DKERNEL } dg_cuda_wanted;
typedef struct dg_cuda_convolution {
    int64_t wanted; /* dg_cuda_wanted: which of the three is computed from the other two */
    int64_t type;   /* dg_dtype: bf16 or f32; sums are in f32 */
    int64_t images, h, w, i, out_h, out_w, o, kh, kw, stride, pad;
    /* y only: there is a bias, o numbers of f32, and a residual, which is like y; dg_act is applied
     * to their sum with the convolution. */
    int64_t bias, residual, act;
    int64_t tf32; /* as of a product; the queue knows it */
} dg_cuda_convolution;

/* Two of x, kernel and y; to: the third, which is wanted. bias and residual may be NULL. All
 * addresses are multiples of DG_CUDA_CONVOLVED bytes. */
enum { DG_CUDA_CONVOLVED = 16 };
typedef struct dg_cuda_convolved {
    const void *x, *kernel, *y, *bias, *residual;
    void *to;
} dg_cuda_convolved;

enum { DG_CUDA_NO_PLAN = 1 };

/* Several calls of one kernel as one launch: the parameters of its second form. A call has blocks
 * of its own, or, in turn, the only block works on one after the other. CUDA 12.1 and its drivers
 * take 32764 bytes of parameters, those before it 4096. */
enum { DG_CUDA_CALLS = 128, DG_CUDA_CALL_BYTES = 16 << 10 /* of the parameters of all */ };
typedef struct dg_cuda_calls {
    int32_t n, in_turn;
    int32_t first[DG_CUDA_CALLS + 1]; /* block of each call, then their number */
    int32_t mark[DG_CUDA_CALLS], unused;
    const int32_t *guard[DG_CUDA_CALLS];
    double params[DG_CUDA_CALL_BYTES / sizeof(double)]; /* one behind the other */
} dg_cuda_calls;

/* Counters that a queue has: zeros, to which a kernel returns its own. */
enum { DG_CUDA_COUNTERS = 1 << 19 };

typedef struct dg_cuda_queue dg_cuda_queue;
struct dg_cuda_queue {
    /* Runs the kernel behind all that was put there before, unless *guard (device memory; NULL: no
     * guard) is 0. The parameters are copied. Returns 0 or -DG_E.... */
    int (*launch)(dg_cuda_queue *q, dg_cuda_function f, dg_cuda_grid grid, const void *params,
                  size_t bytes, const int32_t *guard);
    /* A matrix product of the vendor's library, which knows no guard: it runs in any case. */
    int (*product)(dg_cuda_queue *q, const dg_cuda_product *p, const dg_cuda_multiplied *at);
    /* A convolution of the vendor's library, without a guard as well. DG_CUDA_NO_PLAN: the library
     * has none that would do, or there is no library; nothing was put on the queue. */
    int (*convolve)(dg_cuda_queue *q, const dg_cuda_convolution *p, const dg_cuda_convolved *at);
    size_t shared_limit;   /* bytes of shared memory that a block may have; at least 48 KiB */
    dg_cuda_function many; /* the next launch's kernel for several calls; launch takes it away */
    int32_t *counters;     /* of the device */
    int64_t n_counters;    /* handed out: those that come next are others */
};

/* Elementwise, in the order of ranks: this one's numbers are in `own`, rank r's in
 * others + r * stride elements. to may be own. */
typedef struct dg_cuda_addition {
    dg_dtype type; /* f32, f64 or i32 */
    dg_reduce op;
    const void *own, *others;
    void *to;
    int64_t n, stride;
    int rank, ranks;
} dg_cuda_addition;

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
    /* Some of its work reads no guard: where that is 0 the outputs hold rubbish afterwards. */
    bool unguarded;
    dg_join joins; /* DG_JOIN_TURN holds where the results are few */
} dg_cuda_kernel;

#ifdef __cplusplus
extern "C" {
#endif

/* The kernel of an op for operands of these types; NULL: there is none. */
const dg_cuda_kernel *dg_cuda_find(const char *op, const dg_tensor *t, int n);

/* What a backend needs besides ops: service.c. *word = value, for who watches from the host. */
int dg_cuda_sign(dg_cuda_queue *q, uint32_t *word, uint32_t value);
/* Where *guard is 0: a copy of `bytes` from there, or zeros if from is NULL. */
int dg_cuda_skip(dg_cuda_queue *q, const int32_t *guard, void *to, const void *from, size_t bytes);
/* addition.c: n may be 0. */
int dg_cuda_add_up(dg_cuda_queue *q, const dg_cuda_addition *a);

#ifdef __cplusplus
}
#endif

#endif
