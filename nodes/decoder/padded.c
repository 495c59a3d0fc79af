/* padded.c: see padded.h. Masks of rows and columns follow from sizes by comparison with constants,
 * so no shape and no decision of the host depends on a batch. */
#include "nodes/decoder/padded.h"

#include <stdlib.h>

#include "nodes/decoder/anchors.h"
#include "nodes/decoder/layer.h"

/* [1,n]: first, first + step, ... */
static dg_val counted(dg_build *b, int64_t n, double first)
{
    double *v = malloc((size_t)(n + !n) * sizeof *v);
    dg_val out;

    if (!v)
        return dg_error(b, "out-of-memory", "no memory for %lld numbers", (long long)n);
    for (int64_t i = 0; i < n; i++)
        v[i] = first + (double)i;
    out = dg_const(b, DG_SHAPE(1, n), v);
    free(v);
    return out;
}

/* [1,n]: how many canvas pixels a side must have for cell i of n not to be padding. */
static dg_val needed(dg_build *b, int64_t n, int64_t canvas)
{
    double *v = malloc((size_t)(n + !n) * sizeof *v);
    dg_val out;

    if (!v)
        return dg_error(b, "out-of-memory", "no memory for %lld numbers", (long long)n);
    for (int64_t i = 0; i < n; i++)
        v[i] = dg_nearest_index((int)i, (int)canvas, (int)n) + 1;
    out = dg_const(b, DG_SHAPE(1, n), v);
    free(v);
    return out;
}

/* sizes [B,2] -> [B,n]: 1 where cell i of a side is not padding. side: 0 height, 1 width. */
static dg_val inside(dg_build *b, dg_val sizes, int side, int64_t n, int64_t canvas)
{
    dg_val size = dg_slice(b, dg_real(b, sizes), 1, side, side + 1);

    return dg_real(b, dg_at_least(b, size, needed(b, n, canvas)));
}

static dg_val as_columns(dg_build *b, dg_val x) /* [B,W] -> [B,1,W,1] */
{
    return dg_reshape(b, x, DG_SHAPE(dg_dim(b, x, 0), 1, dg_dim(b, x, 1), 1));
}

static dg_val as_rows(dg_build *b, dg_val x) /* [B,H] -> [B,H,1,1] */
{
    return dg_reshape(b, x, DG_SHAPE(dg_dim(b, x, 0), dg_dim(b, x, 1), 1, 1));
}

dg_val dg_padded_pixels(dg_build *b, dg_val images, dg_val sizes)
{
    int64_t h = dg_dim(b, images, 1), w = dg_dim(b, images, 2);

    return dg_mul(b, as_rows(b, inside(b, sizes, 0, h, h)),
                  as_columns(b, inside(b, sizes, 1, w, w)));
}

dg_val dg_padded_open(dg_padded *p, dg_build *b, dg_val maps, int64_t heads, int64_t points)
{
    int n = dg_record_n(b, maps);
    dg_val part[DG_MAX_LEVELS];

    *p = (dg_padded){ .b = b, .heads = heads };
    if (n < 1 || n > DG_MAX_LEVELS)
        return dg_error(b, "levels", "%d feature maps, 1 to %d are expected", n, DG_MAX_LEVELS);
    for (int l = 0; l < n; l++) {
        dg_val map = dg_record_get(b, maps, dg_record_key(b, maps, l)),
               first = dg_record_get(b, maps, dg_record_key(b, maps, 0));

        if (dg_dim(b, map, -1) != dg_dim(b, first, -1))
            return dg_error(b, "levels",
                            "feature maps of %lld and %lld channels: one number of channels is "
                            "expected, which <neck.channels> gives",
                            (long long)dg_dim(b, first, -1), (long long)dg_dim(b, map, -1));
        p->batch = dg_dim(b, map, 0);
        p->levels.h[l] = dg_dim(b, map, 1);
        p->levels.w[l] = dg_dim(b, map, 2);
        p->levels.points[l] = points;
        part[l] =
            dg_reshape(b, map,
                       DG_SHAPE(p->batch, p->levels.h[l] * p->levels.w[l], dg_dim(b, map, -1)));
    }
    p->levels.n = n;
    p->tokens = dg_anchors_n(&p->levels);
    return n > 1 ? dg_concat(b, 1, n, part) : part[0];
}

/* [1,L,2]: columns and rows of the maps. */
static dg_val map_sizes(const dg_padded *p)
{
    double v[2 * DG_MAX_LEVELS];

    for (int l = 0; l < p->levels.n; l++) {
        v[2 * l] = (double)p->levels.w[l];
        v[2 * l + 1] = (double)p->levels.h[l];
    }
    return dg_const(p->b, DG_SHAPE(1, p->levels.n, 2), v);
}

