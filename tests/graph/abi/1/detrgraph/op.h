/* op.h: the builder. A node's `lower` calls these to say what it computes; nothing is computed here.
 *
 * A value (dg_val) is a handle into the program under construction. Nothing has to be checked: a call that
 * makes no sense (shapes that do not fit) reports itself once, with the node and its XML line, and returns a
 * poison value that later calls absorb.
 *
 * Shape letters: B batch, N tokens, D width, H W height and width, C channels or classes, Q queries,
 * M capacity of targets, P pairs. Feature maps are channels-last: [B,H,W,C]. */
#ifndef DETRGRAPH_OP_H
#define DETRGRAPH_OP_H

#include <detrgraph/tensor.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct dg_build dg_build;

typedef struct dg_val { int64_t id; } dg_val; /* 0: none; negative: poison */
#define DG_NONE ((dg_val){ 0 })
static inline bool dg_has(dg_val v) { return v.id != 0; }

/* ---- what the builder knows -------------------------------------------------------------------------- */

DG_PUBLIC bool     dg_training(const dg_build *b); /* lowering for training, not evaluation */
DG_PUBLIC dg_shape dg_shape_of(dg_build *b, dg_val v);
DG_PUBLIC int64_t  dg_dim(dg_build *b, dg_val v, int axis); /* negative axes count from the end; 1 for poison */
DG_PUBLIC dg_val   dg_error(dg_build *b, const char *id, const char *fmt, ...) DG_PRINTF(3, 4); /* poison */
/* Ranks on a mesh axis: 1 when there is no such axis. */
DG_PUBLIC int64_t  dg_axis_size(const dg_build *b, const char *axis);

/* ---- parameters, buffers and constants --------------------------------------------------------------- */

/* How a parameter begins. Deterministic: values follow from the run's seed and the parameter's path. */
typedef struct dg_init {
    int32_t     kind, n;
    double      a;
    const void *p;
} dg_init;
DG_PUBLIC dg_init dg_init_zero(void);
DG_PUBLIC dg_init dg_init_const(double value);
DG_PUBLIC dg_init dg_init_uniform(double bound);   /* U(-bound, bound) */
DG_PUBLIC dg_init dg_init_normal(double std);
DG_PUBLIC dg_init dg_init_fan_in(int64_t fan_in);  /* U(+-1/sqrt(fan_in)): PyTorch's default for conv and linear */
DG_PUBLIC dg_init dg_init_xavier(int64_t fan_in, int64_t fan_out); /* U(+-sqrt(6/(in+out))), Glorot 2010 */
DG_PUBLIC dg_init dg_init_data(dg_build *b, const double *values, int64_t n); /* copied */
DG_PUBLIC dg_init dg_init_like(dg_build *b, const char *path); /* the same initial values as a sibling: path relative like dg_param's */
DG_PUBLIC dg_init dg_init_zero_row(dg_init rest, int64_t row); /* as rest, but row `row` of axis 0 is zero; rest is normal or uniform */

/* A trainable parameter of the node, in the checkpoint's layout: conv [O,I,kh,kw], linear [N,K]. path is
 * relative to the node ("conv1.weight"); the same path is the same parameter. */
DG_PUBLIC dg_val dg_param(dg_build *b, const char *path, dg_shape shape, dg_init init);
/* A parameter that is not trained: freezing is said here and seen by the optimizer and the coverage check. */
DG_PUBLIC dg_val dg_param_frozen(dg_build *b, const char *path, dg_shape shape, dg_init init);
/* State without gradient that travels with the weights (running statistics). */
DG_PUBLIC dg_val dg_buffer(dg_build *b, const char *path, dg_shape shape, dg_init init);
/* An entry that only checkpoints see, because the reference stores it: a constant, or the number of training
 * batches so far (PyTorch's num_batches_tracked, i64 scalar). */
DG_PUBLIC void   dg_export_const(dg_build *b, const char *path, dg_dtype stored, dg_shape shape, const double *values);
DG_PUBLIC void   dg_export_counter(dg_build *b, const char *path);

