/* onnx_attention.c: attention, deformable attention, and what decoders compute of boxes, as ONNX
 * operators. */
#include <math.h>
#include <string.h>

#include "weights/onnx_emit.h"

/* Operand i: [B,N,heads*d] -> [B,heads,N,d], or with the last two axes swapped */
static const char *heads_first(dg_onnx *o, int i, int64_t heads, bool swapped)
{
    const dg_onnx_size tokens = dg_onnx_dim(o, in(o, i), 1);
    const int64_t width = dg_onnx_shape(o, in(o, i)).d[2] / heads;
    const char *y = dg_onnx_reshape(o, plain(o, i), 4, SIZES(N(-1), tokens, N(heads), N(width)));

    return dg_onnx_transpose(o, y, 4,
                             swapped ? (const int64_t[]){ 0, 2, 3, 1 }
                                     : (const int64_t[]){ 0, 2, 1, 3 });
}

int dg_onnx_emit_attention(dg_onnx *o, const row *r)
{
    const attention_attr *a = o->at->attr;
    int64_t width = dg_onnx_shape(o, in(o, 0)).d[2];
    const char *scaled, *scores, *y;

    (void)r;
    if (in(o, 3))
        return refuse(o, "it masks denoising queries, which belong to training");
    scaled = binary(o, "Mul", heads_first(o, 0, a->heads, false),
                    dg_onnx_number(o, 1 / sqrt((double)(width / a->heads))));
    scores = binary(o, "MatMul", scaled, heads_first(o, 1, a->heads, true));
    scores = dg_onnx_add(o, "Softmax", DG_ONNX_IN(scores), DG_ONNX_ATTRS(DG_ONNX_I("axis", -1)));
    y = binary(o, "MatMul", scores, heads_first(o, 2, a->heads, false));
    y = dg_onnx_transpose(o, y, 4, (const int64_t[]){ 0, 2, 1, 3 });
    out(o, 0)->plain =
        dg_onnx_reshape(o, y, 3, SIZES(N(-1), dg_onnx_dim(o, in(o, 0), 1), N(width)));
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
    const char *ref = dg_onnx_reshape(o, plain(o, 1), 5, SIZES(N(-1), N(s->n), N(1), N(1), N(4)));
    const char *off = dg_onnx_reshape(o, plain(o, 2), 5,
                                      SIZES(N(-1), N(s->n), N(s->a->heads), N(s->points), N(2)));
    double by[DG_MAX_LEVELS * 64];
    int n = 0;
    const char *share, *moved;

    for (int l = 0; l < s->a->n_levels; l++)
        for (int64_t j = 0; j < s->a->points[l]; j++)
            by[n++] = 0.5 / (double)s->a->points[l];
    share = dg_onnx_reshape(o, dg_onnx_numbers(o, n, by), 2, SIZES(N(-1), N(1)));
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
    return dg_onnx_reshape(o, part, 4, SIZES(N(-1), N(s->n), N(n), N(2)));
}

/* [B,S,heads*d], tokens first.. of level l -> [B*heads,d,h,w]; first moves on to the next level */
static const char *map_of_level(dg_onnx *o, const sampling *s, int l, dg_onnx_size *first)
{
    dg_onnx_size h, w, begin = *first;
    const char *map;

    dg_onnx_level(o, l, &h, &w);
    *first = dg_onnx_plus(o, begin, dg_onnx_times(o, h, w));
    map = slice_of(o, plain(o, 0), 1, begin, *first);

    map = dg_onnx_transpose(o, map, 3, (const int64_t[]){ 0, 2, 1 });
    return dg_onnx_reshape(o, map, 4, SIZES(N(-1), N(s->width), h, w));
}

/* GridSample on the maps of every level, weighted and summed over the points. It treats pixel
 * corners and positions outside as our op does. */
int dg_onnx_emit_deform_attention(dg_onnx *o, const row *r)
{
    dg_shape y = out_shape(o);
    sampling s = { .a = o->at->attr, .n = y.d[1] };
    const char *parts[DG_MAX_LEVELS + 1] = { NULL };
    const char *all, *weight, *sum;
    dg_onnx_size token = N(0);
    int64_t point = 0;

    if (s.a->discrete)
        return refuse(o, "its method is discrete");
    s.width = y.d[2] / s.a->heads;
    for (int l = 0; l < s.a->n_levels; l++)
        s.points += s.a->points[l];
    all = sampling_grid(o, &s);
    for (int l = 0; l < s.a->n_levels; l++) {
        int64_t n = s.a->points[l];

        parts[l] = dg_onnx_add(o, r->type,
                               DG_ONNX_IN(map_of_level(o, &s, l, &token),
                                          grid_of_level(o, &s, all, point, n)),
                               DG_ONNX_ATTRS(DG_ONNX_S("mode", "bilinear"),
                                             DG_ONNX_S("padding_mode", "zeros"),
                                             DG_ONNX_I("align_corners", 0)));
        point += n;
    }
    weight = dg_onnx_transpose(o, plain(o, 3), 4, (const int64_t[]){ 0, 2, 1, 3 });
    weight = dg_onnx_reshape(o, weight, 4, SIZES(N(-1), N(1), N(s.n), N(s.points)));
    sum = binary(o, "Mul", dg_onnx_add(o, "Concat", parts, DG_ONNX_ATTRS(DG_ONNX_I("axis", -1))),
                 weight);
    sum = dg_onnx_add(o, "ReduceSum", DG_ONNX_IN(sum, integer(o, 3)),
                      DG_ONNX_ATTRS(DG_ONNX_I("keepdims", 0)));
    sum = dg_onnx_reshape(o, sum, 3, SIZES(N(-1), N(y.d[2]), N(s.n)));
    out(o, 0)->plain = dg_onnx_transpose(o, sum, 3, (const int64_t[]){ 0, 2, 1 });
    return 0;
}

/* ---- boxes ----------------------------------------------------------------------------------- */

/* (dx w + cx, dy h + cy, exp(dw) w, exp(dh) h) */
int dg_onnx_emit_box_decode(dg_onnx *o, const row *r)
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
int dg_onnx_emit_sine_embed(dg_onnx *o, const row *r)
{
    enum { MOST = 4096 };
    dg_shape s = out_shape(o);
    int64_t n = ((const index_attr *)o->at->attr)->n, axis = s.rank - 1;
    dg_onnx_size as[DG_MAX_DIMS] = { N(-1) };
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
    for (int i = 1; i < s.rank; i++)
        as[i] = out_dim(o, i);
    out(o, 0)->plain = dg_onnx_reshape(o, x, s.rank, as);
    return 0;
}
