/* far_calls: host functions that a lane calls, and kernels: in the order of the lane, on the
 * device's memory, with the host's bits. */
#include "tests/kernels/far.h"

#include <pthread.h>

#include "tensor/ops.h"

/* ---- calls ----------------------------------------------------------------------------------- */

static int add_to_pinned(void *ctx)
{
    far *f = ctx;

    for (int i = 0; i < N; i++)
        f->pinned[i] += 10;
    __atomic_add_fetch(&f->ran, 1, __ATOMIC_ACQ_REL);
    return 0;
}

/* Out, through the host, in again: how a collective of the host is staged. */
static void a_call_runs_in_order(void **state)
{
    far f;
    job j;
    dg_event *e;

    (void)state;
    far_open(&f, "");
    e = f.b->event_open(f.b);
    job_set(&j, &f, f.y, f.x, 1);
    job_queue(&j, DG_LANE_COMPUTE);
    f.b->event_record(f.b, e, DG_LANE_COMPUTE);
    f.b->lane_wait(f.b, DG_LANE_COMM, e);
    assert_int_equal(f.b->download(f.b, DG_LANE_COMM, f.pinned, f.y, BYTES), 0);
    assert_int_equal(f.b->call(f.b, DG_LANE_COMM, add_to_pinned, &f, 3), 0);
    assert_int_equal(f.b->upload(f.b, DG_LANE_COMM, f.z, f.pinned, BYTES), 0);
    assert_int_equal(far_ran(&f), 0);
    assert_true(far_read(&f, DG_LANE_COMM, f.z) == 11);
    f.b->event_close(f.b, &e);
    far_close(&f, NULL);
}

static int meet(void *barrier)
{
    pthread_barrier_wait(barrier);
    return 0;
}

/* One rank waits for its device, the other one for something else: the second device begins by
 * itself, or neither would go on. */
static void a_call_may_wait_for_another_rank(void **state)
{
    pthread_barrier_t barrier;
    far a, b;

    (void)state;
    pthread_barrier_init(&barrier, NULL, 2);
    far_open(&a, "");
    far_open(&b, "patience=20");
    assert_int_equal(a.b->call(a.b, DG_LANE_COMM, meet, &barrier, 0), 0);
    assert_int_equal(b.b->call(b.b, DG_LANE_COMM, meet, &barrier, 0), 0);
    assert_int_equal(a.b->finish(a.b), 0);
    far_close(&a, NULL);
    far_close(&b, NULL);
    pthread_barrier_destroy(&barrier);
}

static int wait_for_itself(void *ctx)
{
    far *f = ctx;

    return f->b->finish(f->b);
}

static void a_call_that_waits_for_the_device_fails(void **state)
{
    far f;

    (void)state;
    far_open(&f, "");
    f.b->call(f.b, DG_LANE_COMM, wait_for_itself, &f, 9);
    assert_int_equal(f.b->finish(f.b), -DG_EINTERNAL);
    far_close(&f, "a call waits for the device");
}

/* ---- kernels --------------------------------------------------------------------------------- */

static void a_guard_is_read_on_the_device(void **state)
{
    static const float want[3][2] = { { 5, 3 }, { 0, 0 }, { 2, 2 } }; /* [what][guard]: off, on */
    far f;

    (void)state;
    far_open(&f, "");
    for (int what = 0; what < 3; what++) /* nothing, zeros, a copy of the input */
        for (int32_t on = 0; on < 2; on++) {
            int32_t *guard = f.b->alloc(f.b, sizeof *guard);
            job j;

            far_write(&f, f.x, 2);
            far_write(&f, f.y, 5);
            f.b->upload(f.b, DG_LANE_COMPUTE, guard, &on, sizeof on);
            job_set(&j, &f, f.y, f.x, 1);
            j.launch.guard = guard;
            j.launch.zero_outputs = what == 1;
            j.launch.otherwise = what == 2 ? 0 : -1;
            job_queue(&j, DG_LANE_COMPUTE);
            assert_true(far_read(&f, DG_LANE_COMPUTE, f.y) == (on ? 3 : want[what][0]));
            f.b->free(f.b, guard);
        }
    assert_int_equal(far_ran(&f), 3);
    far_close(&f, NULL);
}

