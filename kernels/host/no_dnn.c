/* no_dnn.c: the kernels of dnn.c in a build without oneDNN: the reference kernels do their work. */
#include <stdio.h>

#include "kernels/backend.h"
#include "kernels/host/host.h"
#include "kernels/host/taps.h"

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

TWIN(conv2d, dg_host_dnn_conv2d);
TWIN(conv2d_dx, dg_host_dnn_conv2d_dx);
TWIN(conv2d_dw, dg_host_dnn_conv2d_dw);
TWIN(matmul, dg_host_matmul);

int dg_host_product(float *c, bool add, const float *a, bool turned, int64_t stride_a,
                    const float *b, int64_t stride_b, int64_t m, int64_t n, int64_t k)
{
    for (int64_t i = 0; i < m; i++)
        for (int64_t j = 0; j < n; j++) {
            float sum = add ? c[i * n + j] : 0;

            for (int64_t q = 0; q < k; q++)
                sum += (turned ? a[q * stride_a + i] : a[i * stride_a + q]) * b[q * stride_b + j];
            c[i * n + j] = sum;
        }
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

void dg_library_forget(void)
{
}

#endif
