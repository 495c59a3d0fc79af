/* on_cpu.h: a kernel and its threads as a C compiler has them; part of device.h, which says what
 * they mean. tests/cuda runs them: it has the functions that are declared here. */
#ifndef DG_KERNELS_CUDA_ON_CPU_H
#define DG_KERNELS_CUDA_ON_CPU_H

#include <string.h>

#include "kernels/cuda/cuda.h"

#define DEVICE static inline
#define ANYWHERE static inline
#define KERNEL(name, type)                                                     \
    static void name##_body(const type *p, const dg_blocks dg_at);             \
    static void name(const void *p, const int32_t *guard, dg_cuda_place here)  \
    {                                                                          \
        const dg_cuda_fibers *now = dg_cuda_thread();                          \
        const dg_blocks at = { now->block, now->blocks };                      \
                                                                               \
        if (here.word && now->block == 0 && now->thread == 0)                  \
            __atomic_store_n(here.word, (int32_t)here.mark, __ATOMIC_RELAXED); \
        if (!guard || *guard)                                                  \
            name##_body((const type *)p, at);                                  \
    }                                                                          \
    static void name##_body(const type *p, DG_CUDA_MAYBE const dg_blocks dg_at)
#define KERNEL_MANY(name, type)                                                      \
    static void name##_body(const type *p, const dg_blocks dg_at);                   \
    static void name##_many(const void *p, const int32_t *guard, dg_cuda_place here) \
    {                                                                                \
        const dg_cuda_calls *c = (const dg_cuda_calls *)p;                           \
        const int64_t block = dg_cuda_thread()->block;                               \
                                                                                     \
        (void)guard; /* each call has its own */                                     \
        DG_CUDA_ALL_OF_MANY(name, type, c, block, DG_CUDA_MARK);                     \
    }                                                                                \
    KERNEL(name, type)
#define DG_CUDA_MARK(mark)                                                  \
    do {                                                                    \
        if (here.word)                                                      \
            __atomic_store_n(here.word, (int32_t)(mark), __ATOMIC_RELAXED); \
    } while (0)

/* The thread that runs. */
typedef struct dg_cuda_fibers {
    int thread, threads;
    int64_t block, blocks;
    void *shared;
    /* As dg_cuda_meet, for a sum or a maximum: the last to come combines the values to the first of
     * them. That is a fifth of a tree of shuffles. NULL: shuffle. */
    const uint64_t *(*reduce)(int line, uint64_t value, void (*combine)(uint64_t *values));
} dg_cuda_fibers;
const dg_cuda_fibers *dg_cuda_thread(void);
/* Returns when all threads of the block are in a barrier of this line. */
void dg_cuda_barrier(int line);
/* Returns when all threads of the warp are here, with the values that they brought; they stay until
 * the warp meets again. */
const uint64_t *dg_cuda_meet(int line, uint64_t value);

DEVICE void write_word(uint32_t *word, uint32_t value)
{
    __atomic_store_n(word, value, __ATOMIC_RELAXED);
}

DEVICE int thread_id(void)
{
    return dg_cuda_thread()->thread;
}

DEVICE int block_size(void)
{
    return dg_cuda_thread()->threads;
}

DEVICE void *shared_memory(void)
{
    return dg_cuda_thread()->shared;
}

DEVICE void fence(void)
{
}

DEVICE float dg_shuffle_f32(int line, float v, int lane)
{
    uint64_t bits = 0;

    memcpy(&bits, &v, sizeof v);
    bits = dg_cuda_meet(line, bits)[lane];
    memcpy(&v, &bits, sizeof v);
    return v;
}

DEVICE double dg_shuffle_f64(int line, double v, int lane)
{
    uint64_t bits;

    memcpy(&bits, &v, sizeof v);
    bits = dg_cuda_meet(line, bits)[lane];
    memcpy(&v, &bits, sizeof v);
    return v;
}

DEVICE int32_t dg_shuffle_i32(int line, int32_t v, int lane)
{
    return (int32_t)(uint32_t)dg_cuda_meet(line, (uint32_t)v)[lane];
}

DEVICE uint32_t dg_ballot(int line, int v)
{
    const uint64_t *all = dg_cuda_meet(line, v != 0);
    uint32_t bits = 0;

    for (int i = 0; i < DG_CUDA_WARP; i++)
        bits |= (uint32_t)all[i] << i;
    return bits;
}

#define barrier() dg_cuda_barrier(__LINE__)
#define warp_barrier() (void)dg_cuda_meet(__LINE__, 0)
#define shuffle(v, lane)        \
    _Generic((v),               \
        float: dg_shuffle_f32,  \
        double: dg_shuffle_f64, \
        int32_t: dg_shuffle_i32)(__LINE__, v, lane)
#define shuffle_xor(v, mask) shuffle(v, (thread_id() % DG_CUDA_WARP) ^ (mask))
#define ballot(v) dg_ballot(__LINE__, v)
#define count_zeros_below(v) (__builtin_ffs((int)(v)) - 1)

DEVICE int32_t atomic_add(int32_t *p, int32_t v)
{
    int32_t old = *p;

    *p = (int32_t)((uint32_t)old + (uint32_t)v);
    return old;
}

DEVICE void atomic_add_i64(int64_t *p, int64_t v)
{
    *p = (int64_t)((uint64_t)*p + (uint64_t)v);
}

DEVICE void atomic_and(int32_t *p, int32_t v)
{
    *p &= v;
}

#endif
