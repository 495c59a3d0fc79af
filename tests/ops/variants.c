/* variants.c: see variants.h. `simd` and `pairs` rows are compiled once per instruction set, as in
 * kernels/host/dispatch.c. */
#include "tests/ops/variants.h"

#include <stdbool.h>
#include <stddef.h>

enum { BASE, AVX2, AVX512, PAIRS, N_SETS };

#ifdef __x86_64__
#define DECLARE_simd(name) \
    extern const dg_kernel dg_host_##name##_base, dg_host_##name##_avx2, dg_host_##name##_avx512;
#define DECLARE_pairs(name) DECLARE_simd(name) extern const dg_kernel dg_host_##name##_bf16;
#define COMPILED(name) &dg_host_##name##_base, &dg_host_##name##_avx2, &dg_host_##name##_avx512
#define SETS_simd(name) { COMPILED(name), NULL }
#define SETS_pairs(name) { COMPILED(name), &dg_host_##name##_bf16 }
#else
#define DECLARE_simd(name) extern const dg_kernel dg_host_##name##_base;
#define DECLARE_pairs DECLARE_simd
#define SETS_simd(name) { &dg_host_##name##_base, NULL, NULL, NULL }
#define SETS_pairs SETS_simd
#endif
#define DECLARE_dnn(name)
#define DECLARE_ref(name)
#define DECLARE_none(name)
#define SETS_dnn(name) { NULL, NULL, NULL, NULL }
#define SETS_ref SETS_dnn
#define SETS_none SETS_dnn

#define OP(name, signature, effect, precision, attr, shape, grad, host, tolerance) \
    DECLARE_##host(name)
#include "kernels/ops.def"
#undef OP

static const dg_kernel *const compiled[DG_N_OPS][N_SETS] = {
#define OP(name, signature, effect, precision, attr, shape, grad, host, tolerance) \
    [DG_OP_##name] = SETS_##host(name),
#include "kernels/ops.def"
#undef OP
};

static bool cpu_has(int set)
{
#ifdef __x86_64__
    if (set == AVX2)
        return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
    if (set == PAIRS)
        return __builtin_cpu_supports("avx512bf16");
    if (set == AVX512)
        return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
               __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
#endif
    return set == BASE;
}

int host_variants(const dg_op *op, variant list[MAX_VARIANTS])
{
    static const char *const names[N_SETS] = { "host for any CPU", "host for AVX2",
                                               "host for AVX-512", "host for BF16" };
    int n = 0;

    if (!op->host)
        return 0;
#ifdef DG_REF_ONLY /* oneDNN brings threads that ThreadSanitizer cannot see into */
    if (!compiled[op - dg_ops][BASE])
        return 0;
#endif
    list[n++] = (variant){ "host", op->host };
    for (int set = BASE; set < N_SETS; set++)
        if (compiled[op - dg_ops][set] && cpu_has(set))
            list[n++] = (variant){ names[set], compiled[op - dg_ops][set] };
    return n;
}
