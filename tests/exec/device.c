/* device: the executor on a device that works later than it is called: what a run leaves is read
 * when the device has done it, and a failure that shows late names the instruction that failed. */
#include "tests/tensor/rig.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "kernels/peers.h"
#include "tests/comm/crew.h"

static const char *const devices[] = { "ref", "far:ref", "far:ref,seed=1", "far:ref,eager" };
enum { N_DEVICES = sizeof devices / sizeof devices[0] };

/* ---- values that are looked at while a run goes on ------------------------------------------- */

enum { N_MONITORS = 3, N_STEPS = 4 }; /* walked, recorded, replayed twice */

typedef struct seen {
    double value[N_STEPS][N_MONITORS], loss[N_STEPS];
    int step;
} seen;

static void note_value(void *ctx, int monitor, const void *bytes, size_t n)
{
    seen *s = ctx;
    float v;

    assert_int_equal(n, sizeof v);
    memcpy(&v, bytes, sizeof v);
    s->value[s->step][monitor] = (double)v;
}

static void end_value(void *ctx, int monitor)
{
    (void)ctx;
    (void)monitor;
}

static void watch(rig *r, int monitor, dg_val v)
{
    static const char *const names[N_MONITORS] = { "watch/0", "watch/1", "watch/2" };

    dg_result_as(r->b,
                 &(dg_binding){
                     .name = names[monitor], .kind = DG_RESULT_MONITOR_VALUE, .index = monitor },
                 v);
}

/* Monitors before, between and behind two collectives: the host looks before each of them. */
static void watched_run(const char *device, dg_comm *comm, seen *s)
{
    rig r = rig_open_on(false, device);
    dg_exec_observer watcher = { .ctx = s, .value = note_value, .value_end = end_value };
    dg_val x, y;

    dg_build_axis(r.b, "dp", comm->ranks);
    x = dg_sum(r.b, dg_input(r.b, "x", DG_REAL, DG_SHAPE(3)), DG_ALL_AXES, false);
    watch(&r, 0, x);
    y = dg_scale(r.b, dg_all_reduce(r.b, x, DG_SUM, "dp"), 2, 0);
    watch(&r, 1, y);
    y = dg_exp(r.b, dg_all_reduce(r.b, dg_scale(r.b, y, 0.01, 0), DG_SUM, "dp"));
    watch(&r, 2, y);
    dg_result(r.b, "loss", dg_scale(r.b, y, 3, 0));
    rig_compile_rank(&r, DG_F32, comm);
    dg_exec_observe(r.x, &watcher);
    for (s->step = 0; s->step < N_STEPS; s->step++) {
        rig_input(&r, "x", (double[]){ s->step, comm->rank, 1 });
        rig_batch(&r);
        s->loss[s->step] = rig_result(&r, "loss");
    }
    if (!r.backend->immediate) { /* a piece before, between and behind the collectives */
        assert_int_equal(dg_exec_count(r.x).recordings, 3);
        assert_int_equal(dg_exec_count(r.x).replays, 3 * (N_STEPS - 1));
    }
    rig_close(&r);
}

static const char *watch_on_all_devices(dg_comm *comm, void *ctx)
{
    seen s[N_DEVICES] = { 0 };

    (void)ctx;
    for (int i = 0; i < N_DEVICES; i++)
        watched_run(devices[i], comm, &s[i]);
    for (int step = 0; step < N_STEPS; step++) {
        double sum = 2 * (2.0 * step + 1 + 2); /* of both ranks, doubled */

        WRONG_UNLESS(s[0].value[step][0] == step + comm->rank + 1);
        WRONG_UNLESS(s[0].value[step][1] == sum);
        WRONG_UNLESS(fabs(s[0].loss[step] - 3 * exp(2 * 0.01 * sum)) < 1e-5);
    }
    for (int i = 1; i < N_DEVICES; i++)
        WRONG_UNLESS(memcmp(&s[i], &s[0], sizeof s[0]) == 0);
    return NULL;
}

static void what_is_looked_at_is_what_was_computed(void **state)
{
    (void)state;
    crew_run(2, watch_on_all_devices, NULL);
}

typedef struct counted {
    int shown, ended;
} counted;

