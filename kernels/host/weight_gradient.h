/* weight_gradient.h: a convolution's weight gradient, shared out by images. */
#ifndef DG_KERNELS_HOST_WEIGHT_GRADIENT_H
#define DG_KERNELS_HOST_WEIGHT_GRADIENT_H

#include "kernels/backend.h"

/* Shares the gradient in one piece (taps.h) out by images where that keeps the threads busy. */
extern const dg_kernel dg_host_conv2d_dw;

#endif
