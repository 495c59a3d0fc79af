/* samples_elements.c: elementwise ops, shapes, reductions, pooling, selection. */
#include "tests/ops/samples.h"

#include <math.h>

/* ---- elementwise ----------------------------------------------------------------------------- */

static const struct {
    const char *what;
    dg_shape x, y;
} pairs[] = {
    { "same shape", { 3, { 2, 3, 5 } }, { 3, { 2, 3, 5 } } },
    { "a row", { 3, { 2, 3, 4 } }, { 1, { 4 } } },
    { "both broadcast", { 2, { 3, 1 } }, { 3, { 2, 1, 5 } } },
    { "four axes", { 4, { 2, 1, 3, 1 } }, { 3, { 4, 1, 5 } } },
    { "a scalar left", { 0, { 0 } }, { 2, { 3, 2 } } },
    { "a scalar right", { 2, { 3, 33 } }, { 0, { 0 } } },
};

static void binary(samples *s, const dg_op *op, double lo, double hi)
{
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++) {
        sample_add(s, op, pairs[i].what, &(no_attr){ 0 }, sizeof(no_attr));
        sample_real(s, -2, 2, pairs[i].x);
        sample_real(s, lo, hi, pairs[i].y);
    }
}

static void unary(samples *s, const dg_op *op, double lo, double hi)
{
    sample_add(s, op, "plain", &(affine_attr){ 0, 0 }, op->attr_bytes);
    sample_real(s, lo, hi, DG_SHAPE(2, 5, 7));
    sample_add(s, op, "a scalar", &(affine_attr){ 0, 0 }, op->attr_bytes);
    sample_real(s, lo, hi, DG_SCALAR);
}

static void edges(samples *s, const dg_op *op, const void *attr, int64_t n, const double *x)
{
    sample_add(s, op, "edges", attr, op->attr_bytes)->edges = true;
    sample_real_list(s, DG_SHAPE(n), x);
}

