/* join: launches that a device takes together give the results that they give one by one, in
 * whatever order the device works on those that are independent; and what lies beside each other in
 * a loop of a graph is brought together. */
#include "tests/check.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/rng.h"
#include "tests/tensor/rig.h"
#include "tests/tensor/wild.h"

/* ---- a device that takes launches together ----------------------------------------------------
 */

static dg_join by_name(dg_backend *self, const dg_op *op, const dg_tensor *t, int n)
{
    (void)self, (void)t, (void)n;
    switch (op->name[strlen(op->name) - 1] % 3) {
    case 0:
        return DG_JOIN_NONE;
    case 1:
        return DG_JOIN_SIDE;
    default:
        return DG_JOIN_TURN;
    }
}

static dg_join all_in_turn(dg_backend *self, const dg_op *op, const dg_tensor *t, int n)
{
    (void)self, (void)op, (void)t, (void)n;
    return DG_JOIN_TURN;
}

/* The last one first, unless they read each other's results. */
static int last_first(dg_backend *self, dg_lane lane, const dg_launch *l, int n, bool in_turn)
{
    int rc = 0;

    for (int i = 0; i < n && rc == 0; i++)
        rc = self->launch(self, lane, &l[in_turn ? i : n - 1 - i]);
    return rc;
}

/* ---- random programs ------------------------------------------------------------------------- */

static rig wild(const uint8_t *bytes, size_t n, bool joined)
{
    rig r = rig_open(true);
    double images[2 * 7 * 6 * 3], tokens[2 * 5 * 8];

    if (joined) {
        r.backend->joins = by_name;
        r.backend->launch_joined = last_first;
    }
    wild_program(r.b, bytes, n, true, WILD_SUMS);
    if (dg_diag_errors(r.d)) /* no parameter reaches the loss: the same in both */
        return r;
    rig_compile(&r, DG_F64);
    for (int i = 0; i < 252; i++)
        images[i] = sin(0.3 * i);
    for (int i = 0; i < 80; i++)
        tokens[i] = cos(0.7 * i);
    rig_input(&r, "images", images);
    rig_input(&r, "tokens", tokens);
    for (int i = 0; i < r.p->accumulate; i++) {
        r.control.accumulated = i;
        rig_batch(&r);
    }
    rig_update(&r);
    return r;
}

static void check_same(rig *a, rig *b, dg_space s, int k)
{
    size_t bytes = (size_t)dg_params_elements(a->params) * sizeof(double);
    void *x, *y;

    if (s != DG_WEIGHTS)
        bytes = (size_t)dg_params_trainable(a->params) * sizeof(double);
    x = rig_copy(a, s, bytes);
    y = rig_copy(b, s, bytes);
    if (memcmp(x, y, bytes) != 0)
        fail_msg("program %d: other bits in %s", k, dg_space_name(s));
    dg_free(x);
    dg_free(y);
}

static void random_programs_give_the_same_bits(void **state)
{
    dg_rng rng = dg_rng_begin(dg_rng_named(5, "join"), 0, 0);
    uint8_t bytes[300];
    int groups = 0, turns = 0;

    (void)state;
    for (int k = 0; k < 80; k++) {
        size_t n = 40 + dg_rng_below(&rng, sizeof bytes - 40);
        rig a, b;

        for (size_t i = 0; i < n; i++)
            bytes[i] = (uint8_t)dg_rng_below(&rng, 256);
        a = wild(bytes, n, false);
        b = wild(bytes, n, true);
        for (int i = 0; b.plan && i < b.p->instrs.n; i++) {
            groups += b.plan->instrs[i].joined > 1 && !b.plan->instrs[i].in_turn;
            turns += b.plan->instrs[i].joined > 1 && b.plan->instrs[i].in_turn;
        }
        if (a.plan) {
            check_same(&a, &b, DG_WEIGHTS, k);
            check_same(&a, &b, DG_GRADIENTS, k);
        }
        rig_close(&a);
        rig_close(&b);
    }
    print_message("# %d groups, %d of them in turn\n", groups + turns, turns);
    assert_true(groups > 100 && turns > 5);
}

/* ---- what is brought together ---------------------------------------------------------------- */

enum { LOSSES = 9 };

/* A loss for each of some layers, divided by a number that comes late, and their sum. */
static void build_losses(rig *r)
{
    dg_val x = dg_input(r->b, "x", DG_REAL, DG_SHAPE(3)), n, total = DG_NONE;

    n = dg_mean(r->b, x, DG_ALL_AXES, false);
    for (int i = 0; i < LOSSES; i++) {
        dg_val loss =
            dg_mean(r->b, dg_exp(r->b, dg_scale(r->b, x, 0.1 * i, 0)), DG_ALL_AXES, false);

        loss = dg_div(r->b, loss, n);
        total = dg_has(total) ? dg_add(r->b, total, loss) : loss;
    }
    dg_result(r->b, "total", total);
}

static void launches_of_a_loop_become_few(void **state)
{
    double result[2];

    (void)state;
    for (int joined = 0; joined < 2; joined++) {
        rig r = rig_open(false);
        int launches = 0;

        if (joined) {
            r.backend->joins = all_in_turn;
            r.backend->launch_joined = last_first;
        }
        build_losses(&r);
        rig_compile(&r, DG_F64);
        rig_input(&r, "x", (double[]){ 0.5, -0.25, 2 });
        rig_batch(&r);
        result[joined] = rig_result(&r, "total");
        for (int i = 0; i < r.p->instrs.n; i++)
            launches += !r.plan->instrs[i].alias && r.plan->instrs[i].joined >= 0;
        if (joined)
            assert_in_range(launches, 1, 8);
        else
            assert_in_range(launches, 5 * LOSSES, 8 * LOSSES);
        rig_close(&r);
    }
    assert_memory_equal(&result[0], &result[1], sizeof result[0]);
}

/* A draw of the caller's takes the place of a result: its launches go one by one. */
static void a_draw_is_no_launch_of_a_group(void **state)
{
    const double drawn[] = { 0.25, 0.5, 0.75 };
    rig r = rig_open(false);
    double y[3];

    (void)state;
    r.backend->joins = all_in_turn;
    r.backend->launch_joined = last_first;
    for (int i = 0; i < 3; i++) {
        char name[8] = { 'u', (char)('0' + i), '\0' };

        dg_result(r.b, name, dg_uniform(r.b, name, DG_SHAPE(3)));
    }
    rig_compile(&r, DG_F64);
    assert_int_equal(r.plan->instrs[0].joined, 3);
    assert_int_equal(dg_exec_draw(r.x, "net/u1", drawn, r.d), 0);
    rig_batch(&r);
    assert_int_equal(dg_exec_read(r.x, "u1", y, r.d), 0);
    assert_true(y[0] == 0.25 && y[2] == 0.75);
    assert_int_equal(dg_exec_read(r.x, "u2", y, r.d), 0);
    assert_true(y[0] >= 0 && y[0] < 1 && y[0] != 0.25);
    rig_close(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_programs_give_the_same_bits),
        cmocka_unit_test(launches_of_a_loop_become_few),
        cmocka_unit_test(a_draw_is_no_launch_of_a_group),
    };

    return cmocka_run_group_tests_name("join", tests, NULL, NULL);
}
