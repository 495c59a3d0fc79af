/* op.h: the builder. A node's `lower` calls these functions to describe its computation; nothing is
 * computed here.
 *
 * A value (dg_val) is a handle into the program under construction. Callers need not check
 * anything: an invalid call (shapes that do not fit) reports itself once, with the node and its XML
 * line, and returns a poison value that later calls absorb.
 *
 * Shape letters: B batch, N tokens, D width, H W height and width, C channels or classes, Q
 * queries, M capacity of targets, P pairs. Feature maps are channels-last: [B,H,W,C]. */
#ifndef DETRGRAPH_OP_H
#define DETRGRAPH_OP_H

#include <detrgraph/tensor.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct dg_build dg_build;

typedef struct dg_val {
    int64_t id;
} dg_val; /* 0: none; negative: poison */
#define DG_NONE ((dg_val){ 0 })
static inline bool dg_has(dg_val v)
{
    return v.id != 0;
}

/* ---- queries ------------------------------------------------------------------------------ */

DG_PUBLIC bool dg_training(const dg_build *b); /* lowering for training; false: evaluation */
DG_PUBLIC dg_shape dg_shape_of(dg_build *b, dg_val v);
/* negative axes count from the end; 1 for poison */
DG_PUBLIC int64_t dg_dim(dg_build *b, dg_val v, int axis);
/* reports an error and returns poison */
DG_PUBLIC dg_val dg_error(dg_build *b, const char *id, const char *fmt, ...) DG_PRINTF(3, 4);
/* Ranks on a mesh axis; 1 if there is no such axis. */
DG_PUBLIC int64_t dg_axis_size(const dg_build *b, const char *axis);

/* ---- parameters, buffers and constants ------------------------------------------------------- */

/* Initial values of a parameter, determined by the run's seed and the parameter's path. */
typedef struct dg_init {
    int32_t kind, n;
    double a;
    const void *p;
} dg_init;
DG_PUBLIC dg_init dg_init_zero(void);
DG_PUBLIC dg_init dg_init_const(double value);
DG_PUBLIC dg_init dg_init_uniform(double bound); /* U(-bound, bound) */
DG_PUBLIC dg_init dg_init_normal(double std);
/* U(+-1/sqrt(fan_in)): PyTorch's default for conv and linear */
DG_PUBLIC dg_init dg_init_fan_in(int64_t fan_in);
/* U(+-sqrt(6/(in+out))), Glorot 2010 */
DG_PUBLIC dg_init dg_init_xavier(int64_t fan_in, int64_t fan_out);
DG_PUBLIC dg_init dg_init_data(dg_build *b, const double *values, int64_t n); /* copied */
/* the initial values of a sibling; path is relative, as in dg_param */
DG_PUBLIC dg_init dg_init_like(dg_build *b, const char *path);
/* the values of rest (normal or uniform), but zeros in row `row` of axis 0 */
DG_PUBLIC dg_init dg_init_zero_row(dg_init rest, int64_t row);

/* A trainable parameter of the node, in the checkpoint's layout: conv [O,I,kh,kw], linear [N,K].
 * path is relative to the node ("conv1.weight"); equal paths are the same parameter. */
DG_PUBLIC dg_val dg_param(dg_build *b, const char *path, dg_shape shape, dg_init init);
/* A parameter that is not trained; optimizer and coverage check skip it. */
DG_PUBLIC dg_val dg_param_frozen(dg_build *b, const char *path, dg_shape shape, dg_init init);
/* State without gradient, saved with the weights (running statistics). */
DG_PUBLIC dg_val dg_buffer(dg_build *b, const char *path, dg_shape shape, dg_init init);
/* An entry that exists only in checkpoints, because the reference stores it: a constant, or the
 * number of training batches so far (PyTorch's num_batches_tracked, i64 scalar). */
DG_PUBLIC void dg_export_const(dg_build *b, const char *path, dg_dtype stored, dg_shape shape,
                               const double *values);
DG_PUBLIC void dg_export_counter(dg_build *b, const char *path);

DG_PUBLIC dg_val dg_const(dg_build *b, dg_shape shape, const double *values); /* real; copied */
DG_PUBLIC dg_val dg_const_i32(dg_build *b, dg_shape shape, const int32_t *values);
DG_PUBLIC dg_val dg_number(dg_build *b, double value); /* real scalar */
DG_PUBLIC dg_val dg_zeros(dg_build *b, dg_shape shape);