DG_PUBLIC dg_val dg_const(dg_build *b, dg_shape shape, const double *values);      /* real; copied */
DG_PUBLIC dg_val dg_const_i32(dg_build *b, dg_shape shape, const int32_t *values);
DG_PUBLIC dg_val dg_number(dg_build *b, double value);                             /* real scalar */
DG_PUBLIC dg_val dg_zeros(dg_build *b, dg_shape shape);

/* ---- records ------------------------------------------------------------------------------------------ */

/* A record is a named tuple of values with a closed set of keys; it exists only while a program is built. */
DG_PUBLIC dg_val      dg_record(dg_build *b);
DG_PUBLIC void        dg_record_set(dg_build *b, dg_val record, const char *key, dg_val v); /* v may be a record */
DG_PUBLIC dg_val      dg_record_get(dg_build *b, dg_val record, const char *key); /* error if missing */
DG_PUBLIC bool        dg_record_has(dg_build *b, dg_val record, const char *key);
DG_PUBLIC int         dg_record_n(dg_build *b, dg_val record);
DG_PUBLIC const char *dg_record_key(dg_build *b, dg_val record, int i);           /* in the order of setting */

/* What a handle stands for. */
typedef enum dg_kind { DG_KIND_NONE, DG_KIND_TENSOR, DG_KIND_RECORD, DG_KIND_GRADIENTS, DG_KIND_PARAMETERS } dg_kind;
DG_PUBLIC dg_kind dg_kind_of(dg_build *b, dg_val v); /* NONE for poison too */

/* A name for a value in printed programs and for tools that look inside ("memory", "dec.0.state"). */
DG_PUBLIC dg_val dg_name(dg_build *b, dg_val v, const char *fmt, ...) DG_PRINTF(3, 4);

/* ---- elementwise, with NumPy broadcasting -------------------------------------------------------------- */

DG_PUBLIC dg_val dg_add(dg_build *b, dg_val x, dg_val y);
DG_PUBLIC dg_val dg_sub(dg_build *b, dg_val x, dg_val y);
DG_PUBLIC dg_val dg_mul(dg_build *b, dg_val x, dg_val y);
DG_PUBLIC dg_val dg_div(dg_build *b, dg_val x, dg_val y);
DG_PUBLIC dg_val dg_max2(dg_build *b, dg_val x, dg_val y); /* gradient to x where x >= y */
DG_PUBLIC dg_val dg_min2(dg_build *b, dg_val x, dg_val y);
DG_PUBLIC dg_val dg_scale(dg_build *b, dg_val x, double a, double c); /* a x + c */
DG_PUBLIC dg_val dg_exp(dg_build *b, dg_val x);
DG_PUBLIC dg_val dg_log(dg_build *b, dg_val x);
DG_PUBLIC dg_val dg_sqrt(dg_build *b, dg_val x);
DG_PUBLIC dg_val dg_abs(dg_build *b, dg_val x);
DG_PUBLIC dg_val dg_relu(dg_build *b, dg_val x);
DG_PUBLIC dg_val dg_silu(dg_build *b, dg_val x);
DG_PUBLIC dg_val dg_gelu(dg_build *b, dg_val x);  /* exact, with erf */
DG_PUBLIC dg_val dg_sigmoid(dg_build *b, dg_val x);
DG_PUBLIC dg_val dg_clamp(dg_build *b, dg_val x, double lo, double hi);
/* log(max(x,eps) / max(1-x,eps)) with x clipped to [0,1] first */
DG_PUBLIC dg_val dg_inverse_sigmoid(dg_build *b, dg_val x, double eps);
DG_PUBLIC dg_val dg_real(dg_build *b, dg_val x);  /* i32 -> real */
DG_PUBLIC dg_val dg_detach(dg_build *b, dg_val x); /* same value, no gradient */
/* x where mask (i32, broadcast like x, nonzero is true), else y. */
DG_PUBLIC dg_val dg_select(dg_build *b, dg_val mask, dg_val x, dg_val y);

/* ---- shape --------------------------------------------------------------------------------------------- */

