/* landing: a batch lands while the run before it is under way, on a lane of its own. */
#include "tests/tensor/rig.h"

#include <string.h>

#include "tests/comm/crew.h"

static const char *const devices[] = { "far:ref", "far:ref,seed=1", "far:ref,seed=2",
                                       "far:ref,eager" };
enum { N_DEVICES = sizeof devices / sizeof devices[0], N = 64, N_BATCHES = 6 };

typedef struct trip {
    rig r;
    dg_landing l;
    int32_t x, k;
} trip;

/* y = 2 x + k, where k comes in another input and is summed over the ranks of comm, if any. */
static void open_ranked(trip *t, const char *device, dg_comm *comm)
{
    dg_val k, x;

    *t = (trip){ .r = rig_open_on(false, device) };
    k = dg_input(t->r.b, "k", DG_REAL, DG_SCALAR);
    x = dg_input(t->r.b, "x", DG_REAL, DG_SHAPE(N));
    if (comm) {
        dg_build_axis(t->r.b, "dp", comm->ranks);
        k = dg_all_reduce(t->r.b, k, DG_SUM, "dp");
    }
    dg_result(t->r.b, "y", dg_add(t->r.b, dg_scale(t->r.b, x, 2, 0), k));
    rig_compile_rank(&t->r, DG_F32, comm);
    dg_exec_close(&t->r.x);
    assert_int_equal(dg_landing_open(&t->l, t->r.backend, t->r.plan->io_bytes, t->r.d), 0);
    t->r.spaces.landing = &t->l;
    assert_int_equal(dg_exec_open(&t->r.x, t->r.plan, t->r.backend, &t->r.spaces, comm, t->r.d), 0);
    t->x = dg_program_input(t->r.p, "x");
    t->k = dg_program_input(t->r.p, "k");
}

static void open_trip(trip *t, const char *device)
{
    open_ranked(t, device, NULL);
}

static void close_trip(trip *t)
{
    dg_exec_close(&t->r.x);
    dg_landing_close(&t->l);
    rig_close(&t->r);
}

/* ahead: the number of the batch to come, or -1: for the next run. f64 is converted on the way. */
static void write_x(trip *t, int ahead, double value)
{
    double x[N];
    const dg_tensor from = { DG_F64, DG_SHAPE(N), x };

    for (int i = 0; i < N; i++)
        x[i] = value + i;
    assert_int_equal(ahead < 0 ? dg_exec_write(t->r.x, t->x, &from, t->r.d)
                               : dg_exec_write_ahead(t->r.x, ahead, t->x, &from, t->r.d),
                     0);
}

static void write_k(trip *t, float k)
{
    assert_int_equal(dg_exec_write(t->r.x, t->k, &(dg_tensor){ DG_F32, DG_SCALAR, &k }, t->r.d), 0);
}

static void expect_y(trip *t, double x, double k)
{
    double y[N];

    assert_int_equal(dg_exec_read(t->r.x, "y", y, t->r.d), 0);
    for (int i = 0; i < N; i++)
        assert_true(y[i] == 2 * (x + i) + k);
}

static void batches_in_turn(void **state)
{
    (void)state;
    for (int d = 0; d < N_DEVICES; d++) {
        trip t;

        open_trip(&t, devices[d]);
        for (int i = 0; i < N_BATCHES; i++) {
            write_x(&t, -1, i - 100); /* the first of two writes loses */
            write_x(&t, -1, i);
            write_k(&t, (float)i / 2);
            rig_batch(&t.r);
            expect_y(&t, i, (float)i / 2);
            assert_int_equal(dg_exec_count(t.r.x).waits, i + 1);
        }
        rig_batch(&t.r); /* what is not written stays */
        expect_y(&t, N_BATCHES - 1, (float)(N_BATCHES - 1) / 2);
        close_trip(&t);
    }
}

/* Written ahead, a batch is there for the run after, and not for this one. */
static void batches_ahead(void **state)
{
    (void)state;
    for (int d = 0; d < N_DEVICES; d++) {
        trip t;

        open_trip(&t, devices[d]);
        write_k(&t, 1);
        write_x(&t, -1, 0);
        for (int i = 0; i < N_BATCHES; i++) {
            rig_batch(&t.r);
            write_x(&t, i + 1, 10 * (i + 1));
            rig_batch(&t.r); /* does not see it */
            expect_y(&t, 10 * i, 1);
            assert_false(dg_exec_take_ahead(t.r.x, i + 2));
            assert_true(dg_exec_take_ahead(t.r.x, i + 1));
            assert_false(dg_exec_take_ahead(t.r.x, i + 1));
        }
        assert_int_equal(dg_exec_count(t.r.x).ahead, N_BATCHES);
        rig_batch(&t.r);
        expect_y(&t, 10 * N_BATCHES, 1);
        write_x(&t, 7, 70);
        write_x(&t, 8, 80); /* gives up 7 */
        assert_false(dg_exec_take_ahead(t.r.x, 7));
        write_k(&t, 3); /* and this gives up 8 */
        assert_false(dg_exec_take_ahead(t.r.x, 8));
        rig_batch(&t.r);
        expect_y(&t, 10 * N_BATCHES, 3);
        close_trip(&t);
    }
}

