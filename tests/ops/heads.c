/* heads: what the reference kernels of anchors and regions promise where only the definition can
 * say what is right: ties, whose box it is where two objects claim it, rows that do not exist,
 * suppression against a search that compares all boxes with all, features of a map that is a
 * plane. */
#include "tests/check.h"

#include <math.h>
#include <string.h>

#include <detrgraph/heads.h>

#include "check/interpreter.h"
#include "tests/ops/formula.h"

static void run64(const dg_op *op, const dg_tensor *t, int n, const void *attr)
{
    assert_int_equal(dg_interpreter_kernel(op->ref64, t, n, attr, &(dg_control){ 0 }, 1), 0);
}

static dg_tensor reals(dg_shape shape, double *data)
{
    return (dg_tensor){ DG_F64, shape, data };
}

static dg_tensor ints(dg_shape shape, int32_t *data)
{
    return (dg_tensor){ DG_I32, shape, data };
}

static const dg_tensor absent = { .dtype = DG_REAL, .shape.rank = -1 };

#define SAME(ours, ...)                                 \
    do {                                                \
        const int32_t want_[] = { __VA_ARGS__ };        \
        assert_memory_equal(ours, want_, sizeof want_); \
    } while (0)

/* ---- assignment ------------------------------------------------------------------------------ */

/* Boxes left and right of an object overlap it alike but for rounding, and both are its best. */
static void best_boxes_are_equal_but_for_rounding(void **state)
{
    double boxes[] = { 8, 8, 8, 8, 12 + 1e-9, 8, 8, 8, 11, 8, 3, 3, 40, 40, 5, 5 };
    double objects[] = { 10, 8, 9, 8 };
    int32_t count = 1, gt[4];
    dg_assign_attr f = { 0.7, 0.3, 0.3, 1e-6, 0 };
    const dg_tensor t[] = { reals(DG_SHAPE(4, 4), boxes), absent, reals(DG_SHAPE(1, 1, 4), objects),
                            ints(DG_SHAPE(1), &count), ints(DG_SHAPE(1, 4), gt) };

    (void)state;
    run64(DG_OP(iou_assign), t, 5, &f);
    SAME(gt, 0, 0, -1, -1);
    f.tie = 0;
    run64(DG_OP(iou_assign), t, 5, &f);
    SAME(gt, 0, -2, -1, -1);
}

/* Two objects with the same best box: the later has it. A box above the threshold goes to the
 * object that it overlaps most, the first of equal ones. */
static void the_later_object_has_a_common_best_box(void **state)
{
    double boxes[] = { 10, 10, 10, 10, 30, 10, 9, 10, 50, 10, 0, 10 };
    double objects[] = { 10, 10, 6, 10, 10, 10, 10, 6, 30, 10, 10, 10, 30, 10, 10, 10 };
    int32_t count = 4, gt[3], valid[] = { 1, 0, 1 };
    dg_assign_attr f = { 0.7, 0.3, 0.3, 1e-6, 0 };
    dg_tensor t[] = { reals(DG_SHAPE(3, 4), boxes), absent, reals(DG_SHAPE(1, 4, 4), objects),
                      ints(DG_SHAPE(1), &count), ints(DG_SHAPE(1, 3), gt) };

    (void)state;
    run64(DG_OP(iou_assign), t, 5, &f);
    SAME(gt, 1, 3, -2);
    f.low_quality = 2;
    run64(DG_OP(iou_assign), t, 5, &f);
    SAME(gt, -2, 2, -2);
    t[1] = ints(DG_SHAPE(1, 3), valid);
    run64(DG_OP(iou_assign), t, 5, &f);
    SAME(gt, -2, -2, -2);
    f.own_rows = 1; /* the boxes are rows of a list that begins with four objects */
    t[1] = absent;
    count = 2;
    run64(DG_OP(iou_assign), t, 5, &f);
    SAME(gt, 0, 1, -2);
}

/* Four boxes around an object's centre and one at a distance; two of the four have their centres
 * outside of the object, which is narrow. */