/* ---- records --------------------------------------------------------------------------------- */

/* A record is a named tuple of values with a closed set of keys; it exists only while a program is
 * being built. */
DG_PUBLIC dg_val dg_record(dg_build *b);
/* v may be a record */
DG_PUBLIC void dg_record_set(dg_build *b, dg_val record, const char *key, dg_val v);
/* reports an error if missing */
DG_PUBLIC dg_val dg_record_get(dg_build *b, dg_val record, const char *key);
DG_PUBLIC bool dg_record_has(dg_build *b, dg_val record, const char *key);
DG_PUBLIC int dg_record_n(dg_build *b, dg_val record);
/* in insertion order */
DG_PUBLIC const char *dg_record_key(dg_build *b, dg_val record, int i);

/* The kind of value of a handle. */
typedef enum dg_kind {
    DG_KIND_NONE,
    DG_KIND_TENSOR,
    DG_KIND_RECORD,
    DG_KIND_GRADIENTS,
    DG_KIND_PARAMETERS
} dg_kind;
DG_PUBLIC dg_kind dg_kind_of(dg_build *b, dg_val v); /* NONE for poison */

/* Names a value for printed programs and for tools ("memory", "dec.0.state"). */
DG_PUBLIC dg_val dg_name(dg_build *b, dg_val v, const char *fmt, ...) DG_PRINTF(3, 4);

/* Begins part `part` (1, 2, ...; 0: none) of the node. With recompute="true" on the node, or with
 * `again`, the backward pass computes activations again, one part at a time. */
DG_PUBLIC void dg_part(dg_build *b, int part, bool again);

/* ---- elementwise, with NumPy broadcasting ---------------------------------------------------- */

DG_PUBLIC dg_val dg_add(dg_build *b, dg_val x, dg_val y);
DG_PUBLIC dg_val dg_sub(dg_build *b, dg_val x, dg_val y);
DG_PUBLIC dg_val dg_mul(dg_build *b, dg_val x, dg_val y);
DG_PUBLIC dg_val dg_div(dg_build *b, dg_val x, dg_val y);
DG_PUBLIC dg_val dg_max2(dg_build *b, dg_val x, dg_val y); /* the gradient goes to x where x >= y */
DG_PUBLIC dg_val dg_min2(dg_build *b, dg_val x, dg_val y);
DG_PUBLIC dg_val dg_scale(dg_build *b, dg_val x, double a, double c); /* a x + c */
DG_PUBLIC dg_val dg_exp(dg_build *b, dg_val x);
DG_PUBLIC dg_val dg_log(dg_build *b, dg_val x);
DG_PUBLIC dg_val dg_sqrt(dg_build *b, dg_val x);
DG_PUBLIC dg_val dg_abs(dg_build *b, dg_val x);
DG_PUBLIC dg_val dg_relu(dg_build *b, dg_val x);
DG_PUBLIC dg_val dg_silu(dg_build *b, dg_val x);
DG_PUBLIC dg_val dg_gelu(dg_build *b, dg_val x); /* exact, with erf */
DG_PUBLIC dg_val dg_sigmoid(dg_build *b, dg_val x);
DG_PUBLIC dg_val dg_clamp(dg_build *b, dg_val x, double lo, double hi);
/* log(max(x,eps) / max(1-x,eps)) with x clipped to [0,1] first */
DG_PUBLIC dg_val dg_inverse_sigmoid(dg_build *b, dg_val x, double eps);
DG_PUBLIC dg_val dg_real(dg_build *b, dg_val x);   /* i32 -> real; reals pass unchanged */
DG_PUBLIC dg_val dg_detach(dg_build *b, dg_val x); /* same value, no gradient */
/* x where mask (i32, broadcast like x, nonzero is true), else y. */
DG_PUBLIC dg_val dg_select(dg_build *b, dg_val mask, dg_val x, dg_val y);

