/* products.h: what the vendor's libraries of products and convolutions compute, by loops. */
#ifndef DG_TESTS_CUDA_PRODUCTS_H
#define DG_TESTS_CUDA_PRODUCTS_H

#include "kernels/cuda/cuda.h"

/* Sums are in double, in the order of k. */
void products_run(const dg_cuda_product *p, const dg_cuda_multiplied *at);

/* Sums are in double, in the order of rows and columns. False, and nothing is done: it is no
 * convolution, or the addresses do not belong to it. */
bool convolutions_run(const dg_cuda_convolution *p, const dg_cuda_convolved *at);

#endif
