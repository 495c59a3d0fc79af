/* attrs.h: the attribute structs of the built-in ops. All fields are int64_t, double or dg_levels,
 * so that they print from a table (tensor/ops.c) and contain no padding. */
#ifndef DG_KERNELS_ATTRS_H
#define DG_KERNELS_ATTRS_H

#include <detrgraph/kernel.h>

typedef enum dg_act { DG_ACT_NONE, DG_ACT_RELU, DG_ACT_SILU } dg_act;

typedef struct no_attr {
    int64_t unused;
} no_attr;
/* conv2d: stride, pad; conv2d_dx: h, w are the size of x; conv2d_dw: the kernel's size kh, kw */
/* exact: long sums in f32 are to be cut into parts, where that lessens rounding errors */
typedef struct conv_attr {
    int64_t stride, pad, h, w, exact;
} conv_attr;
/* flip: the kernel turned by half a turn, for the gradient of x; size: of the kernel, for that of
 * w */
typedef struct depthwise_attr {
    int64_t flip, size;
} depthwise_attr;
typedef struct matmul_attr {
    int64_t trans_a, trans_b;
} matmul_attr;
/* act: dg_act, none or relu, applied after bias and residual */
typedef struct matmul_act_attr {
    matmul_attr of;
    int64_t act;
} matmul_act_attr;
typedef struct norm_attr {
    double eps;
    int64_t act;   /* dg_act, applied after shift and residual */
    int64_t fixed; /* batch_norm_grad: the statistics are constants */
    /* batch_norm_grad: there is no residual, so ReLU's gate can be computed from x instead of y */
    int64_t plain;
} norm_attr;
/* act: dg_act, applied after bias and residual */
typedef struct conv_act_attr {
    conv_attr conv;
    int64_t act;
} conv_act_attr;
/* axis, ranks: as in reduce_attr */
typedef struct sync_attr {
    norm_attr norm;
    int64_t axis, ranks;
} sync_attr;
/* count: n, if the op has no operand for it */
typedef struct stat_attr {
    double momentum;
    int64_t count;
} stat_attr;
typedef struct attention_attr {
    int64_t heads, capacity;
} attention_attr;
/* scale: a x + c; clamp: [a, c]; inverse_sigmoid: a = eps */
typedef struct affine_attr {
    double a, c;
} affine_attr;
typedef struct truth_attr {
    int64_t negate;
} truth_attr;
typedef struct fill_attr {
    double a;
    int64_t rank, d[DG_MAX_DIMS];
} fill_attr;
typedef struct axes_attr {
    int64_t axes, keep;
} axes_attr; /* bit mask */
/* slice: [begin,end); pad: zeros before and after; concat: only axis */
typedef struct axis_attr {
    int64_t axis, begin, end;
} axis_attr;
/* reshape, expand: the new shape; permute: d holds axes */
typedef struct shape_attr {
    int64_t rank, d[DG_MAX_DIMS];
} shape_attr;
/* gradients: h, w of x; upsample: size is the factor */
typedef struct pool_attr {
    int64_t size, stride, pad, h, w;
} pool_attr;
/* gather_grad: n = S; embedding: padding is the padding row or -1, _grad: n = V; topk, detect: n =
 * k; match: n = groups of queries */
typedef struct index_attr {
    int64_t n, padding;
} index_attr;
/* n values of a coordinate, an even number; t_i = temperature^(2i/n) */
typedef struct sine_attr {
    int64_t n;
    double temperature;
} sine_attr;
typedef struct deform_attr {
    int64_t heads, discrete, n_levels, h[DG_MAX_LEVELS], w[DG_MAX_LEVELS], points[DG_MAX_LEVELS];
} deform_attr;
/* log p is log(p + eps), or exact if eps is 0 */
typedef struct match_attr {
    double class_weight, l1_weight, giou_weight, alpha, gamma, eps;
} match_attr;
typedef struct mask_attr {
    double ce_weight, dice_weight;
} mask_attr;
/* key: hash of the node's path and the draw's name */
typedef struct uniform_attr {
    int64_t key, rank, d[DG_MAX_DIMS];
} uniform_attr;
/* from before at step 0 to last at steps - 1 in equal parts; after from step `steps` on */
typedef struct ramp_attr {
    int64_t steps;
    double before, last, after;
} ramp_attr;
/* All collectives. op: dg_reduce; axis: hash of its name; root: the sending or receiving rank;
 * ranks: size of the axis */
typedef struct reduce_attr {
    int64_t op, axis, root, ranks;
} reduce_attr;
/* elements begin..end-1 of the gradient space */
typedef struct bucket_attr {
    int64_t op, axis, bucket, begin, end;
} bucket_attr;
typedef struct cast_attr {
    int64_t to;
} cast_attr; /* dg_dtype */
/* Elements begin..end-1 of the parameter spaces; every parameter is in exactly one range. */
typedef struct adamw_range {
    int64_t begin, end, group;
    double weight_decay;
} adamw_range;
typedef struct adamw_attr {
    double beta1, beta2, eps, clip;
    int64_t n_ranges;
    const adamw_range *ranges;
} adamw_attr;
/* elements begin..end-1 of the spaces; end 0: to the last */
typedef struct ema_attr {
    int64_t begin, end;
} ema_attr;

/* Two operands have the same place: a function serves the kernels of both ops. */
#define DG_SAME_PLACE(a, b) _Static_assert((int)(a) == (int)(b), #a " and " #b)

#endif