void dg_padded_sizes(dg_padded *p, dg_val images, dg_val sizes)
{
    dg_build *b = p->b;
    dg_val keep[DG_MAX_LEVELS], count[DG_MAX_LEVELS];

    if (!dg_has(sizes))
        return;
    for (int l = 0; l < p->levels.n; l++) {
        int64_t h = p->levels.h[l], w = p->levels.w[l];
        dg_val columns = inside(b, sizes, 1, w, dg_dim(b, images, 2)),
               rows = inside(b, sizes, 0, h, dg_dim(b, images, 1));
        dg_val both[2] = { dg_sum(b, columns, 1u << 1, true), dg_sum(b, rows, 1u << 1, true) };

        keep[l] = dg_reshape(b, dg_mul(b, as_rows(b, rows), as_columns(b, columns)),
                             DG_SHAPE(p->batch, h * w, 1));
        count[l] = dg_reshape(b, dg_concat(b, 1, 2, both), DG_SHAPE(p->batch, 1, 2));
    }
    p->keep = dg_name(b, dg_concat(b, 1, p->levels.n, keep), "padding.keep");
    p->count = dg_name(b, dg_concat(b, 1, p->levels.n, count), "padding.count");
    p->ratio = dg_name(b, dg_div(b, p->count, map_sizes(p)), "padding.ratio");
}

dg_val dg_padded_record(const dg_padded *p)
{
    dg_val r = dg_record(p->b);

    if (!dg_has(p->keep))
        return r;
    dg_record_set(p->b, r, "keep", p->keep);
    dg_record_set(p->b, r, "count", p->count);
    dg_record_set(p->b, r, "ratio", p->ratio);
    return r;
}

void dg_padded_from(dg_padded *p, dg_val record)
{
    if (!dg_has(record) || !dg_record_has(p->b, record, "keep"))
        return;
    p->keep = dg_record_get(p->b, record, "keep");
    p->count = dg_record_get(p->b, record, "count");
    p->ratio = dg_record_get(p->b, record, "ratio");
}

/* Columns (axis 0) or rows (1) of a level that are not padding: [B,1]; a constant if there is no
 * padding. */
static dg_val live(const dg_padded *p, int level, int axis)
{
    dg_build *b = p->b;
    dg_val one;

    if (!dg_has(p->count))
        return dg_const(b, DG_SHAPE(1, 1),
                        (double[]){ (double)(axis ? p->levels.h[level] : p->levels.w[level]) });
    one = dg_slice(b, dg_slice(b, p->count, 1, level, level + 1), 2, axis, axis + 1);
    return dg_reshape(b, one, DG_SHAPE(p->batch, 1));
}

/* ---- positions ------------------------------------------------------------------------------- */

/* [B,h,w,2] from [B,w] and [B,h]: x and y of every cell. */
static dg_val grid(const dg_padded *p, int level, dg_val x, dg_val y)
{
    dg_build *b = p->b;
    int64_t batch = dg_dim(b, x, 0);
    dg_shape map = DG_SHAPE(batch, p->levels.h[level], p->levels.w[level], 1);
    dg_val both[2] = { dg_expand(b, as_columns(b, x), map), dg_expand(b, as_rows(b, y), map) };

    return dg_concat(b, 3, 2, both);
}

/* The running count of what is not padding, over its last value: [B,n]. */
static dg_val running(const dg_padded *p, int level, int axis, int64_t n)
{
    dg_build *b = p->b;
    dg_val last = live(p, level, axis);

    return dg_div(b, dg_min2(b, counted(b, n, 1), last), dg_scale(b, last, 1, 1e-6));
}

dg_val dg_padded_positions(const dg_padded *p, int level, int64_t width, double temperature)
{
    dg_build *b = p->b;
    int64_t h = p->levels.h[level], w = p->levels.w[level];
    dg_val x = running(p, level, 0, w), y = running(p, level, 1, h), points;

    points = grid(p, level, x, y);
    if (dg_has(p->count)) { /* a row of padding has no columns that count, and vice versa */
        dg_val columns = dg_real(b, dg_at_least(b, live(p, level, 0), counted(b, w, 1))),
               rows = dg_real(b, dg_at_least(b, live(p, level, 1), counted(b, h, 1)));
        dg_shape map = DG_SHAPE(p->batch, h, w, 1);
        dg_val both[2] = { dg_expand(b, as_rows(b, rows), map),
                           dg_expand(b, as_columns(b, columns), map) };

        points = dg_mul(b, points, dg_concat(b, 3, 2, both));
    }
    return dg_sine_embed_of(b, points, width / 2, temperature);
}