static void centres_of_positives_lie_inside(void **state)
{
    double boxes[] = { 10, 4,  16, 16, 14, 10, 16, 16, 10, 16, 16, 16,
                       6,  10, 16, 16, 60, 60, 16, 16, 12, 10, 16, 16 };
    double object[] = { 10, 10, 6, 40 }, threshold, centerness[6];
    int32_t valid[] = { 1, 1, 1, 1, 1, 0 }, count = 1, gt[6];
    dg_atss_attr f = { 1, { 6 }, 5 };
    const dg_tensor t[] = { reals(DG_SHAPE(6, 4), boxes),     ints(DG_SHAPE(1, 6), valid),
                            reals(DG_SHAPE(1, 1, 4), object), ints(DG_SHAPE(1), &count),
                            ints(DG_SHAPE(1, 6), gt),         reals(DG_SHAPE(1, 1), &threshold),
                            reals(DG_SHAPE(1, 6), centerness) };
    double up = 96.0 / (256 + 240 - 96), mean, deviation;

    (void)state;
    /* 6x16 pixels of each of the four lie in the object */
    mean = 4 * up / 5;
    deviation = sqrt((4 * pow(up - mean, 2) + mean * mean) / 4);
    run64(DG_OP(atss_assign), t, 7, &f);
    assert_true(fabs(threshold - (mean + deviation)) < 1e-12);
    f.nearest = 4; /* without the distant box the threshold is lower, and only the centre counts */
    run64(DG_OP(atss_assign), t, 7, &f);
    SAME(gt, 0, -1, 0, -1, -1, -2);
    assert_true(fabs(centerness[0] - sqrt(14.0 / 26)) < 1e-12 && centerness[1] == 0);
}

/* Equal distances at the last place: the lower number is a candidate. */
static void equal_distances_go_by_number(void **state)
{
    double boxes[] = { 13, 10, 8, 8, 7, 10, 8, 8, 10, 10, 8, 8 }, object[] = { 10, 10, 20, 20 };
    double threshold, centerness[3];
    int32_t valid[] = { 1, 1, 1 }, count = 1, gt[3];
    dg_atss_attr f = { 1, { 3 }, 2 };
    const dg_tensor t[] = { reals(DG_SHAPE(3, 4), boxes),     ints(DG_SHAPE(1, 3), valid),
                            reals(DG_SHAPE(1, 1, 4), object), ints(DG_SHAPE(1), &count),
                            ints(DG_SHAPE(1, 3), gt),         reals(DG_SHAPE(1, 1), &threshold),
                            reals(DG_SHAPE(1, 3), centerness) };

    (void)state;
    run64(DG_OP(atss_assign), t, 7, &f);
    SAME(gt, 0, -1, 0);
}

/* ---- rows ------------------------------------------------------------------------------------ */

static void samples_fill_up_with_negatives(void **state)
{
    int32_t gt[] = { -1, 4, -2, -1, 0, 1, -1, -1 }, row[6], count[2];
    double first[] = { 0, .9, 0, 0, .1, .5, 0, 0 }, other[] = { .4, 0, 0, .3, 0, 0, .2, .8 };
    const dg_tensor t[] = { ints(DG_SHAPE(1, 8), gt), reals(DG_SHAPE(1, 8), first),
                            reals(DG_SHAPE(1, 8), other), ints(DG_SHAPE(1, 6), row),
                            ints(DG_SHAPE(1, 2), count) };

    (void)state;
    run64(DG_OP(sample_rows), t, 5, &(dg_sample_attr){ 5, 2 });
    SAME(row, 4, 5, 0, 3, 6);
    SAME(count, 2, 3);
}

/* The second image has three rows, so of the first one only three take part. */
static void queries_come_from_as_many_rows_of_each_image(void **state)
{
    int32_t gt[] = { 5, -1, 7, 9, 9, -1, /**/ 3, -1, -1, -3, -3, -3 }, row[8], query[8], of[8],
            dn[4];
    double keys[12], other[] = { 0, .9, 0, 0, 0, .1, /**/ 0, .8, .2, 0, 0, 0 };
    const dg_tensor t[] = { ints(DG_SHAPE(2, 6), gt),     reals(DG_SHAPE(2, 6), keys),
                            reals(DG_SHAPE(2, 6), other), ints(DG_SHAPE(2, 4), row),
                            ints(DG_SHAPE(2, 4), query),  ints(DG_SHAPE(2, 4), of),
                            ints(DG_SHAPE(4), dn) };

    (void)state;
    for (int i = 0; i < 12; i++)
        keys[i] = 1 - i * 0.01;
    run64(DG_OP(query_rows), t, 7, &(dg_query_attr){ 4, 1 });
    SAME(dn, 2, 1, 2, 4);
    SAME(row, 0, 2, -1, -1, 0, 2, -1, -1);
    SAME(query, 0, 1, -1, -1, 0, -1, -1, -1);
    SAME(of, 5, 7, -1, -1, 3, -1, -1, -1);
    run64(DG_OP(query_rows), t, 7, &(dg_query_attr){ 4, 4 }); /* more than there are */
    SAME(dn, 4, 1, 4, 4);
    SAME(row, 0, 2, 1, -1, 0, 2, 1, -1);
    for (int i = 9; i < 12; i++)
        gt[i] = -1;
    run64(DG_OP(query_rows), t, 7, &(dg_query_attr){ 3, 1 }); /* four positives: the least keys */
    SAME(dn, 3, 1, 3, 3);
    SAME(row, 4, 3, 2);
}

