/* far: the device for tests fails on every breach of kernels/backend.h that it is there to find:
 * host code that touches device memory, work that is taken as done too early, a missing event, host
 * memory that a lane still uses. */
#include "tests/kernels/far.h"

#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tensor/ops.h"

/* ---- opening --------------------------------------------------------------------------------- */

static void options_are_read_strictly(void **state)
{
    static const char *const good[] = { "far", "far:eager", "far:seed=0",
                                        "far:seed=7,memory=512M,patience=1,fault=3,eager,ref" };
    static const char *const bad[] = { "far:",
                                       "far:eager,",
                                       "far:fast",
                                       "far:seed",
                                       "far:seed=",
                                       "far:seed=-1",
                                       "far:seed=7x",
                                       "far:eager=1",
                                       "far:memory=0",
                                       "far:memory=M",
                                       "far:memory=5T",
                                       "far:memory=17179869185G",
                                       "far:fault=0",
                                       "far:patience=0",
                                       "far:eager,fast",
                                       "far:eager,,seed=1",
                                       "far:lacks=soft",
                                       "far:lacks=",
                                       "far:lacks=all_reduce",
                                       "far:eager seed=1" };
    dg_diag *d = dg_diag_open();
    dg_backend *b;

    (void)state;
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
        assert_int_equal(dg_backend_open(&b, good[i], d), 0);
        assert_string_equal(b->name, "far");
        assert_false(b->immediate);
        assert_int_equal(b->alignment, 256);
        dg_backend_close(&b);
    }
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        if (dg_backend_open(&b, bad[i], d) != -DG_EINPUT)
            fail_msg("%s is accepted", bad[i]);
        assert_null(b);
        check_only(d, "device-option");
    }
    dg_diag_close(&d);
}

/* ---- memory ---------------------------------------------------------------------------------- */

typedef void crime_fn(far *f);

/*
 * Whether a process dies that does this on a device of its own: by SIGSEGV, or with the status of a
 * sanitizer that handles it.
 */
static bool dies_of(crime_fn *crime)
{
    pid_t pid = fork();
    int status = 0;

    if (pid == 0) {
        far f;

        signal(SIGSEGV, SIG_DFL); /* cmocka would go on with the next test */
        close(STDERR_FILENO);     /* a sanitizer's report is no news here */
        far_open(&f, "");
        crime(&f);
        _exit(0);
    }
    assert_true(pid > 0 && waitpid(pid, &status, 0) == pid);
    return WIFSIGNALED(status) ? WTERMSIG(status) == SIGSEGV : WEXITSTATUS(status) != 0;
}

static void keep_the_law(far *f)
{
    job j;

    job_set(&j, f, f->y, f->x, 1);
    job_queue(&j, DG_LANE_COMPUTE);
    if (far_read(f, DG_LANE_COMPUTE, f->y) != 1)
        raise(SIGSEGV);
}

static void read_new_memory(far *f)
{
    f->pinned[0] = *(volatile float *)f->x;
}

static void write_after_finish(far *f)
{
    keep_the_law(f);
    f->y[0] = 1;
}

static int read_in_call(void *ctx)
{
    far *f = ctx;

    read_new_memory(f);
    return 0;
}

static void touch_in_call(far *f)
{
    job j;

    job_set(&j, f, f->y, f->x, 1);
    job_queue(&j, DG_LANE_COMPUTE); /* opens memory before the call */
    f->b->call(f->b, DG_LANE_COMPUTE, read_in_call, f, 0);
    assert_int_equal(f->b->finish(f->b), 0);
}

static int overrun(const dg_args *a)
{
    ((volatile char *)a->t[0].data)[256] = 1; /* its size rounded up to the alignment */
    return 0;
}

static int underrun(const dg_args *a)
{
    ((volatile char *)a->t[0].data)[256 - 4097] = 1; /* the page before it */
    return 0;
}

