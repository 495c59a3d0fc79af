/* pool.c: every index runs once, ranges depend on n and the number of threads only, nesting is
 * refused, and missing threads are detected. */
#include "tests/check.h"

#include <string.h>

#include "base/pool.h"

enum { N = 1000, MAX_THREADS = 8 };

typedef struct seen {
    int times[N], thread[N];
    int64_t size[MAX_THREADS];
} seen;

static void mark(void *ctx, int64_t begin, int64_t end, int thread)
{
    seen *s = ctx;

    for (int64_t i = begin; i < end; i++) {
        s->times[i]++;
        s->thread[i] = thread;
    }
    s->size[thread] = end - begin;
}

static void every_index_once_in_fixed_ranges(void **state)
{
    static const int64_t sizes[] = { 0, 1, 2, 7, 8, 9, 999, N };

    (void)state;
    for (int threads = 0; threads <= MAX_THREADS; threads++)
        for (size_t k = 0; k < sizeof sizes / sizeof *sizes; k++) {
            seen a = { 0 }, b = { 0 };
            int64_t n = sizes[k];

            dg_parallel_for(threads, n, mark, &a);
            dg_parallel_for(threads, n, mark, &b);
            assert_memory_equal(&a, &b, sizeof a);
            for (int64_t i = 0; i < N; i++)
                assert_int_equal(a.times[i], i < n);
            for (int64_t i = 1; i < n; i++)
                assert_true(a.thread[i] == a.thread[i - 1] || a.thread[i] == a.thread[i - 1] + 1);
            for (int t = 0; n >= threads && t < threads; t++)
                assert_in_range(a.size[t], n / threads, n / threads + 1);
        }
}

static void nest(void *ctx, int64_t begin, int64_t end, int thread)
{
    seen *s = ctx;

    (void)thread;
    for (int64_t i = begin; i < end; i++)
        dg_parallel_for(4, N, mark, &s[i]);
}

static void inside_a_body_it_is_serial_with_the_same_ranges(void **state)
{
    seen outer = { 0 }, inner[4];

    (void)state;
    memset(inner, 0, sizeof inner);
    dg_parallel_for(4, N, mark, &outer);
    dg_parallel_for(2, 4, nest, inner);
    for (int i = 0; i < 4; i++)
        assert_memory_equal(&inner[i], &outer, sizeof outer);
}

static void a_team_is_set_and_put_back(void **state)
{
    int before = dg_pool_team(3), three = dg_pool_team(5), five = dg_pool_team(before);

    (void)state;
#ifdef DG_NO_OPENMP
    /* plain threads start as many as asked for */
    assert_true(before == 3 && three == 5 && five == before);
#else
    assert_true(three == 3 && five == 5);
#endif
}

static void the_threads_are_there(void **state)
{
    dg_diag *d = dg_diag_open();

    (void)state;
    assert_true(dg_threads_available() >= 1);
    assert_int_equal(dg_pool_check(1, d), 0);
    assert_int_equal(dg_pool_check(3, d), 0);
    assert_int_equal(dg_diag_n(d), 0);
    assert_int_equal(dg_pool_check(1000000, d), -DG_EINPUT); /* it ended by SIGSEGV */
    check_only(d, "threads-many");
    dg_diag_close(&d);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_index_once_in_fixed_ranges),
        cmocka_unit_test(inside_a_body_it_is_serial_with_the_same_ranges),
        cmocka_unit_test(a_team_is_set_and_put_back),
        cmocka_unit_test(the_threads_are_there),
    };

    return cmocka_run_group_tests_name("pool", tests, NULL, NULL);
}