/* Comparisons: i32 1 or 0; no gradient. */
DG_PUBLIC dg_val dg_at_least(dg_build *b, dg_val x, dg_val y); /* x >= y, with broadcasting */
/* 1 where x (real or i32) is nonzero; negate: where it is zero */
DG_PUBLIC dg_val dg_truth(dg_build *b, dg_val x, bool negate);
DG_PUBLIC dg_val dg_all_finite(dg_build *b, dg_val x); /* []: 1 if every element is finite */
/* []: 1 if v was computed; 0 if its node did not fire, and v is zeros. DG_NONE: always computed. */
DG_PUBLIC dg_val dg_present(dg_build *b, dg_val v);

/* Begins a guarded part: its instructions and their gradients run only if flag (one number, i32 or
 * real) is nonzero and the enclosing guards hold. Skipped instructions give zeros, and change
 * neither states nor other ranks. */
DG_PUBLIC void dg_guard_begin(dg_build *b, dg_val flag);
/* Ends the guarded part. out: the values used after it; those merely passed through it (also in
 * records) become zeros as well when it is skipped. */
DG_PUBLIC void dg_guard_end(dg_build *b, int n, dg_val out[]);
/* Makes the values unconditional: zeros if they were skipped; what reads them runs all the same. */
DG_PUBLIC void dg_guard_connect(dg_build *b, int n, dg_val v[]);

/* ---- shape ----------------------------------------------------------------------------------- */

DG_PUBLIC dg_val dg_reshape(dg_build *b, dg_val x, dg_shape shape); /* one dimension may be -1 */
DG_PUBLIC dg_val dg_permute(dg_build *b, dg_val x, int n, const int axes[]);
DG_PUBLIC dg_val dg_concat(dg_build *b, int axis, int n, const dg_val x[]);
DG_PUBLIC dg_val dg_slice(dg_build *b, dg_val x, int axis, int64_t begin, int64_t end);
/* pads with zeros */
DG_PUBLIC dg_val dg_pad(dg_build *b, dg_val x, int axis, int64_t before, int64_t after);
DG_PUBLIC dg_val dg_expand(dg_build *b, dg_val x, dg_shape shape); /* broadcasts to shape */
/* bit i of axes: reduce axis i; real or i32 */
DG_PUBLIC dg_val dg_sum(dg_build *b, dg_val x, uint32_t axes, bool keep);
DG_PUBLIC dg_val dg_mean(dg_build *b, dg_val x, uint32_t axes, bool keep);
/* no gradient; real or i32 */
DG_PUBLIC dg_val dg_reduce_max(dg_build *b, dg_val x, uint32_t axes, bool keep);
#define DG_ALL_AXES UINT32_MAX

/* ---- layers ---------------------------------------------------------------------------------- */

/* x [B,H,W,I], w [O,I,kh,kw], bias [O] or DG_NONE -> [B,(H+2p-kh)/s+1,(W+2p-kw)/s+1,O] */
DG_PUBLIC dg_val dg_conv2d(dg_build *b, dg_val x, dg_val w, dg_val bias, int stride, int pad);
/* The same with smaller rounding errors in f32, for some more time: for convolutions in a row whose
 * results are normalised, where the errors of each are those of the next. */
DG_PUBLIC dg_val dg_conv2d_exact(dg_build *b, dg_val x, dg_val w, dg_val bias, int stride, int pad);
/* Depthwise convolution, padded to keep the size: x [B,H,W,C], w [C,1,k,k] with odd k, bias [C] or
 * DG_NONE -> [B,H,W,C] */
DG_PUBLIC dg_val dg_depthwise_conv(dg_build *b, dg_val x, dg_val w, dg_val bias);
/* a [..,M,K] b [..,K,N] -> [..,M,N]; a 2-D b is shared. */
DG_PUBLIC dg_val dg_matmul(dg_build *b, dg_val a, dg_val w);
/* x [..,K], w [N,K] (PyTorch's layout), bias [N] or DG_NONE -> [..,N] */
DG_PUBLIC dg_val dg_linear(dg_build *b, dg_val x, dg_val w, dg_val bias);
/* Statistics over all axes but the last, biased variance; scale, shift [C]. mean, var (biased)
 * receive the batch's statistics. Ioffe & Szegedy 2015. */
DG_PUBLIC dg_val dg_batch_norm(dg_build *b, dg_val x, dg_val scale, dg_val shift, double eps,
                               dg_val *mean, dg_val *var);
