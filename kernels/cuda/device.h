/* device.h: the part of CUDA that kernels use, and what all kernels share.
 *
 * nvcc maps it to the device. A C compiler maps it to the functions of on_cpu.h, which
 * tests/cuda implements: the threads of a block are then fibers that run one after another, in any
 * order between two places where they meet. What stands here is all that a kernel may use:
 *
 *   thread_id block_id block_size grid_size    blocks and threads have one dimension
 *   fence                                      what is written before is seen before what follows
 *   shared_memory                              as many bytes as the launch asked for, no others
 *   barrier                                    every thread of the block
 *   warp_barrier, shuffle, shuffle_xor, ballot every thread of the warp
 *   atomic_add, atomic_and                     on int32_t and, for f64, int64_t
 *
 * There are no atomics on floating-point numbers: their order would change the bits. */
#ifndef DG_KERNELS_CUDA_DEVICE_H
#define DG_KERNELS_CUDA_DEVICE_H

#include <assert.h>
#include <string.h>
#ifdef __CUDACC__
#include <math.h>
#else
#include <tgmath.h>
#endif

#ifdef __CUDACC__
#define _Static_assert static_assert /* of kernels/attrs.h */
#endif

#include "kernels/attrs.h"
#include "kernels/cuda/cuda.h"
#include "kernels/operands.h"

#ifndef DG_CUDA_BITS
#define DG_CUDA_BITS 32 /* for compiling this header alone */
#endif

/* real: how operands are stored; wide: those that the signature marks `:f`; all arithmetic is done
 * in wide, and in double where the reference's numbers are wanted exactly. fixed: an integer that
 * sums are kept in where their order is not known. */
#if DG_CUDA_BITS == 16
typedef uint16_t real;
typedef float wide;
typedef int32_t fixed;
#define DG_CUDA_SYMBOL(name) dg_cuda_##name##_bf16
#define DG_CUDA_REAL DG_BF16
#elif DG_CUDA_BITS == 32
typedef float real;
typedef float wide;
typedef int32_t fixed;
#define DG_CUDA_SYMBOL(name) dg_cuda_##name##_f32
#define DG_CUDA_REAL DG_F32
#else
typedef double real;
typedef double wide;
typedef int64_t fixed;
#define DG_CUDA_SYMBOL(name) dg_cuda_##name##_f64
#define DG_CUDA_REAL DG_F64
#endif
#define DG_CUDA_WIDE (DG_CUDA_BITS == 64 ? DG_F64 : DG_F32)

#define DG_CUDA(name, prepare_fn, enqueue_fn)         \
    extern const dg_cuda_kernel DG_CUDA_SYMBOL(name); \
    const dg_cuda_kernel DG_CUDA_SYMBOL(name) = {     \
        { (prepare_fn), NULL, NULL },                 \
        (enqueue_fn),                                 \
        false,                                        \
        DG_JOIN_NONE,                                 \
    }

/* One whose launches may be joined with others of its op: its kernels have the form for that. */
#define DG_CUDA_JOINED(name, prepare_fn, enqueue_fn, how) \
    extern const dg_cuda_kernel DG_CUDA_SYMBOL(name);     \
    const dg_cuda_kernel DG_CUDA_SYMBOL(name) = {         \
        { (prepare_fn), NULL, NULL },                     \
        (enqueue_fn),                                     \
        false,                                            \
        (how),                                            \
    }

/* One whose work is partly a library's. */
#define DG_CUDA_LIBRARY(name, prepare_fn, enqueue_fn) \
    extern const dg_cuda_kernel DG_CUDA_SYMBOL(name); \
    const dg_cuda_kernel DG_CUDA_SYMBOL(name) = {     \
        { (prepare_fn), NULL, NULL },                 \
        (enqueue_fn),                                 \
        true,                                         \
        DG_JOIN_NONE,                                 \
    }

/* ---- a kernel and its threads ---------------------------------------------------------------- */

/* KERNEL(name, type) { body }: a kernel whose parameters are *p, a `type`. KERNEL_MANY: one that
 * also has the form for several calls (dg_cuda_calls). DEVICE: a function that kernels call,
 * ANYWHERE: the host, too. */

/* The blocks of a call, as its threads see them. */
typedef struct dg_blocks {
    int64_t number, all;
} dg_blocks;

