/* build_detection.c: op.h's boxes, targets, random draws, matching and losses. */
#include "tensor/build_internal.h"

static const char *draw_name(dg_build *b, const char *name)
{
    return dg_printf(b->arena, "%s/%s", b->origin.where.node ? b->origin.where.node : "", name);
}

static bool is_new_draw(dg_build *b, const char *full)
{
    for (int i = 0; i < b->p->draws.n; i++)
        if (dg_fnv1a_text(b->p->draws.items[i].name) == dg_fnv1a_text(full)) {
            dg_error(b, "draw-twice", "two draws of one node are named %s and would be equal",
                     full);
            return false;
        }
    return true;
}

dg_val dg_uniform(dg_build *b, const char *name, dg_shape shape)
{
    const char *full = draw_name(b, name);
    uniform_attr a = { .key = (int64_t)dg_fnv1a_text(full), .rank = shape.rank };
    dg_val u;

    if (!is_new_draw(b, full))
        return DG_POISON;
    for (int i = 0; i < shape.rank && i < DG_MAX_DIMS; i++)
        a.d[i] = shape.d[i];
    u = dg_emit1(b, DG_OP(uniform), &a, DG_NONE, DG_NONE, DG_NONE, 0);
    if (u.id > 0)
        DG_PUSH(b->arena, b->p->draws, ((dg_binding){ .name = full, .value = (int32_t)u.id }));
    return u;
}

dg_val dg_ramp(dg_build *b, int64_t steps, double before, double last, double after)
{
    const ramp_attr a = { steps, before, last, after };

    return dg_emit1(b, DG_OP(ramp), &a, DG_NONE, DG_NONE, DG_NONE, 0);
}

/* The noisy boxes are also recorded as a draw, so that tests can replace them by another program's,
 * with its rounding. */
dg_denoising dg_denoise(dg_build *b, dg_val labels, dg_val boxes, dg_val count, dg_val most,
                        dg_val u_label, dg_val u_class, dg_val u_sign, dg_val u_size,
                        const dg_denoise_attr *attr)
{
    const char *full = draw_name(b, "boxes");
    dg_val out[DG_MAX_SIGNATURE];

    dg_emit(b, DG_OP(denoise), attr, 8,
            (dg_val[]){ labels, boxes, count, most, u_label, u_class, u_sign, u_size }, out);
    if (out[1].id > 0 && is_new_draw(b, full))
        DG_PUSH(b->arena, b->p->draws, ((dg_binding){ .name = full, .value = (int32_t)out[1].id }));
    return (dg_denoising){
        .labels = out[0], .boxes = out[1], .dn = out[2], .query = out[3], .gt = out[4]
    };
}

static dg_val match_cost(dg_build *b, const dg_val in[5], const dg_match_attr *attr, double eps)
{
    const match_attr a = { attr->class_weight, attr->l1_weight, attr->giou_weight,
                           attr->alpha,        attr->gamma,     eps };
    dg_val out[DG_MAX_SIGNATURE];

    dg_emit(b, DG_OP(match_cost), &a, 5, in, out);
    return out[0];
}

dg_val dg_match_cost(dg_build *b, dg_val logits, dg_val boxes, dg_val labels, dg_val target_boxes,
                     dg_val count, const dg_match_attr *attr)
{
    return match_cost(b, (dg_val[]){ logits, boxes, labels, target_boxes, count }, attr, 1e-8);
}

dg_val dg_match_cost_exact(dg_build *b, dg_val logits, dg_val boxes, dg_val labels,
                           dg_val target_boxes, dg_val count, const dg_match_attr *attr)
{
    return match_cost(b, (dg_val[]){ logits, boxes, labels, target_boxes, count }, attr, 0);
}

dg_val dg_match(dg_build *b, dg_val cost, dg_val count)
{
    return dg_match_groups(b, cost, count, 1);
}

dg_val dg_match_groups(dg_build *b, dg_val cost, dg_val count, int64_t groups)
{
    return dg_emit1(b, DG_OP(match), &(index_attr){ groups, -1 }, cost, count, DG_NONE, 2);
}

dg_val dg_box_decode(dg_build *b, dg_val deltas, dg_val boxes)
{
    return dg_emit1(b, DG_OP(box_decode), NULL, deltas, boxes, DG_NONE, 2);
}

dg_val dg_sine_embed(dg_build *b, dg_val boxes, int64_t values)
{
    return dg_sine_embed_of(b, boxes, values, 10000);
}

dg_val dg_sine_embed_of(dg_build *b, dg_val points, int64_t values, double temperature)
{
    const sine_attr a = { values, temperature };

    return dg_emit1(b, DG_OP(sine_embed), &a, points, DG_NONE, DG_NONE, 1);
}

dg_box_losses dg_box_loss(dg_build *b, dg_val boxes, dg_val target_boxes, dg_val query, dg_val gt)
{
    dg_val out[DG_MAX_SIGNATURE];

    dg_emit(b, DG_OP(box_loss), NULL, 4, (dg_val[]){ boxes, target_boxes, query, gt }, out);
    if (out[2].id > 0)
        dg_stop_gradient(b, out[2]);
    return (dg_box_losses){ .l1 = out[0], .giou = out[1], .iou = out[2] };
}

dg_val dg_class_loss(dg_build *b, dg_val logits, dg_val labels, dg_val query, dg_val gt, dg_val iou,
                     dg_val dn, const dg_class_loss_attr *attr)
{
    dg_val out[DG_MAX_SIGNATURE];

    dg_emit(b, DG_OP(class_loss), attr, 6, (dg_val[]){ logits, labels, query, gt, iou, dn }, out);
    return out[0];
}

dg_detections dg_detect(dg_build *b, dg_val logits, dg_val boxes, int64_t k)
{
    dg_val out[DG_MAX_SIGNATURE];

    dg_emit(b, DG_OP(detect), &(index_attr){ k, -1 }, 2, (dg_val[]){ logits, boxes }, out);
    return (dg_detections){ .labels = out[0], .scores = out[1], .boxes = out[2] };
}