/* A product of oneDNN, prepared by this thread and run by the device's. */
static void multiply(dg_backend *b, float *out, int threads)
{
    enum { M = 33, K = 17, COLUMNS = 9 };
    static const matmul_attr at = { 0, 1 };
    static const size_t sizes[] = { M * K, COLUMNS * K, COLUMNS, M * COLUMNS };
    dg_tensor t[] = { { DG_F32, DG_SHAPE(M, K), NULL },
                      { DG_F32, DG_SHAPE(COLUMNS, K), NULL },
                      { DG_F32, DG_SHAPE(COLUMNS), NULL },
                      { DG_F32, DG_SHAPE(M, COLUMNS), NULL } };
    bool is_ref;
    const dg_kernel *k = b->select(b, DG_OP(matmul), t, 4, &is_ref);
    dg_prepare p = { .t = t, .n = 4, .attr = &at, .threads = threads };

    if (k->prepare)
        assert_int_equal(k->prepare(&p), 0);
    for (int i = 0; i < 4; i++) {
        float *values = malloc(sizes[i] * sizeof *values);

        for (size_t n = 0; n < sizes[i]; n++)
            values[n] = (float)((n * 7919 + (size_t)i) % 1009) / 1009;
        t[i].data = b->alloc(b, sizes[i] * sizeof *values);
        assert_int_equal(b->upload(b, DG_LANE_COMPUTE, t[i].data, values, sizes[i] * 4), 0);
        free(values);
    }
    void *workspace = p.workspace_bytes ? b->alloc(b, p.workspace_bytes) : NULL;
    dg_args args = {
        .t = t, .n = 4, .attr = &at, .workspace = workspace, .handle = p.handle, .threads = threads
    };
    dg_launch l = { .kernel = k, .args = &args, .otherwise = -1, .n_in = 3 };

    assert_int_equal(b->launch(b, DG_LANE_COMPUTE, &l), 0);
    assert_int_equal(b->download(b, DG_LANE_COMPUTE, out, t[3].data, sizes[3] * 4), 0);
    if (k->release)
        k->release(p.handle);
    for (int i = 0; i < 4; i++)
        b->free(b, t[i].data);
    b->free(b, workspace);
}

static void kernels_give_the_hosts_bits(void **state)
{
    static float on_host[33 * 9], far_away[33 * 9];
    dg_diag *d = dg_diag_open();

    (void)state;
    for (int threads = 1; threads <= 3; threads++) {
        dg_backend *cpu;
        const char *reason, *other;
        far f;

        far_open(&f, "");
        assert_int_equal(dg_backend_open(&cpu, "cpu", d), 0);
        multiply(cpu, on_host, threads);
        multiply(f.b, far_away, threads);
        assert_memory_equal(on_host, far_away, sizeof on_host);
        assert_true(on_host[5] > 0);
        assert_int_equal(f.b->low_precision(f.b, &reason), cpu->low_precision(cpu, &other));
        assert_string_equal(reason, other);
        dg_backend_close(&cpu);
        far_close(&f, NULL);
    }
    far f;
    bool is_ref;
    dg_tensor t[] = { { DG_F32, DG_SHAPE(4), NULL }, { DG_F32, DG_SHAPE(4), NULL } };

    far_open(&f, "ref");
    assert_ptr_equal(f.b->select(f.b, DG_OP(relu), t, 2, &is_ref), DG_OP(relu)->ref32);
    far_close(&f, NULL);
    dg_diag_close(&d);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_call_runs_in_order),
        cmocka_unit_test(a_call_may_wait_for_another_rank),
        cmocka_unit_test(a_call_that_waits_for_the_device_fails),
        cmocka_unit_test(a_guard_is_read_on_the_device),
        cmocka_unit_test(kernels_give_the_hosts_bits),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