/* One call of several; the thread is of block `number`. MARK(mark): the launch begins. */
#define DG_CUDA_ONE_OF_MANY(name, type, c, i, block_of_it, blocks_of_it, MARK)                  \
    do {                                                                                        \
        const dg_blocks blocks_of_call = { (block_of_it), (blocks_of_it) };                     \
                                                                                                \
        if (blocks_of_call.number == 0 && thread_id() == 0)                                     \
            MARK((c)->mark[i]);                                                                 \
        if (!(c)->guard[i] || *(c)->guard[i])                                                   \
            name##_body((const type *)((const char *)(c)->params + (size_t)(i) * sizeof(type)), \
                        blocks_of_call);                                                        \
    } while (0)
#define DG_CUDA_ALL_OF_MANY(name, type, c, block, MARK)                    \
    do {                                                                   \
        int i = 0;                                                         \
                                                                           \
        for (; i < (c)->n && (c)->in_turn; i++) {                          \
            DG_CUDA_ONE_OF_MANY(name, type, c, i, 0, 1, MARK);             \
            barrier();                                                     \
        }                                                                  \
        while (i + 1 < (c)->n && (c)->first[i + 1] <= (block))             \
            i++;                                                           \
        if (i < (c)->n)                                                    \
            DG_CUDA_ONE_OF_MANY(name, type, c, i, (block) - (c)->first[i], \
                                (c)->first[i + 1] - (c)->first[i], MARK);  \
    } while (0)

#define DG_CUDA_MAYBE __attribute__((unused))

#ifdef __CUDACC__

#define DEVICE static __device__ __forceinline__
#define ANYWHERE static __host__ __device__ inline
#define KERNEL(name, type)                                                             \
    DEVICE void name##_body(const type *p, const dg_blocks dg_at);                     \
    static __global__ void __launch_bounds__(DG_CUDA_THREADS, 1)                       \
        name(const __grid_constant__ type p, const int32_t *guard, dg_cuda_place here) \
    {                                                                                  \
        const dg_blocks at = { (int64_t)blockIdx.x, (int64_t)gridDim.x };              \
                                                                                       \
        if (here.word && blockIdx.x == 0 && threadIdx.x == 0)                          \
            *(volatile int32_t *)here.word = (int32_t)here.mark;                       \
        if (!guard || *guard)                                                          \
            name##_body(&p, at);                                                       \
    }                                                                                  \
    DEVICE void name##_body(const type *p, DG_CUDA_MAYBE const dg_blocks dg_at)
#define KERNEL_MANY(name, type)                                                                   \
    DEVICE void name##_body(const type *p, const dg_blocks dg_at);                                \
    static __global__ void __launch_bounds__(DG_CUDA_THREADS, 1)                                  \
        name##_many(const __grid_constant__ dg_cuda_calls c, const int32_t *, dg_cuda_place here) \
    {                                                                                             \
        DG_CUDA_ALL_OF_MANY(name, type, &c, (int64_t)blockIdx.x, DG_CUDA_MARK);                   \
    }                                                                                             \
    KERNEL(name, type)
#define DG_CUDA_MARK(mark)                                    \
    do {                                                      \
        if (here.word)                                        \
            *(volatile int32_t *)here.word = (int32_t)(mark); \
    } while (0)

DEVICE int thread_id(void)
{
    return (int)threadIdx.x;
}

DEVICE int block_size(void)
{
    return (int)blockDim.x;
}

/* What other blocks wrote before their fence is seen behind this one. */
DEVICE void fence(void)
{
    __threadfence();
}

DEVICE void *shared_memory(void)
{
    extern __shared__ double2 dg_cuda_shared[];

    return dg_cuda_shared;
}

#define barrier() __syncthreads()
#define warp_barrier() __syncwarp()
#define shuffle(v, lane) __shfl_sync(0xFFFFFFFFu, v, lane)
#define shuffle_xor(v, mask) __shfl_xor_sync(0xFFFFFFFFu, v, mask)
#define ballot(v) __ballot_sync(0xFFFFFFFFu, v)
#define count_zeros_below(v) (__ffs((int)(v)) - 1)

/* *word = value, for who watches from the host. */
DEVICE void write_word(uint32_t *word, uint32_t value)
{
    *(volatile uint32_t *)word = value;
}

