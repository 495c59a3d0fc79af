/* onnx_ops.c: translates each op of an evaluation to ONNX operators (opset 17,
 * https://onnx.ai/onnx/operators). Axis 0 of a value is the number of images, or a multiple of it,
 * and never a fixed number in the file: where a shape is needed it is -1. */
#include <math.h>
#include <string.h>

#include "weights/onnx_internal.h"

enum { TO_F32 = 1, TO_I32 = 6, TO_I64 = 7, TO_BOOL = 9 }; /* types for Cast */

/* An elementwise function, independent of the order of axes. */
typedef const char *scalar_fn(dg_onnx *o, const char *x);

typedef struct row {
    const char *op;
    int (*emit)(dg_onnx *o, const struct row *r);
    const char *type; /* the operator, if the op is a single one */
    scalar_fn *each;  /* for emit_each, if the op is several */
} row;

static int32_t in(const dg_onnx *o, int i)
{
    return o->at->v[i];
}

static dg_onnx_value *out(dg_onnx *o, int i)
{
    return &o->values[o->at->v[o->at->n_in + i]];
}

static dg_shape out_shape(const dg_onnx *o)
{
    return dg_onnx_shape(o, o->at->v[o->at->n_in]);
}

static const char *plain(dg_onnx *o, int i)
{
    return dg_onnx_plain(o, in(o, i));
}

static const char *unary(dg_onnx *o, const char *type, const char *x)
{
    return dg_onnx_add(o, type, DG_ONNX_IN(x), NULL);
}

static const char *binary(dg_onnx *o, const char *type, const char *x, const char *y)
{
    return dg_onnx_add(o, type, DG_ONNX_IN(x, y), NULL);
}

static const char *cast(dg_onnx *o, const char *x, int to)
{
    return dg_onnx_add(o, "Cast", DG_ONNX_IN(x), DG_ONNX_ATTRS(DG_ONNX_I("to", to)));
}

static const char *integer(dg_onnx *o, int64_t v)
{
    return dg_onnx_integers(o, 1, &v);
}

/* Takes elements begin..end-1 of one axis. */
static const char *slice(dg_onnx *o, const char *x, int64_t axis, int64_t begin, int64_t end)
{
    return dg_onnx_add(o, "Slice",
                       DG_ONNX_IN(x, integer(o, begin), integer(o, end), integer(o, axis)), NULL);
}

static int refuse(const dg_onnx *o, const char *what)
{
    return dg_fail(o->d, DG_EUNSUPPORTED, o->at->origin.where, "onnx-op",
                   "%s has no form in ONNX here%s%s", o->at->op->name, *what ? ": " : "", what);
}

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
    dg_shape s = out_shape(o);

    (void)r;
    s.d[0] = -1;
    out(o, 0)->plain = dg_onnx_reshape(o, plain(o, 0), s.rank, s.d);
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
    const char *shape;

    if (s.rank < 2 || s.d[0] != o->batch)
        shape = dg_onnx_integers(o, s.rank, s.d);
    else
        shape = dg_onnx_add(o, "Concat",
                            DG_ONNX_IN(dg_onnx_images(o), dg_onnx_integers(o, s.rank - 1, s.d + 1)),
                            DG_ONNX_ATTRS(DG_ONNX_I("axis", 0)));
    out(o, 0)->plain = binary(o, r->type, plain(o, 0), shape);
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

/* ---- attention ------------------------------------------------------------------------------- */

/* [B,N,heads*d] -> [B,heads,N,d], or with the last two axes swapped */
static const char *heads_first(dg_onnx *o, const char *x, dg_shape s, int64_t heads, bool swapped)
{
    const char *y =
        dg_onnx_reshape(o, x, 4, (const int64_t[]){ -1, s.d[1], heads, s.d[2] / heads });

    return dg_onnx_transpose(o, y, 4,
                             swapped ? (const int64_t[]){ 0, 2, 3, 1 }
                                     : (const int64_t[]){ 0, 2, 1, 3 });
}

