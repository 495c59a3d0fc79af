/* samples_heads.c: anchors, assignment, samples of rows, suppression, regions, losses by row. */
#include "tests/ops/samples.h"

#include <math.h>

#include <detrgraph/heads.h>

/* Boxes with centres in a canvas of w x h pixels and sides of lo to hi. */
static void boxes_in(samples *s, dg_shape shape, double w, double h, double lo, double hi,
                     bool live)
{
    double *v;

    if (live)
        sample_real(s, 0, 1, shape);
    else
        sample_fixed(s, 0, 1, shape);
    operand *o = &s->list.items[s->list.n - 1]->in[s->list.items[s->list.n - 1]->n_in - 1];

    v = DG_NEW_N(s->arena, dg_shape_elements(shape), double);
    for (int64_t i = 0; i < dg_shape_elements(shape); i++)
        v[i] = i % 4 == 0   ? o->values[i] * w
               : i % 4 == 1 ? o->values[i] * h
                            : lo + o->values[i] * (hi - lo);
    o->values = v;
}

static void ints_below(samples *s, dg_shape shape, int lo, int n)
{
    int64_t all = dg_shape_elements(shape);
    int *v = DG_NEW_N(s->arena, all, int);

    for (int64_t i = 0; i < all; i++)
        v[i] = lo + (int)((i * 2654435761 >> 7) % n);
    sample_i32_list(s, shape, v);
}

/* ---- anchors --------------------------------------------------------------------------------- */

static void anchors(samples *s)
{
    ADD(s, anchor_grid, "nine a cell, one image smaller", dg_anchor_attr, .n_levels = 3,
        .h = { 5, 3, 2 }, .w = { 7, 4, 2 }, .stride = { 4, 8, 16 }, .ratios = 3, .octaves = 3,
        .base = 4, .ratio = { 0.5, 1, 2 });
    sample_i32_list(s, DG_SHAPE(2, 2), INTS(20, 28, 9, 4));
    ADD(s, anchor_grid, "one a cell", dg_anchor_attr, .n_levels = 1, .h = { 3 }, .w = { 300 },
        .stride = { 16 }, .ratios = 1, .octaves = 1, .base = 8, .ratio = { 1 });
    sample_i32_list(s, DG_SHAPE(1, 2), INTS(0, 300 * 16));
    ADD(s, delta_decode, "plain", dg_delta_attr, 0.1, 0.2, 4.135);
    sample_real(s, -3, 3, DG_SHAPE(2, 7, 4));
    boxes_in(s, DG_SHAPE(2, 7, 4), 90, 70, 5, 60, false);
    ADD(s, delta_decode, "sides at their limit", dg_delta_attr, 1, 1, 1.5);
    sample_real(s, -5, 5, DG_SHAPE(9, 4));
    boxes_in(s, DG_SHAPE(9, 4), 90, 70, 5, 60, false);
}

static void iou_assign(samples *s, const char *what, dg_shape boxes, bool valid, int64_t m,
                       const int *count, dg_assign_attr f)
{
    int64_t n = boxes.d[boxes.rank - 2];

    sample_add(s, DG_OP(iou_assign), what, &f, sizeof f);
    boxes_in(s, boxes, 100, 80, -4, 60, false);
    if (valid)
        ints_below(s, DG_SHAPE(2, n), 0, 3);
    else
        sample_none(s);
    boxes_in(s, DG_SHAPE(2, m, 4), 100, 80, 20, 60, false);
    sample_i32_list(s, DG_SHAPE(2), count);
}

static void atss(samples *s, const char *what, dg_atss_attr f, int64_t m, const int *count)
{
    int64_t n = 0;

    for (int64_t l = 0; l < f.n_levels; l++)
        n += f.n[l];
    sample_add(s, DG_OP(atss_assign), what, &f, sizeof f);
    boxes_in(s, DG_SHAPE(n, 4), 100, 80, 10, 50, false);
    ints_below(s, DG_SHAPE(2, n), 0, 4);
    boxes_in(s, DG_SHAPE(2, m, 4), 100, 80, 20, 60, false);
    sample_i32_list(s, DG_SHAPE(2), count);
}

