/* grad_pool.c: gradients of pooling, upsampling, gathering. */
#include "tensor/rules.h"

static pool_attr of_input(dg_build *b, const dg_grad_call *g)
{
    pool_attr a = *(const pool_attr *)g->attr;

    a.h = dg_dim(b, g->in[0], 1);
    a.w = dg_dim(b, g->in[0], 2);
    return a;
}

void dg_grad_max_pool(dg_build *b, dg_grad_call *g)
{
    pool_attr a = of_input(b, g);

    g->din[0] = dg_emit1(b, DG_OP(max_pool_grad), &a, g->dout[0], g->out[1], DG_NONE, 2);
}

void dg_grad_avg_pool(dg_build *b, dg_grad_call *g)
{
    pool_attr a = of_input(b, g);

    g->din[0] = dg_emit1(b, DG_OP(avg_pool_grad), &a, g->dout[0], DG_NONE, DG_NONE, 1);
}

void dg_grad_upsample(dg_build *b, dg_grad_call *g)
{
    pool_attr a = of_input(b, g);

    g->din[0] = dg_emit1(b, DG_OP(upsample_grad), &a, g->dout[0], DG_NONE, DG_NONE, 1);
}

void dg_grad_gather(dg_build *b, dg_grad_call *g)
{
    index_attr a = { .n = dg_dim(b, g->in[0], 1), .padding = -1 };

    g->din[0] = dg_emit1(b, DG_OP(gather_grad), &a, g->dout[0], g->in[1], DG_NONE, 2);
}

void dg_grad_embedding(dg_build *b, dg_grad_call *g)
{
    g->din[0] = dg_emit1(b, DG_OP(embedding_grad), g->attr, g->dout[0], g->in[1], DG_NONE, 2);
}
