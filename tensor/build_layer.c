/* build_layer.c: op.h's layers. Matrix products become products of plain matrices, or of one stack
 * of them; the reshapes around them cost nothing in a plan. */
#include <string.h>

#include "tensor/build_internal.h"

/* Marks statistics and other by-products as needing no gradient. */
static dg_val by_product(dg_build *b, dg_val v)
{
    if (v.id > 0)
        dg_stop_gradient(b, v);
    return v;
}

dg_val dg_conv2d(dg_build *b, dg_val x, dg_val w, dg_val bias, int stride, int pad)
{
    return dg_emit1(b, DG_OP(conv2d), &(conv_attr){ .stride = stride, .pad = pad }, x, w, bias, 3);
}

dg_val dg_conv2d_exact(dg_build *b, dg_val x, dg_val w, dg_val bias, int stride, int pad)
{
    return dg_emit1(b, DG_OP(conv2d), &(conv_attr){ .stride = stride, .pad = pad, .exact = 1 }, x,
                    w, bias, 3);
}

/* [..,M,K] -> [rows, K] */
static dg_val as_matrix(dg_build *b, dg_val x)
{
    dg_shape s = dg_shape_of(b, x);

    if (dg_is_poison(x) || s.rank == 2)
        return x;
    return dg_reshape(b, x, DG_SHAPE(-1, s.rank ? s.d[s.rank - 1] : 1));
}

static dg_val as_stack(dg_build *b, dg_val x)
{
    dg_shape s = dg_shape_of(b, x);

    return s.rank == 3 ? x : dg_reshape(b, x, DG_SHAPE(-1, s.d[s.rank - 2], s.d[s.rank - 1]));
}

/* Gives the product's rows the leading axes of x again. */
static dg_val unflatten(dg_build *b, dg_val y, dg_shape x)
{
    dg_shape s = x;

    if (dg_is_poison(y))
        return y;
    s.d[s.rank ? s.rank - 1 : 0] = dg_dim(b, y, -1);
    s.rank = s.rank ? s.rank : 1;
    return dg_reshape(b, y, s);
}

dg_val dg_matmul(dg_build *b, dg_val a, dg_val w)
{
    dg_shape sa = dg_shape_of(b, a), sw = dg_shape_of(b, w);

    if (dg_is_poison(a) || dg_is_poison(w))
        return DG_POISON;
    if (sw.rank == 2 && sa.rank >= 1)
        return unflatten(b, dg_emit1(b, DG_OP(matmul), NULL, as_matrix(b, a), w, DG_NONE, 3), sa);
    bool stacks = sa.rank == sw.rank && sa.rank >= 3;

    for (int i = 0; stacks && i < sa.rank - 2; i++)
        stacks = sa.d[i] == sw.d[i];
    if (stacks) {
        dg_shape s = sa;

        s.d[s.rank - 1] = sw.d[s.rank - 1];
        return dg_reshape(b,
                          dg_emit1(b, DG_OP(matmul), NULL, as_stack(b, a), as_stack(b, w), DG_NONE,
                                   3),
                          s);
    }
    return dg_emit1(b, DG_OP(matmul), NULL, a, w, DG_NONE, 3); /* reports the mismatched shapes */
}

dg_val dg_linear(dg_build *b, dg_val x, dg_val w, dg_val bias)
{
    matmul_attr t = { .trans_b = 1 };

    return unflatten(b, dg_emit1(b, DG_OP(matmul), &t, as_matrix(b, x), w, bias, 3),
                     dg_shape_of(b, x));
}

dg_val dg_batch_norm(dg_build *b, dg_val x, dg_val scale, dg_val shift, double eps, dg_val *mean,
                     dg_val *var)
{
    dg_val out[DG_MAX_SIGNATURE];

    dg_emit(b, DG_OP(batch_norm), &(norm_attr){ .eps = eps }, 4,
            (dg_val[]){ x, scale, shift, DG_NONE }, out);
    *mean = by_product(b, out[1]);
    *var = by_product(b, out[2]);
    return out[0];
}