static void run_kernel(far *f, int (*run)(const dg_args *a))
{
    dg_kernel kernel = { .run = run };
    job j;

    job_set(&j, f, f->x, f->x, 0);
    j.launch.kernel = &kernel;
    job_queue(&j, DG_LANE_COMPUTE);
    assert_int_equal(f->b->finish(f->b), 0);
}

static void overrun_in_kernel(far *f)
{
    run_kernel(f, overrun);
}

static void underrun_in_kernel(far *f)
{
    run_kernel(f, underrun);
}

static void use_after_free(far *f)
{
    f->b->free(f->b, f->x);
    read_new_memory(f);
}

static void device_memory_is_closed_to_the_host(void **state)
{
    (void)state;
    assert_false(dies_of(keep_the_law));
    assert_true(dies_of(read_new_memory));
    assert_true(dies_of(write_after_finish));
    assert_true(dies_of(touch_in_call));
    assert_true(dies_of(overrun_in_kernel));
    assert_true(dies_of(underrun_in_kernel));
    assert_true(dies_of(use_after_free));
}

static void memory_is_aligned_zero_and_limited(void **state)
{
    static const size_t sizes[] = { 0, 1, 256, 4096, 4097, 3 << 20 };
    int64_t free_bytes, total;
    unsigned char *copy = malloc(3 << 20);
    far f;

    (void)state;
    far_open(&f, "memory=4M");
    assert_int_equal(f.b->memory(f.b, &free_bytes, &total), 0);
    assert_true(total == 4 << 20 && free_bytes == total - 3 * 256);
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        unsigned char *p = f.b->alloc(f.b, sizes[i]);

        assert_non_null(p);
        assert_int_equal((uintptr_t)p % 256, 0);
        memset(copy, 1, sizes[i]);
        assert_int_equal(f.b->download(f.b, DG_LANE_COPY, copy, p, sizes[i]), 0);
        for (size_t k = 0; k < sizes[i]; k++)
            assert_int_equal(copy[k], 0);
        f.b->free(f.b, p);
    }
    assert_null(f.b->alloc(f.b, 4 << 20));
    assert_null(f.b->alloc(f.b, SIZE_MAX));
    void *most = f.b->alloc(f.b, (4 << 20) - 3 * 256);
    assert_non_null(most);
    assert_null(f.b->alloc(f.b, 1));
    f.b->free(f.b, most);
    f.b->free(f.b, NULL);
    f.b->free_pinned(f.b, NULL);
    assert_int_equal(f.b->memory(f.b, &free_bytes, &total), 0);
    assert_int_equal(free_bytes, total - 3 * 256);
    far_close(&f, NULL);
    far_open(&f, "");
    assert_int_equal(f.b->memory(f.b, &free_bytes, &total), 0);
    assert_true(free_bytes > 0 && total >= free_bytes); /* the machine's */
    far_close(&f, NULL);
    free(copy);
}

/* Who reads a crash's address finds it in /proc/PID/maps, where the kernel knows names. */
static void memory_has_a_name(void **state)
{
    void *page = mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    bool knows = prctl(0x53564d41, 0, page, 4096, "a name") == 0;
    bool found = false;
    char line[512];
    far f;

    (void)state;
    munmap(page, 4096);
    if (!knows)
        skip();
    far_open(&f, "");
    FILE *maps = fopen("/proc/self/maps", "re");
    assert_non_null(maps);
    while (fgets(line, sizeof line, maps))
        found = found || strstr(line, "detrgraph far device");
    fclose(maps);
    assert_true(found);
    far_close(&f, NULL);
}

/* ---- time ------------------------------------------------------------------------------------ */

