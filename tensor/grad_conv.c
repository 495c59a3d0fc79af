/* grad_conv.c: gradients of convolution and matrix product.
 *     y = x * w + b:     dw = correlate(x, dy), dx = dy * flip(w), db = sum dy
 *     Y = A B + c:       dA = dY B^T, dB = A^T dY, dc = sum of rows of dY
 * Emits the weight's gradient first, so that x can die before dx, which is as large, is
 * allocated. */
#include "tensor/rules.h"

void dg_grad_conv2d(dg_build *b, dg_grad_call *g)
{
    const conv_attr *a = g->attr;
    dg_shape x = dg_shape_of(b, g->in[0]), w = dg_shape_of(b, g->in[1]);
    dg_val dy = g->dout[0];

    if (g->wanted[2])
        g->din[2] = dg_sum(b, dy, 7, false);
    if (g->wanted[1])
        g->din[1] =
            dg_emit1(b, DG_OP(conv2d_dw), &(conv_attr){ a->stride, a->pad, w.d[2], w.d[3], 0 },
                     g->in[0], dy, DG_NONE, 2);
    if (g->wanted[0])
        g->din[0] =
            dg_emit1(b, DG_OP(conv2d_dx), &(conv_attr){ a->stride, a->pad, x.d[1], x.d[2], 0 }, dy,
                     g->in[1], DG_NONE, 2);
}

static dg_val product(dg_build *b, dg_val x, dg_val y, bool trans_x, bool trans_y)
{
    return dg_emit1(b, DG_OP(matmul), &(matmul_attr){ trans_x, trans_y }, x, y, DG_NONE, 3);
}

void dg_grad_matmul(dg_build *b, dg_grad_call *g)
{
    const matmul_attr *t = g->attr;
    dg_val x = g->in[0], w = g->in[1], dy = g->dout[0];

    if (g->wanted[2])
        g->din[2] = dg_sum(b, dy, (1u << (dg_shape_of(b, dy).rank - 1)) - 1, false);
    if (g->wanted[1])
        g->din[1] = t->trans_b ? product(b, dy, x, true, t->trans_a)
                               : product(b, x, dy, !t->trans_a, false);
    if (g->wanted[0])
        g->din[0] = t->trans_a ? product(b, w, dy, t->trans_b, true)
                               : product(b, dy, w, false, !t->trans_b);
}