dg_val dg_batch_norm_fixed(dg_build *b, dg_val x, dg_val scale, dg_val shift, dg_val mean,
                           dg_val var, double eps)
{
    dg_val out[DG_MAX_SIGNATURE];

    dg_emit(b, DG_OP(batch_norm_fixed), &(norm_attr){ .eps = eps, .fixed = 1 }, 6,
            (dg_val[]){ x, scale, shift, mean, var, DG_NONE }, out);
    return out[0];
}

dg_val dg_layer_norm(dg_build *b, dg_val x, dg_val scale, dg_val shift, double eps)
{
    dg_val out[DG_MAX_SIGNATURE];

    dg_emit(b, DG_OP(layer_norm), &(norm_attr){ .eps = eps }, 3, (dg_val[]){ x, scale, shift },
            out);
    by_product(b, out[1]);
    by_product(b, out[2]);
    return out[0];
}

dg_val dg_softmax(dg_build *b, dg_val x)
{
    return dg_emit1(b, DG_OP(softmax), NULL, x, DG_NONE, DG_NONE, 1);
}

dg_val dg_attention(dg_build *b, dg_val q, dg_val k, dg_val v, int heads, dg_val dn,
                    int64_t capacity)
{
    dg_val out[DG_MAX_SIGNATURE];

    dg_emit(b, DG_OP(attention), &(attention_attr){ heads, capacity }, 4, (dg_val[]){ q, k, v, dn },
            out);
    by_product(b, out[1]);
    return out[0];
}

dg_val dg_max_pool(dg_build *b, dg_val x, int size, int stride, int pad)
{
    return dg_emit1(b, DG_OP(max_pool), &(pool_attr){ .size = size, .stride = stride, .pad = pad },
                    x, DG_NONE, DG_NONE, 1);
}

dg_val dg_avg_pool(dg_build *b, dg_val x, int size, int stride)
{
    return dg_emit1(b, DG_OP(avg_pool), &(pool_attr){ .size = size, .stride = stride }, x, DG_NONE,
                    DG_NONE, 1);
}

dg_val dg_upsample(dg_build *b, dg_val x, int factor)
{
    return dg_emit1(b, DG_OP(upsample), &(pool_attr){ .size = factor, .stride = factor }, x,
                    DG_NONE, DG_NONE, 1);
}

dg_val dg_gather(dg_build *b, dg_val x, dg_val index)
{
    return dg_emit1(b, DG_OP(gather), NULL, x, index, DG_NONE, 2);
}

dg_val dg_embedding(dg_build *b, dg_val table, dg_val index, int64_t padding)
{
    dg_shape s = dg_shape_of(b, table);

    return dg_emit1(b, DG_OP(embedding), &(index_attr){ s.d[0], padding }, table, index, DG_NONE,
                    2);
}

dg_val dg_topk(dg_build *b, dg_val x, int64_t k)
{
    return dg_emit1(b, DG_OP(topk), &(index_attr){ k, -1 }, x, DG_NONE, DG_NONE, 1);
}

dg_val dg_deform_attention(dg_build *b, dg_val value, dg_val ref, dg_val offset, dg_val weight,
                           int heads, const dg_levels *levels, bool discrete)
{
    deform_attr a = { .heads = heads, .discrete = discrete, .n_levels = levels->n };
    dg_val out[DG_MAX_SIGNATURE];
    int n = levels->n > 0 && levels->n <= DG_MAX_LEVELS ? levels->n : 0;

    memcpy(a.h, levels->h, (size_t)n * sizeof *a.h);
    memcpy(a.w, levels->w, (size_t)n * sizeof *a.w);
    memcpy(a.points, levels->points, (size_t)n * sizeof *a.points);
    dg_emit(b, DG_OP(deform_attention), &a, 4, (dg_val[]){ value, ref, offset, weight }, out);
    return out[0];
}