static void count_value(void *ctx, int monitor, const void *bytes, size_t n)
{
    counted *c = ctx;

    (void)monitor, (void)bytes, (void)n;
    c->shown++;
}

static void count_end(void *ctx, int monitor)
{
    counted *c = ctx;

    (void)monitor;
    c->ended++;
}

/* Where its flag is 0, a value is zeros, which must not be compared. */
static void what_is_absent_is_not_shown(void **state)
{
    (void)state;
    for (int i = 0; i < N_DEVICES; i++) {
        rig r = rig_open_on(false, devices[i]);
        counted c = { 0 };
        dg_exec_observer counter = { .ctx = &c, .value = count_value, .value_end = count_end };
        dg_val x = dg_input(r.b, "x", DG_REAL, DG_SCALAR),
               flag = dg_input(r.b, "flag", DG_I32, DG_SCALAR), y;

        dg_guard_begin(r.b, flag);
        y = dg_exp(r.b, x);
        dg_guard_end(r.b, 1, &y);
        dg_result_as(r.b, &(dg_binding){ .name = "there/0", .kind = DG_RESULT_MONITOR_THERE },
                     flag);
        watch(&r, 0, y);
        rig_compile(&r, DG_F32);
        dg_exec_observe(r.x, &counter);
        for (int step = 0; step < N_STEPS; step++) {
            rig_input(&r, "x", (double[]){ step });
            rig_input(&r, "flag", (double[]){ step % 2 });
            rig_batch(&r);
        }
        assert_int_equal(c.shown, N_STEPS / 2);
        assert_int_equal(c.ended, N_STEPS);
        rig_close(&r);
    }
}

/* ---- faults ---------------------------------------------------------------------------------- */

enum { FIRST_LINE = 3, N_NODES = 5 }; /* as rig_node numbers them */

/* A node a line; behind the third a collective, if there are ranks. */
static void build_nodes(rig *r, dg_comm *comm)
{
    static const char *const names[N_NODES] = { "a", "b", "c", "d", "e" };
    dg_val x = dg_input(r->b, "x", DG_REAL, DG_SHAPE(2));

    for (int i = 0; i < N_NODES; i++) {
        rig_node(r, i, names[i], false);
        x = i % 2 ? dg_exp(r->b, x) : dg_scale(r->b, x, 0.5, 1);
        if (comm && i == 2)
            x = dg_all_reduce(r->b, x, DG_SUM, "dp");
    }
    dg_result(r->b, "y", x);
}

/* Places are numbered by line. */
static uint32_t number_line(void *ctx, const dg_where *at)
{
    (void)ctx;
    return (uint32_t)at->line;
}

static void nobody_calls(void *ctx, uint32_t place)
{
    (void)ctx, (void)place;
    fail_msg("the lane writes the place, and the host was called");
}

static void count(void *ctx, int instr, const dg_ran *how)
{
    (void)instr;
    (void)how;
    ++*(int *)ctx;
}

/* The n-th launch of N_STEPS runs fails: 0, or the status after reading; the error is in *err. */
static int run_with_fault(int n, dg_comm *comm, bool timed, dg_err *err)
{
    char device[32];
    double y[2];
    int rc = 0, ran = 0;
    dg_exec_observer timer = { .ctx = &ran, .ran = count };
    rig r;

    snprintf(device, sizeof device, "far:ref,fault=%d", n);
    r = rig_open_on(false, device);
    if (comm)
        dg_build_axis(r.b, "dp", comm->ranks);
    build_nodes(&r, comm);
    rig_compile_rank(&r, DG_F32, comm);
    if (timed)
        dg_exec_observe(r.x, &timer);
    rig_input(&r, "x", (double[]){ 0.1, 0.2 });
    for (int step = 0; step < N_STEPS && rc == 0; step++) {
        rc = dg_exec_run(r.x, DG_SEG_BATCH, &r.control, r.d);
        if (rc == 0 && !timed && !comm)
            assert_int_equal(dg_diag_n(r.d), 0); /* nothing is known yet */
        if (rc == 0)
            rc = dg_exec_read(r.x, "y", y, r.d);
    }
    assert_int_equal(dg_diag_n(r.d), rc < 0);
    if (rc < 0)
        *err = *dg_diag_at(r.d, 0);
    if (rc < 0) { /* what outlives r */
        assert_string_equal(err->id, "kernel-failed");
        err->text = strstr(err->text, (n - 1) % N_NODES % 2 ? "exp failed" : "scale failed");
        assert_non_null(err->text);
    }
    rig_close(&r);
    return rc;
}