DEVICE int32_t atomic_add(int32_t *p, int32_t v)
{
    return atomicAdd(p, v);
}

DEVICE void atomic_add_i64(int64_t *p, int64_t v)
{
    atomicAdd((unsigned long long *)p, (unsigned long long)v);
}

DEVICE void atomic_and(int32_t *p, int32_t v)
{
    atomicAnd(p, v);
}

#else
#include "kernels/cuda/on_cpu.h"
#endif

DEVICE void atomic_add_fixed(fixed *p, fixed v)
{
#if DG_CUDA_BITS == 64
    atomic_add_i64(p, v);
#else
    (void)atomic_add(p, v);
#endif
}

/* In the body of a kernel: its block among those of its call. */
#define block_id() (dg_at.number)
#define grid_size() (dg_at.all)
/* for (n = first(); n < size; n += step()): the threads of all blocks share the elements. */
#define first() (block_id() * block_size() + thread_id())
#define step() (grid_size() * block_size())

DEVICE int lane_id(void)
{
    return thread_id() % DG_CUDA_WARP;
}

DEVICE int warp_id(void)
{
    return thread_id() / DG_CUDA_WARP;
}

/* ---- numbers --------------------------------------------------------------------------------- */

/* The value of a stored element, and what is stored of a value: rounded to nearest even. */
#if DG_CUDA_BITS == 16
DEVICE wide get(real h)
{
    const uint32_t bits = (uint32_t)h << 16;
    float v;

    memcpy(&v, &bits, sizeof v);
    return v;
}

DEVICE real put(wide v)
{
    uint32_t bits;

    memcpy(&bits, &v, sizeof bits);
    if ((bits & 0x7FFFFFFFu) > 0x7F800000u)
        return (real)(bits >> 16 | 0x40);
    return (real)((bits + 0x7FFFu + (bits >> 16 & 1)) >> 16);
}
#else
DEVICE wide get(real v)
{
    return v;
}

DEVICE real put(wide v)
{
    return v;
}
#endif

/* What a thread reads or writes at once: 16 bytes, at a multiple of 16. */
enum { PACK = 16 / sizeof(real) };
typedef struct sixteen {
    real v[PACK];
} __attribute__((aligned(16))) sixteen;

DEVICE wide larger(wide x, wide y)
{
    return x > y ? x : y;
}

/* log-sum-exp and maxima begin here: exp of it is 0. */
DEVICE wide minus_infinity(void)
{
    return (wide)-INFINITY;
}

#ifndef __CUDACC__
/* What shuffles of a warp's numbers would give: both lanes of a pair compute the same. */
#define DG_COMBINE(name, x, y, combined)                \
    static void name(uint64_t *values)                  \
    {                                                   \
        wide all[DG_CUDA_WARP];                         \
                                                        \
        for (int i = 0; i < DG_CUDA_WARP; i++)          \
            memcpy(&all[i], &values[i], sizeof all[i]); \
        for (int n = DG_CUDA_WARP / 2; n; n /= 2)       \
            for (int i = 0; i < n; i++) {               \
                wide x = all[i], y = all[i + n];        \
                                                        \
                all[i] = combined;                      \
            }                                           \
        memcpy(values, all, sizeof *all);               \
    }
DG_COMBINE(dg_add_all, x, y, x + y)
DG_COMBINE(dg_largest_of_all, x, y, x > y ? x : y)

DEVICE wide dg_reduced(int line, wide v, void (*combine)(uint64_t *values))
{
    uint64_t bits = 0;

    memcpy(&bits, &v, sizeof v);
    memcpy(&v, dg_cuda_thread()->reduce(line, bits, combine), sizeof v);
    return v;
}
#endif

/* Every lane has the result, added in the same order. */
DEVICE wide warp_sum(wide v)
{
#ifndef __CUDACC__
    if (dg_cuda_thread()->reduce)
        return dg_reduced(__LINE__, v, dg_add_all);
#endif
    for (int mask = DG_CUDA_WARP / 2; mask; mask /= 2)
        v += shuffle_xor(v, mask);
    return v;
}

DEVICE wide warp_max(wide v)
{
#ifndef __CUDACC__
    if (dg_cuda_thread()->reduce)
        return dg_reduced(__LINE__, v, dg_largest_of_all);
#endif
    for (int mask = DG_CUDA_WARP / 2; mask; mask /= 2)
        v = larger(v, shuffle_xor(v, mask));
    return v;
}

