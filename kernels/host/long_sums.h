/* long_sums.h: a convolution's sums, cut into parts. */
#ifndef DG_KERNELS_HOST_LONG_SUMS_H
#define DG_KERNELS_HOST_LONG_SUMS_H

#include "kernels/backend.h"

/* Asks the convolution for parts (taps.h) where the op is to be exact and its sums in f32 are long.
 */
extern const dg_kernel dg_host_conv2d;

#endif