static void work_waits_until_somebody_does(void **state)
{
    far f;
    job j[4];
    dg_event *e;

    (void)state;
    far_open(&f, "");
    e = f.b->event_open(f.b);
    assert_int_equal(f.b->event_wait(f.b, e), 0); /* never recorded: in the past */
    for (int i = 0; i < 4; i++) {
        job_set(&j[i], &f, f.y, i ? f.y : f.x, 1);
        job_queue(&j[i], i < 3 ? DG_LANE_COMPUTE : DG_LANE_COMM);
        if (i == 1)
            assert_int_equal(f.b->event_record(f.b, e, DG_LANE_COMPUTE), 0);
    }
    f.b->sign(f.b, DG_LANE_COMPUTE, &f.word, 7);
    usleep(20000);
    assert_int_equal(far_ran(&f), 0);
    assert_int_equal(f.b->event_wait(f.b, e), 0);
    assert_int_equal(far_ran(&f), 2); /* no more of its lane, nothing of others */
    assert_int_equal(f.word, 0);
    assert_true(far_read(&f, DG_LANE_COMPUTE, f.y) == 3);
    assert_int_equal(far_ran(&f), 3);
    assert_int_equal(f.word, 7);
    assert_int_equal(f.b->finish(f.b), 0);
    assert_int_equal(far_ran(&f), 4);
    f.b->event_close(f.b, &e);
    far_close(&f, NULL);
}

static void wait_for_runs(far *f, int n)
{
    for (int ms = 0; far_ran(f) < n && ms < 60000; ms++)
        usleep(1000);
    assert_int_equal(far_ran(f), n);
}

static void patience_and_eager_need_no_wait(void **state)
{
    static const char *const options[] = { "patience=1", "eager" };

    (void)state;
    for (int i = 0; i < 2; i++) {
        far f;
        job j;

        far_open(&f, options[i]);
        for (int n = 1; n <= 3; n++) {
            job_set(&j, &f, f.y, f.x, (float)n);
            job_queue(&j, DG_LANE_COMPUTE);
            wait_for_runs(&f, n);
            assert_true(far_read(&f, DG_LANE_COMPUTE, f.y) == (float)n);
        }
        far_close(&f, NULL);
    }
}

static void a_lane_keeps_its_order(void **state)
{
    (void)state;
    for (int seed = 0; seed < 8; seed++) {
        far f;
        job j[60];
        char options[24];

        snprintf(options, sizeof options, "seed=%d", seed);
        far_open(&f, options);
        far_write(&f, f.x, 1);
        for (int i = 0; i < 60; i++) { /* the first ten of a lane are cleared again */
            float *at = i % 3 == 0 ? f.x : i % 3 == 1 ? f.y : f.z;

            job_set(&j[i], &f, at, at, (float)i);
            job_queue(&j[i], (dg_lane)(i % 3));
            if (i < 30)
                f.b->clear(f.b, (dg_lane)(i % 3), at, BYTES);
        }
        assert_int_equal(f.b->finish(f.b), 0);
        assert_true(far_read(&f, DG_LANE_COPY, f.x) ==
                    30 + 33 + 36 + 39 + 42 + 45 + 48 + 51 + 54 + 57);
        assert_true(far_read(&f, DG_LANE_COPY, f.z) ==
                    32 + 35 + 38 + 41 + 44 + 47 + 50 + 53 + 56 + 59);
        assert_int_equal(far_ran(&f), 60);
        far_close(&f, NULL);
    }
}

/* y = x + 1 on one lane behind x = 5 on another one; the event between them may be missing, and
 * the reader may wait for all lanes. */
static float across_lanes(int seed, bool ordered, bool finish)
{
    far f;
    job j;
    char options[24];
    dg_event *e;
    float y;

    snprintf(options, sizeof options, "seed=%d", seed);
    far_open(&f, options);
    e = f.b->event_open(f.b);
    fill(f.pinned, 5);
    f.b->upload(f.b, DG_LANE_COPY, f.x, f.pinned, BYTES);
    f.b->event_record(f.b, e, DG_LANE_COPY);
    if (ordered)
        f.b->lane_wait(f.b, DG_LANE_COMPUTE, e);
    job_set(&j, &f, f.y, f.x, 1);
    job_queue(&j, DG_LANE_COMPUTE);
    if (finish)
        f.b->finish(f.b);
    y = far_read(&f, DG_LANE_COMPUTE, f.y);
    f.b->event_close(f.b, &e);
    far_close(&f, NULL);
    return y;
}

