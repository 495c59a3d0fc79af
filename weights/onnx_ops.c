/* onnx_ops.c: translates each op of an evaluation to ONNX operators (opset 17,
 * https://onnx.ai/onnx/operators). Axis 0 of a value is the number of images, or a multiple of it,
 * and never a fixed number in the file: where a shape is needed it is -1. */
#include <math.h>
#include <string.h>

#include "weights/onnx_emit.h"

/* ---- elementwise ----------------------------------------------------------------------------- */

static const char *silu(dg_onnx *o, const char *x)
{
    return binary(o, "Mul", x, unary(o, "Sigmoid", x));
}

/* x/2 (1 + erf(x / sqrt 2)) */
static const char *gelu(dg_onnx *o, const char *x)
{
    const char *erf = unary(o, "Erf", binary(o, "Mul", x, dg_onnx_number(o, M_SQRT1_2)));

    return binary(o, "Mul", binary(o, "Mul", x, dg_onnx_number(o, 0.5)),
                  binary(o, "Add", erf, dg_onnx_number(o, 1)));
}

static const char *inverse_sigmoid(dg_onnx *o, const char *x)
{
    const affine_attr *a = o->at->attr;
    const char *eps = dg_onnx_number(o, a->a), *one = dg_onnx_number(o, 1);
    const char *c = dg_onnx_add(o, "Clip", DG_ONNX_IN(x, dg_onnx_number(o, 0), one), NULL);

    return unary(o, "Log",
                 binary(o, "Div", binary(o, "Max", c, eps),
                        binary(o, "Max", binary(o, "Sub", one, c), eps)));
}

static const char *scale(dg_onnx *o, const char *x)
{
    const affine_attr *a = o->at->attr;
    const char *y = a->a == 1 ? x : binary(o, "Mul", x, dg_onnx_number(o, a->a));

    return a->c == 0 ? y : binary(o, "Add", y, dg_onnx_number(o, a->c));
}

static const char *clamp(dg_onnx *o, const char *x)
{
    const affine_attr *a = o->at->attr;

    return dg_onnx_add(o, "Clip", DG_ONNX_IN(x, dg_onnx_number(o, a->a), dg_onnx_number(o, a->c)),
                       NULL);
}

static const char *activation(dg_onnx *o, const char *x, int64_t act)
{
    return act == DG_ACT_RELU ? unary(o, "Relu", x) : act == DG_ACT_SILU ? silu(o, x) : x;
}

static int emit_each(dg_onnx *o, const row *r)
{
    bool chw = !o->values[in(o, 0)].plain && o->values[in(o, 0)].chw;
    const char *x = chw ? dg_onnx_chw(o, in(o, 0)) : plain(o, 0);

    *(chw ? &out(o, 0)->chw : &out(o, 0)->plain) = r->each ? r->each(o, x) : unary(o, r->type, x);
    return 0;
}

/* Joins maps of one shape in the order that one of them already has. */
static int emit_binary(dg_onnx *o, const row *r)
{
    int32_t x = in(o, 0), y = in(o, 1);
    bool chw = dg_shape_equal(dg_onnx_shape(o, x), dg_onnx_shape(o, y)) &&
               (o->values[x].chw || o->values[y].chw);

    if (chw)
        out(o, 0)->chw = binary(o, r->type, dg_onnx_chw(o, x), dg_onnx_chw(o, y));
    else
        out(o, 0)->plain = binary(o, r->type, plain(o, 0), plain(o, 1));
    return 0;
}

/* ---- maps ------------------------------------------------------------------------------------ */

static int emit_conv2d(dg_onnx *o, const row *r)
{
    const conv_attr *a = o->at->attr;
    dg_shape w = dg_onnx_shape(o, in(o, 1));
    const int64_t strides[] = { a->stride, a->stride }, pads[] = { a->pad, a->pad, a->pad, a->pad };

    out(o, 0)->chw =
        dg_onnx_add(o, r->type,
                    DG_ONNX_IN(dg_onnx_chw(o, in(o, 0)), plain(o, 1),
                               in(o, 2) ? plain(o, 2) : NULL),
                    DG_ONNX_ATTRS(DG_ONNX_N("kernel_shape", w.d + 2, 2),
                                  DG_ONNX_N("strides", strides, 2), DG_ONNX_N("pads", pads, 4)));
    return 0;
}

