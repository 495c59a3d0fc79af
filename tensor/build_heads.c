/* build_heads.c: the builder's functions of <detrgraph/heads.h>. */
#include <detrgraph/heads.h>

#include "tensor/build_internal.h"

dg_anchor_boxes dg_anchor_grid(dg_build *b, dg_val size, const dg_anchor_attr *attr)
{
    dg_val out[DG_MAX_SIGNATURE];

    dg_emit(b, DG_OP(anchor_grid), attr, 1, &size, out);
    return (dg_anchor_boxes){ .boxes = out[0], .valid = out[1] };
}

dg_val dg_delta_decode(dg_build *b, dg_val deltas, dg_val boxes, const dg_delta_attr *attr)
{
    return dg_emit1(b, DG_OP(delta_decode), attr, deltas, boxes, DG_NONE, 2);
}

dg_val dg_iou_assign(dg_build *b, dg_val boxes, dg_val valid, dg_val tboxes, dg_val count,
                     const dg_assign_attr *attr)
{
    dg_val out[DG_MAX_SIGNATURE];

    dg_emit(b, DG_OP(iou_assign), attr, 4, (dg_val[]){ boxes, valid, tboxes, count }, out);
    return out[0];
}

dg_atss dg_atss_assign(dg_build *b, dg_val boxes, dg_val valid, dg_val tboxes, dg_val count,
                       const dg_atss_attr *attr)
{
    dg_val out[DG_MAX_SIGNATURE];

    dg_emit(b, DG_OP(atss_assign), attr, 4, (dg_val[]){ boxes, valid, tboxes, count }, out);
    return (dg_atss){ .gt = out[0], .threshold = out[1], .centerness = out[2] };
}

dg_row_list dg_sample_rows(dg_build *b, dg_val gt, dg_val positive_key, dg_val negative_key,
                           const dg_sample_attr *attr)
{
    dg_val out[DG_MAX_SIGNATURE];

    dg_emit(b, DG_OP(sample_rows), attr, 3, (dg_val[]){ gt, positive_key, negative_key }, out);
    return (dg_row_list){ .row = out[0], .count = out[1] };
}

dg_query_rows_of dg_query_rows(dg_build *b, dg_val gt, dg_val positive_key, dg_val other_key,
                               const dg_query_attr *attr)
{
    dg_val out[DG_MAX_SIGNATURE];

    dg_emit(b, DG_OP(query_rows), attr, 3, (dg_val[]){ gt, positive_key, other_key }, out);
    return (dg_query_rows_of){ .row = out[0], .query = out[1], .gt = out[2], .dn = out[3] };
}

dg_val dg_level_topk(dg_build *b, dg_val x, const dg_level_topk_attr *attr)
{
    return dg_emit1(b, DG_OP(level_topk), attr, x, DG_NONE, DG_NONE, 1);
}

dg_val dg_pick_i32(dg_build *b, dg_val x, dg_val index, int64_t missing)
{
    return dg_emit1(b, DG_OP(pick_i32), &(index_attr){ .padding = missing }, x, index, DG_NONE, 2);
}

dg_row_list dg_nms(dg_build *b, dg_val boxes, dg_val score, dg_val group, const dg_nms_attr *attr)
{
    dg_val out[DG_MAX_SIGNATURE];

    dg_emit(b, DG_OP(nms), attr, 3, (dg_val[]){ boxes, score, group }, out);
    return (dg_row_list){ .row = out[0], .count = out[1] };
}

dg_soft_rows dg_soft_nms(dg_build *b, dg_val boxes, dg_val score, dg_val group,
                         const dg_nms_attr *attr)
{
    dg_val out[DG_MAX_SIGNATURE];

    dg_emit(b, DG_OP(soft_nms), attr, 3, (dg_val[]){ boxes, score, group }, out);
    return (dg_soft_rows){ .row = out[0], .score = out[1], .count = out[2] };
}

dg_val dg_roi_align(dg_build *b, dg_val rois, int n, const dg_val maps[], const dg_roi_attr *attr)
{
    dg_val in[1 + DG_MAX_LEVELS] = { rois }, out[DG_MAX_SIGNATURE];

    n = n < DG_MAX_LEVELS ? n : DG_MAX_LEVELS; /* the shape rule wants as many as attr says */
    for (int i = 0; i < n; i++)
        in[1 + i] = maps[i];
    dg_emit(b, DG_OP(roi_align), attr, 1 + n, in, out);
    return out[0];
}

dg_val dg_focal_loss(dg_build *b, dg_val logits, dg_val label, const dg_focal_attr *attr)
{
    return dg_emit1(b, DG_OP(focal_loss), attr, logits, label, DG_NONE, 2);
}

dg_val dg_logistic_loss(dg_build *b, dg_val x, dg_val t, dg_val w)
{
    return dg_emit1(b, DG_OP(logistic_loss), NULL, x, t, w, 3);
}

dg_entropy dg_cross_entropy(dg_build *b, dg_val logits, dg_val label)
{
    dg_val out[DG_MAX_SIGNATURE];

    dg_emit(b, DG_OP(cross_entropy), NULL, 2, (dg_val[]){ logits, label }, out);
    return (dg_entropy){ .loss = out[0], .right = out[1] };
}

dg_val dg_giou_loss(dg_build *b, dg_val boxes, dg_val tboxes, dg_val w, double eps)
{
    return dg_emit1(b, DG_OP(giou_loss), &(affine_attr){ .a = eps }, boxes, tboxes, w, 3);
}