static const char *every_fault_names_its_node(dg_comm *comm, void *ctx)
{
    dg_err err = { 0 };

    for (int n = 1; n <= N_NODES * N_STEPS; n++) {
        WRONG_UNLESS(run_with_fault(n, comm->ranks > 1 ? comm : NULL, ctx != NULL, &err) ==
                     -DG_EIO);
        WRONG_UNLESS(err.at.line == FIRST_LINE + (n - 1) % N_NODES);
    }
    WRONG_UNLESS(run_with_fault(N_NODES * N_STEPS + 1, comm->ranks > 1 ? comm : NULL, ctx != NULL,
                                &err) == 0);
    return NULL;
}

static void a_late_fault_names_its_node(void **state)
{
    int timed = 1;

    (void)state;
    crew_run(1, every_fault_names_its_node, NULL);
    crew_run(1, every_fault_names_its_node, &timed);
    crew_run(2, every_fault_names_its_node, NULL);
}

/* Devices that exchange, and come upon a failure in doing so. */
typedef struct toy_peers {
    dg_peers pub;
    dg_backend *backend;
    dg_comm comm;
    const char *why, *host_s; /* NULL: the devices' exchange, and the host's meeting, are well */
    int rc;                   /* 0: what the device says; else this, without a reason */
} toy_peers;

static int has_room(dg_peers *self, size_t bytes, size_t given)
{
    (void)self;
    return bytes == 2 * sizeof(float) && given == 0 ? 0 : -DG_EMEMORY;
}

static int comes_upon_it(dg_peers *self, dg_tensor x, void *y, dg_reduce op, int mark)
{
    toy_peers *t = (toy_peers *)(void *)self;
    int rc = t->why || t->host_s ? -DG_EIO : t->rc ? t->rc : t->backend->finish(t->backend);

    (void)x, (void)y, (void)op, (void)mark;
    snprintf(t->pub.why, sizeof t->pub.why, "%s", t->why ? t->why : "");
    snprintf(t->comm.why, sizeof t->comm.why, "%s", t->host_s ? t->host_s : "");
    return rc;
}

static void fail_between_devices(toy_peers t, const char *id, int line, const char *text)
{
    rig r = rig_open_on(false, "far:ref,fault=2");

    t.pub.reserve = has_room;
    t.pub.reduce = comes_upon_it;
    t.backend = r.backend;
    t.comm.ranks = 2;
    t.comm.peers = &t.pub;
    dg_build_axis(r.b, "dp", 2);
    build_nodes(&r, &t.comm);
    rig_compile_rank(&r, DG_F32, &t.comm);
    rig_input(&r, "x", (double[]){ 0.1, 0.2 });
    assert_int_equal(dg_exec_run(r.x, DG_SEG_BATCH, &r.control, r.d), t.rc ? t.rc : -DG_EIO);
    assert_int_equal(dg_diag_at(r.d, 0)->at.line, FIRST_LINE + line);
    assert_non_null(strstr(dg_diag_at(r.d, 0)->text, text));
    check_only(r.d, id);
    rig_close(&r);
}

/* The exchange is not blamed for what failed before it. */
static void a_fault_that_an_exchange_meets_names_its_node(void **state)
{
    (void)state;
    fail_between_devices((toy_peers){ 0 }, "kernel-failed", 1, "exp failed");
    fail_between_devices((toy_peers){ .why = "NCCL: toy" }, "collective-failed", 2, "NCCL: toy");
    fail_between_devices((toy_peers){ .host_s = "rank 1 has left" }, "collective-failed", 2,
                         "all_reduce: rank 1 has left");
    fail_between_devices((toy_peers){ .rc = -DG_EMEMORY }, "collective-failed", 2,
                         "all_reduce: out of memory");
}