/* Forward only, so the kernel is not turned: a group for every channel. */
static int emit_depthwise_conv(dg_onnx *o, const row *r)
{
    dg_shape w = dg_onnx_shape(o, in(o, 1));
    const int64_t pads[] = { w.d[2] / 2, w.d[3] / 2, w.d[2] / 2, w.d[3] / 2 };

    out(o, 0)->chw =
        dg_onnx_add(o, r->type,
                    DG_ONNX_IN(dg_onnx_chw(o, in(o, 0)), plain(o, 1),
                               in(o, 2) ? plain(o, 2) : NULL),
                    DG_ONNX_ATTRS(DG_ONNX_N("kernel_shape", w.d + 2, 2), DG_ONNX_N("pads", pads, 4),
                                  DG_ONNX_I("group", w.d[0])));
    return 0;
}

static int emit_batch_norm_fixed(dg_onnx *o, const row *r)
{
    const norm_attr *a = o->at->attr;
    const char *y;

    if (dg_onnx_shape(o, in(o, 0)).rank != 4)
        return refuse(o, "only maps are normalised");
    y = dg_onnx_add(o, r->type,
                    DG_ONNX_IN(dg_onnx_chw(o, in(o, 0)), plain(o, 1), plain(o, 2), plain(o, 3),
                               plain(o, 4)),
                    DG_ONNX_ATTRS(DG_ONNX_F("epsilon", a->eps)));
    if (in(o, 5))
        y = binary(o, "Add", y, dg_onnx_chw(o, in(o, 5)));
    out(o, 0)->chw = activation(o, y, a->act);
    return 0;
}

/* Both poolings; average pooling has no padding and uses ceil mode. */
static int emit_pool(dg_onnx *o, const row *r)
{
    const pool_attr *a = o->at->attr;
    dg_shape x = dg_onnx_shape(o, in(o, 0)), y = out_shape(o);
    const int64_t sizes[] = { a->size, a->size }, strides[] = { a->stride, a->stride };
    const int64_t pads[] = { a->pad, a->pad, a->pad, a->pad };
    bool up = (y.d[1] - 1) * a->stride + a->size > x.d[1] + 2 * a->pad ||
              (y.d[2] - 1) * a->stride + a->size > x.d[2] + 2 * a->pad;

    out(o, 0)->chw =
        dg_onnx_add(o, r->type, DG_ONNX_IN(dg_onnx_chw(o, in(o, 0))),
                    DG_ONNX_ATTRS(DG_ONNX_N("kernel_shape", sizes, 2),
                                  DG_ONNX_N("strides", strides, 2), DG_ONNX_N("pads", pads, 4),
                                  DG_ONNX_I("ceil_mode", up)));
    return 0;
}

static int emit_upsample(dg_onnx *o, const row *r)
{
    double by = (double)((const pool_attr *)o->at->attr)->size;
    const double scales[] = { 1, 1, by, by };

    out(o, 0)->chw =
        dg_onnx_add(o, r->type,
                    DG_ONNX_IN(dg_onnx_chw(o, in(o, 0)), "", dg_onnx_numbers(o, 4, scales)),
                    DG_ONNX_ATTRS(DG_ONNX_S("mode", "nearest"),
                                  DG_ONNX_S("coordinate_transformation_mode", "asymmetric"),
                                  DG_ONNX_S("nearest_mode", "floor")));
    return 0;
}

/* ---- shape ----------------------------------------------------------------------------------- */

static int emit_reshape(dg_onnx *o, const row *r)
{
    dg_onnx_size s[DG_MAX_DIMS] = { N(-1) };
    int rank = out_shape(o).rank;

    (void)r;
    for (int i = 1; i < rank; i++)
        s[i] = out_dim(o, i);
    out(o, 0)->plain = dg_onnx_reshape(o, plain(o, 0), rank, s);
    return 0;
}