dg_val dg_padded_centres(const dg_padded *p)
{
    dg_build *b = p->b;
    dg_val part[DG_MAX_LEVELS] = { DG_NONE };

    for (int l = 0; l < p->levels.n; l++) {
        int64_t h = p->levels.h[l], w = p->levels.w[l];
        dg_val x = dg_div(b, counted(b, w, 0.5), live(p, l, 0)),
               y = dg_div(b, counted(b, h, 0.5), live(p, l, 1));

        part[l] = dg_reshape(b, grid(p, l, x, y), DG_SHAPE(dg_dim(b, x, 0), h * w, 2));
    }
    return p->levels.n > 1 ? dg_concat(b, 1, p->levels.n, part) : part[0];
}

/* ---- sampling -------------------------------------------------------------------------------- */

/* x [B,N,2] times the ratios of every level, for each of its points: [B,N,1,2P]. */
static dg_val at_levels(const dg_padded *p, dg_val x)
{
    dg_build *b = p->b;
    int64_t n = dg_dim(b, x, 1), points = p->levels.points[0];
    int levels = p->levels.n;
    dg_val y = dg_reshape(b, x, DG_SHAPE(dg_dim(b, x, 0), n, 1, 1, 2));

    if (dg_has(p->ratio))
        y = dg_mul(b, y, dg_reshape(b, p->ratio, DG_SHAPE(p->batch, 1, levels, 1, 2)));
    y = dg_expand(b, y, DG_SHAPE(dg_dim(b, y, 0), n, levels, points, 2));
    return dg_reshape(b, y, DG_SHAPE(dg_dim(b, y, 0), n, 1, 2 * levels * points));
}

dg_places dg_padded_around_points(const dg_padded *p, dg_val centres)
{
    dg_build *b = p->b;
    int64_t points = p->levels.points[0], n = 0;
    double v[DG_MAX_LEVELS * 64 * 2];
    dg_places where;

    for (int l = 0; l < p->levels.n; l++)
        for (int64_t j = 0; j < points; j++) {
            v[n++] = (double)points / (double)p->levels.w[l];
            v[n++] = (double)points / (double)p->levels.h[l];
        }
    where.base = dg_scale(b, at_levels(p, centres), (double)points, 0);
    where.spread = dg_const(b, DG_SHAPE(1, 1, 1, n), v);
    return where;
}

dg_places dg_padded_around_boxes(const dg_padded *p, dg_val boxes)
{
    dg_build *b = p->b;
    dg_val x = dg_slice(b, boxes, 2, 0, 2), half = dg_scale(b, dg_slice(b, boxes, 2, 2, 4), 0.5, 0);

    return (dg_places){ dg_scale(b, at_levels(p, x), (double)p->levels.points[0], 0),
                        at_levels(p, half) };
}

dg_val dg_padded_values(const dg_param_path_of *at, const dg_padded *p, dg_val memory)
{
    dg_build *b = p->b;
    int64_t d = dg_dim(b, memory, -1);
    dg_param_path_of value = dg_param_path_in(at, "value_proj");
    dg_val v = dg_layer_linear_bias(&value, memory, d, dg_init_xavier(d, d), dg_init_zero());

    return dg_has(p->keep) ? dg_mul(b, v, p->keep) : v;
}

/* The locations are made here, so the op's own boxes are all (0, 0, 2, 2): its location is offset /
 * points. */
static dg_val unit_boxes(const dg_padded *p, int64_t n)
{
    const double box[4] = { 0, 0, 2, 2 };

    return dg_expand(p->b, dg_const(p->b, DG_SHAPE(1, 1, 4), box), DG_SHAPE(p->batch, n, 4));
}

dg_val dg_padded_attention(const dg_param_path_of *at, const dg_padded *p, dg_val values,
                           dg_val query, const dg_places *where)
{
    dg_build *b = p->b;
    int64_t d = dg_dim(b, query, -1), n = dg_dim(b, query, 1),
            points = dg_decoder_points(&p->levels);
    dg_param_path_of offsets = dg_param_path_in(at, "sampling_offsets"),
                     weights = dg_param_path_in(at, "attention_weights"),
                     output = dg_param_path_in(at, "output_proj");
    dg_init zero = dg_init_zero();
    dg_val off = dg_layer_linear_bias(&offsets, query, p->heads * points * 2, zero,
                                      dg_deform_grid(b, p->heads, &p->levels)),
           w = dg_layer_linear_bias(&weights, query, p->heads * points, zero, zero), y;

    off = dg_reshape(b, off, DG_SHAPE(p->batch, n, p->heads, points * 2));
    off = dg_add(b, dg_mul(b, off, where->spread), where->base);
    off = dg_reshape(b, off, DG_SHAPE(p->batch, n, p->heads * points * 2));
    w = dg_softmax(b, dg_reshape(b, w, DG_SHAPE(p->batch, n, p->heads, points)));
    y = dg_deform_attention(b, values, unit_boxes(p, n), off, w, (int)p->heads, &p->levels, false);
    return dg_layer_linear_bias(&output, y, d, dg_init_xavier(d, d), zero);
}
