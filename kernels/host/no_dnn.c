/* no_dnn.c: the kernels of dnn.c in a build without oneDNN: the reference kernels do their work. */
#include <stdio.h>

#include "kernels/backend.h"
#include "kernels/host/host.h"
#include "kernels/host/long_sums.h"
#include "kernels/host/taps.h"
#include "kernels/host/weight_gradient.h"

#ifdef DG_REF_ONLY

#define TWIN(name, twin)                                              \
    extern const dg_kernel dg_ref_##name##_f32, twin;                 \
    static int prepare_##name(dg_prepare *p)                          \
    {                                                                 \
        int (*prepare)(dg_prepare * p) = dg_ref_##name##_f32.prepare; \
                                                                      \
        return prepare ? prepare(p) : 0;                              \
    }                                                                 \
    static int run_##name(const dg_args *a)                           \
    {                                                                 \
        return dg_ref_##name##_f32.run(a);                            \
    }                                                                 \
    static void release_##name(void *handle)                          \
    {                                                                 \
        if (dg_ref_##name##_f32.release)                              \
            dg_ref_##name##_f32.release(handle);                      \
    }                                                                 \
    const dg_kernel twin = { prepare_##name, run_##name, release_##name }

TWIN(conv2d, dg_host_whole_conv2d);
TWIN(conv2d_dx, dg_host_conv2d_dx);
TWIN(conv2d_dw, dg_host_whole_conv2d_dw);
TWIN(matmul, dg_host_matmul);

int dg_host_add_product(float *c, const float *a, int64_t stride_a, const float *b,
                        int64_t stride_b, int64_t m, int64_t n, int64_t k)
{
    for (int64_t p = 0; p < k; p++)
        for (int64_t i = 0; i < m; i++)
            for (int64_t j = 0; j < n; j++)
                c[i * n + j] += a[p * stride_a + i] * b[p * stride_b + j];
    return 0;
}

bool dg_host_library_has_avx2_only(void)
{
    return false;
}

const char *dg_library_versions(char *buf, size_t n)
{
    snprintf(buf, n, "no oneDNN");
    return buf;
}

#endif