/* The same with given statistics, for frozen norms and evaluation. */
DG_PUBLIC dg_val dg_batch_norm_fixed(dg_build *b, dg_val x, dg_val scale, dg_val shift, dg_val mean,
                                     dg_val var, double eps);
/* running <- (1-momentum) running + momentum * batch (variance unbiased, from count elements);
 * applied at the end of the batch, and only if the loss is finite. */
DG_PUBLIC void dg_stat_update(dg_build *b, dg_val running_mean, dg_val running_var, dg_val mean,
                              dg_val var, int64_t count, double momentum);
/* dg_batch_norm over the batches of all ranks of an axis. Exchanges statistics here and two sums in
 * backward; the gradients of scale and shift are this rank's share. live (i32 [], or DG_NONE): only
 * the first `live` rows of x (axis 0) count, the others give zeros; a rank without live rows still
 * takes part. *count receives the number of elements per channel, []. */
DG_PUBLIC dg_val dg_batch_norm_sync(dg_build *b, dg_val x, dg_val scale, dg_val shift, dg_val live,
                                    double eps, const char *axis, dg_val *mean, dg_val *var,
                                    dg_val *count);
/* dg_stat_update with that count; does nothing if it is 0. */
DG_PUBLIC void dg_stat_update_counted(dg_build *b, dg_val running_mean, dg_val running_var,
                                      dg_val mean, dg_val var, dg_val count, double momentum);
/* over the last axis */
DG_PUBLIC dg_val dg_layer_norm(dg_build *b, dg_val x, dg_val scale, dg_val shift, double eps);
DG_PUBLIC dg_val dg_softmax(dg_build *b, dg_val x); /* over the last axis */
/* Multi-head attention on projected inputs q [B,N,D], k v [B,S,D] -> [B,N,D]; scale is
 * 1/sqrt(D/heads). dn (i32[4], see dg_denoise; or DG_NONE): N = S = capacity + Q, and
 *   - rows and columns live..capacity-1 are void: outputs 0, masked for all;
 *   - a denoising row sees the live columns of its own group (group = row div dn.group) and all
 *     matching columns;
 *   - a matching row (index >= capacity) sees only matching columns. */
DG_PUBLIC dg_val dg_attention(dg_build *b, dg_val q, dg_val k, dg_val v, int heads, dg_val dn,
                              int64_t capacity);
DG_PUBLIC dg_val dg_max_pool(dg_build *b, dg_val x, int size, int stride, int pad);
/* ceil mode, no padding; edge windows average the elements they contain */
DG_PUBLIC dg_val dg_avg_pool(dg_build *b, dg_val x, int size, int stride);
DG_PUBLIC dg_val dg_upsample(dg_build *b, dg_val x, int factor); /* nearest */

/* x [B,S,D], index i32 [B,Q] -> [B,Q,D] */
DG_PUBLIC dg_val dg_gather(dg_build *b, dg_val x, dg_val index);
/* table [V,D], index i32 [..] -> [..,D]; row `padding` (or -1: none) gets no gradient */
DG_PUBLIC dg_val dg_embedding(dg_build *b, dg_val table, dg_val index, int64_t padding);
/* x [B,S] -> i32 [B,k], indices of the k largest, descending; ties by the lower index. For x
 * [B,S,C]: the k largest values of an image, each by its index in S, which may repeat. No
 * gradient. */
DG_PUBLIC dg_val dg_topk(dg_build *b, dg_val x, int64_t k);

/* Multi-scale deformable attention, Zhu et al. 2021, eq. 3: value [B,S,heads*d], S = sum h*w; ref
 * [B,N,4] cxcywh in (0,1); offset [B,N,heads*P*2] (layout head, point, xy; points of level 0
 * first); weight [B,N,heads,P], softmaxed over P; P = sum of points -> [B,N,heads*d]. location =
 * ref.xy + offset / points(level) * ref.wh * 0.5; bilinear with zeros outside, or, if discrete, the
 * nearest pixel with both coordinates clamped to h-1 (square maps only). */