/* Another plan's wait comes upon the fault: no instruction of its own is blamed. */
static void a_fault_of_another_plan_is_not_ours(void **state)
{
    rig r = rig_open_on(false, "far:ref,fault=2");
    dg_exec *other = NULL;
    double y[2];

    (void)state;
    build_nodes(&r, NULL);
    rig_compile(&r, DG_F32);
    assert_int_equal(dg_exec_open(&other, r.plan, r.backend, &r.spaces, NULL, r.d), 0);
    rig_input(&r, "x", (double[]){ 0.1, 0.2 });
    rig_batch(&r);
    assert_int_equal(dg_exec_run(other, DG_SEG_BATCH, &r.control, r.d), 0);
    assert_int_equal(dg_exec_read(other, "y", y, r.d), -DG_EIO);
    assert_null(dg_diag_at(r.d, 0)->at.node);
    assert_non_null(strstr(dg_diag_at(r.d, 0)->text, "the device failed"));
    check_only(r.d, "kernel-failed");
    for (int i = 0; i < 2; i++) { /* whose it is; again when asked again */
        assert_int_equal(dg_exec_read(r.x, "y", y, r.d), -DG_EIO);
        assert_int_equal(dg_diag_at(r.d, 0)->at.line, FIRST_LINE + 1);
        check_only(r.d, "kernel-failed");
    }
    dg_exec_close(&other);
    rig_close(&r);
}

/* ---- recordings ------------------------------------------------------------------------------ */

static void run_and_compare(rig *r, rig *host, double x)
{
    double y[2], expected[2];

    for (int i = 0; i < N_STEPS; i++) {
        rig_input(r, "x", (double[]){ x, i });
        rig_input(host, "x", (double[]){ x, i });
        rig_batch(r);
        rig_batch(host);
        assert_int_equal(dg_exec_read(r->x, "y", y, r->d), 0);
        assert_int_equal(dg_exec_read(host->x, "y", expected, host->d), 0);
        assert_memory_equal(y, expected, sizeof y);
    }
}

/* A recording has addresses and instructions; it goes when one of them does. (The far device fails
 * a replay whose launches have changed.) */
static void a_recording_lives_as_long_as_what_it_does(void **state)
{
    uint32_t word = 0;
    dg_exec_observer observer = { .place = number_line, .at = nobody_calls, .word = &word };
    rig r = rig_open_on(false, "far:ref"), host = rig_open_on(false, "ref");
    void *old;

    (void)state;
    build_nodes(&r, NULL);
    build_nodes(&host, NULL);
    rig_compile(&r, DG_F32);
    rig_compile(&host, DG_F32);
    assert_int_equal(dg_exec_count(host.x).recordings, 0);
    run_and_compare(&r, &host, 1);
    assert_int_equal(dg_exec_count(r.x).recordings, 1);
    old = r.spaces.at[DG_SLAB];
    r.spaces.at[DG_SLAB] = r.backend->alloc(r.backend, (size_t)r.plan->slab_bytes);
    assert_int_equal(dg_exec_bind(r.x, &r.spaces, r.d), 0);
    r.backend->free(r.backend, old);
    run_and_compare(&r, &host, 2);
    assert_int_equal(dg_exec_count(r.x).recordings, 2);
    dg_exec_observe(r.x, &observer); /* its signs are part of the work */
    run_and_compare(&r, &host, 3);
    assert_int_equal(dg_exec_count(r.x).recordings, 3);
    assert_int_equal(word, FIRST_LINE + N_NODES - 1);
    word = 0;
    run_and_compare(&r, &host, 4);
    assert_int_equal(word, FIRST_LINE + N_NODES - 1);
    dg_exec_unobserve(r.x, &observer);
    word = 0;
    run_and_compare(&r, &host, 5);
    assert_int_equal(word, 0);
    assert_int_equal(dg_exec_count(r.x).recordings, 4);
    assert_int_equal(dg_exec_count(r.x).replays, 3 * 4 + N_STEPS);
    rig_close(&host);
    rig_close(&r);
}

