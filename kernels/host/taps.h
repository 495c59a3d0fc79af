/* taps.h: a convolution and its gradients as matrix products, one per tap (place in the kernel),
 * where they are faster than the library's kernels. */
#ifndef DG_KERNELS_HOST_TAPS_H
#define DG_KERNELS_HOST_TAPS_H

#include "kernels/backend.h"

/* By products; conv2d_dx only without a stride, and bf16 only for x and dy of conv2d_dw. Workspace:
 * about 1 MiB a thread, and the weights once more. */
extern const dg_kernel dg_host_taps_conv2d, dg_host_taps_conv2d_dx, dg_host_taps_conv2d_dw;

/* By the library (dnn.c). */
extern const dg_kernel dg_host_dnn_conv2d, dg_host_dnn_conv2d_dx, dg_host_dnn_conv2d_dw;

/* The faster one of both, in one piece. Of a convolution, y may have parts times as many channels
 * as w has outputs: then it is [B,H,W,parts,O], the sums over equal parts of x's channels, without
 * bias; always by the library. */
extern const dg_kernel dg_host_whole_conv2d, dg_host_conv2d_dx, dg_host_whole_conv2d_dw;

/* The library's product, in dnn.c: c [m,n] = a b, or += with `add`, for a [m,k] and b [k,n]; with
 * `turned`, a is stored as [k,m]. Rows of a and b begin `stride_a` and `stride_b` elements apart.
 * Takes the team that the caller has set (base/pool.h). */
int dg_host_product(float *c, bool add, const float *a, bool turned, int64_t stride_a,
                    const float *b, int64_t stride_b, int64_t m, int64_t n, int64_t k) DG_MUST_USE;

/* Whether the library has AVX2, and no more, to make its kernels from. In dnn.c. */
bool dg_host_library_has_avx2_only(void);

#endif
