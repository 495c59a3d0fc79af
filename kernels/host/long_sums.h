/* long_sums.h: a convolution's sums, cut into parts. */
#ifndef DG_KERNELS_HOST_LONG_SUMS_H
#define DG_KERNELS_HOST_LONG_SUMS_H

#include "kernels/backend.h"

/* The convolution by the library (dnn.c): if y has parts times as many channels as w has outputs,
 * it is [B,H,W,parts,O], the sums over equal parts of the channels, without bias.
 * dg_host_conv2d asks for parts where the op is to be exact and its sums in f32 are long. */
extern const dg_kernel dg_host_whole_conv2d, dg_host_conv2d;

#endif