/* Two programs share the landing: what one has ahead does not reach the other. */
static void programs_share_it(void **state)
{
    (void)state;
    for (int d = 0; d < N_DEVICES; d++) {
        dg_exec *other = NULL, *own;
        trip t;

        open_trip(&t, devices[d]);
        own = t.r.x;
        assert_int_equal(dg_exec_open(&other, t.r.plan, t.r.backend, &t.r.spaces, NULL, t.r.d), 0);
        write_k(&t, 0);
        write_x(&t, -1, 1);
        rig_batch(&t.r);
        write_x(&t, 5, 50);
        t.r.x = other;
        rig_batch(&t.r);
        expect_y(&t, 1, 0); /* io as it was */
        write_x(&t, -1, 2);
        rig_batch(&t.r);
        expect_y(&t, 2, 0);
        t.r.x = own;
        assert_false(dg_exec_take_ahead(own, 5));
        dg_exec_close(&other);
        close_trip(&t);
    }
}

static int note(void *ran)
{
    *(bool *)ran = true;
    return 0;
}

/* The copy of a batch ahead waits for the run before to have moved its batch, not to have computed;
 * and that run's results do not wait for the copy. */
static void copy_and_run_do_not_wait_for_each_other(void **state)
{
    bool computed = false, copying = false;
    dg_event *copied;
    dg_backend *b;
    trip t;

    (void)state;
    open_trip(&t, "far:ref,patience=600000");
    b = t.r.backend;
    copied = b->event_open(b);
    write_k(&t, 0);
    write_x(&t, -1, 1);
    rig_batch(&t.r);
    assert_int_equal(b->call(b, DG_LANE_COMPUTE, note, &computed, DG_NO_MARK), 0);
    write_x(&t, 1, 10);
    assert_int_equal(b->event_record(b, copied, DG_LANE_COPY), 0);
    assert_int_equal(b->event_wait(b, copied), 0);
    assert_false(computed); /* it has landed before the run was done */
    assert_true(dg_exec_take_ahead(t.r.x, 1));
    rig_batch(&t.r);
    assert_int_equal(b->call(b, DG_LANE_COPY, note, &copying, DG_NO_MARK), 0);
    write_x(&t, 2, 20);
    expect_y(&t, 10, 0);
    assert_true(computed);
    assert_false(copying); /* the result came before the copy began */
    b->event_close(b, &copied);
    close_trip(&t);
}

/* Nor do other ranks wait for it: a collective waits for its own operand, and the host for none. */
static const char *exchange(dg_comm *comm, void *ctx)
{
    dg_backend *b;
    bool copying = false;
    trip t;

    (void)ctx;
    open_ranked(&t, "far:ref,patience=600000", comm);
    b = t.r.backend;
    for (int i = 0; i < N_BATCHES; i++) {
        write_k(&t, 1);
        write_x(&t, -1, i);
        rig_batch(&t.r);
        expect_y(&t, i, comm->ranks);
        WRONG_UNLESS(dg_exec_count(t.r.x).waits == i + 1);
    }
    WRONG_UNLESS(b->call(b, DG_LANE_COPY, note, &copying, DG_NO_MARK) == 0);
    write_x(&t, N_BATCHES, 10);
    rig_batch(&t.r);
    WRONG_UNLESS(!copying);
    expect_y(&t, N_BATCHES - 1, comm->ranks);
    WRONG_UNLESS(!copying);
    WRONG_UNLESS(dg_exec_take_ahead(t.r.x, N_BATCHES));
    rig_batch(&t.r);
    expect_y(&t, 10, comm->ranks);
    WRONG_UNLESS(copying);
    close_trip(&t);
    return NULL;
}

static void collectives_do_not_wait_for_copies(void **state)
{
    (void)state;
    crew_run(2, exchange, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(batches_in_turn),
        cmocka_unit_test(batches_ahead),
        cmocka_unit_test(programs_share_it),
        cmocka_unit_test(copy_and_run_do_not_wait_for_each_other),
        cmocka_unit_test(collectives_do_not_wait_for_copies),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