/* ---- suppression ----------------------------------------------------------------------------- */

enum { BOXES = 60 };

static double iou(const double *a, const double *b)
{
    double w = fmin(a[0] + a[2] / 2, b[0] + b[2] / 2) - fmax(a[0] - a[2] / 2, b[0] - b[2] / 2),
           h = fmin(a[1] + a[3] / 2, b[1] + b[3] / 2) - fmax(a[1] - a[3] / 2, b[1] - b[3] / 2),
           inner = w > 0 && h > 0 ? w * h : 0;

    return inner / (a[2] * a[3] + b[2] * b[3] - inner);
}

static void draw_boxes(int round, double *boxes, double *score, int32_t *group)
{
    for (int i = 0; i < BOXES * 4; i++)
        boxes[i] = (i % 4 < 2 ? 0 : 5) + 25 * formula_u("boxes", (int64_t)round * 1000 + i);
    for (int i = 0; i < BOXES; i++) { /* few levels: many equal scores */
        score[i] = floor(20 * formula_u("score", (int64_t)round * 1000 + i)) / 20 + 0.01;
        group[i] = (int32_t)(3 * formula_u("group", (int64_t)round * 1000 + i));
    }
}

/* The best box that is left, by score and then by number; -1: none. */
static int best_left(const double *score)
{
    int best = -1;

    for (int i = 0; i < BOXES; i++)
        if (score[i] > 0 && (best < 0 || score[i] > score[best]))
            best = i;
    return best;
}

static void suppression_is_greedy(void **state)
{
    (void)state;
    for (int round = 0; round < 30; round++) {
        double boxes[BOXES * 4], score[BOXES], left[BOXES];
        int32_t group[BOXES], row[BOXES], count;
        int n = 0;
        const dg_tensor t[] = { reals(DG_SHAPE(1, BOXES, 4), boxes),
                                reals(DG_SHAPE(1, BOXES), score), ints(DG_SHAPE(1, BOXES), group),
                                ints(DG_SHAPE(1, BOXES), row), ints(DG_SHAPE(1), &count) };

        draw_boxes(round, boxes, score, group);
        run64(DG_OP(nms), t, 5, &(dg_nms_attr){ BOXES, 0.4, 0 });
        memcpy(left, score, sizeof left);
        for (int best; (best = best_left(left)) >= 0; n++) {
            assert_int_equal(row[n], best);
            for (int i = 0; i < BOXES; i++)
                if (i == best ||
                    (group[i] == group[best] && iou(boxes + 4 * best, boxes + 4 * i) > 0.4))
                    left[i] = 0;
        }
        assert_int_equal(count, n);
        assert_true(n > 3 && n < BOXES);
    }
}

static void soft_suppression_lowers_scores(void **state)
{
    (void)state;
    for (int round = 0; round < 30; round++) {
        double boxes[BOXES * 4], score[BOXES], kept[BOXES], left[BOXES];
        int32_t group[BOXES], row[BOXES], count;
        int n = 0;
        const dg_tensor t[] = {
            reals(DG_SHAPE(1, BOXES, 4), boxes), reals(DG_SHAPE(1, BOXES), score),
            ints(DG_SHAPE(1, BOXES), group),     ints(DG_SHAPE(1, BOXES), row),
            reals(DG_SHAPE(1, BOXES), kept),     ints(DG_SHAPE(1), &count)
        };

        draw_boxes(round, boxes, score, group);
        run64(DG_OP(soft_nms), t, 6, &(dg_nms_attr){ BOXES, 0.3, 0.05 });
        memcpy(left, score, sizeof left);
        for (int best; (best = best_left(left)) >= 0; n++) {
            assert_int_equal(row[n], best);
            assert_true(fabs(kept[n] - left[best]) < 1e-12);
            left[best] = 0;
            for (int i = 0; i < BOXES; i++) {
                double o = iou(boxes + 4 * best, boxes + 4 * i);

                if (group[i] == group[best] && o >= 0.3)
                    left[i] *= 1 - o;
                if (left[i] < 0.05)
                    left[i] = 0;
            }
        }
        assert_int_equal(count, n);
        for (; n < BOXES; n++)
            assert_true(row[n] == -1 && kept[n] == 0);
    }
}