DG_PUBLIC dg_val dg_reshape(dg_build *b, dg_val x, dg_shape shape); /* one dimension may be -1 */
DG_PUBLIC dg_val dg_permute(dg_build *b, dg_val x, int n, const int axes[]);
DG_PUBLIC dg_val dg_concat(dg_build *b, int axis, int n, const dg_val x[]);
DG_PUBLIC dg_val dg_slice(dg_build *b, dg_val x, int axis, int64_t begin, int64_t end);
DG_PUBLIC dg_val dg_pad(dg_build *b, dg_val x, int axis, int64_t before, int64_t after); /* with zeros */
DG_PUBLIC dg_val dg_expand(dg_build *b, dg_val x, dg_shape shape);  /* broadcast to shape */
DG_PUBLIC dg_val dg_sum(dg_build *b, dg_val x, uint32_t axes, bool keep);  /* bit i: reduce axis i; real or i32 */
DG_PUBLIC dg_val dg_mean(dg_build *b, dg_val x, uint32_t axes, bool keep);
DG_PUBLIC dg_val dg_reduce_max(dg_build *b, dg_val x, uint32_t axes, bool keep); /* no gradient; real or i32 */
#define DG_ALL_AXES UINT32_MAX

/* ---- layers -------------------------------------------------------------------------------------------- */

/* x [B,H,W,I], w [O,I,kh,kw], bias [O] or DG_NONE -> [B,(H+2p-kh)/s+1,(W+2p-kw)/s+1,O] */
DG_PUBLIC dg_val dg_conv2d(dg_build *b, dg_val x, dg_val w, dg_val bias, int stride, int pad);
/* a [..,M,K] b [..,K,N] -> [..,M,N]; b may be 2-D and is then shared. */
DG_PUBLIC dg_val dg_matmul(dg_build *b, dg_val a, dg_val w);
/* x [..,K], w [N,K] (PyTorch's layout), bias [N] or DG_NONE -> [..,N] */
DG_PUBLIC dg_val dg_linear(dg_build *b, dg_val x, dg_val w, dg_val bias);
/* Batch statistics over all axes but the last, biased variance; scale, shift [C]. mean, var (biased) receive
 * the batch's statistics. Ioffe & Szegedy 2015. */
DG_PUBLIC dg_val dg_batch_norm(dg_build *b, dg_val x, dg_val scale, dg_val shift, double eps, dg_val *mean, dg_val *var);
/* The same with given statistics: frozen norm and evaluation. */
DG_PUBLIC dg_val dg_batch_norm_fixed(dg_build *b, dg_val x, dg_val scale, dg_val shift, dg_val mean, dg_val var, double eps);
/* running <- (1-momentum) running + momentum * batch (variance unbiased with count elements); applied at the end
 * of the batch, and only if the loss is finite. */
DG_PUBLIC void   dg_stat_update(dg_build *b, dg_val running_mean, dg_val running_var, dg_val mean, dg_val var, int64_t count, double momentum);
DG_PUBLIC dg_val dg_layer_norm(dg_build *b, dg_val x, dg_val scale, dg_val shift, double eps); /* over the last axis */
DG_PUBLIC dg_val dg_softmax(dg_build *b, dg_val x);                                            /* over the last axis */
/* Multi-head attention on projected inputs q [B,N,D], k v [B,S,D] -> [B,N,D]; scale is 1/sqrt(D/heads).
 * dn (i32[4], see dg_denoise; or DG_NONE): N = S = capacity + Q, and
 *   - rows and columns live..capacity-1 are void: outputs 0, seen by nobody;
 *   - a denoising row sees the live columns of its own group (group = row div dn.group) and all matching columns;
 *   - a matching row (index >= capacity) sees matching columns only. */
DG_PUBLIC dg_val dg_attention(dg_build *b, dg_val q, dg_val k, dg_val v, int heads, dg_val dn, int64_t capacity);
DG_PUBLIC dg_val dg_max_pool(dg_build *b, dg_val x, int size, int stride, int pad);
DG_PUBLIC dg_val dg_avg_pool(dg_build *b, dg_val x, int size, int stride); /* ceil mode, no padding; edge windows average what they hold */
DG_PUBLIC dg_val dg_upsample(dg_build *b, dg_val x, int factor);           /* nearest */