static void a_missing_event_shows(void **state)
{
    int stale = 0;

    (void)state;
    for (int seed = 0; seed < 16; seed++) {
        assert_true(across_lanes(seed, true, false) == 6);
        assert_true(across_lanes(seed, true, true) == 6);
        stale += across_lanes(seed, false, true) == 1;
    }
    assert_in_range(stale, 1, 15);
    assert_true(across_lanes(0, false, false) == 1); /* the latest order: always */
}

/* A batch that overwrites what a step still reads: found where a lane runs ahead of the wait. */
static void a_lane_may_run_ahead(void **state)
{
    int early = 0;

    (void)state;
    for (int seed = 0; seed < 16; seed++) {
        far f;
        job j;
        char options[24];
        float y;

        snprintf(options, sizeof options, "seed=%d", seed);
        far_open(&f, options);
        job_set(&j, &f, f.y, f.x, 1);
        job_queue(&j, DG_LANE_COMPUTE);
        fill(f.pinned, 5);
        f.b->upload(f.b, DG_LANE_COPY, f.x, f.pinned, BYTES);
        y = far_read(&f, DG_LANE_COMPUTE, f.y);
        assert_true(y == 1 || y == 6);
        assert_true(seed || y == 1);
        early += y == 6;
        far_close(&f, NULL);
    }
    assert_in_range(early, 1, 15);
}

static void an_event_is_where_it_was_recorded_last(void **state)
{
    far f;
    job j[3];
    dg_event *e, *end;

    (void)state;
    far_open(&f, "");
    e = f.b->event_open(f.b);
    end = f.b->event_open(f.b);
    for (int i = 0; i < 3; i++)
        job_set(&j[i], &f, f.y, f.x, 1);
    job_queue(&j[0], DG_LANE_COMPUTE);
    f.b->event_record(f.b, e, DG_LANE_COMPUTE);
    f.b->lane_wait(f.b, DG_LANE_COMM, e); /* that record, whatever comes */
    f.b->event_record(f.b, end, DG_LANE_COMM);
    job_queue(&j[1], DG_LANE_COMPUTE);
    f.b->event_record(f.b, e, DG_LANE_COMPUTE);
    job_queue(&j[2], DG_LANE_COMPUTE);
    assert_int_equal(f.b->event_wait(f.b, end), 0);
    assert_int_equal(far_ran(&f), 1);
    assert_int_equal(f.b->event_wait(f.b, e), 0);
    assert_int_equal(far_ran(&f), 2);
    f.b->event_close(f.b, &e); /* with the last job pending */
    f.b->event_close(f.b, &end);
    assert_int_equal(f.b->finish(f.b), 0);
    assert_int_equal(far_ran(&f), 3);
    far_close(&f, NULL);
}

/* ---- closing -------------------------------------------------------------------------------- */

static void closing_does_what_is_pending(void **state)
{
    far f;
    job j[20];

    (void)state;
    far_open(&f, "");
    for (int i = 0; i < 20; i++) {
        job_set(&j[i], &f, f.y, f.x, 1);
        job_queue(&j[i], (dg_lane)(i % DG_N_LANES));
    }
    far_close(&f, NULL); /* frees what was not: no sanitizer complains */
    assert_int_equal(far_ran(&f), 20);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(options_are_read_strictly),
        cmocka_unit_test(device_memory_is_closed_to_the_host),
        cmocka_unit_test(memory_is_aligned_zero_and_limited),
        cmocka_unit_test(memory_has_a_name),
        cmocka_unit_test(work_waits_until_somebody_does),
        cmocka_unit_test(patience_and_eager_need_no_wait),
        cmocka_unit_test(a_lane_keeps_its_order),
        cmocka_unit_test(a_missing_event_shows),
        cmocka_unit_test(a_lane_may_run_ahead),
        cmocka_unit_test(an_event_is_where_it_was_recorded_last),
        cmocka_unit_test(closing_does_what_is_pending),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
