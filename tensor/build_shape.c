/* build_shape.c: op.h's functions that move, repeat and sum elements. Those that change nothing
 * emit nothing. */
#include <string.h>

#include "tensor/build_internal.h"

static dg_val unary(dg_build *b, const dg_op *op, const void *attr, dg_val x)
{
    return dg_emit1(b, op, attr, x, DG_NONE, DG_NONE, 1);
}

static shape_attr attr_of(dg_shape s)
{
    shape_attr a = { .rank = s.rank };

    for (int i = 0; i < s.rank && i < DG_MAX_DIMS; i++)
        a.d[i] = s.d[i];
    return a;
}

dg_val dg_reshape(dg_build *b, dg_val x, dg_shape shape)
{
    const dg_value *from = dg_value_of(b, x);
    int64_t known = 1;
    int open = -1;

    if (from && dg_shape_equal(from->shape, shape))
        return x;
    for (int i = 0; i < shape.rank && i < DG_MAX_DIMS; i++) {
        if (shape.d[i] == -1 && open < 0)
            open = i;
        else
            known = shape.d[i] > 0 && shape.d[i] < INT32_MAX && known < INT32_MAX
                        ? known * shape.d[i]
                        : 0;
    }
    if (open >= 0 && known > 0 && from)
        shape.d[open] = dg_shape_elements(from->shape) / known;
    shape_attr a = attr_of(shape);

    return unary(b, from && from->dtype == DG_I32 ? DG_OP(reshape_i32) : DG_OP(reshape), &a, x);
}

/* True if a permutation keeps the order in memory: axes of size 1 may move freely. */
static bool keeps_order(dg_shape x, int n, const int axes[])
{
    int last = -1;

    for (int i = 0; i < n; i++) {
        if (axes[i] < 0 || axes[i] >= x.rank)
            return false;
        if (x.d[axes[i]] == 1)
            continue;
        if (axes[i] < last)
            return false;
        last = axes[i];
    }
    return true;
}

dg_val dg_permute(dg_build *b, dg_val x, int n, const int axes[])
{
    const dg_value *from = dg_value_of(b, x);
    shape_attr a = { .rank = n };
    unsigned seen = 0;

    for (int i = 0; i < n && i < DG_MAX_DIMS; i++) {
        a.d[i] = axes[i];
        seen |= axes[i] >= 0 && axes[i] < DG_MAX_DIMS ? 1u << axes[i] : 0;
    }
    if (from && n == from->shape.rank && seen == (1u << n) - 1 &&
        keeps_order(from->shape, n, axes)) {
        dg_shape to = { .rank = n };

        for (int i = 0; i < n; i++)
            to.d[i] = from->shape.d[axes[i]];
        return dg_reshape(b, x, to);
    }
    return unary(b, DG_OP(permute), &a, x);
}

dg_val dg_concat(dg_build *b, int axis, int n, const dg_val x[])
{
    dg_val out[DG_MAX_SIGNATURE] = { DG_POISON };
    axis_attr a = { .axis = axis };

    if (n == 1)
        return x[0];
    dg_emit(b, DG_OP(concat), &a, n, x, out);
    return out[0];
}

dg_val dg_slice(dg_build *b, dg_val x, int axis, int64_t begin, int64_t end)
{
    const dg_value *from = dg_value_of(b, x);

    if (from && axis >= 0 && axis < from->shape.rank && begin == 0 && end == from->shape.d[axis])
        return x;
    return unary(b, DG_OP(slice), &(axis_attr){ axis, begin, end }, x);
}

dg_val dg_pad(dg_build *b, dg_val x, int axis, int64_t before, int64_t after)
{
    return before == 0 && after == 0 ? x
                                     : unary(b, DG_OP(pad), &(axis_attr){ axis, before, after }, x);
}

dg_val dg_expand(dg_build *b, dg_val x, dg_shape shape)
{
    const dg_value *from = dg_value_of(b, x);
    shape_attr a = attr_of(shape);

    return from && dg_shape_equal(from->shape, shape) ? x : unary(b, DG_OP(expand), &a, x);
}

/* Bit mask of the axes to reduce; DG_ALL_AXES: all of x's axes. */
static int64_t mask_of(dg_build *b, dg_val x, uint32_t axes)
{
    return axes == DG_ALL_AXES ? ((int64_t)1 << dg_shape_of(b, x).rank) - 1 : (int64_t)axes;
}

static dg_val reduce(dg_build *b, const dg_op *real, const dg_op *i32, dg_val x, uint32_t axes,
                     bool keep)
{
    const dg_value *from = dg_value_of(b, x);
    axes_attr a = { mask_of(b, x, axes), keep };

    if (from && a.axes == 0)
        return x;
    return unary(b, from && from->dtype == DG_I32 ? i32 : real, &a, x);
}

dg_val dg_sum(dg_build *b, dg_val x, uint32_t axes, bool keep)
{
    return reduce(b, DG_OP(sum), DG_OP(sum_i32), x, axes, keep);
}

dg_val dg_mean(dg_build *b, dg_val x, uint32_t axes, bool keep)
{
    dg_shape s = dg_shape_of(b, x);
    int64_t mask = mask_of(b, x, axes);
    double n = 1;

    for (int i = 0; i < s.rank; i++)
        n *= mask >> i & 1 ? (double)s.d[i] : 1;
    return dg_scale(b, dg_sum(b, x, axes, keep), 1 / n, 0);
}

dg_val dg_reduce_max(dg_build *b, dg_val x, uint32_t axes, bool keep)
{
    return reduce(b, DG_OP(reduce_max), DG_OP(reduce_max_i32), x, axes, keep);
}
