/* grad_detection.c: gradients of boxes, their embeddings and the detection losses. Targets, pairs,
 * and the IoU that varifocal loss uses as target have none. */
#include "tensor/rules.h"

void dg_grad_box_loss(dg_build *b, dg_grad_call *g)
{
    dg_val out[DG_MAX_SIGNATURE];

    dg_emit(b, DG_OP(box_loss_grad), NULL, 6,
            (dg_val[]){ g->dout[0], g->dout[1], g->in[0], g->in[1], g->in[2], g->in[3] }, out);
    g->din[0] = out[0];
}

/* An operand that has no gradient gets none. */
void dg_grad_box_decode(dg_build *b, dg_grad_call *g)
{
    dg_val out[DG_MAX_SIGNATURE];

    dg_emit(b, DG_OP(box_decode_grad), NULL, 3, (dg_val[]){ g->dout[0], g->in[0], g->in[1] }, out);
    for (int i = 0; i < 2; i++)
        if (g->wanted[i])
            g->din[i] = out[i];
}

void dg_grad_sine_embed(dg_build *b, dg_grad_call *g)
{
    g->din[0] = dg_emit1(b, DG_OP(sine_embed_grad), g->attr, g->dout[0], g->out[0], DG_NONE, 2);
}

void dg_grad_class_loss(dg_build *b, dg_grad_call *g)
{
    dg_val out[DG_MAX_SIGNATURE];

    dg_emit(b, DG_OP(class_loss_grad), g->attr, 7,
            (dg_val[]){ g->dout[0], g->in[0], g->in[1], g->in[2], g->in[3], g->in[4], g->in[5] },
            out);
    g->din[0] = out[0];
}