static void elementwise(samples *s)
{
    const double signs[] = { -1, 0, 2.5, -0.0, 1e-30 };
    const no_attr none = { 0 };

    binary(s, DG_OP(add), -2, 2);
    binary(s, DG_OP(sub), -2, 2);
    binary(s, DG_OP(mul), -2, 2);
    binary(s, DG_OP(div), 0.5, 2);
    binary(s, DG_OP(max2), -2, 2);
    binary(s, DG_OP(min2), -2, 2);
    binary(s, DG_OP(greater_equal), -2, 2);
    for (int negate = 0; negate < 2; negate++) {
        ADD(s, truth, negate ? "is zero" : "is not zero", truth_attr, negate);
        sample_real_list(s, DG_SHAPE(2, 3), REALS(0, -0.0, 1e-40, NAN, -3, INFINITY));
        ADD(s, truth_i32, negate ? "is zero" : "is not zero", truth_attr, negate);
        sample_i32_list(s, DG_SHAPE(4), INTS(0, 1, -7, 0));
        sample_none(s);
        ADD(s, truth_i32, negate ? "is zero, and so" : "is not zero, and so", truth_attr, negate);
        sample_i32_list(s, DG_SHAPE(4), INTS(0, 1, -7, 0));
        sample_i32_list(s, DG_SHAPE(4), INTS(1, 0, 5, 0));
    }
    ADD(s, max2, "equals", no_attr, 0)->edges = true;
    sample_real_list(s, DG_SHAPE(4), REALS(1, 2, 3, -1));
    sample_real_list(s, DG_SHAPE(4), REALS(1, 1, 4, -1));
    ADD(s, min2, "equals", no_attr, 0)->edges = true;
    sample_real_list(s, DG_SHAPE(4), REALS(1, 2, 3, -1));
    sample_real_list(s, DG_SHAPE(4), REALS(1, 1, 4, -1));
    ADD(s, greater_equal, "equals", no_attr, 0);
    sample_real_list(s, DG_SHAPE(3), REALS(1, 2, 3));
    sample_real_list(s, DG_SHAPE(3), REALS(1, 1, 4));
    ADD(s, where, "same shape", no_attr, 0);
    sample_i32_list(s, DG_SHAPE(2, 3), INTS(1, 0, 0, -1, 5, 0));
    sample_real(s, -2, 2, DG_SHAPE(2, 3));
    sample_real(s, -2, 2, DG_SHAPE(2, 3));
    ADD(s, where, "broadcast", no_attr, 0);
    sample_i32_list(s, DG_SHAPE(3, 1), INTS(1, 0, 1));
    sample_real(s, -2, 2, DG_SHAPE(2, 3, 4));
    sample_real(s, -2, 2, DG_SCALAR);

    ADD(s, scale, "plain", affine_attr, -1.7, 0.3);
    sample_real(s, -2, 2, DG_SHAPE(3, 11));
    ADD(s, clamp, "plain", affine_attr, -0.5, 0.7);
    sample_real(s, -2, 2, DG_SHAPE(3, 11));
    ADD(s, inverse_sigmoid, "plain", affine_attr, 1e-5, 0);
    sample_real(s, 0.05, 0.95, DG_SHAPE(5, 11));
    unary(s, DG_OP(exp), -3, 3);
    unary(s, DG_OP(log), 0.1, 3);
    unary(s, DG_OP(sqrt), 0.1, 3);
    unary(s, DG_OP(abs), -2, 2);
    unary(s, DG_OP(sign), -2, 2);
    unary(s, DG_OP(relu), -2, 2);
    unary(s, DG_OP(silu), -6, 6);
    unary(s, DG_OP(gelu), -4, 4);
    unary(s, DG_OP(sigmoid), -8, 8);
    edges(s, DG_OP(sign), &none, 5, signs);
    edges(s, DG_OP(abs), &none, 5, signs);
    edges(s, DG_OP(relu), &none, 5, signs);
    edges(s, DG_OP(silu), &none, 4, REALS(-200, 0, 200, 90));
    edges(s, DG_OP(gelu), &none, 4, REALS(-200, 0, 200, 9));
    edges(s, DG_OP(sigmoid), &none, 4, REALS(-200, 0, 200, 90));
    edges(s, DG_OP(clamp), &(affine_attr){ -0.5, 1 }, 4, REALS(-0.5, 1, -0.6, 1.1));
    edges(s, DG_OP(inverse_sigmoid), &(affine_attr){ 1e-5, 0 }, 6,
          REALS(0, 1, -0.25, 1.25, 9.5367431640625e-07, 0.999));

    ADD(s, cast, "to f32", cast_attr, DG_F32)->loss = 0;
    sample_real(s, -2, 2, DG_SHAPE(2, 7));
    ADD(s, cast, "to bf16", cast_attr, DG_BF16)->loss = 0;
    sample_real(s, -2, 2, DG_SHAPE(2, 7));
    ADD(s, real, "plain", no_attr, 0);
    sample_i32_list(s, DG_SHAPE(2, 3), INTS(1, 0, -7, 1 << 20, 5, 300));
}

/* ---- shape ----------------------------------------------------------------------------------- */

static void reduction(samples *s, const dg_op *op, const char *what, dg_shape x, int64_t axes,
                      bool keep)
{
    sample_add(s, op, what, &(axes_attr){ axes, keep }, sizeof(axes_attr));
    sample_real(s, -2, 2, x);
}

