/* nvidia.h: a device by CUDA itself: what the files of this folder share. runtime.c calls CUDA's
 * runtime, products.c cuBLASLt, convolutions.c cuDNN. They are built where CUDA is, into the
 * module; where cuDNN is not, without the last. */
#ifndef DG_KERNELS_CUDA_NVIDIA_NVIDIA_H
#define DG_KERNELS_CUDA_NVIDIA_NVIDIA_H

#include "kernels/cuda/runtime.h"

typedef struct dg_nvidia_products dg_nvidia_products; /* cuBLASLt's handle for a device */

enum {
    DG_NVIDIA_WORKSPACE = 32 << 20, /* of products: what cuBLASLt wants on H100 */
    /* Of convolutions: with 32 MiB some of batch 16 in bf16, and most in f32, have no plan. */
    DG_NVIDIA_CONV_WORKSPACE = 128 << 20,
    DG_NVIDIA_CUBLAS = 10000, /* + a status of cuBLAS: what errors of products are */
    DG_NVIDIA_CUDNN = 20000,  /* + a status of cuDNN */
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
int dg_nvidia_plan_run(dg_nvidia_products *lt, dg_cuda_plan *plan, const dg_cuda_multiplied *at,
                       void *workspace, void *stream);

typedef struct dg_nvidia_convolutions dg_nvidia_convolutions; /* cuDNN's handle for a device */

/* How a plan was found, or none. */
typedef struct dg_nvidia_choice {
    int64_t engine, workspace; /* the plan's, or of the last that was looked at */
    bool is_compiled;          /* its kernel is compiled when the plan is made */
    int n_tried, n_large;      /* configurations; of these, plans that want too much workspace */
    int refused;               /* the error of the last plan that cuDNN did not make; 0 */
} dg_nvidia_choice;

/* properties NULL: the current device's. Else there is none: plans for one with these properties,
 * in cuDNN's JSON, can be made, not run. */
int dg_nvidia_convolutions_open(dg_nvidia_convolutions **c, const char *properties);
void dg_nvidia_convolutions_close(dg_nvidia_convolutions *c);
const char *dg_nvidia_convolutions_error(int code);
/* "cuDNN 9.19.0" */
const char *dg_nvidia_convolutions_version(char *buf, size_t n);
/* choice may be NULL. */
int dg_nvidia_conv_open(dg_nvidia_convolutions *c, dg_cuda_conv_plan **plan,
                        const dg_cuda_convolution *what, dg_nvidia_choice *choice);
void dg_nvidia_conv_close(dg_cuda_conv_plan *plan);
int dg_nvidia_conv_run(dg_nvidia_convolutions *c, dg_cuda_conv_plan *plan,
                       const dg_cuda_convolved *at, void *workspace, void *stream);

#endif
