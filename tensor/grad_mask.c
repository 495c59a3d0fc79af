/* grad_mask.c: gradients of depthwise convolution and of masks at points. Points, pairs and targets
 * have none. */
#include "tensor/rules.h"

void dg_grad_depthwise_conv(dg_build *b, dg_grad_call *g)
{
    const depthwise_attr *a = g->attr;
    int64_t size = dg_dim(b, g->in[1], 2);
    dg_val dy = g->dout[0];

    if (g->wanted[2])
        g->din[2] = dg_sum(b, dy, 7, false);
    if (g->wanted[1])
        g->din[1] = dg_emit1(b, DG_OP(depthwise_conv_dw), &(depthwise_attr){ 0, size }, g->in[0],
                             dy, DG_NONE, 2);
    if (g->wanted[0])
        g->din[0] = dg_emit1(b, DG_OP(depthwise_conv), &(depthwise_attr){ !a->flip, size }, dy,
                             g->in[1], DG_NONE, 3);
}

void dg_grad_mask_sample(dg_build *b, dg_grad_call *g)
{
    dg_val out[DG_MAX_SIGNATURE];

    dg_emit(b, DG_OP(mask_sample_grad), NULL, 5,
            (dg_val[]){ g->dout[0], g->in[0], g->in[1], g->in[2], g->in[3] }, out);
    for (int i = 0; i < 2; i++)
        if (g->wanted[i])
            g->din[i] = out[i];
}

void dg_grad_mask_loss(dg_build *b, dg_grad_call *g)
{
    dg_val out[DG_MAX_SIGNATURE];

    dg_emit(b, DG_OP(mask_loss_grad), g->attr, 7,
            (dg_val[]){ g->dout[0], g->dout[1], g->in[0], g->in[1], g->in[2], g->in[3], g->in[4] },
            out);
    g->din[0] = out[0];
}