enum { BLOCK_SUM_BYTES = DG_CUDA_THREADS / DG_CUDA_WARP * sizeof(wide) };

/* The sum over a block, for every thread; shared: BLOCK_SUM_BYTES, free again afterwards. */
DEVICE wide block_sum(wide v, wide *shared)
{
    wide sum = 0;

    v = warp_sum(v);
    if (lane_id() == 0)
        shared[warp_id()] = v;
    barrier();
    for (int w = 0; w < block_size() / DG_CUDA_WARP; w++)
        sum += shared[w];
    barrier();
    return sum;
}

/* Of several blocks that share a counter, true in the last one to come here: it sees what the
 * others wrote before. shared: one number, free again afterwards. */
DEVICE bool last_of(int32_t *counter, int64_t blocks, int32_t *shared)
{
    bool last;

    fence();
    barrier();
    if (thread_id() == 0) {
        *shared = atomic_add(counter, 1) == blocks - 1;
        if (*shared)
            *counter = 0;
    }
    barrier();
    last = *shared != 0;
    fence();
    barrier();
    return last;
}

/* ---- the host's side: operands and launches -------------------------------------------------- */

static inline bool has(const dg_args *a, int i)
{
    return a->t[i].data != NULL;
}

/* Operand i: stored as real, wide, or integers; NULL if it is absent. */
static inline real *reals(const dg_args *a, int i)
{
    assert(!has(a, i) || a->t[i].dtype == DG_CUDA_REAL);
    return (real *)a->t[i].data;
}

static inline wide *wides(const dg_args *a, int i)
{
    assert(!has(a, i) || a->t[i].dtype == DG_CUDA_WIDE);
    return (wide *)a->t[i].data;
}

static inline int32_t *ints(const dg_args *a, int i)
{
    assert(!has(a, i) || a->t[i].dtype == DG_I32);
    return (int32_t *)a->t[i].data;
}

static inline int64_t dim(const dg_args *a, int i, int axis)
{
    const dg_shape *s = &a->t[i].shape;

    return s->d[axis < 0 ? s->rank + axis : axis];
}

static inline int64_t elements(const dg_args *a, int i)
{
    return dg_shape_elements(a->t[i].shape);
}

/* Size of the last axis, and the number of rows of that size. */
static inline int64_t width(const dg_args *a, int i)
{
    return a->t[i].shape.rank ? dim(a, i, -1) : 1;
}

static inline int64_t rows(const dg_args *a, int i)
{
    return elements(a, i) / width(a, i);
}

ANYWHERE int64_t parts(int64_t n, int64_t size)
{
    return (n + size - 1) / size;
}

/* A thread for each of n things, or for several where that is more blocks than this; who runs
 * blocks on the CPU says how many. */
#ifdef __CUDACC__
static inline int64_t dg_cuda_most_blocks(void)
{
    return 65536;
}
#else
int64_t dg_cuda_most_blocks(void);
#endif
static inline dg_cuda_grid grid_of(int64_t n)
{
    const int64_t most = dg_cuda_most_blocks();
    int64_t blocks = parts(n, DG_CUDA_THREADS);
    dg_cuda_grid g = { blocks < most ? blocks : most, DG_CUDA_THREADS, 0 };

    return g;
}

/* A warp for each of n things. */
static inline dg_cuda_grid grid_of_warps(int64_t n)
{
    return grid_of(n * DG_CUDA_WARP);
}

/* n counters; a launch that runs at the same time has others. */
static inline int32_t *counters(const dg_cuda_call *c, int64_t n)
{
    dg_cuda_queue *q = c->queue;
    int64_t at = q->n_counters + n > DG_CUDA_COUNTERS ? 0 : q->n_counters;

    assert(n <= DG_CUDA_COUNTERS);
    q->n_counters = at + n;
    return q->counters + at;
}

/* Of a KERNEL_MANY. */
#define LAUNCH_MANY(c, kernel, grid, params) \
    ((c)->queue->many = (dg_cuda_function)(kernel##_many), LAUNCH(c, kernel, grid, params))

#define LAUNCH(c, kernel, grid, params)                                                        \
    (c)->queue->launch((c)->queue, (dg_cuda_function)(kernel), grid, params, sizeof *(params), \
                       (c)->guard)

#endif
