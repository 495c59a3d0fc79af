/* definitions: what the reference kernels promise and no other kernel can vouch for: assignments
 * are optimal, rows are ranked by each of their values, attention with a mask is the softmax over
 * what is seen, draws depend on what they are for alone, degenerate boxes stay finite, masks are
 * read at the right pixels, and an update that is not ok writes nothing. */
#include "tests/check.h"

#include <math.h>

#include "tests/ops/formula.h"
#include "check/interpreter.h"

static void run64(const dg_op *op, const dg_tensor *t, int n, const void *attr, const dg_control *c)
{
    assert_int_equal(dg_interpreter_kernel(op->ref64, t, n, attr, c, 1), 0);
}

static dg_tensor real_tensor(dg_shape shape, double *data)
{
    return (dg_tensor){ DG_F64, shape, data };
}

static dg_tensor i32_tensor(dg_shape shape, int32_t *data)
{
    return (dg_tensor){ DG_I32, shape, data };
}

static const dg_tensor absent = { .dtype = DG_REAL, .shape.rank = -1 };

/* ---- matching -------------------------------------------------------------------------------- */

/* The least cost of giving targets t.. each a query of its own, or as many as there are queries. */
static double least(const double *cost, int targets, int queries, int t, unsigned used)
{
    double best = INFINITY;
    int left = queries - __builtin_popcount(used);

    if (t == targets || left == 0)
        return 0;
    for (int q = 0; q < queries; q++)
        if (!(used >> q & 1))
            best = fmin(best, cost[t * queries + q] +
                                  least(cost, targets, queries, t + 1, used | 1u << q));
    if (targets - t > left) /* some target must go without */
        best = fmin(best, least(cost, targets, queries, t + 1, used));
    return best;
}

static void assignments_are_optimal(void **state)
{
    enum { MOST = 6 };

    (void)state;
    for (int round = 0; round < 200; round++) {
        int m = 1 + (int)(formula_u("targets", round) * MOST),
            q = 1 + (int)(formula_u("queries", round) * MOST);
        double cost[MOST * MOST], total = 0;
        int32_t count = m, query[MOST];
        bool taken[MOST] = { false };
        int pairs = 0;

        for (int i = 0; i < m * q; i++) /* few levels: many equal costs */
            cost[i] = floor(formula_u("cost", round * 64 + i) * (round % 2 ? 5 : 1e6)) - 2;
        const dg_tensor t[] = { real_tensor(DG_SHAPE(1, m, q), cost),
                                i32_tensor(DG_SHAPE(1), &count),
                                i32_tensor(DG_SHAPE(1, m), query) };

        run64(DG_OP(match), t, 3, &(index_attr){ .n = 1 }, &(dg_control){ 0 });
        for (int i = 0; i < m; i++) {
            if (query[i] < 0)
                continue;
            assert_true(query[i] < q && !taken[query[i]]);
            taken[query[i]] = true;
            total += cost[i * q + query[i]];
            pairs++;
        }
        assert_int_equal(pairs, m < q ? m : q);
        assert_true(fabs(total - least(cost, m, q, 0, 0)) < 1e-6);
    }
}

static void costs_that_are_not_finite_come_last(void **state)
{
    double cost[] = { NAN, 1, INFINITY, 0.5, 2, -INFINITY, NAN, NAN, NAN };
    int32_t count = 3, query[3];

    (void)state;
    const dg_tensor t[] = { real_tensor(DG_SHAPE(1, 3, 3), cost), i32_tensor(DG_SHAPE(1), &count),
                            i32_tensor(DG_SHAPE(1, 3), query) };

    run64(DG_OP(match), t, 3, &(index_attr){ .n = 1 }, &(dg_control){ 0 });
    assert_int_equal(query[0], 1);
    assert_int_equal(query[1], 0);
    assert_int_equal(query[2], 2);
}

/* ---- selection ------------------------------------------------------------------------------- */