enum { DG_MAX_LEVELS = 8 };
typedef struct dg_levels {
    int n;
    int64_t h[DG_MAX_LEVELS], w[DG_MAX_LEVELS], points[DG_MAX_LEVELS];
} dg_levels;
DG_PUBLIC dg_val dg_deform_attention(dg_build *b, dg_val value, dg_val ref, dg_val offset,
                                     dg_val weight, int heads, const dg_levels *levels,
                                     bool discrete);

/* Says that a constant is a function of the sizes of maps alone, and which, so that an export in
 * which the size of images is free can compute it; returns the constant.
 *   SINES    [1,hw,D] of one map: for token i at x = i div h, y = i mod h the sines and cosines of
 *            x 10000^(-4k/D), k < D/4, then of y
 *   ANCHORS  [1,S,4] of all levels, as logits, and INSIDE [1,S,1], 1 where they are finite, else 0:
 *            nodes/decoder/anchors.h */
typedef enum dg_of_maps { DG_MAPS_SINES, DG_MAPS_ANCHORS, DG_MAPS_INSIDE } dg_of_maps;
DG_PUBLIC dg_val dg_const_of_maps(dg_build *b, dg_val constant, dg_of_maps rule,
                                  const dg_levels *levels);

/* ---- detection ------------------------------------------------------------------------------- */

/* deltas, boxes [..,4] -> [..,4]: (dx w + cx, dy h + cy, exp(dw) w, exp(dh) h), with gradients to
 * both. */
DG_PUBLIC dg_val dg_box_decode(dg_build *b, dg_val deltas, dg_val boxes);
/* boxes [..,4] cxcywh -> [..,4*values]: for each coordinate v in the order cy, cx, w, h an even
 * number of values, sin(2 pi v / t_0), cos(2 pi v / t_0), sin(2 pi v / t_1), ... with t_i =
 * 10000^(2i/values). */
DG_PUBLIC dg_val dg_sine_embed(dg_build *b, dg_val boxes, int64_t values);
/* The same with t_i = temperature^(2i/values), of boxes [..,4] or of points [..,2] (cx, cy), whose
 * order is cy, cx. */
DG_PUBLIC dg_val dg_sine_embed_of(dg_build *b, dg_val points, int64_t values, double temperature);

/* Targets are padded: labels i32 [B,M], boxes [B,M,4] cxcywh normalised, count i32 [B]; slots past
 * the count are void. Pairs are lists query i32 [B,P] (-1: void) and gt i32 [B,P] or DG_NONE (pair
 * j is target j, P = M). */

/* U[0,1) per (sample, index), keyed by node and `name`, the run's seed, the step and the global
 * number of the sample. shape[0] is B. */
DG_PUBLIC dg_val dg_uniform(dg_build *b, const char *name, dg_shape shape);

/* A number that changes with the run's steps, also with those that a <skip> leaves without update:
 * before in the first, from there in equal parts to last in step `steps` (1 or more; 0: none of
 * them), and after in all that follow. Every rank has the same, and so has a run that resumes. */
DG_PUBLIC dg_val dg_ramp(dg_build *b, int64_t steps, double before, double last, double after);

typedef struct dg_denoise_attr {
    int64_t count;    /* positive queries wanted, e.g. 100 */
    int64_t capacity; /* N: max(2*count, 2*M) */
    int64_t classes;
    double label_noise; /* share of labels considered, halved as in the paper, e.g. 0.5 */
    double box_noise;   /* e.g. 1.0 */
    int64_t on_empty;   /* 1: two dummy queries if no image of the global batch has an object */
} dg_denoise_attr;
typedef struct dg_denoising {
    dg_val labels; /* i32 [B,N], classes = padding */
    dg_val boxes;  /* [B,N,4] cxcywh after noise; corners may cross */
    dg_val dn;     /* i32 [4]: M, groups, live = 2*M*groups, group = 2*M */
    dg_val query;  /* i32 [B,N/2]: pairs of positives */
    dg_val gt;     /* i32 [B,N/2] */
} dg_denoising;
/* Contrastive denoising queries (DINO, Zhang et al. 2022). most i32 []: the largest count in the
 * global batch. u_label, u_class [B,N]; u_sign, u_size [B,N,4]: uniform draws. */
DG_PUBLIC dg_denoising dg_denoise(dg_build *b, dg_val labels, dg_val boxes, dg_val count,
                                  dg_val most, dg_val u_label, dg_val u_class, dg_val u_sign,
                                  dg_val u_size, const dg_denoise_attr *attr);

