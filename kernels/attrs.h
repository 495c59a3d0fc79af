/* attrs.h: the attribute structs of the built-in ops, as kernels are handed them. All fields are int64_t,
 * double or dg_levels, so that they print from a table (tensor/ops.c) and hold no padding. */
#ifndef DG_KERNELS_ATTRS_H
#define DG_KERNELS_ATTRS_H

#include <detrgraph/kernel.h>

typedef enum dg_act { DG_ACT_NONE, DG_ACT_RELU, DG_ACT_SILU } dg_act;

typedef struct no_attr { int64_t unused; } no_attr;
/* conv2d, conv2d_dx (h, w: size of x), conv2d_dw (h, w: kernel size kh, kw) */
typedef struct conv_attr { int64_t stride, pad, h, w; } conv_attr;
typedef struct matmul_attr { int64_t trans_a, trans_b; } matmul_attr;
typedef struct norm_attr {
    double  eps;
    int64_t act;   /* dg_act, applied after shift and residual */
    int64_t fixed; /* in batch_norm_grad: statistics are constants */
    int64_t plain; /* in batch_norm_grad: no residual, so ReLU's gate may be had from x instead of y */
} norm_attr;
typedef struct sync_attr { norm_attr norm; int64_t axis, ranks; } sync_attr; /* axis, ranks: as in reduce_attr */
typedef struct stat_attr { double momentum; int64_t count; } stat_attr; /* count: where n is not given */
typedef struct attention_attr { int64_t heads, capacity; } attention_attr;
typedef struct affine_attr { double a, c; } affine_attr;        /* scale: a x + c; clamp: [a, c]; inverse_sigmoid: a = eps */
typedef struct truth_attr { int64_t negate; } truth_attr;
typedef struct fill_attr { double a; int64_t rank, d[DG_MAX_DIMS]; } fill_attr;
typedef struct axes_attr { int64_t axes, keep; } axes_attr;     /* bit mask */
typedef struct axis_attr { int64_t axis, begin, end; } axis_attr; /* slice: [begin,end); pad: zeros before and after; concat: axis */
typedef struct shape_attr { int64_t rank, d[DG_MAX_DIMS]; } shape_attr; /* reshape, expand; permute: axes in d */
typedef struct pool_attr { int64_t size, stride, pad, h, w; } pool_attr; /* grads: h, w of x; upsample: size = factor */
typedef struct index_attr { int64_t n, padding; } index_attr;   /* gather_grad: n = S; embedding: padding row or -1, _grad: n = V; topk, detect: n = k */
typedef struct deform_attr { int64_t heads, discrete, n_levels, h[DG_MAX_LEVELS], w[DG_MAX_LEVELS], points[DG_MAX_LEVELS]; } deform_attr;
typedef struct uniform_attr { int64_t key, rank, d[DG_MAX_DIMS]; } uniform_attr; /* key: hash of node path and name */
/* Every collective. op: dg_reduce; axis: hash of its name; root: the rank that sends or receives; ranks: on the axis */
typedef struct reduce_attr { int64_t op, axis, root, ranks; } reduce_attr;
typedef struct bucket_attr { int64_t op, axis, bucket, begin, end; } bucket_attr; /* elements begin..end-1 of the gradient space */
typedef struct cast_attr { int64_t to; } cast_attr;             /* dg_dtype */
/* Ranges of the parameter spaces, in elements; every parameter belongs to one range. */
typedef struct adamw_range { int64_t begin, end, group; double weight_decay; } adamw_range;
typedef struct adamw_attr { double beta1, beta2, eps, clip; int64_t n_ranges; const adamw_range *ranges; } adamw_attr;
typedef struct ema_attr { int64_t begin, end; } ema_attr;       /* elements of the spaces; end 0: to their end */

#endif
