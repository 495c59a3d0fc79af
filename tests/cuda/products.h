/* products.h: what the vendor's library of products computes, by loops. */
#ifndef DG_TESTS_CUDA_PRODUCTS_H
#define DG_TESTS_CUDA_PRODUCTS_H

#include "kernels/cuda/cuda.h"

/* Sums are in double, in the order of k. */
void products_run(const dg_cuda_product *p, const void *a, const void *b, const void *c, void *y);

#endif
