/* taps.h: a convolution's weight gradient as matrix products, one per tap (place in the kernel). */
#ifndef DG_KERNELS_HOST_TAPS_H
#define DG_KERNELS_HOST_TAPS_H

#include "kernels/backend.h"

/* Whether the products are faster than the library's own weight gradient for these operands. */
bool dg_host_taps_pay(const dg_prepare *p);

/* conv2d_dw by products. Workspace: about 1 MiB or dW once, and dW once more. */
extern const dg_kernel dg_host_taps_conv2d_dw;

/* c [m,n] += a' b, for a [k,m] whose rows begin `stride_a` elements apart, and b [k,n] likewise.
 * The caller sets the team (base/pool.h). In dnn.c. */
int dg_host_add_product(float *c, const float *a, int64_t stride_a, const float *b,
                        int64_t stride_b, int64_t m, int64_t n, int64_t k) DG_MUST_USE;

/* Whether the library has only AVX2 to make its kernels from. In dnn.c. */
bool dg_host_library_has_avx2_only(void);

#endif