static int emit_attention(dg_onnx *o, const row *r)
{
    const attention_attr *a = o->at->attr;
    dg_shape q = dg_onnx_shape(o, in(o, 0)), k = dg_onnx_shape(o, in(o, 1));
    const char *scaled, *scores, *y;

    (void)r;
    if (in(o, 3))
        return refuse(o, "it masks denoising queries, which belong to training");
    scaled = binary(o, "Mul", heads_first(o, plain(o, 0), q, a->heads, false),
                    dg_onnx_number(o, 1 / sqrt((double)(q.d[2] / a->heads))));
    scores = binary(o, "MatMul", scaled, heads_first(o, plain(o, 1), k, a->heads, true));
    scores = dg_onnx_add(o, "Softmax", DG_ONNX_IN(scores), DG_ONNX_ATTRS(DG_ONNX_I("axis", -1)));
    y = binary(o, "MatMul", scores, heads_first(o, plain(o, 2), k, a->heads, false));
    y = dg_onnx_transpose(o, y, 4, (const int64_t[]){ 0, 2, 1, 3 });
    out(o, 0)->plain = dg_onnx_reshape(o, y, 3, (const int64_t[]){ -1, q.d[1], q.d[2] });
    return 0;
}

typedef struct sampling {
    const deform_attr *a;
    int64_t n, points, width; /* queries, points of all levels, channels per head */
} sampling;

/* Sampling positions for GridSample, in [-1,1]: 2 (ref.xy + off / points(level) * ref.wh / 2) - 1:
 * [B,N,heads,P,2] */
static const char *sampling_grid(dg_onnx *o, const sampling *s)
{
    const char *ref = dg_onnx_reshape(o, plain(o, 1), 5, (const int64_t[]){ -1, s->n, 1, 1, 4 });
    const char *off = dg_onnx_reshape(o, plain(o, 2), 5,
                                      (const int64_t[]){ -1, s->n, s->a->heads, s->points, 2 });
    double by[DG_MAX_LEVELS * 64];
    int n = 0;
    const char *share, *moved;

    for (int l = 0; l < s->a->n_levels; l++)
        for (int64_t j = 0; j < s->a->points[l]; j++)
            by[n++] = 0.5 / (double)s->a->points[l];
    share = dg_onnx_reshape(o, dg_onnx_numbers(o, n, by), 2, (const int64_t[]){ -1, 1 });
    moved = binary(o, "Mul", binary(o, "Mul", off, share), slice(o, ref, 4, 2, 4));
    moved = binary(o, "Add", slice(o, ref, 4, 0, 2), moved);
    return binary(o, "Sub", binary(o, "Mul", moved, dg_onnx_number(o, 2)), dg_onnx_number(o, 1));
}

/* Points first..first+n-1, of one level, per head: [B*heads,N,n,2] */
static const char *grid_of_level(dg_onnx *o, const sampling *s, const char *all, int64_t first,
                                 int64_t n)
{
    const char *part = slice(o, all, 3, first, first + n);

    part = dg_onnx_transpose(o, part, 5, (const int64_t[]){ 0, 2, 1, 3, 4 });
    return dg_onnx_reshape(o, part, 4, (const int64_t[]){ -1, s->n, n, 2 });
}

/* [B,S,heads*d], tokens first.. of one level -> [B*heads,d,h,w] */
static const char *map_of_level(dg_onnx *o, const sampling *s, int64_t first, int64_t h, int64_t w)
{
    const char *map = slice(o, plain(o, 0), 1, first, first + h * w);

    map = dg_onnx_transpose(o, map, 3, (const int64_t[]){ 0, 2, 1 });
    return dg_onnx_reshape(o, map, 4, (const int64_t[]){ -1, s->width, h, w });
}

/* GridSample on the maps of every level, weighted and summed over the points. It treats pixel
 * corners and positions outside as our op does. */
static int emit_deform_attention(dg_onnx *o, const row *r)
{
    dg_shape y = out_shape(o);
    sampling s = { .a = o->at->attr, .n = y.d[1] };
    const char *parts[DG_MAX_LEVELS + 1] = { NULL };
    const char *all, *weight, *sum;
    int64_t token = 0, point = 0;

    if (s.a->discrete)
        return refuse(o, "its method is discrete");
    s.width = y.d[2] / s.a->heads;
    for (int l = 0; l < s.a->n_levels; l++)
        s.points += s.a->points[l];
    all = sampling_grid(o, &s);
    for (int l = 0; l < s.a->n_levels; l++) {
        int64_t h = s.a->h[l], w = s.a->w[l], n = s.a->points[l];

        parts[l] = dg_onnx_add(o, r->type,
                               DG_ONNX_IN(map_of_level(o, &s, token, h, w),
                                          grid_of_level(o, &s, all, point, n)),
                               DG_ONNX_ATTRS(DG_ONNX_S("mode", "bilinear"),
                                             DG_ONNX_S("padding_mode", "zeros"),
                                             DG_ONNX_I("align_corners", 0)));
        token += h * w;
        point += n;
    }
    weight = dg_onnx_transpose(o, plain(o, 3), 4, (const int64_t[]){ 0, 2, 1, 3 });
    weight = dg_onnx_reshape(o, weight, 4, (const int64_t[]){ -1, 1, s.n, s.points });
    sum = binary(o, "Mul", dg_onnx_add(o, "Concat", parts, DG_ONNX_ATTRS(DG_ONNX_I("axis", -1))),
                 weight);
    sum = dg_onnx_add(o, "ReduceSum", DG_ONNX_IN(sum, integer(o, 3)),
                      DG_ONNX_ATTRS(DG_ONNX_I("keepdims", 0)));
    sum = dg_onnx_reshape(o, sum, 3, (const int64_t[]){ -1, y.d[2], s.n });
    out(o, 0)->plain = dg_onnx_transpose(o, sum, 3, (const int64_t[]){ 0, 2, 1 });
    return 0;
}