/* A row comes once for each of its values that is among the best. */
static void rows_are_ranked_by_each_of_their_values(void **state)
{
    double x[] = { 1, 9, 4, /**/ 7, 8, NAN, /**/ 4, -1, 4, /**/ 0, INFINITY, 2 };
    int32_t best[6], expected[] = { 3, 0, 1, 1, 0, 2 };

    (void)state;
    const dg_tensor t[] = { real_tensor(DG_SHAPE(1, 4, 3), x), i32_tensor(DG_SHAPE(1, 6), best) };

    run64(DG_OP(topk), t, 2, &(index_attr){ .n = 6 }, &(dg_control){ 0 });
    assert_memory_equal(best, expected, sizeof expected);
}

/* ---- attention ------------------------------------------------------------------------------- */

/* The rule of op.h, written a second time. */
static bool may_see(int row, int column, int live, int group, int capacity)
{
    bool row_void = row >= live && row < capacity,
         column_void = column >= live && column < capacity;

    if (row_void || column_void)
        return false;
    if (column >= capacity)
        return true;
    return row < capacity && row / group == column / group;
}

static void a_mask_is_a_softmax_over_what_is_seen(void **state)
{
    enum { N = 13, D = 4, CAPACITY = 9, LIVE = 6, GROUP = 3 };
    double q[N * D], k[N * D], v[N * D], y[N * D], lse[N];
    int32_t dn[4] = { 1, 2, LIVE, GROUP };

    (void)state;
    for (int i = 0; i < N * D; i++) {
        q[i] = formula("mask.q", i, 4, -2);
        k[i] = formula("mask.k", i, 4, -2);
        v[i] = formula("mask.v", i, 2, -1);
    }
    const dg_tensor t[] = {
        real_tensor(DG_SHAPE(1, N, D), q), real_tensor(DG_SHAPE(1, N, D), k),
        real_tensor(DG_SHAPE(1, N, D), v), i32_tensor(DG_SHAPE(4), dn),
        real_tensor(DG_SHAPE(1, N, D), y), real_tensor(DG_SHAPE(1, 1, N), lse)
    };

    run64(DG_OP(attention), t, 6, &(attention_attr){ 1, CAPACITY }, &(dg_control){ 0 });
    for (int r = 0; r < N; r++) {
        double sum = 0, mix[D] = { 0 };

        for (int c = 0; c < N; c++) {
            double dot = 0;

            for (int i = 0; i < D; i++)
                dot += q[r * D + i] * k[c * D + i];
            double p = may_see(r, c, LIVE, GROUP, CAPACITY) ? exp(dot / sqrt(D)) : 0;

            sum += p;
            for (int i = 0; i < D; i++)
                mix[i] += p * v[c * D + i];
        }
        for (int i = 0; i < D; i++)
            assert_true(fabs(y[r * D + i] - (sum > 0 ? mix[i] / sum : 0)) < 1e-12);
        assert_true(fabs(lse[r] - (sum > 0 ? log(sum) : 0)) < 1e-12);
    }
}

/* ---- draws ----------------------------------------------------------------------------------- */

enum { EACH = 1001 };

static void draw(double *u, int64_t batch, uint64_t seed, int64_t step, int64_t sample, int64_t key)
{
    const dg_tensor t = real_tensor(DG_SHAPE(batch, EACH), u);
    const uniform_attr attr = { key, 2, { batch, EACH } };

    run64(DG_OP(uniform), &t, 1, &attr,
          &(dg_control){ .seed = seed, .step = step, .sample = sample });
}

static double ramp_at(int64_t step, const ramp_attr *attr)
{
    double y = -1;
    const dg_tensor t = real_tensor(DG_SCALAR, &y);

    run64(DG_OP(ramp), &t, 1, attr, &(dg_control){ .step = step });
    return y;
}

/* numpy.linspace(0.3, 0, 4), zeros behind it; then the two other forms of the reference. */
static void a_ramp_follows_the_step(void **state)
{
    const ramp_attr falls = { 4, 0.3, 0, 0 }, late = { 2, 0, 0, 0.2 }, once = { 1, 0.3, 0, 0.1 },
                    always = { 0, 0, 0, 0.4 };
    const double expected[] = { 0.3, 0.3 + -0.3 / 3, 0.3 + 2 * (-0.3 / 3), 0, 0, 0 };

    (void)state;
    for (int i = 0; i < 6; i++)
        assert_true(ramp_at(i, &falls) == expected[i]);
    assert_true(ramp_at(1, &late) == 0 && ramp_at(2, &late) == 0.2 && ramp_at(9, &late) == 0.2);
    assert_true(ramp_at(0, &once) == 0.3 && ramp_at(1, &once) == 0.1);
    assert_true(ramp_at(0, &always) == 0.4 && ramp_at(1000, &always) == 0.4);
}

