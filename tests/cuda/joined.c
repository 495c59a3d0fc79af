/* joined: on the device that CUDA_DEVICE names, or the stand-in of CUDA, launches that are given
 * together compute what they compute one by one, with guards, in turn, and where they are too many
 * for one launch; and the times of instructions come from the device's clock, read once behind the
 * run. */
#include "tests/check.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "tests/tensor/rig.h"

enum { N = 70, WIDE = 3000 /* elements: more than are computed in turn */ };

static rig open_rig(bool joined)
{
    const char *top = getenv("builddir"), *asked = getenv("CUDA_DEVICE");
    char name[4096];
    rig r;

    snprintf(name, sizeof name, "cuda:module=%s/tests/cuda/.libs/standin.so", top ? top : ".");
    r = rig_open_on(false, asked ? asked : name);
    if (!joined)
        r.backend->joins = NULL;
    return r;
}

/* Three sums side by side in the program, of which the last needs the second, which a guard may
 * skip. */
static void build_skipped(rig *r, dg_val x, dg_val flag)
{
    dg_val u = dg_mean(r->b, x, DG_ALL_AXES, false), v = dg_exp(r->b, u), skipped;

    dg_result(r->b, "before", dg_add(r->b, v, v));
    dg_guard_begin(r->b, flag);
    skipped = dg_add(r->b, u, v);
    dg_guard_end(r->b, 1, &skipped);
    dg_result(r->b, "behind", dg_add(r->b, skipped, v));
}

/* Sums, casts of numbers, a chain, rows that are cut out and put side by side; a part under a
 * guard. */
static void build(rig *r)
{
    dg_val x = dg_input(r->b, "x", DG_REAL, DG_SHAPE(WIDE)),
           flag = dg_input(r->b, "flag", DG_REAL, DG_SCALAR), total = dg_number(r->b, 1);

    for (int i = 0; i < N; i++) {
        dg_val part = dg_slice(r->b, x, 0, 3 * i, 100 + 4 * i), mean;

        if (i % 10 == 9)
            dg_guard_begin(r->b, flag);
        mean = dg_mean(r->b, dg_scale(r->b, part, 1 + i, 0.5), DG_ALL_AXES, false);
        mean = dg_div(r->b, mean, dg_number(r->b, 3));
        if (i % 10 == 9)
            dg_guard_end(r->b, 1, &mean);
        total = dg_add(r->b, total, mean);
        if (i % 7 == 0) {
            char text[16];

            snprintf(text, sizeof text, "wide%d", i);
            dg_result(r->b, text, dg_exp(r->b, dg_scale(r->b, x, 0.01 * i, 0)));
        }
    }
    dg_result(r->b, "total", total);
    build_skipped(r, x, flag);
}

static int count_results(const rig *r)
{
    return r->p->results.n;
}

/* Three runs, so that the last one is a replay; all results, one behind the other. */
static double *run(bool joined, double flag, int64_t *pieces, int *n)
{
    rig r = open_rig(joined);
    const double there = 1;
    double x[WIDE], *all;
    int64_t before;

    build(&r);
    rig_compile(&r, DG_F32);
    for (int i = 0; i < WIDE; i++)
        x[i] = sin(0.1 * i);
    for (int k = 0; k < 3; k++) {
        rig_input(&r, "x", x);
        rig_input(&r, "flag", k == 0 ? &there : &flag); /* what it leaves behind must not be read */
        before = r.backend->n_put;
        rig_batch(&r);
        if (k == 0)
            *pieces = r.backend->n_put - before;
    }
    *n = 0;
    all = malloc((size_t)count_results(&r) * WIDE * sizeof *all);
    assert_non_null(all);
    for (int i = 0; i < count_results(&r); i++) {
        assert_int_equal(dg_exec_read(r.x, r.p->results.items[i].name, all + *n, r.d), 0);
        *n += (int)dg_shape_elements(r.p->values.items[r.p->results.items[i].value].shape);
    }
    rig_close(&r);
    return all;
}