/* x [B,S,D], index i32 [B,Q] -> [B,Q,D] */
DG_PUBLIC dg_val dg_gather(dg_build *b, dg_val x, dg_val index);
/* table [V,D], index i32 [..] -> [..,D]; row `padding` (or -1) receives no gradient */
DG_PUBLIC dg_val dg_embedding(dg_build *b, dg_val table, dg_val index, int64_t padding);
/* x [B,S] -> i32 [B,k], indices of the k largest, descending; ties by the lower index. No gradient. */
DG_PUBLIC dg_val dg_topk(dg_build *b, dg_val x, int64_t k);

/* Multi-scale deformable attention, Zhu et al. 2021, eq. 3.
 * value [B,S,heads*d], S = sum h*w; ref [B,N,4] cxcywh in (0,1); offset [B,N,heads*P*2] (layout head, point, xy;
 * points of level 0 first); weight [B,N,heads,P], softmaxed over P; P = sum of points.
 * location = ref.xy + offset / points(level) * ref.wh * 0.5; bilinear with zeros outside, or, if discrete,
 * the nearest pixel with both coordinates clamped to h-1 (square maps only). -> [B,N,heads*d] */
enum { DG_MAX_LEVELS = 8 };
typedef struct dg_levels {
    int     n;
    int64_t h[DG_MAX_LEVELS], w[DG_MAX_LEVELS], points[DG_MAX_LEVELS];
} dg_levels;
DG_PUBLIC dg_val dg_deform_attention(dg_build *b, dg_val value, dg_val ref, dg_val offset, dg_val weight,
                                     int heads, const dg_levels *levels, bool discrete);

/* ---- detection ----------------------------------------------------------------------------------------- */

/* Targets are padded: labels i32 [B,M], boxes [B,M,4] cxcywh normalised, count i32 [B]; slots past the count
 * are void. Pairs are lists query i32 [B,P] (-1: void) and gt i32 [B,P] or DG_NONE (then pair j is target j, P = M). */

/* U[0,1) per (sample, index): named by the node and `name`, keyed by the run's seed, the step and the global
 * number of the sample. shape[0] is B. */
DG_PUBLIC dg_val dg_uniform(dg_build *b, const char *name, dg_shape shape);

typedef struct dg_denoise_attr {
    int64_t count;       /* denoising queries asked for: 100 */
    int64_t capacity;    /* N: max(2*count, 2*M) */
    int64_t classes;
    double  label_noise; /* share of labels considered, halved as in the paper: 0.5 */
    double  box_noise;   /* 1.0 */
    int64_t on_empty;    /* 1: two dummy queries when no image of the global batch has an object */
} dg_denoise_attr;
typedef struct dg_denoising {
    dg_val labels; /* i32 [B,N], classes = padding */
    dg_val boxes;  /* [B,N,4] cxcywh after noise; corners may cross */
    dg_val dn;     /* i32 [4]: M, groups, live = 2*M*groups, group = 2*M */
    dg_val query;  /* i32 [B,N/2]: pairs of positives */
    dg_val gt;     /* i32 [B,N/2] */
} dg_denoising;
/* Contrastive denoising queries (DINO, Zhang et al. 2022). most i32 []: the largest count over the global batch.
 * u_label, u_class [B,N]; u_sign, u_size [B,N,4]: uniform draws. */
DG_PUBLIC dg_denoising dg_denoise(dg_build *b, dg_val labels, dg_val boxes, dg_val count, dg_val most,
                                  dg_val u_label, dg_val u_class, dg_val u_sign, dg_val u_size,
                                  const dg_denoise_attr *attr);

typedef struct dg_match_attr {
    double class_weight, l1_weight, giou_weight; /* 2, 5, 2 */
    double alpha, gamma;                         /* 0.25, 2 */
} dg_match_attr;
/* cost [B,M,Q] of every target against every query; rows past the count are 0. No gradient. */
DG_PUBLIC dg_val dg_match_cost(dg_build *b, dg_val logits, dg_val boxes, dg_val labels, dg_val target_boxes,
                               dg_val count, const dg_match_attr *attr);