static int emit_permute(dg_onnx *o, const row *r)
{
    const shape_attr *a = o->at->attr;

    (void)r;
    out(o, 0)->plain = dg_onnx_transpose(o, plain(o, 0), (int)a->rank, a->d);
    return 0;
}

static int emit_concat(dg_onnx *o, const row *r)
{
    static const int64_t chw_axis[] = { 0, 2, 3, 1 };
    const axis_attr *a = o->at->attr;
    const char **parts = DG_NEW_N(o->arena, o->at->n_in + 1, const char *);
    bool chw = out_shape(o).rank == 4;

    for (int i = 0; i < o->at->n_in; i++)
        chw = chw && o->values[in(o, i)].chw;
    for (int i = 0; i < o->at->n_in; i++)
        parts[i] = chw ? dg_onnx_chw(o, in(o, i)) : plain(o, i);
    *(chw ? &out(o, 0)->chw : &out(o, 0)->plain) =
        dg_onnx_add(o, r->type, parts,
                    DG_ONNX_ATTRS(DG_ONNX_I("axis", chw ? chw_axis[a->axis] : a->axis)));
    return 0;
}

static int emit_slice(dg_onnx *o, const row *r)
{
    const axis_attr *a = o->at->attr;

    (void)r;
    out(o, 0)->plain = slice(o, plain(o, 0), a->axis, a->begin, a->end);
    return 0;
}

/* begin, end: zeros before and after. */
static int emit_pad(dg_onnx *o, const row *r)
{
    const axis_attr *a = o->at->attr;
    int rank = out_shape(o).rank;
    int64_t by[2 * DG_MAX_DIMS] = { 0 };

    by[a->axis] = a->begin;
    by[rank + a->axis] = a->end;
    out(o, 0)->plain = binary(o, r->type, plain(o, 0), dg_onnx_integers(o, 2 * rank, by));
    return 0;
}

/* Axis 0 expands to the number of images. */
static int emit_expand(dg_onnx *o, const row *r)
{
    dg_shape s = out_shape(o);
    dg_onnx_size d[DG_MAX_DIMS];

    for (int i = 0; i < s.rank; i++)
        d[i] = i == 0 && s.rank > 1 && s.d[0] == o->batch
                   ? (dg_onnx_size){ .value = dg_onnx_images(o) }
                   : out_dim(o, i);
    out(o, 0)->plain = binary(o, r->type, plain(o, 0), dg_onnx_list(o, s.rank, d));
    return 0;
}

static int masked_axes(int64_t mask, int rank, int64_t axes[])
{
    int n = 0;

    for (int i = 0; i < rank; i++)
        if (mask >> i & 1)
            axes[n++] = i;
    return n;
}

static int emit_reduce_max(dg_onnx *o, const row *r)
{
    const axes_attr *a = o->at->attr;
    int64_t axes[DG_MAX_DIMS];
    int n = masked_axes(a->axes, dg_onnx_shape(o, in(o, 0)).rank, axes);

    out(o, 0)->plain =
        dg_onnx_add(o, r->type, DG_ONNX_IN(plain(o, 0)),
                    DG_ONNX_ATTRS(DG_ONNX_N("axes", axes, n), DG_ONNX_I("keepdims", a->keep != 0)));
    return 0;
}

static int emit_sum(dg_onnx *o, const row *r)
{
    const axes_attr *a = o->at->attr;
    int64_t axes[DG_MAX_DIMS];
    int n = masked_axes(a->axes, dg_onnx_shape(o, in(o, 0)).rank, axes);

    out(o, 0)->plain =
        dg_onnx_add(o, r->type, DG_ONNX_IN(plain(o, 0), dg_onnx_integers(o, n, axes)),
                    DG_ONNX_ATTRS(DG_ONNX_I("keepdims", a->keep != 0)));
    return 0;
}

/* ---- products and norms ---------------------------------------------------------------------- */

