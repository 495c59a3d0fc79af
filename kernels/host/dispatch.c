/* dispatch.c: chooses among the instruction-set variants of our own kernels (simd/), in prepare and
 * in run. One entry per `simd` and `pairs` row of
 * kernels/ops.def. */
#include "kernels/host/host.h"

#include "kernels/host/simd/cast.h"

#ifdef __x86_64__

typedef enum isa { ISA_BASE, ISA_AVX2, ISA_AVX512 } isa;

static isa best_isa(void)
{
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
        __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl"))
        return ISA_AVX512;
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") ? ISA_AVX2 : ISA_BASE;
}

#define VARIANTS(name, type)                                                                 \
    extern const type dg_host_##name##_base, dg_host_##name##_avx2, dg_host_##name##_avx512; \
    static const type *pick_##name(void)                                                     \
    {                                                                                        \
        const type *const k[] = { &dg_host_##name##_base, &dg_host_##name##_avx2,            \
                                  &dg_host_##name##_avx512 };                                \
                                                                                             \
        return k[best_isa()];                                                                \
    }
#define VARIANTS_AND_PAIRS(name)                                                   \
    VARIANTS(name, dg_kernel)                                                      \
    extern const dg_kernel dg_host_##name##_bf16;                                  \
    static const dg_kernel *pick_pairs_##name(void)                                \
    {                                                                              \
        return dg_host_multiplies_bf16() ? &dg_host_##name##_bf16 : pick_##name(); \
    }

const dg_kernel *dg_host_conv_weights(void)
{
    extern const dg_kernel dg_host_conv_weights_bf16;

    return dg_host_multiplies_bf16() ? &dg_host_conv_weights_bf16 : NULL;
}

#else

const dg_kernel *dg_host_conv_weights(void)
{
    return NULL;
}

#define VARIANTS(name, type)                 \
    extern const type dg_host_##name##_base; \
    static const type *pick_##name(void)     \
    {                                        \
        return &dg_host_##name##_base;       \
    }
#define VARIANTS_AND_PAIRS(name)                    \
    VARIANTS(name, dg_kernel)                       \
    static const dg_kernel *pick_pairs_##name(void) \
    {                                               \
        return pick_##name();                       \
    }

#endif

static int prepare_with(const dg_kernel *k, dg_prepare *p)
{
    p->handle = NULL;
    p->workspace_bytes = 0;
    return k->prepare ? k->prepare(p) : 0;
}

#define PICKED(name, pick)                   \
    static int prepare_##name(dg_prepare *p) \
    {                                        \
        return prepare_with(pick(), p);      \
    }                                        \
    static int run_##name(const dg_args *a)  \
    {                                        \
        return pick()->run(a);               \
    }                                        \
    extern const dg_kernel dg_host_##name;   \
    const dg_kernel dg_host_##name = { prepare_##name, run_##name, NULL };
#define HOST_simd(name)       \
    VARIANTS(name, dg_kernel) \
    PICKED(name, pick_##name)
#define HOST_pairs(name)     \
    VARIANTS_AND_PAIRS(name) \
    PICKED(name, pick_pairs_##name)
#define HOST_dnn(name)
#define HOST_ref(name)
#define HOST_none(name)
#define OP(name, signature, effect, precision, attr, shape, grad, host, tolerance) HOST_##host(name)
#include "kernels/ops.def"

VARIANTS(convert, dg_host_convert)

void dg_host_widen(void *to, const void *from, int64_t n, int threads)
{
    pick_convert()->widen(to, from, n, threads);
}

void dg_host_narrow(void *to, const void *from, int64_t n, int threads)
{
    pick_convert()->narrow(to, from, n, threads);
}

VARIANTS(packing, dg_host_packing)

void dg_host_pack(void *to, const dg_host_matrix *from, int64_t width, int threads)
{
    pick_packing()->pack(to, from, width, threads);
}

void dg_host_add_parts(float *to, const float *from, const float *bias, int64_t n, int64_t width,
                       int64_t parts, int threads)
{
    pick_convert()->add_parts(to, from, bias, n, width, parts, threads);
}