typedef struct dg_match_attr {
    double class_weight, l1_weight, giou_weight; /* e.g. 2, 5, 2 */
    double alpha, gamma;                         /* e.g. 0.25, 2 */
} dg_match_attr;
/* cost [B,M,Q] of every target against every query; rows past the count are 0. No gradient. */
DG_PUBLIC dg_val dg_match_cost(dg_build *b, dg_val logits, dg_val boxes, dg_val labels,
                               dg_val target_boxes, dg_val count, const dg_match_attr *attr);
/* The same without the small number that dg_match_cost adds to probabilities before it takes their
 * logarithms. */
DG_PUBLIC dg_val dg_match_cost_exact(dg_build *b, dg_val logits, dg_val boxes, dg_val labels,
                                     dg_val target_boxes, dg_val count, const dg_match_attr *attr);
/* Minimum-cost assignment (Jonker & Volgenant 1987) -> query i32 [B,M]; -1: void or unassigned. */
DG_PUBLIC dg_val dg_match(dg_build *b, dg_val cost, dg_val count);
/* One assignment for each of `groups` equal parts of the queries (cost [B,M,groups*Q]) -> query i32
 * [B,groups*M]: entry g*M+j is the query, counted from 0 over all groups, that target j has in
 * group g. */
DG_PUBLIC dg_val dg_match_groups(dg_build *b, dg_val cost, dg_val count, int64_t groups);

typedef struct dg_box_losses {
    dg_val l1;   /* [] sum over pairs of |d cxcywh| */
    dg_val giou; /* [] sum over pairs of 1 - GIoU (Rezatofighi et al. 2019) */
    dg_val iou;  /* [B,P] per pair, 0 if void; no gradient */
} dg_box_losses;
DG_PUBLIC dg_box_losses dg_box_loss(dg_build *b, dg_val boxes, dg_val target_boxes, dg_val query,
                                    dg_val gt);

/* VARIFOCAL (Zhang et al. 2021): the target is the pair's IoU; FOCAL (Lin et al. 2017): it is 1;
 * ALIGNED (Cai et al. 2023): it is max(0.01, p^alpha IoU^(1-alpha)), and other logits weigh
 * p^gamma; QUALITY (Li et al. 2020): the target is the IoU, and every logit weighs
 * |target - p|^gamma */
enum { DG_CLASS_VARIFOCAL, DG_CLASS_FOCAL, DG_CLASS_ALIGNED, DG_CLASS_QUALITY };
typedef struct dg_class_loss_attr {
    int64_t focal; /* one of the above */
    double alpha, gamma;
} dg_class_loss_attr;
/* [] sum over queries and classes. dn (or DG_NONE): rows past its live count are void. iou is
 * DG_NONE for focal. */
DG_PUBLIC dg_val dg_class_loss(dg_build *b, dg_val logits, dg_val labels, dg_val query, dg_val gt,
                               dg_val iou, dg_val dn, const dg_class_loss_attr *attr);

/* Masks of targets: i32 [B,L,H,W], L = ceil(M / 32); bit m mod 32 of plane m div 32 is a pixel of
 * target m. */
typedef struct dg_mask_losses {
    dg_val ce;   /* [] sum over pairs of the mean of binary cross-entropies over the points */
    dg_val dice; /* [] sum over pairs of 1 - (2 sum(s t) + 1) / (sum(s) + sum(t) + 1) */
} dg_mask_losses;
/* The masks of queries at points: map [B,H,W,D], q [B,Q,D], points [B,P,N,2] = (x, y) as fractions
 * of the sides, query i32 [B,P] -> [B,P,N]: products of the map, bilinear between pixels, with
 * vector query[b,p]; 0 where that is -1. Gradients go to map and q. */
DG_PUBLIC dg_val dg_mask_sample(dg_build *b, dg_val map, dg_val q, dg_val points, dg_val query);
/* cost [B,M,Q] plus weighted cross-entropy and dice of every target's mask, at the pixels nearest
 * to points [B,N,2], against every query's logits there, [B,Q,N]. No gradient. */
DG_PUBLIC dg_val dg_mask_cost(dg_build *b, dg_val cost, dg_val logits, dg_val masks, dg_val count,
                              dg_val points, double ce_weight, double dice_weight);
