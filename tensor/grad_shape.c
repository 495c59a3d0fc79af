/* grad_shape.c: gradients of ops that move, repeat or sum elements: the inverse operation. */
#include <string.h>

#include "tensor/rules.h"

void dg_grad_reshape(dg_build *b, dg_grad_call *g)
{
    g->din[0] = dg_reshape(b, g->dout[0], dg_shape_of(b, g->in[0]));
}

void dg_grad_permute(dg_build *b, dg_grad_call *g)
{
    const shape_attr *a = g->attr;
    int inverse[DG_MAX_DIMS] = { 0 };

    for (int i = 0; i < a->rank; i++)
        inverse[a->d[i]] = i;
    g->din[0] = dg_permute(b, g->dout[0], (int)a->rank, inverse);
}

void dg_grad_concat(dg_build *b, dg_grad_call *g)
{
    int axis = (int)((const axis_attr *)g->attr)->axis;
    int64_t at = 0;

    for (int i = 0; i < g->n_in; i++) {
        int64_t n = dg_dim(b, g->in[i], axis);

        if (g->wanted[i])
            g->din[i] = dg_slice(b, g->dout[0], axis, at, at + n);
        at += n;
    }
}

void dg_grad_slice(dg_build *b, dg_grad_call *g)
{
    const axis_attr *a = g->attr;
    int64_t n = dg_dim(b, g->in[0], (int)a->axis);

    g->din[0] = dg_pad(b, g->dout[0], (int)a->axis, a->begin, n - a->end);
}

void dg_grad_pad(dg_build *b, dg_grad_call *g)
{
    const axis_attr *a = g->attr;
    int64_t n = dg_dim(b, g->in[0], (int)a->axis);

    g->din[0] = dg_slice(b, g->dout[0], (int)a->axis, a->begin, a->begin + n);
}

void dg_grad_expand(dg_build *b, dg_grad_call *g)
{
    g->din[0] = dg_unbroadcast(b, g->dout[0], dg_shape_of(b, g->in[0]));
}

/* dy with the reduced axes inserted as 1 and then repeated */
void dg_grad_sum(dg_build *b, dg_grad_call *g)
{
    const axes_attr *a = g->attr;
    dg_shape x = dg_shape_of(b, g->in[0]), kept = x;

    for (int i = 0; i < x.rank; i++)
        kept.d[i] = a->axes >> i & 1 ? 1 : x.d[i];
    g->din[0] = dg_expand(b, dg_reshape(b, g->dout[0], kept), x);
}
