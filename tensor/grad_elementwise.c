/* grad_elementwise.c: gradients of elementwise ops. A broadcast operand gets the sum over the axes
 * along which it was repeated. */
#include "tensor/rules.h"

static dg_val with(dg_build *b, const dg_op *op, const void *attr, dg_val dy, dg_val other)
{
    return dg_emit1(b, op, attr, dy, other, DG_NONE, 2);
}

dg_val dg_unbroadcast(dg_build *b, dg_val g, dg_shape shape)
{
    dg_shape s = dg_shape_of(b, g);
    uint32_t axes = 0;

    if (dg_shape_equal(s, shape))
        return g;
    for (int i = 0; i < s.rank; i++) {
        int k = i - (s.rank - shape.rank);

        if (s.d[i] != 1 && (k < 0 || shape.d[k] == 1))
            axes |= 1u << i;
    }
    return dg_reshape(b, dg_sum(b, g, axes, true), shape);
}

static dg_val to_input(dg_build *b, dg_grad_call *g, int i, dg_val v)
{
    return dg_unbroadcast(b, v, dg_shape_of(b, g->in[i]));
}

void dg_grad_add(dg_build *b, dg_grad_call *g)
{
    for (int i = 0; i < 2; i++)
        if (g->wanted[i])
            g->din[i] = to_input(b, g, i, g->dout[0]);
}

void dg_grad_sub(dg_build *b, dg_grad_call *g)
{
    if (g->wanted[0])
        g->din[0] = to_input(b, g, 0, g->dout[0]);
    if (g->wanted[1])
        g->din[1] = dg_scale(b, to_input(b, g, 1, g->dout[0]), -1, 0);
}

void dg_grad_mul(dg_build *b, dg_grad_call *g)
{
    for (int i = 0; i < 2; i++)
        if (g->wanted[i])
            g->din[i] = to_input(b, g, i, dg_mul(b, g->dout[0], g->in[1 - i]));
}

/* z = x / y: dx = dz / y, dy = -dz z / y */
void dg_grad_div(dg_build *b, dg_grad_call *g)
{
    dg_val q = dg_div(b, g->dout[0], g->in[1]);

    if (g->wanted[1])
        g->din[1] = dg_scale(b, to_input(b, g, 1, dg_mul(b, q, g->out[0])), -1, 0);
    if (g->wanted[0])
        g->din[0] = to_input(b, g, 0, q);
}

/* Gives the whole gradient to x where mask holds, else to y. */
static void gradient_by_mask(dg_build *b, dg_grad_call *g, dg_val mask, int x, int y)
{
    dg_val zero = dg_number(b, 0);

    if (g->wanted[x])
        g->din[x] = to_input(b, g, x, dg_select(b, mask, g->dout[0], zero));
    if (g->wanted[y])
        g->din[y] = to_input(b, g, y, dg_select(b, mask, zero, g->dout[0]));
}

void dg_grad_max2(dg_build *b, dg_grad_call *g)
{
    gradient_by_mask(b, g, with(b, DG_OP(greater_equal), NULL, g->in[0], g->in[1]), 0, 1);
}

void dg_grad_min2(dg_build *b, dg_grad_call *g)
{
    gradient_by_mask(b, g, with(b, DG_OP(greater_equal), NULL, g->in[1], g->in[0]), 0, 1);
}

void dg_grad_where(dg_build *b, dg_grad_call *g)
{
    gradient_by_mask(b, g, g->in[0], 1, 2);
}

void dg_grad_scale(dg_build *b, dg_grad_call *g)
{
    g->din[0] = dg_scale(b, g->dout[0], ((const affine_attr *)g->attr)->a, 0);
}

void dg_grad_exp(dg_build *b, dg_grad_call *g)
{
    g->din[0] = dg_mul(b, g->dout[0], g->out[0]);
}

void dg_grad_log(dg_build *b, dg_grad_call *g)
{
    g->din[0] = dg_div(b, g->dout[0], g->in[0]);
}

void dg_grad_sqrt(dg_build *b, dg_grad_call *g)
{
    g->din[0] = dg_scale(b, dg_div(b, g->dout[0], g->out[0]), 0.5, 0);
}

void dg_grad_abs(dg_build *b, dg_grad_call *g)
{
    g->din[0] =
        dg_mul(b, g->dout[0], dg_emit1(b, DG_OP(sign), NULL, g->in[0], DG_NONE, DG_NONE, 1));
}

void dg_grad_relu(dg_build *b, dg_grad_call *g)
{
    g->din[0] = with(b, DG_OP(relu_grad), NULL, g->dout[0], g->out[0]);
}

void dg_grad_silu(dg_build *b, dg_grad_call *g)
{
    g->din[0] = with(b, DG_OP(silu_grad), NULL, g->dout[0], g->in[0]);
}

void dg_grad_gelu(dg_build *b, dg_grad_call *g)
{
    g->din[0] = with(b, DG_OP(gelu_grad), NULL, g->dout[0], g->in[0]);
}

void dg_grad_sigmoid(dg_build *b, dg_grad_call *g)
{
    g->din[0] = with(b, DG_OP(sigmoid_grad), NULL, g->dout[0], g->out[0]);
}

void dg_grad_clamp(dg_build *b, dg_grad_call *g)
{
    g->din[0] = with(b, DG_OP(clamp_grad), g->attr, g->dout[0], g->in[0]);
}

void dg_grad_inverse_sigmoid(dg_build *b, dg_grad_call *g)
{
    g->din[0] = with(b, DG_OP(inverse_sigmoid_grad), g->attr, g->dout[0], g->in[0]);
}

/* The identity: storage types are chosen after differentiation. */
void dg_grad_cast(dg_build *b, dg_grad_call *g)
{
    (void)b;
    g->din[0] = g->dout[0];
}
