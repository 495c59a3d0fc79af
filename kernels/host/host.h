/* host.h: shared by the files of the host backend. */
#ifndef DG_KERNELS_HOST_HOST_H
#define DG_KERNELS_HOST_HOST_H

#include "kernels/backend.h"
#include "kernels/host/simd/pack.h"

/* True if the optional operand is given; for prepare, which sees no data yet. */
static inline bool dg_host_given(const dg_tensor *t)
{
    return t->dtype != DG_REAL && t->shape.rank >= 0;
}

/* True if AVX-512 BF16 multiplies at twice the rate of f32 on this CPU; docs/performance.md has the
 * measurements. */
bool dg_host_multiplies_bf16(void);

/* The gradient of a convolution's weights (conv2d_dw) for x and dy in bf16, by pairs of pixels
 * (simd/conv_weights.c). NULL where dg_host_multiplies_bf16() is false. */
const dg_kernel *dg_host_conv_weights(void);

/* bf16 <-> f32, rounding to nearest even. */
void dg_host_widen(void *to, const void *from, int64_t n, int threads);
void dg_host_narrow(void *to, const void *from, int64_t n, int threads);

/* to [n,width] = bias + sum over parts of from [n,parts,width]; bias may be NULL. */
void dg_host_add_parts(float *to, const float *from, const float *bias, int64_t n, int64_t width,
                       int64_t parts, int threads);

/* A matrix in bf16, in blocks of pairs (simd/pack.h). */
void dg_host_pack(void *to, const dg_host_matrix *from, int64_t width, int threads);

/* Opens "cpu" or "ref". */
int dg_host_open(dg_backend **b, const char *device, dg_diag *d) DG_MUST_USE;

#endif
