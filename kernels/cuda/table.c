/* table.c: the ops that have CUDA kernels. */
#include <string.h>

#include "kernels/cuda/cuda.h"

// clang-format off
#define KERNELS(K)                                                                          \
    /* products */                                                                          \
    K(conv2d) K(conv2d_dx) K(conv2d_dw) K(matmul)                                           \
    /* elementwise */                                                                       \
    K(add) K(sub) K(mul) K(div) K(max2) K(min2) K(greater_equal) K(truth) K(truth_i32)      \
    K(where) K(scale) K(exp) K(log) K(sqrt) K(abs) K(sign) K(relu) K(relu_grad) K(silu)     \
    K(silu_grad) K(gelu) K(gelu_grad) K(sigmoid) K(sigmoid_grad) K(clamp) K(clamp_grad)     \
    K(inverse_sigmoid) K(inverse_sigmoid_grad) K(cast) K(real)                              \
    /* norms */                                                                             \
    K(batch_norm) K(batch_norm_fixed) K(batch_norm_grad) K(batch_stats) K(join_stats)       \
    K(batch_norm_sync) K(batch_norm_sums) K(batch_norm_dx) K(stat_update) K(layer_norm)     \
    K(layer_norm_grad)                                                                      \
    /* convolution */                                                                       \
    K(depthwise_conv) K(depthwise_conv_dw)                                                  \
    /* attention */                                                                         \
    K(softmax) K(softmax_grad) K(attention) K(attention_grad) K(deform_attention)           \
    K(deform_attention_grad)                                                                \
    /* shape */                                                                             \
    K(reshape) K(reshape_i32) K(permute) K(concat) K(slice) K(pad) K(expand) K(fill) K(sum) \
    K(sum_i32) K(reduce_max) K(reduce_max_i32)                                              \
    /* pooling, selection */                                                                \
    K(max_pool) K(max_pool_grad) K(avg_pool) K(avg_pool_grad) K(upsample) K(upsample_grad)  \
    K(gather) K(gather_grad) K(embedding) K(embedding_grad) K(topk)                         \
    /* detection */                                                                         \
    K(uniform) K(denoise) K(box_decode) K(box_decode_grad) K(sine_embed) K(sine_embed_grad) \
    K(match_cost) K(match) K(box_loss) K(box_loss_grad) K(class_loss) K(class_loss_grad)    \
    K(mask_sample) K(mask_sample_grad) K(mask_cost) K(mask_loss) K(mask_loss_grad)         \
    K(detect)                                                                               \
    /* anchors and regions */                                                               \
    K(anchor_grid) K(delta_decode) K(delta_decode_grad) K(iou_assign) K(atss_assign)        \
    K(sample_rows) K(query_rows) K(level_topk) K(pick_i32) K(nms) K(soft_nms) K(roi_align)  \
    K(roi_align_grad) K(focal_loss) K(focal_loss_grad) K(logistic_loss)                     \
    K(logistic_loss_grad) K(cross_entropy) K(cross_entropy_grad) K(giou_loss)               \
    K(giou_loss_grad)                                                                       \
    /* ranks and optimisation */                                                            \
    K(pack_rows) K(pack_rows_i32) K(accumulate) K(grad_norm) K(finite) K(adamw) K(ema)
// clang-format on

#define DECLARE(name) \
    extern const dg_cuda_kernel dg_cuda_##name##_bf16, dg_cuda_##name##_f32, dg_cuda_##name##_f64;
#define ROW(name) \
    { #name, { &dg_cuda_##name##_bf16, &dg_cuda_##name##_f32, &dg_cuda_##name##_f64 } },

// clang-format off
KERNELS(DECLARE)

static const struct {
    const char *op;
    const dg_cuda_kernel *kernels[3]; /* bf16, f32, f64 */
} table[] = {
    KERNELS(ROW)
};
// clang-format on

static bool any_of(const dg_tensor *t, int n, dg_dtype type)
{
    for (int i = 0; i < n; i++)
        if (t[i].dtype == type && t[i].shape.rank >= 0)
            return true;
    return false;
}

/* The kernels divide numbers of elements in 32 bits. */
static bool is_large(const dg_tensor *t, int n)
{
    for (int i = 0; i < n; i++)
        if (t[i].shape.rank >= 0 && dg_shape_elements(t[i].shape) > INT32_MAX)
            return true;
    return false;
}

const dg_cuda_kernel *dg_cuda_find(const char *op, const dg_tensor *t, int n)
{
    int precision = any_of(t, n, DG_F64) ? 2 : any_of(t, n, DG_BF16) ? 0 : 1;

    for (size_t i = 0; i < sizeof table / sizeof table[0] && !is_large(t, n); i++)
        if (strcmp(table[i].op, op) == 0)
            return table[i].kernels[precision];
    return NULL;
}