static void draws_depend_on_what_they_are_for(void **state)
{
    static double two[2 * EACH], one[EACH];
    double mean = 0;

    (void)state;
    draw(two, 2, 7, 3, 40, 99);
    draw(one, 1, 7, 3, 41, 99); /* sample 41, alone in its batch */
    assert_memory_equal(one, two + EACH, sizeof one);
    for (int i = 0; i < EACH; i++) {
        assert_true(one[i] >= 0 && one[i] < 1 && one[i] == (double)(float)one[i]);
        mean += one[i] / EACH;
    }
    assert_true(fabs(mean - 0.5) < 0.03);
    draw(two, 1, 8, 3, 41, 99);
    assert_memory_not_equal(one, two, sizeof one);
    draw(two, 1, 7, 4, 41, 99);
    assert_memory_not_equal(one, two, sizeof one);
    draw(two, 1, 7, 3, 41, 98);
    assert_memory_not_equal(one, two, sizeof one);
    draw(two, 1, 7, 3, 41 + ((int64_t)1 << 32), 99);
    assert_memory_not_equal(one, two, sizeof one);
}

/* ---- boxes without an area ------------------------------------------------------------------- */

static void boxes_without_an_area_stay_finite(void **state)
{
    double box[] = { 0.5, 0.5, 0, 0 }, l1, giou, iou, one = 1, slope[4];
    int32_t query = 0;

    (void)state;
    const dg_tensor b = real_tensor(DG_SHAPE(1, 1, 4), box), q = i32_tensor(DG_SHAPE(1, 1), &query);
    const dg_tensor loss[] = { b,
                               b,
                               q,
                               absent,
                               real_tensor(DG_SCALAR, &l1),
                               real_tensor(DG_SCALAR, &giou),
                               real_tensor(DG_SHAPE(1, 1), &iou) };
    const dg_tensor grad[] = {
        real_tensor(DG_SCALAR, &one),         real_tensor(DG_SCALAR, &one), b, b, q, absent,
        real_tensor(DG_SHAPE(1, 1, 4), slope)
    };

    run64(DG_OP(box_loss), loss, 7, &(no_attr){ 0 }, &(dg_control){ 0 });
    assert_true(l1 == 0 && giou == 1 && iou == 0);
    run64(DG_OP(box_loss_grad), grad, 7, &(no_attr){ 0 }, &(dg_control){ 0 });
    for (int i = 0; i < 4; i++)
        assert_true(isfinite(slope[i]));
}

/* ---- updates --------------------------------------------------------------------------------- */

static void an_update_that_is_not_ok_writes_nothing(void **state)
{
    double w[4] = { 1, 2, 3, 4 }, g[4] = { NAN, 1, 1, 1 }, m[4] = { 0 }, v[4] = { 0 }, norm = NAN;
    int32_t ok = 0;
    const adamw_range range = { 0, 4, 0, 0.1 };
    const dg_control c = { .bias1 = 0.1, .bias2 = 0.001, .lr = { 1 }, .ema_decay = 0.5 };

    (void)state;
    const dg_tensor adamw[] = { real_tensor(DG_SHAPE(4), w), real_tensor(DG_SHAPE(4), g),
                                real_tensor(DG_SHAPE(4), m), real_tensor(DG_SHAPE(4), v),
                                real_tensor(DG_SHAPE(4), g), real_tensor(DG_SCALAR, &norm),
                                i32_tensor(DG_SCALAR, &ok) };
    const dg_tensor ema[] = { real_tensor(DG_SHAPE(4), w), real_tensor(DG_SHAPE(4), g),
                              i32_tensor(DG_SCALAR, &ok) };

    run64(DG_OP(adamw), adamw, 7, &(adamw_attr){ 0.9, 0.999, 1e-8, 0.1, 1, &range }, &c);
    run64(DG_OP(ema), ema, 3, &(ema_attr){ 0, 0 }, &c);
    for (int i = 0; i < 4; i++)
        assert_true(w[i] == i + 1 && m[i] == 0 && v[i] == 0);
}