/* Fractions of an image as boxes, of which some have no area: they suppress nobody, and soft
 * suppression keeps them. */
static void small_boxes_are_boxes(void **state)
{
    double boxes[] = { 5e-4, 5e-4, 2e-4, 2e-4, 5e-4, 5e-4, 2e-4, 2e-4,
                       5e-4, 5e-4, 0,    2e-4, 5e-4, 5e-4, 0,    2e-4 };
    double score[] = { 0.9, 0.8, 0.7, 0.6 }, kept[4];
    int32_t group[4] = { 0 }, row[4], count;
    const dg_tensor hard[] = { reals(DG_SHAPE(1, 4, 4), boxes), reals(DG_SHAPE(1, 4), score),
                               ints(DG_SHAPE(1, 4), group), ints(DG_SHAPE(1, 4), row),
                               ints(DG_SHAPE(1), &count) },
                    soft[] = { hard[0], hard[1], hard[2], hard[3], reals(DG_SHAPE(1, 4), kept),
                               hard[4] };

    (void)state;
    run64(DG_OP(nms), hard, 5, &(dg_nms_attr){ 4, 0.5, 0 });
    SAME(row, 0, -1, -1, -1);
    run64(DG_OP(soft_nms), soft, 6, &(dg_nms_attr){ 4, 0.5, 1e-3 });
    SAME(row, 0, 2, 3, -1);
    assert_true(count == 3 && kept[1] == 0.7 && kept[2] == 0.6);
}

/* ---- regions --------------------------------------------------------------------------------- */

/* On a plane a x + b y + c, away from the edges, a cell's mean is the plane at its middle. */
static void a_plane_stays_a_plane(void **state)
{
    enum { H = 40, W = 50, SIZE = 3, ROIS = 3 };
    static double map[H * W], half[H * W / 4], y[ROIS * SIZE * SIZE];
    double rois[] = { 60, 50, 41, 37, 0, 0, 0, 0, 100, 80, 113, 97 };
    const dg_tensor t[] = { reals(DG_SHAPE(1, ROIS, 4), rois), reals(DG_SHAPE(1, H, W, 1), map),
                            reals(DG_SHAPE(1, H / 2, W / 2, 1), half),
                            reals(DG_SHAPE(1, ROIS, SIZE * SIZE), y) };
    const dg_roi_attr f = { .size = SIZE, .finest = 56, .n_levels = 2, .stride = { 4, 8 } };

    (void)state;
    for (int i = 0; i < H * W; i++) /* values are pixels of the canvas at the middles of cells */
        map[i] = 3 * (4 * (i % W) + 2) + 5 * (4 * (i / W) + 2);
    for (int i = 0; i < H * W / 4; i++)
        half[i] = 3 * (8 * (i % (W / 2)) + 4) + 5 * (8 * (i / (W / 2)) + 4);
    run64(DG_OP(roi_align), t, 4, &f);
    for (int i = 0; i < ROIS * SIZE * SIZE; i++) {
        const double *r = rois + i / (SIZE * SIZE) * 4;
        double at[2];

        for (int k = 0; k < 2; k++)
            at[k] =
                r[k] + r[k + 2] * (((k ? i % (SIZE * SIZE) / SIZE : i % SIZE) + 0.5) / SIZE - 0.5);
        assert_true(fabs(y[i] - (r[2] > 0 ? 3 * at[0] + 5 * at[1] : 0)) < 1e-9);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(best_boxes_are_equal_but_for_rounding),
        cmocka_unit_test(the_later_object_has_a_common_best_box),
        cmocka_unit_test(centres_of_positives_lie_inside),
        cmocka_unit_test(equal_distances_go_by_number),
        cmocka_unit_test(samples_fill_up_with_negatives),
        cmocka_unit_test(queries_come_from_as_many_rows_of_each_image),
        cmocka_unit_test(suppression_is_greedy),
        cmocka_unit_test(soft_suppression_lowers_scores),
        cmocka_unit_test(small_boxes_are_boxes),
        cmocka_unit_test(a_plane_stays_a_plane),
    };

    return cmocka_run_group_tests_name("heads", tests, NULL, NULL);
}