static void shapes(samples *s)
{
    ADD(s, reshape, "plain", shape_attr, 2, { 6, 5 });
    sample_real(s, -1, 1, DG_SHAPE(2, 3, 5));
    ADD(s, reshape_i32, "plain", shape_attr, 2, { 3, 2 });
    sample_i32_list(s, DG_SHAPE(2, 3), INTS(1, -2, 3, 4, 5, 6));
    ADD(s, permute, "exchange", shape_attr, 2, { 1, 0 });
    sample_real(s, -1, 1, DG_SHAPE(4, 7));
    ADD(s, permute, "exchange of long axes", shape_attr, 2, { 1, 0 });
    sample_real(s, -1, 1, DG_SHAPE(34, 9));
    ADD(s, permute, "exchange of the last two", shape_attr, 3, { 0, 2, 1 });
    sample_real(s, -1, 1, DG_SHAPE(2, 10, 9));
    ADD(s, permute, "four axes", shape_attr, 4, { 2, 0, 3, 1 });
    sample_real(s, -1, 1, DG_SHAPE(2, 3, 4, 5));
    ADD(s, concat, "last axis", axis_attr, .axis = 2);
    sample_real(s, -1, 1, DG_SHAPE(2, 3, 4));
    sample_real(s, -1, 1, DG_SHAPE(2, 3, 1));
    sample_real(s, -1, 1, DG_SHAPE(2, 3, 5));
    ADD(s, concat, "first axis", axis_attr, .axis = 0);
    sample_real(s, -1, 1, DG_SHAPE(2, 3));
    sample_real(s, -1, 1, DG_SHAPE(1, 3));
    ADD(s, concat, "one part", axis_attr, .axis = 1);
    sample_real(s, -1, 1, DG_SHAPE(2, 3));
    ADD(s, slice, "middle axis", axis_attr, 1, 1, 4);
    sample_real(s, -1, 1, DG_SHAPE(2, 5, 3));
    ADD(s, slice, "one row", axis_attr, 0, 2, 3);
    sample_real(s, -1, 1, DG_SHAPE(3, 4));
    ADD(s, pad, "middle axis", axis_attr, 1, 2, 1);
    sample_real(s, -1, 1, DG_SHAPE(2, 3, 5));
    ADD(s, pad, "after alone", axis_attr, 0, 0, 3);
    sample_real(s, -1, 1, DG_SHAPE(2));
    ADD(s, expand, "new and old axes", shape_attr, 3, { 2, 3, 4 });
    sample_real(s, -1, 1, DG_SHAPE(3, 1));
    ADD(s, expand, "a scalar", shape_attr, 2, { 3, 4 });
    sample_real(s, -1, 1, DG_SCALAR);
    ADD(s, fill, "a number", fill_attr, 1.5, 2, { 3, 5 });
    ADD(s, fill, "a scalar", fill_attr, -2, 0, { 0 });

    for (int k = 0; k < 2; k++) {
        const dg_op *op = k ? DG_OP(reduce_max) : DG_OP(sum);

        reduction(s, op, "all axes", DG_SHAPE(2, 3, 5), 7, false);
        reduction(s, op, "all axes, kept", DG_SHAPE(2, 3, 5), 7, true);
        reduction(s, op, "middle axis", DG_SHAPE(3, 4, 5), 2, false);
        reduction(s, op, "outer axes", DG_SHAPE(3, 4, 5, 2), 7, true);
        reduction(s, op, "last axis", DG_SHAPE(7, 33), 2, false);
        reduction(s, op, "first axis", DG_SHAPE(300, 17), 1, false);
    }
    ADD(s, reduce_max, "not a number", axes_attr, 2, 0);
    sample_real_list(s, DG_SHAPE(2, 3), REALS(1, NAN, 2, -INFINITY, -INFINITY, -INFINITY));
    ADD(s, sum_i32, "last axis", axes_attr, 2, 0);
    sample_i32_list(s, DG_SHAPE(2, 3), INTS(1, -2, 3, 4, 5, 6));
    ADD(s, reduce_max_i32, "all axes", axes_attr, 3, 0);
    sample_i32_list(s, DG_SHAPE(2, 3), INTS(-9, -2, -3, -4, -5, -6));
}

/* ---- pooling and selection ------------------------------------------------------------------- */