static void assignments(samples *s)
{
    const dg_assign_attr rpn = { 0.6, 0.3, 0.3, 1e-6, 0 }, roi = { 0.5, 0.5, 2, 0, 1 };
    const dg_shape shared = DG_SHAPE(300, 4), own = DG_SHAPE(2, 43, 4);

    iou_assign(s, "with their own", shared, true, 5, INTS(5, 2), rpn);
    iou_assign(s, "one image empty", shared, false, 3, INTS(0, 3), rpn);
    iou_assign(s, "regions of images, all empty", own, false, 4, INTS(0, 0), roi);
    iou_assign(s, "regions of images", own, false, 4, INTS(4, 1), roi);
    ADD(s, iou_assign, "ties, an object twice", dg_assign_attr, 0.7, 0.3, 0.3, 1e-6, 0);
    sample_real_list(s, DG_SHAPE(1, 4, 4),
                     REALS(8, 8, 8, 8, 12, 8, 8, 8, 10, 8, 0, 8, 40, 40, 5, 5));
    s->list.items[s->list.n - 1]->in[0].kind = OPERAND_FIXED;
    sample_none(s);
    sample_real_list(s, DG_SHAPE(1, 3, 4), REALS(10, 8, 8, 8, 10, 8, 8, 8, 9, 9, 99, 99));
    s->list.items[s->list.n - 1]->in[2].kind = OPERAND_FIXED;
    sample_i32_list(s, DG_SHAPE(1), INTS(2));
    atss(s, "three levels", (dg_atss_attr){ 3, { 260, 50, 7 }, 9 }, 3, INTS(3, 1));
    atss(s, "one image empty", (dg_atss_attr){ 2, { 60, 5 }, 9 }, 3, INTS(0, 2));
    atss(s, "a single candidate", (dg_atss_attr){ 1, { 17 }, 1 }, 2, INTS(2, 1));
}

/* ---- samples of rows ------------------------------------------------------------------------- */

static void sample_rows(samples *s, const char *what, int64_t n, int lo, int kinds,
                        dg_sample_attr f)
{
    sample_add(s, DG_OP(sample_rows), what, &f, sizeof f);
    ints_below(s, DG_SHAPE(2, n), lo, kinds);
    sample_fixed(s, 0, 1, DG_SHAPE(2, n));
    sample_fixed(s, 0, 1, DG_SHAPE(2, n));
}

static void query_rows(samples *s, const char *what, int64_t n, int lo, int kinds, dg_query_attr f)
{
    sample_add(s, DG_OP(query_rows), what, &f, sizeof f);
    ints_below(s, DG_SHAPE(2, n), lo, kinds);
    sample_fixed(s, 0, 1, DG_SHAPE(2, n));
    sample_fixed(s, 0, 1, DG_SHAPE(2, n));
}

static void lists(samples *s)
{
    sample_rows(s, "more of both than wanted", 400, -2, 5, (dg_sample_attr){ 64, 16 });
    sample_rows(s, "all positives", 31, 0, 3, (dg_sample_attr){ 16, 8 });
    sample_rows(s, "fewer than wanted", 19, -2, 4, (dg_sample_attr){ 50, 25 });
    sample_rows(s, "no positive", 33, -2, 2, (dg_sample_attr){ 10, 5 });
    sample_rows(s, "nothing", 12, -2, 1, (dg_sample_attr){ 4, 2 });
    ADD(s, sample_rows, "equal keys", dg_sample_attr, 4, 2);
    sample_i32_list(s, DG_SHAPE(1, 8), INTS(-1, 1, -1, 0, 2, -1, -1, -1));
    sample_fixed(s, 0.5, 0.5, DG_SHAPE(1, 8));
    sample_fixed(s, 0.5, 0.5, DG_SHAPE(1, 8));
    query_rows(s, "more positives than places", 90, -2, 4, (dg_query_attr){ 20, 9 });
    query_rows(s, "fillers", 300, -2, 40, (dg_query_attr){ 300, 9 });
    query_rows(s, "no positive", 40, -2, 2, (dg_query_attr){ 12, 9 });
    query_rows(s, "fewer rows than places", 5, -2, 4, (dg_query_attr){ 12, 9 });
    ADD(s, query_rows, "an image with few rows", dg_query_attr, 6, 2);
    sample_i32_list(s, DG_SHAPE(2, 6), INTS(1, 0, 2, -1, -1, -1, 3, -1, -1, -3, -3, -3));
    sample_fixed(s, 0, 1, DG_SHAPE(2, 6));
    sample_fixed(s, 0, 1, DG_SHAPE(2, 6));
    ADD(s, level_topk, "levels below and above k", dg_level_topk_attr, 4, { 400, 33, 7, 1 }, 33);
    sample_fixed(s, -1, 1, DG_SHAPE(2, 441));
    ADD(s, level_topk, "equal and no numbers", dg_level_topk_attr, 2, { 5, 4 }, 3);
    sample_real_list(s, DG_SHAPE(1, 9), REALS(1, NAN, 1, 1, 1, 0, NAN, -0.0, 0));
    s->list.items[s->list.n - 1]->in[0].kind = OPERAND_FIXED;
    ADD(s, pick_i32, "some missing", index_attr, .padding = 80);
    ints_below(s, DG_SHAPE(2, 9), 3, 7);
    ints_below(s, DG_SHAPE(2, 40), -2, 12);
}

