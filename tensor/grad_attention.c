/* grad_attention.c: gradients of softmax, attention and deformable attention, each by one op. */
#include "tensor/rules.h"

void dg_grad_softmax(dg_build *b, dg_grad_call *g)
{
    g->din[0] = dg_emit1(b, DG_OP(softmax_grad), NULL, g->dout[0], g->out[0], DG_NONE, 2);
}

void dg_grad_attention(dg_build *b, dg_grad_call *g)
{
    dg_val out[DG_MAX_SIGNATURE];

    dg_emit(b, DG_OP(attention_grad), g->attr, 7,
            (dg_val[]){ g->dout[0], g->in[0], g->in[1], g->in[2], g->out[0], g->out[1], g->in[3] },
            out);
    for (int i = 0; i < 3; i++)
        g->din[i] = out[i];
}

void dg_grad_deform(dg_build *b, dg_grad_call *g)
{
    dg_val out[DG_MAX_SIGNATURE];

    dg_emit(b, DG_OP(deform_attention_grad), g->attr, 5,
            (dg_val[]){ g->dout[0], g->in[0], g->in[1], g->in[2], g->in[3] }, out);
    for (int i = 0; i < 4; i++)
        g->din[i] = out[i];
}
