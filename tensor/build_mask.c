/* build_mask.c: op.h's depthwise convolution and masks at points. */
#include "tensor/build_internal.h"

dg_val dg_depthwise_conv(dg_build *b, dg_val x, dg_val w, dg_val bias)
{
    return dg_emit1(b, DG_OP(depthwise_conv), &(depthwise_attr){ 0, dg_dim(b, w, 2) }, x, w, bias,
                    3);
}

dg_val dg_mask_sample(dg_build *b, dg_val map, dg_val q, dg_val points, dg_val query)
{
    dg_val out[DG_MAX_SIGNATURE];

    dg_emit(b, DG_OP(mask_sample), NULL, 4, (dg_val[]){ map, q, points, query }, out);
    return out[0];
}

dg_val dg_mask_cost(dg_build *b, dg_val cost, dg_val logits, dg_val masks, dg_val count,
                    dg_val points, double ce_weight, double dice_weight)
{
    const mask_attr a = { ce_weight, dice_weight };
    dg_val out[DG_MAX_SIGNATURE];

    dg_emit(b, DG_OP(mask_cost), &a, 5, (dg_val[]){ cost, logits, masks, count, points }, out);
    return out[0];
}

dg_mask_losses dg_mask_loss(dg_build *b, dg_val logits, dg_val masks, dg_val query, dg_val gt,
                            dg_val points)
{
    dg_val out[DG_MAX_SIGNATURE];

    dg_emit(b, DG_OP(mask_loss), NULL, 5, (dg_val[]){ logits, masks, query, gt, points }, out);
    return (dg_mask_losses){ .ce = out[0], .dice = out[1] };
}