static int emit_matmul(dg_onnx *o, const row *r)
{
    static const int64_t swap[] = { 0, 2, 1 };
    const matmul_attr *t = o->at->attr;
    const char *a = plain(o, 0), *b = plain(o, 1), *c = in(o, 2) ? plain(o, 2) : NULL;

    if (out_shape(o).rank == 2) {
        out(o, 0)->plain = dg_onnx_add(o, "Gemm", DG_ONNX_IN(a, b, c),
                                       DG_ONNX_ATTRS(DG_ONNX_I("transA", t->trans_a != 0),
                                                     DG_ONNX_I("transB", t->trans_b != 0)));
        return 0;
    }
    a = t->trans_a ? dg_onnx_transpose(o, a, 3, swap) : a;
    b = t->trans_b ? dg_onnx_transpose(o, b, 3, swap) : b;
    a = binary(o, r->type, a, b);
    out(o, 0)->plain = c ? binary(o, "Add", a, c) : a;
    return 0;
}

static int emit_softmax(dg_onnx *o, const row *r)
{
    out(o, 0)->plain =
        dg_onnx_add(o, r->type, DG_ONNX_IN(plain(o, 0)), DG_ONNX_ATTRS(DG_ONNX_I("axis", -1)));
    return 0;
}

static int emit_layer_norm(dg_onnx *o, const row *r)
{
    const norm_attr *a = o->at->attr;

    out(o, 0)->plain =
        dg_onnx_add(o, r->type, DG_ONNX_IN(plain(o, 0), plain(o, 1), plain(o, 2)),
                    DG_ONNX_ATTRS(DG_ONNX_I("axis", -1), DG_ONNX_F("epsilon", a->eps)));
    return 0;
}

/* ---- selection ------------------------------------------------------------------------------- */

/* Picks rows of x [B,S,D] by index i64 [B,Q]. */
static const char *rows(dg_onnx *o, const char *x, const char *index)
{
    const char *last = binary(o, "Unsqueeze", index, integer(o, -1));

    return dg_onnx_add(o, "GatherND", DG_ONNX_IN(x, last),
                       DG_ONNX_ATTRS(DG_ONNX_I("batch_dims", 1)));
}

static int emit_gather(dg_onnx *o, const row *r)
{
    (void)r;
    out(o, 0)->plain = rows(o, plain(o, 0), cast(o, plain(o, 1), TO_I64));
    return 0;
}

static int emit_embedding(dg_onnx *o, const row *r)
{
    out(o, 0)->plain = binary(o, r->type, plain(o, 0), plain(o, 1));
    return 0;
}

/* The k largest of x [B,n]: values and indices, i64. */
static void top_k(dg_onnx *o, const char *x, int64_t k, const char *found[2])
{
    dg_onnx_add_n(o, "TopK", DG_ONNX_IN(x, integer(o, k)), DG_ONNX_ATTRS(DG_ONNX_I("axis", -1)), 2,
                  found);
}

static int emit_topk(dg_onnx *o, const row *r)
{
    dg_shape x = dg_onnx_shape(o, in(o, 0));
    const char *flat = plain(o, 0), *found[2], *index;

    (void)r;
    if (x.rank == 3)
        flat =
            dg_onnx_reshape(o, flat, 2,
                            SIZES(N(-1), dg_onnx_times(o, dg_onnx_dim(o, in(o, 0), 1), N(x.d[2]))));
    top_k(o, flat, ((const index_attr *)o->at->attr)->n, found);
    index = x.rank == 3 ? binary(o, "Div", found[1], integer(o, x.d[2])) : found[1];
    out(o, 0)->plain = cast(o, index, TO_I32);
    return 0;
}

static int emit_detect(dg_onnx *o, const row *r)
{
    dg_shape x = dg_onnx_shape(o, in(o, 0));
    const char *classes = integer(o, x.d[2]), *found[2];
    const char *flat = dg_onnx_reshape(o, plain(o, 0), 2, SIZES(N(-1), N(x.d[1] * x.d[2])));

    (void)r;
    top_k(o, flat, ((const index_attr *)o->at->attr)->n, found);
    out(o, 0)->plain = cast(o, binary(o, "Mod", found[1], classes), TO_I32);
    out(o, 1)->plain = unary(o, "Sigmoid", found[0]);
    out(o, 2)->plain = rows(o, plain(o, 1), binary(o, "Div", found[1], classes));
    return 0;
}