/* logits [B,P,N] of pairs at points [B,P,N,2] */
DG_PUBLIC dg_mask_losses dg_mask_loss(dg_build *b, dg_val logits, dg_val masks, dg_val query,
                                      dg_val gt, dg_val points);

/* i32 [B,K], [B,K], [B,K,4] cxcywh */
typedef struct dg_detections {
    dg_val labels, scores, boxes;
} dg_detections;
/* The K best (query, class) pairs by sigmoid(logit), descending. */
DG_PUBLIC dg_detections dg_detect(dg_build *b, dg_val logits, dg_val boxes, int64_t k);

/* ---- ranks ----------------------------------------------------------------------------------- */

typedef enum dg_reduce { DG_SUM, DG_MAX, DG_MIN, DG_MEAN } dg_reduce;
/* Collectives: every rank of the axis takes part, in program order. x is real or i32 (without
 * mean). With one rank on the axis they return x. The gradients of sums, means, broadcasts and
 * gathers are collectives too, scaled so that, once <allreduce> has averaged the parameters'
 * gradients, these are the gradients of the mean of all ranks' losses. No gradient flows through a
 * maximum or minimum, dg_reduce_to or dg_all_gatherv. */
/* Reduces over the axis; every rank gets the result. */
DG_PUBLIC dg_val dg_all_reduce(dg_build *b, dg_val x, dg_reduce op, const char *axis);
/* Rank `root`'s value, on every rank. */
DG_PUBLIC dg_val dg_broadcast(dg_build *b, dg_val x, int root, const char *axis);
/* Reduces to rank `root`; every other rank keeps its x. */
DG_PUBLIC dg_val dg_reduce_to(dg_build *b, dg_val x, dg_reduce op, int root, const char *axis);
/* Concatenates the x [N,..] of all ranks in rank order: [ranks*N,..]; a scalar gives [ranks]. */
DG_PUBLIC dg_val dg_all_gather(dg_build *b, dg_val x, const char *axis);
/* The same with only the first `count` (i32 []) rows of each rank, packed: [ranks*N,..], of which
 * the first sum(counts) are live and the rest zeros; *counts receives i32 [ranks]. */
DG_PUBLIC dg_val dg_all_gatherv(dg_build *b, dg_val x, dg_val count, const char *axis,
                                dg_val *counts);

/* ---- optimisation: values of the whole model ------------------------------------------------ */

/* The gradient of a scalar loss with respect to every trainable parameter, summed into the gradient
 * space over the batches of an update. What is emitted afterwards belongs to the update, which runs
 * every `accumulate` batches (0: as the training scope says). */
DG_PUBLIC dg_val dg_backward(dg_build *b, dg_val loss, int accumulate);
/* The same with the mean over the batches of an update; the training scope gives their number. */
DG_PUBLIC dg_val dg_backward_mean(dg_build *b, dg_val loss);
/* Mean of the whole gradient over the ranks of an axis, in buckets whose order the plan fixes. */
DG_PUBLIC dg_val dg_all_reduce_gradients(dg_build *b, dg_val gradients, const char *axis);
/* L2 norm over all parameters: []. */
DG_PUBLIC dg_val dg_gradient_norm(dg_build *b, dg_val gradients);

typedef struct dg_group {
    /* POSIX extended regular expression on the parameter's name; NULL: all others */
    const char *match;
    const char *unless; /* excludes names that match this; may be NULL */
    double weight_decay;
} dg_group;
typedef struct dg_adamw_attr {
    double beta1, beta2, eps, weight_decay;
    double clip; /* global norm; 0: none */
    int n_groups;
    const dg_group *groups;
} dg_adamw_attr;
/* AdamW (Loshchilov & Hutter 2019), in place, only if loss and norm are finite. Returns the new
 * parameters. */
DG_PUBLIC dg_val dg_adamw(dg_build *b, dg_val gradients, dg_val norm, const dg_adamw_attr *attr);
/* e <- d e + (1-d) w for parameters and running statistics; d is control.ema_decay. */
DG_PUBLIC dg_val dg_ema(dg_build *b, dg_val parameters);

#ifdef __cplusplus
}
#endif
#endif
