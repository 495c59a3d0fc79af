/* build_elementwise.c: op.h's elementwise functions. */
#include "tensor/build_internal.h"

static dg_val unary(dg_build *b, const dg_op *op, const void *attr, dg_val x)
{
    return dg_emit1(b, op, attr, x, DG_NONE, DG_NONE, 1);
}

static dg_val binary(dg_build *b, const dg_op *op, dg_val x, dg_val y)
{
    return dg_emit1(b, op, NULL, x, y, DG_NONE, 2);
}

dg_val dg_add(dg_build *b, dg_val x, dg_val y)
{
    return binary(b, DG_OP(add), x, y);
}
dg_val dg_sub(dg_build *b, dg_val x, dg_val y)
{
    return binary(b, DG_OP(sub), x, y);
}
dg_val dg_mul(dg_build *b, dg_val x, dg_val y)
{
    return binary(b, DG_OP(mul), x, y);
}
dg_val dg_div(dg_build *b, dg_val x, dg_val y)
{
    return binary(b, DG_OP(div), x, y);
}
dg_val dg_max2(dg_build *b, dg_val x, dg_val y)
{
    return binary(b, DG_OP(max2), x, y);
}
dg_val dg_min2(dg_build *b, dg_val x, dg_val y)
{
    return binary(b, DG_OP(min2), x, y);
}
dg_val dg_exp(dg_build *b, dg_val x)
{
    return unary(b, DG_OP(exp), NULL, x);
}
dg_val dg_log(dg_build *b, dg_val x)
{
    return unary(b, DG_OP(log), NULL, x);
}
dg_val dg_sqrt(dg_build *b, dg_val x)
{
    return unary(b, DG_OP(sqrt), NULL, x);
}
dg_val dg_abs(dg_build *b, dg_val x)
{
    return unary(b, DG_OP(abs), NULL, x);
}
dg_val dg_relu(dg_build *b, dg_val x)
{
    return unary(b, DG_OP(relu), NULL, x);
}
dg_val dg_silu(dg_build *b, dg_val x)
{
    return unary(b, DG_OP(silu), NULL, x);
}
dg_val dg_gelu(dg_build *b, dg_val x)
{
    return unary(b, DG_OP(gelu), NULL, x);
}
dg_val dg_sigmoid(dg_build *b, dg_val x)
{
    return unary(b, DG_OP(sigmoid), NULL, x);
}
dg_val dg_real(dg_build *b, dg_val x)
{
    const dg_value *v = dg_value_of(b, x);

    return v && v->dtype != DG_I32 ? x : unary(b, DG_OP(real), NULL, x);
}

dg_val dg_scale(dg_build *b, dg_val x, double a, double c)
{
    return a == 1 && c == 0 ? x : unary(b, DG_OP(scale), &(affine_attr){ a, c }, x);
}

dg_val dg_clamp(dg_build *b, dg_val x, double lo, double hi)
{
    return unary(b, DG_OP(clamp), &(affine_attr){ lo, hi }, x);
}

dg_val dg_inverse_sigmoid(dg_build *b, dg_val x, double eps)
{
    return unary(b, DG_OP(inverse_sigmoid), &(affine_attr){ .a = eps }, x);
}

/* A reshape to the same shape: an alias in plans, and no gradient flows through a value that needs
 * none. */
dg_val dg_detach(dg_build *b, dg_val x)
{
    const dg_value *from = dg_value_of(b, x);
    shape_attr a = { 0 };
    dg_val y;

    if (!from)
        return dg_has(x) ? DG_POISON : dg_error(b, "operand-missing", "detach: there is no value");
    if (!from->needs_gradient && !from->severed)
        return x;
    a.rank = from->shape.rank;
    for (int i = 0; i < from->shape.rank; i++)
        a.d[i] = from->shape.d[i];
    y = unary(b, DG_OP(reshape), &a, x);
    if (y.id > 0)
        dg_stop_gradient(b, y);
    return y;
}

dg_val dg_select(dg_build *b, dg_val mask, dg_val x, dg_val y)
{
    return dg_emit1(b, DG_OP(where), NULL, mask, x, y, 3);
}

dg_val dg_at_least(dg_build *b, dg_val x, dg_val y)
{
    return binary(b, DG_OP(greater_equal), x, y);
}

dg_val dg_truth(dg_build *b, dg_val x, bool negate)
{
    const dg_value *v = dg_value_of(b, x);
    truth_attr a = { .negate = negate };

    if (v && v->dtype == DG_I32)
        return dg_emit1(b, DG_OP(truth_i32), &a, x, DG_NONE, DG_NONE, 2);
    return unary(b, DG_OP(truth), &a, x);
}

dg_val dg_all_finite(dg_build *b, dg_val x)
{
    return unary(b, DG_OP(finite), NULL, x);
}