/* ---- masks ----------------------------------------------------------------------------------- */

/* A 2x2 map of numbers 1 to 4 and a query of 2: between the pixels' centres it is bilinear, beyond
 * them it stays; a void pair gives 0. */
static void masks_are_bilinear_inside_the_centres(void **state)
{
    double map[] = { 1, 2, 3, 4 }, q[] = { 2 }, y[10];
    double points[] = { 0.25, 0.25, 0.5, 0.25, 0.5, 0.5, 1, 1,    0, 0.9,
                        0.5,  0.5,  0.5, 0.5,  0.5, 0.5, 0, 0.25, 1, 0 };
    const double want[] = { 2, 3, 5, 8, 6, 0, 0, 0, 0, 0 };
    int32_t query[] = { 0, -1 };
    const dg_tensor t[] = { real_tensor(DG_SHAPE(1, 2, 2, 1), map),
                            real_tensor(DG_SHAPE(1, 1, 1), q),
                            real_tensor(DG_SHAPE(1, 2, 5, 2), points),
                            i32_tensor(DG_SHAPE(1, 2), query), real_tensor(DG_SHAPE(1, 2, 5), y) };

    (void)state;
    run64(DG_OP(mask_sample), t, 5, NULL, &(dg_control){ 0 });
    for (int i = 0; i < 10; i++)
        assert_true(fabs(y[i] - want[i]) < 1e-15);
}

/* Target 33 is bit 1 of the second plane, whose only pixel is (1, 2) of 2 x 4. A point on an edge
 * between two pixels belongs to the even one: 0.75 lies between pixels 2 and 3 of a row. */
static void losses_read_the_nearest_pixel(void **state)
{
    int32_t masks[16] = { [8 + 4 + 2] = 2 }, query[] = { 0, -1, 5 }, gt[] = { 33, 33, 34 };
    double x[9] = { 0, 0, 0, 9, 9, 9, 0, 0, 0 }, ce, dice;
    double points[18] = { 0.75, 0.75, 0.6, 0.9, 0.75, 0.4, 0, 0, 0, 0, 0, 0 };
    const dg_tensor t[] = { real_tensor(DG_SHAPE(1, 3, 3), x),
                            i32_tensor(DG_SHAPE(1, 2, 2, 4), masks),
                            i32_tensor(DG_SHAPE(1, 3), query),
                            i32_tensor(DG_SHAPE(1, 3), gt),
                            real_tensor(DG_SHAPE(1, 3, 3, 2), points),
                            real_tensor(DG_SCALAR, &ce),
                            real_tensor(DG_SCALAR, &dice) };

    (void)state;
    run64(DG_OP(mask_loss), t, 7, NULL, &(dg_control){ 0 });
    /* two of the first pair's points are inside, none of the last one's */
    assert_true(fabs(ce - 2 * log(2)) < 1e-15);
    assert_true(fabs(dice - ((1 - 3 / 4.5) + (1 - 1 / 2.5))) < 1e-15);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(assignments_are_optimal),
        cmocka_unit_test(costs_that_are_not_finite_come_last),
        cmocka_unit_test(rows_are_ranked_by_each_of_their_values),
        cmocka_unit_test(a_mask_is_a_softmax_over_what_is_seen),
        cmocka_unit_test(a_ramp_follows_the_step),
        cmocka_unit_test(draws_depend_on_what_they_are_for),
        cmocka_unit_test(boxes_without_an_area_stay_finite),
        cmocka_unit_test(masks_are_bilinear_inside_the_centres),
        cmocka_unit_test(losses_read_the_nearest_pixel),
        cmocka_unit_test(an_update_that_is_not_ok_writes_nothing),
    };

    return cmocka_run_group_tests_name("definitions", tests, NULL, NULL);
}