/* ---- suppression ----------------------------------------------------------------------------- */

static void nms(samples *s, const dg_op *op, const char *what, int64_t n, dg_nms_attr f,
                double score)
{
    sample_add(s, op, what, &f, sizeof f);
    boxes_in(s, DG_SHAPE(2, n, 4), 60, 40, -3, 40, false);
    sample_fixed(s, score, score < 0 ? score : 1, DG_SHAPE(2, n));
    ints_below(s, DG_SHAPE(2, n), 0, 3);
}

static void suppression(samples *s)
{
    nms(s, DG_OP(nms), "many", 300, (dg_nms_attr){ 40, 0.7, 0 }, 0);
    nms(s, DG_OP(nms), "more than wanted", 90, (dg_nms_attr){ 7, 0.5, 0 }, 0);
    nms(s, DG_OP(nms), "fewer than wanted", 17, (dg_nms_attr){ 19, 0.3, 0 }, 0);
    nms(s, DG_OP(nms), "none takes part", 6, (dg_nms_attr){ 4, 0.3, 0 }, -INFINITY);
    ADD(s, nms, "equal scores, no numbers", dg_nms_attr, 5, 0.5, 0);
    sample_fixed(s, 3, 3.001, DG_SHAPE(1, 5, 4));
    sample_real_list(s, DG_SHAPE(1, 5), REALS(0.5, 0.5, NAN, 0.5, -INFINITY));
    s->list.items[s->list.n - 1]->in[1].kind = OPERAND_FIXED;
    sample_i32_list(s, DG_SHAPE(1, 5), INTS(1, 1, 1, 0, 2));
    nms(s, DG_OP(soft_nms), "dense", 90, (dg_nms_attr){ 25, 0.3, 1e-3 }, 0);
    nms(s, DG_OP(soft_nms), "much falls below", 30, (dg_nms_attr){ 30, 0.1, 0.4 }, 0);
    nms(s, DG_OP(soft_nms), "all below from the start", 9, (dg_nms_attr){ 9, 0.3, 0.9 }, 0);
    nms(s, DG_OP(soft_nms), "none takes part", 6, (dg_nms_attr){ 8, 0.3, 0 }, -INFINITY);
}

/* ---- regions --------------------------------------------------------------------------------- */

static void regions(samples *s)
{
    ADD(s, roi_align, "three levels", dg_roi_attr, .size = 3, .finest = 14, .n_levels = 3,
        .stride = { 4, 8, 16 });
    boxes_in(s, DG_SHAPE(2, 9, 4), 52, 40, 4, 90, false);
    sample_real(s, -1, 1, DG_SHAPE(2, 10, 13, 5));
    sample_real(s, -1, 1, DG_SHAPE(2, 5, 7, 5));
    sample_real(s, -1, 1, DG_SHAPE(2, 3, 4, 5));
    ADD(s, roi_align, "without an area, outside, larger than the map", dg_roi_attr, .size = 7,
        .finest = 56, .n_levels = 1, .stride = { 4 });
    sample_real_list(s, DG_SHAPE(1, 5, 4),
                     REALS(0, 0, 0, 0, 20, 12, 0, 8, 300, 300, 40, 40, 10, 10, 200, 100, 15.5,
                           11.25, 9.5, 30));
    s->list.items[s->list.n - 1]->in[0].kind = OPERAND_FIXED;
    sample_real(s, -1, 1, DG_SHAPE(1, 6, 8, 33));
    ADD(s, roi_align, "maps of one pixel, 64 channels", dg_roi_attr, .size = 2, .finest = 56,
        .n_levels = 1, .stride = { 64 });
    boxes_in(s, DG_SHAPE(2, 3, 4), 64, 64, 20, 300, false);
    sample_real(s, -1, 1, DG_SHAPE(2, 1, 1, 64));
}