/* Minimum-cost assignment (Jonker & Volgenant 1987) -> query i32 [B,M]; -1 where void or left over. */
DG_PUBLIC dg_val dg_match(dg_build *b, dg_val cost, dg_val count);

typedef struct dg_box_losses {
    dg_val l1;   /* [] sum over pairs of |d cxcywh| */
    dg_val giou; /* [] sum over pairs of 1 - GIoU (Rezatofighi et al. 2019) */
    dg_val iou;  /* [B,P] of each pair, 0 where void; no gradient flows through it */
} dg_box_losses;
DG_PUBLIC dg_box_losses dg_box_loss(dg_build *b, dg_val boxes, dg_val target_boxes, dg_val query, dg_val gt);

typedef struct dg_class_loss_attr {
    int64_t focal; /* 0: varifocal (Zhang et al. 2021), the target is the pair's IoU; 1: focal (Lin et al. 2017) */
    double  alpha, gamma;
} dg_class_loss_attr;
/* [] sum over queries and classes. dn (or DG_NONE): rows past its live count are void. iou is DG_NONE for focal. */
DG_PUBLIC dg_val dg_class_loss(dg_build *b, dg_val logits, dg_val labels, dg_val query, dg_val gt, dg_val iou,
                               dg_val dn, const dg_class_loss_attr *attr);

typedef struct dg_detections { dg_val labels, scores, boxes; } dg_detections; /* i32 [B,K], [B,K], [B,K,4] cxcywh */
/* The K best (query, class) pairs by sigmoid(logit), descending. */
DG_PUBLIC dg_detections dg_detect(dg_build *b, dg_val logits, dg_val boxes, int64_t k);

/* ---- ranks --------------------------------------------------------------------------------------------- */

typedef enum dg_reduce { DG_SUM, DG_MAX, DG_MIN, DG_MEAN } dg_reduce;
/* The same value on every rank of the axis; the identity where the axis has one rank. No gradient. */
DG_PUBLIC dg_val dg_all_reduce(dg_build *b, dg_val x, dg_reduce op, const char *axis);

/* ---- optimisation: values that belong to the whole model ------------------------------------------------ */

/* The gradient of a scalar loss with respect to every trainable parameter, summed into the gradient space over
 * the batches of one update. Everything emitted after it belongs to the update, once every `accumulate` batches
 * (0: as many as the training scope says). */
DG_PUBLIC dg_val dg_backward(dg_build *b, dg_val loss, int accumulate);
/* Mean over the ranks of an axis, of the whole gradient; in buckets whose order the plan fixes. */
DG_PUBLIC dg_val dg_all_reduce_gradients(dg_build *b, dg_val gradients, const char *axis);
/* L2 norm over all parameters: []. */
DG_PUBLIC dg_val dg_gradient_norm(dg_build *b, dg_val gradients);

typedef struct dg_group {
    const char *match;        /* POSIX extended regular expression on the parameter's name; NULL: the rest */
    const char *unless;       /* and not this one; may be NULL */
    double      lr_scale;     /* of the optimizer's learning rate */
    double      weight_decay;
} dg_group;
typedef struct dg_adamw_attr {
    double   beta1, beta2, eps, weight_decay;
    double   clip;           /* global norm; 0: none */
    int      n_groups;
    const dg_group *groups;
} dg_adamw_attr;
/* AdamW (Loshchilov & Hutter 2019), in place, only if loss and norm are finite. Returns the new parameter set. */
DG_PUBLIC dg_val dg_adamw(dg_build *b, dg_val gradients, dg_val norm, const dg_adamw_attr *attr);
/* e <- d e + (1-d) w over parameters and running statistics; d is control.ema_decay. */
DG_PUBLIC dg_val dg_ema(dg_build *b, dg_val parameters);

#ifdef __cplusplus
}
#endif
#endif