/* ---- boxes ----------------------------------------------------------------------------------- */

/* (dx w + cx, dy h + cy, exp(dw) w, exp(dh) h) */
static int emit_box_decode(dg_onnx *o, const row *r)
{
    int64_t last = out_shape(o).rank - 1;
    const char *d = plain(o, 0), *box = plain(o, 1), *sides = slice(o, box, last, 2, 4);
    const char *centre = binary(o, "Add", binary(o, "Mul", slice(o, d, last, 0, 2), sides),
                                slice(o, box, last, 0, 2));
    const char *grown = binary(o, "Mul", unary(o, "Exp", slice(o, d, last, 2, 4)), sides);

    out(o, 0)->plain =
        dg_onnx_add(o, r->type, DG_ONNX_IN(centre, grown), DG_ONNX_ATTRS(DG_ONNX_I("axis", last)));
    return 0;
}

/* A cosine is a sine a quarter of a turn later. */
static int emit_sine_embed(dg_onnx *o, const row *r)
{
    enum { MOST = 4096 };
    dg_shape s = out_shape(o);
    int64_t n = ((const index_attr *)o->at->attr)->n, axis = s.rank - 1, as[DG_MAX_DIMS] = { 0 };
    double turns[MOST], phase[MOST];
    const char *x = plain(o, 0);

    if (n > MOST)
        return refuse(o, "too many frequencies");
    for (int64_t i = 0; i < n; i++) {
        turns[i] = 2 * M_PI / pow(10000, (double)(i / 2 * 2) / (double)n);
        phase[i] = i % 2 ? M_PI_2 : 0;
    }
    x = dg_onnx_add(o, "Concat",
                    DG_ONNX_IN(slice(o, x, axis, 1, 2), slice(o, x, axis, 0, 1),
                               slice(o, x, axis, 2, 4)),
                    DG_ONNX_ATTRS(DG_ONNX_I("axis", axis)));
    x = binary(o, "Mul", binary(o, "Unsqueeze", x, integer(o, -1)),
               dg_onnx_numbers(o, (int)n, turns));
    x = unary(o, r->type, binary(o, "Add", x, dg_onnx_numbers(o, (int)n, phase)));
    memcpy(as, s.d, sizeof as);
    as[0] = -1;
    out(o, 0)->plain = dg_onnx_reshape(o, x, s.rank, as);
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
        flat = dg_onnx_reshape(o, flat, 2, (const int64_t[]){ -1, x.d[1] * x.d[2] });
    top_k(o, flat, ((const index_attr *)o->at->attr)->n, found);
    index = x.rank == 3 ? binary(o, "Div", found[1], integer(o, x.d[2])) : found[1];
    out(o, 0)->plain = cast(o, index, TO_I32);
    return 0;
}

static int emit_detect(dg_onnx *o, const row *r)
{
    dg_shape x = dg_onnx_shape(o, in(o, 0));
    const char *classes = integer(o, x.d[2]), *found[2];
    const char *flat = dg_onnx_reshape(o, plain(o, 0), 2, (const int64_t[]){ -1, x.d[1] * x.d[2] });

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
    { "attention", emit_attention, NULL, NULL },
    { "avg_pool", emit_pool, "AveragePool", NULL },
    { "batch_norm_fixed", emit_batch_norm_fixed, "BatchNormalization", NULL },
    { "box_decode", emit_box_decode, "Concat", NULL },
    { "clamp", emit_each, NULL, clamp },
    { "concat", emit_concat, "Concat", NULL },
    { "conv2d", emit_conv2d, "Conv", NULL },
    { "deform_attention", emit_deform_attention, "GridSample", NULL },
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
    { "sine_embed", emit_sine_embed, "Sin", NULL },
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