static void the_bits_are_those_of_single_launches(void **state)
{
    (void)state;
    for (int flag = 0; flag < 2; flag++) {
        int64_t alone, together;
        int n, m;
        double *one = run(false, flag, &alone, &n), *other = run(true, flag, &together, &m);

        assert_int_equal(n, m);
        for (int i = 0; i < n; i++)
            assert_true(isfinite(one[i]));
        assert_memory_equal(one, other, (size_t)n * sizeof *one);
        print_message("# %lld pieces of work become %lld\n", (long long)alone, (long long)together);
        assert_true(together < alone / 5);
        free(one);
        free(other);
    }
}

/* ---- parameters that are cast ahead of their readers -------------------------------------------
 */

enum { IMAGE = 2 * 6 * 6 * 8, WEIGHTS = 5 };
static const char *const weights[WEIGHTS] = { "net.one", "net.taps", "net.shift", "net.w",
                                              "net.b" };

/* A kernel of one tap, one of nine with a bias, a product with a bias. */
static void build_net(rig *r)
{
    dg_build *b = r->b;
    dg_val x = dg_input(b, "x", DG_REAL, DG_SHAPE(2, 6, 6, 8)), y;

    x = dg_conv2d(b, x, dg_param(b, "one", DG_SHAPE(16, 8, 1, 1), dg_init_fan_in(8)), DG_NONE, 1,
                  0);
    x = dg_conv2d(b, x, dg_param(b, "taps", DG_SHAPE(8, 16, 3, 3), dg_init_fan_in(144)),
                  dg_param(b, "shift", DG_SHAPE(8), dg_init_const(0.5)), 1, 1);
    y = dg_linear(b, dg_reshape(b, x, DG_SHAPE(72, 8)),
                  dg_param(b, "w", DG_SHAPE(5, 8), dg_init_fan_in(8)),
                  dg_param(b, "b", DG_SHAPE(5), dg_init_const(-0.25)));
    dg_backward(b, dg_mean(b, dg_mul(b, y, y), DG_ALL_AXES, false), 1);
}

static int64_t elements_of(const rig *r, const char *path)
{
    for (int i = 0; i < dg_params_n(r->params); i++)
        if (strcmp(dg_params_at(r->params, i)->path, path) == 0)
            return dg_shape_elements(dg_params_at(r->params, i)->shape);
    fail_msg("no parameter %s", path);
    return 0;
}

static void read_gradients(rig *r, double out[WEIGHTS][2048])
{
    double x[IMAGE];

    build_net(r);
    rig_compile(r, DG_F32);
    for (int i = 0; i < IMAGE; i++)
        x[i] = cos(0.37 * i);
    rig_input(r, "x", x);
    rig_batch(r);
    for (int k = 0; k < WEIGHTS; k++)
        rig_get(r, DG_GRADIENTS, weights[k], out[k]);
}

static void products_read_cast_parameters(void **state)
{
    static double got[WEIGHTS][2048], want[WEIGHTS][2048];
    const char *top = getenv("builddir");
    char plain[4096];

    (void)state;
    snprintf(plain, sizeof plain, "cuda:module=%s/tests/cuda/.libs/standin.so,plain=1",
             top ? top : ".");
    for (int library = 0; library < 2; library++) {
        rig r = library ? open_rig(true) : rig_open_on(true, plain), ref = rig_open_on(true, "ref");

        r.low = DG_BF16;
        r.p->training = true;
        read_gradients(&ref, want);
        read_gradients(&r, got);
        assert_true(rig_count(&r, DG_OP(cast)) >= 4);
        for (int k = 0; k < WEIGHTS; k++) {
            int64_t n = elements_of(&r, weights[k]);
            double most = 0;

            for (int64_t i = 0; i < n; i++)
                most = fmax(most, fabs(want[k][i]));
            assert_true(most > 1e-4);
            for (int64_t i = 0; i < n; i++)
                if (!(fabs(got[k][i] - want[k][i]) < 0.03 * most))
                    fail_msg("%s[%d] is %g, not %g", weights[k], (int)i, got[k][i], want[k][i]);
        }
        rig_close(&r);
        rig_close(&ref);
    }
}

/* ---- times ----------------------------------------------------------------------------------- */

typedef struct timer {
    const rig *r;
    int n, last;
    double end_s;
    int64_t pieces;
} timer;

