/* onnx_attention.c: attention, deformable attention, and what decoders compute of boxes, as ONNX
 * operators. */
#include <math.h>
#include <string.h>

#include "weights/onnx_emit.h"

/* [B,N,heads*d] -> [B,heads,N,d], or with the last two axes swapped */
static const char *heads_first(dg_onnx *o, const char *x, dg_shape s, int64_t heads, bool swapped)
{
    const char *y =
        dg_onnx_reshape(o, x, 4, (const int64_t[]){ -1, s.d[1], heads, s.d[2] / heads });

    return dg_onnx_transpose(o, y, 4,
                             swapped ? (const int64_t[]){ 0, 2, 3, 1 }
                                     : (const int64_t[]){ 0, 2, 1, 3 });
}

int dg_onnx_emit_attention(dg_onnx *o, const row *r)
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
int dg_onnx_emit_deform_attention(dg_onnx *o, const row *r)
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