static int emit_where(dg_onnx *o, const row *r)
{
    out(o, 0)->plain =
        dg_onnx_add(o, r->type, DG_ONNX_IN(cast(o, plain(o, 0), TO_BOOL), plain(o, 1), plain(o, 2)),
                    NULL);
    return 0;
}

static int emit_greater_equal(dg_onnx *o, const row *r)
{
    out(o, 0)->plain = cast(o, binary(o, r->type, plain(o, 0), plain(o, 1)), TO_I32);
    return 0;
}

static int emit_real(dg_onnx *o, const row *r)
{
    (void)r;
    out(o, 0)->plain = cast(o, plain(o, 0), TO_F32);
    return 0;
}

/* ---- the table ------------------------------------------------------------------------------- */

static const row table[] = {
    { "abs", emit_each, "Abs", NULL },
    { "add", emit_binary, "Add", NULL },
    { "attention", dg_onnx_emit_attention, NULL, NULL },
    { "avg_pool", emit_pool, "AveragePool", NULL },
    { "batch_norm_fixed", emit_batch_norm_fixed, "BatchNormalization", NULL },
    { "box_decode", dg_onnx_emit_box_decode, "Concat", NULL },
    { "clamp", emit_each, NULL, clamp },
    { "concat", emit_concat, "Concat", NULL },
    { "conv2d", emit_conv2d, "Conv", NULL },
    { "deform_attention", dg_onnx_emit_deform_attention, "GridSample", NULL },
    { "depthwise_conv", emit_depthwise_conv, "Conv", NULL },
    { "detect", emit_detect, NULL, NULL },
    { "div", emit_binary, "Div", NULL },
    { "embedding", emit_embedding, "Gather", NULL },
    { "exp", emit_each, "Exp", NULL },
    { "expand", emit_expand, "Expand", NULL },
    { "gather", emit_gather, NULL, NULL },
    { "gelu", emit_each, NULL, gelu },
    { "greater_equal", emit_greater_equal, "GreaterOrEqual", NULL },
    { "inverse_sigmoid", emit_each, NULL, inverse_sigmoid },
    { "layer_norm", emit_layer_norm, "LayerNormalization", NULL },
    { "log", emit_each, "Log", NULL },
    { "matmul", emit_matmul, "MatMul", NULL },
    { "max2", emit_binary, "Max", NULL },
    { "max_pool", emit_pool, "MaxPool", NULL },
    { "min2", emit_binary, "Min", NULL },
    { "mul", emit_binary, "Mul", NULL },
    { "pad", emit_pad, "Pad", NULL },
    { "permute", emit_permute, NULL, NULL },
    { "real", emit_real, NULL, NULL },
    { "reduce_max", emit_reduce_max, "ReduceMax", NULL },
    { "relu", emit_each, "Relu", NULL },
    { "reshape", emit_reshape, NULL, NULL },
    { "reshape_i32", emit_reshape, NULL, NULL },
    { "scale", emit_each, NULL, scale },
    { "sigmoid", emit_each, "Sigmoid", NULL },
    { "sign", emit_each, "Sign", NULL },
    { "silu", emit_each, NULL, silu },
    { "sine_embed", dg_onnx_emit_sine_embed, "Sin", NULL },
    { "slice", emit_slice, NULL, NULL },
    { "softmax", emit_softmax, "Softmax", NULL },
    { "sqrt", emit_each, "Sqrt", NULL },
    { "sub", emit_binary, "Sub", NULL },
    { "sum", emit_sum, "ReduceSum", NULL },
    { "topk", emit_topk, NULL, NULL },
    { "upsample", emit_upsample, "Resize", NULL },
    { "where", emit_where, "Where", NULL },
};

int dg_onnx_op(dg_onnx *o)
{
    if (o->at->guard)
        return refuse(o, "it runs under a condition");
    for (size_t i = 0; i < sizeof table / sizeof *table; i++)
        if (strcmp(table[i].op, o->at->op->name) == 0)
            return table[i].emit(o, &table[i]);
    return refuse(o, "");
}
