/* grad_heads.c: gradients of the ops of <detrgraph/heads.h>. Boxes that were proposed, targets,
 * labels and weights have none. */
#include <detrgraph/heads.h>

#include "tensor/rules.h"

void dg_grad_delta_decode(dg_build *b, dg_grad_call *g)
{
    g->din[0] = dg_emit1(b, DG_OP(delta_decode_grad), g->attr, g->dout[0], g->in[0], g->in[1], 3);
}

/* One instruction for each map, which looks for the regions of its level. */
void dg_grad_roi_align(dg_build *b, dg_grad_call *g)
{
    dg_roi_attr a = *(const dg_roi_attr *)g->attr;

    for (int i = 1; i < g->n_in; i++) {
        if (!g->wanted[i])
            continue;
        a.level = i - 1;
        a.h = dg_dim(b, g->in[i], 1);
        a.w = dg_dim(b, g->in[i], 2);
        g->din[i] = dg_emit1(b, DG_OP(roi_align_grad), &a, g->dout[0], g->in[0], DG_NONE, 2);
    }
}

void dg_grad_focal_loss(dg_build *b, dg_grad_call *g)
{
    g->din[0] = dg_emit1(b, DG_OP(focal_loss_grad), g->attr, g->dout[0], g->in[0], g->in[1], 3);
}

void dg_grad_cross_entropy(dg_build *b, dg_grad_call *g)
{
    g->din[0] = dg_emit1(b, DG_OP(cross_entropy_grad), NULL, g->dout[0], g->in[0], g->in[1], 3);
}

void dg_grad_logistic_loss(dg_build *b, dg_grad_call *g)
{
    dg_val out[DG_MAX_SIGNATURE];

    dg_emit(b, DG_OP(logistic_loss_grad), NULL, 4,
            (dg_val[]){ g->dout[0], g->in[0], g->in[1], g->in[2] }, out);
    g->din[0] = out[0];
}

void dg_grad_giou_loss(dg_build *b, dg_grad_call *g)
{
    dg_val out[DG_MAX_SIGNATURE];

    dg_emit(b, DG_OP(giou_loss_grad), g->attr, 4,
            (dg_val[]){ g->dout[0], g->in[0], g->in[1], g->in[2] }, out);
    g->din[0] = out[0];
}