static void note(void *ctx, int instr, const dg_ran *how)
{
    timer *t = ctx;

    assert_true(instr > t->last);
    assert_true(how->begin_s >= t->end_s && how->end_s >= how->begin_s);
    t->last = instr;
    t->end_s = how->end_s;
    t->pieces += how->pieces;
    t->n++;
}

static void the_devices_clock_times_instructions(void **state)
{
    rig r = open_rig(true);
    timer t = { .r = &r, .last = -1 };
    const dg_exec_observer clock = { .ctx = &t, .ran = note };
    double x[WIDE] = { 0 }, flag = 1;
    dg_exec_counts before, after;

    (void)state;
    build(&r);
    rig_compile(&r, DG_F32);
    dg_exec_observe(r.x, &clock);
    rig_input(&r, "x", x);
    rig_input(&r, "flag", &flag);
    before = dg_exec_count(r.x);
    rig_batch(&r);
    after = dg_exec_count(r.x);
    assert_true(t.n > 20 && t.pieces > 10);
    assert_int_equal(after.waits - before.waits, 1); /* behind the run */
    assert_true(after.waited_s > before.waited_s);
    dg_exec_unobserve(r.x, &clock);
    rig_close(&r);
}

static void a_time_is_of_events_that_have_passed(void **state)
{
    rig r = open_rig(true);
    dg_backend *b = r.backend;
    dg_event *from = b->stamp_open(b), *to = b->stamp_open(b);
    dg_recording *none;
    double s = -1;

    (void)state;
    assert_true(from && to);
    assert_int_equal(b->event_record(b, from, DG_LANE_COMPUTE), 0);
    assert_int_equal(b->event_record(b, to, DG_LANE_COMPUTE), 0);
    assert_int_equal(b->event_wait(b, to), 0);
    assert_int_equal(b->seconds(b, from, to, &s), 0);
    assert_true(s >= 0 && s < 600);
    assert_int_equal(b->record_begin(b, DG_LANE_COMPUTE), 0);
    assert_int_equal(b->event_record(b, to, DG_LANE_COMPUTE), -DG_EUNSUPPORTED);
    assert_int_equal(b->record_end(b, &none), 0);
    b->recording_close(b, &none);
    b->event_close(b, &from);
    b->event_close(b, &to);
    rig_close(&r);
}

/* Recorded and replayed, without a wait for it, and still with a run that is timed in between. */
static void how_busy_the_device_is_costs_no_wait(void **state)
{
    rig r = open_rig(true);
    timer t = { .r = &r };
    const dg_exec_observer clock = { .ctx = &t, .ran = note };
    double x[WIDE] = { 0 }, flag = 1, result, before = 0;
    dg_exec_counts n;

    (void)state;
    build(&r);
    rig_compile(&r, DG_F32);
    for (int i = 0; i < 5; i++) {
        const double began = dg_monotonic_s();

        t = (timer){ .r = &r, .last = -1 };
        if (i == 3)
            dg_exec_observe(r.x, &clock);
        else
            dg_exec_unobserve(r.x, &clock);
        rig_input(&r, "x", x);
        rig_input(&r, "flag", &flag);
        rig_batch(&r);
        if (i != 3)
            assert_true(dg_exec_count(r.x).device_s == before); /* read after the next wait */
        assert_int_equal(dg_exec_read(r.x, "total", &result, r.d), 0);
        n = dg_exec_count(r.x);
        assert_int_equal(n.waits, i + 1);
        assert_true(n.device_s > before && n.device_s - before < dg_monotonic_s() - began);
        before = n.device_s;
    }
    assert_int_equal(n.recordings, 1);
    assert_int_equal(n.replays, 3);
    rig_close(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_bits_are_those_of_single_launches),
        cmocka_unit_test(products_read_cast_parameters),
        cmocka_unit_test(the_devices_clock_times_instructions),
        cmocka_unit_test(how_busy_the_device_is_costs_no_wait),
        cmocka_unit_test(a_time_is_of_events_that_have_passed),
    };

    return cmocka_run_group_tests_name("joined", tests, NULL, NULL);
}
