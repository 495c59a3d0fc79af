/* nvidia.h: a device by CUDA itself: what the files of this folder share. runtime.c calls CUDA's
 * runtime, products.c cuBLASLt. They are built where CUDA is, into the module. */
#ifndef DG_KERNELS_CUDA_NVIDIA_NVIDIA_H
#define DG_KERNELS_CUDA_NVIDIA_NVIDIA_H

#include "kernels/cuda/runtime.h"

typedef struct dg_nvidia_products dg_nvidia_products; /* cuBLASLt's handle for a device */

enum {
    DG_NVIDIA_WORKSPACE = 32 << 20, /* of products: what cuBLASLt wants on H100 */
    DG_NVIDIA_CUBLAS = 10000,       /* + a status of cuBLAS: what errors of products are */
};

/* The current device's. Errors: CUDA's, or DG_NVIDIA_CUBLAS + cublasStatus_t. */
int dg_nvidia_products_open(dg_nvidia_products **lt);
void dg_nvidia_products_close(dg_nvidia_products *lt);
/* "cublasStatus: ..." */
const char *dg_nvidia_products_error(int code);
/* "cuBLASLt 13.1" */
const char *dg_nvidia_products_version(char *buf, size_t n);

int dg_nvidia_plan_open(dg_nvidia_products *lt, dg_cuda_plan **plan, const dg_cuda_product *p);
void dg_nvidia_plan_close(dg_cuda_plan *plan);
int dg_nvidia_plan_run(dg_nvidia_products *lt, dg_cuda_plan *plan, const void *a, const void *b,
                       const void *c, void *y, void *workspace, void *stream);

#endif