/* Draws that a test brings are no work of the device: it walks around them. */
static void a_draw_divides_a_recording(void **state)
{
    static const double values[] = { 0.25, 0.75 };
    rig r = rig_open_on(false, "far:ref");
    double drawn[2], y[2];

    (void)state;
    dg_result(r.b, "y", dg_exp(r.b, dg_uniform(r.b, "u", DG_SHAPE(2))));
    rig_compile(&r, DG_F32);
    for (int i = 0; i < N_STEPS; i++)
        rig_batch(&r);
    assert_int_equal(dg_exec_read(r.x, "y", drawn, r.d), 0);
    assert_int_equal(dg_exec_draw(r.x, "net/u", values, r.d), 0);
    for (int i = 0; i < N_STEPS; i++) {
        rig_batch(&r);
        assert_int_equal(dg_exec_read(r.x, "y", y, r.d), 0);
        assert_true(fabs(y[0] - exp(0.25)) < 1e-6 && fabs(y[1] - exp(0.75)) < 1e-6);
    }
    assert_int_equal(dg_exec_draw(r.x, "net/u", NULL, r.d), 0);
    for (int i = 0; i < N_STEPS; i++) {
        rig_batch(&r);
        assert_int_equal(dg_exec_read(r.x, "y", y, r.d), 0);
        assert_memory_equal(y, drawn, sizeof y);
    }
    assert_int_equal(dg_exec_count(r.x).recordings, 3);
    rig_close(&r);
}

/* ---- ops that the device lacks --------------------------------------------------------------- */

/* exp under a guard, in the slab and in the report. */
static void guarded_run(const char *device, double y[N_STEPS][2])
{
    rig r = rig_open_on(false, device);
    dg_val x = dg_input(r.b, "x", DG_REAL, DG_SHAPE(2)), u;

    dg_guard_begin(r.b, dg_input(r.b, "flag", DG_REAL, DG_SCALAR));
    u = dg_exp(r.b, dg_exp(r.b, dg_scale(r.b, x, 0.5, 0)));
    dg_guard_end(r.b, 1, &u);
    dg_result(r.b, "y", dg_add(r.b, dg_exp(r.b, x), u));
    rig_compile(&r, DG_F32);
    for (int i = 0; i < N_STEPS; i++) {
        rig_input(&r, "x", (double[]){ i, 0.5 });
        rig_input(&r, "flag", (double[]){ i % 2 });
        rig_batch(&r);
        assert_int_equal(dg_exec_read(r.x, "y", y[i], r.d), 0);
    }
    assert_int_equal(dg_exec_count(r.x).recordings, r.backend->immediate ? 0 : 2);
    rig_close(&r);
}

static void the_host_stands_in(void **state)
{
    static const char *const lacking[] = { "far:lacks=exp", "far:seed=2,lacks=exp",
                                           "far:eager,lacks=exp" };
    double host[N_STEPS][2], far[N_STEPS][2];

    (void)state;
    guarded_run("cpu", host);
    for (size_t i = 0; i < sizeof lacking / sizeof lacking[0]; i++) {
        guarded_run(lacking[i], far);
        assert_memory_equal(far, host, sizeof far);
    }
    for (int i = 0; i < N_STEPS; i++)
        assert_true(fabs(host[i][1] - exp(0.5) - (i % 2 ? exp(exp(0.25)) : 0)) < 1e-5);
}

/* ---- waiting --------------------------------------------------------------------------------- */

static void a_run_is_awaited_once(void **state)
{
    (void)state;
    for (int i = 0; i < N_DEVICES; i++) {
        rig r = rig_open_on(false, devices[i]);

        build_nodes(&r, NULL);
        rig_compile(&r, DG_F32);
        for (int n = 1; n <= 3; n++) {
            double y[2];

            rig_input(&r, "x", (double[]){ n, 0.2 });
            rig_batch(&r);
            assert_int_equal(dg_exec_read(r.x, "y", y, r.d), 0);
            assert_int_equal(dg_exec_read(r.x, "y", y, r.d), 0);
            assert_int_equal(dg_exec_count(r.x).waits, i ? n : 0);
        }
        rig_close(&r);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_looked_at_is_what_was_computed),
        cmocka_unit_test(what_is_absent_is_not_shown),
        cmocka_unit_test(a_late_fault_names_its_node),
        cmocka_unit_test(a_fault_that_an_exchange_meets_names_its_node),
        cmocka_unit_test(a_fault_of_another_plan_is_not_ours),
        cmocka_unit_test(a_recording_lives_as_long_as_what_it_does),
        cmocka_unit_test(a_draw_divides_a_recording),
        cmocka_unit_test(the_host_stands_in),
        cmocka_unit_test(a_run_is_awaited_once),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