/* ---- losses ---------------------------------------------------------------------------------- */

static void focal_loss(samples *s, const char *what, dg_shape logits, double reach, int lo,
                       int kinds, dg_focal_attr f)
{
    dg_shape rows = logits;

    rows.rank--;
    sample_add(s, DG_OP(focal_loss), what, &f, sizeof f);
    sample_real(s, -reach, reach, logits);
    ints_below(s, rows, lo, kinds);
}

static void giou_loss(samples *s, const char *what, dg_shape rows, double w)
{
    dg_shape boxes = rows;

    boxes.d[boxes.rank++] = 4;
    ADD(s, giou_loss, what, affine_attr, .a = 1e-6);
    boxes_in(s, boxes, 60, 40, 5, 50, true);
    boxes_in(s, boxes, 60, 40, 5, 50, false);
    sample_fixed(s, 0, w, rows);
}

static void losses(samples *s)
{
    focal_loss(s, "all kinds of rows", DG_SHAPE(2, 37, 5), 6, -1, 7, (dg_focal_attr){ 0.25, 2 });
    focal_loss(s, "one class, another exponent", DG_SHAPE(9, 1), 3, 0, 2,
               (dg_focal_attr){ 0.4, 1.5 });
    focal_loss(s, "no exponent", DG_SHAPE(5, 3), 4, 0, 3, (dg_focal_attr){ 0.5, 0 });
    focal_loss(s, "void rows alone", DG_SHAPE(4, 20), 4, -3, 1, (dg_focal_attr){ 0.25, 2 });
    focal_loss(s, "logits far out", DG_SHAPE(4, 17), 90, 0, 20, (dg_focal_attr){ 0.25, 2 });
    ADD(s, logistic_loss, "weights of which some are 0", no_attr, 0);
    sample_real(s, -6, 6, DG_SHAPE(2, 19));
    sample_fixed(s, 0, 1, DG_SHAPE(2, 19));
    sample_real_list(s, DG_SHAPE(2, 19),
                     REALS(1, 0, 2, 0.5, 0, 1, 1, 1, 0, 0, 3, 1, 1, 1, 1, 0, 1, 2, 2, 1, 0, 2, 0.5,
                           0, 1, 1, 1, 0, 0, 3, 1, 1, 1, 1, 0, 1, 2, 2));
    s->list.items[s->list.n - 1]->in[2].kind = OPERAND_FIXED;
    ADD(s, logistic_loss, "no number where the weight is 0", no_attr, 0)->edges = true;
    sample_real_list(s, DG_SHAPE(3), REALS(NAN, INFINITY, 1));
    sample_fixed(s, 0, 1, DG_SHAPE(3));
    sample_real_list(s, DG_SHAPE(3), REALS(0, 0, 1));
    s->list.items[s->list.n - 1]->in[2].kind = OPERAND_FIXED;
    ADD(s, cross_entropy, "some rows void", no_attr, 0);
    sample_real(s, -5, 5, DG_SHAPE(2, 13, 9));
    ints_below(s, DG_SHAPE(2, 13), -1, 11);
    ADD(s, cross_entropy, "logits far out", no_attr, 0);
    sample_real(s, 700, 900, DG_SHAPE(6, 3));
    ints_below(s, DG_SHAPE(6), 0, 3);
    ADD(s, cross_entropy, "void rows alone", no_attr, 0);
    sample_real(s, -5, 5, DG_SHAPE(3, 70));
    ints_below(s, DG_SHAPE(3), -2, 1);
    giou_loss(s, "weighted", DG_SHAPE(2, 17), 2);
    giou_loss(s, "none counts", DG_SHAPE(7), 0);
    ADD(s, giou_loss, "areas below eps, equal boxes", affine_attr, .a = 1e-6)->edges = true;
    sample_real_list(s, DG_SHAPE(3, 4), REALS(5, 5, 1e-4, 1e-4, 9, 9, 0, 0, 5, 5, 3, 3));
    sample_real_list(s, DG_SHAPE(3, 4), REALS(5, 5, 1e-4, 1e-4, 5, 5, 0, 0, 5, 5, 3, 3));
    s->list.items[s->list.n - 1]->in[1].kind = OPERAND_FIXED;
    sample_fixed(s, 1, 2, DG_SHAPE(3));
}

void samples_of_heads(samples *s)
{
    anchors(s);
    assignments(s);
    lists(s);
    suppression(s);
    regions(s);
    losses(s);
}