static void pool(samples *s, const dg_op *op, const char *what, dg_shape x, pool_attr f)
{
    sample_add(s, op, what, &f, sizeof f);
    sample_real(s, -1, 1, x);
}

static void pooling(samples *s)
{
    pool(s, DG_OP(max_pool), "3x3, stride 2", DG_SHAPE(2, 6, 7, 3), (pool_attr){ 3, 2, 1, 0, 0 });
    pool(s, DG_OP(max_pool), "odd, wide", DG_SHAPE(1, 5, 3, 17), (pool_attr){ 3, 2, 1, 0, 0 });
    pool(s, DG_OP(max_pool), "2x2, no padding", DG_SHAPE(2, 5, 4, 2), (pool_attr){ 2, 2, 0, 0, 0 });
    pool(s, DG_OP(avg_pool), "even", DG_SHAPE(2, 4, 6, 3), (pool_attr){ 2, 2, 0, 0, 0 });
    pool(s, DG_OP(avg_pool), "odd: windows stick out", DG_SHAPE(2, 5, 7, 16),
         (pool_attr){ 2, 2, 0, 0, 0 });
    pool(s, DG_OP(upsample), "twice", DG_SHAPE(2, 3, 5, 7), (pool_attr){ .size = 2, .stride = 2 });
    pool(s, DG_OP(upsample), "three times", DG_SHAPE(1, 2, 1, 16),
         (pool_attr){ .size = 3, .stride = 3 });
    ADD(s, max_pool, "equals", pool_attr, 3, 2, 1, 0, 0)->edges = true;
    sample_fixed(s, 0.5, 0.5, DG_SHAPE(1, 4, 5, 2));
}

static void selection(samples *s)
{
    ADD(s, gather, "repeated and left out", no_attr, 0);
    sample_real(s, -1, 1, DG_SHAPE(2, 5, 3));
    sample_i32_list(s, DG_SHAPE(2, 4), INTS(4, 0, 4, 1, 2, 2, 2, 0));
    ADD(s, gather, "wide", no_attr, 0);
    sample_real(s, -1, 1, DG_SHAPE(1, 9, 64));
    sample_i32_list(s, DG_SHAPE(1, 3), INTS(8, 1, 0));
    ADD(s, embedding, "with padding", index_attr, 4, 3);
    sample_real(s, -1, 1, DG_SHAPE(4, 5));
    sample_i32_list(s, DG_SHAPE(2, 3), INTS(0, 3, 2, 2, 0, 3));
    s->list.items[s->list.n - 1]->edges = true; /* the padding row gets none, by decree */
    ADD(s, embedding, "no padding", index_attr, 4, -1);
    sample_real(s, -1, 1, DG_SHAPE(4, 5));
    sample_i32_list(s, DG_SHAPE(6), INTS(0, 3, 2, 2, 0, 3));
    ADD(s, topk, "plain", index_attr, .n = 7);
    sample_fixed(s, -1, 1, DG_SHAPE(3, 50));
    ADD(s, topk, "all", index_attr, .n = 6);
    sample_fixed(s, -1, 1, DG_SHAPE(2, 6));
    ADD(s, topk, "rows of several values", index_attr, .n = 7);
    sample_fixed(s, -1, 1, DG_SHAPE(2, 5, 3));
    ADD(s, topk, "no number at all, all taken", index_attr, .n = 5);
    sample_real_list(s, DG_SHAPE(1, 5), REALS(NAN, NAN, NAN, NAN, NAN));
    ADD(s, topk, "equals, infinities, no numbers", index_attr, .n = 8);
    sample_real_list(s, DG_SHAPE(1, 9), REALS(1, NAN, 2, 1, -INFINITY, INFINITY, NAN, 2, -0.0));
}

void samples_of_elements(samples *s)
{
    elementwise(s);
    shapes(s);
    pooling(s);
    selection(s);
}
