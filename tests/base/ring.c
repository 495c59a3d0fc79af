/* ring.c: items come out in order, the capacity holds, the end is seen, a stop wakes every
 * waiter. */
#include "tests/check.h"

#include <pthread.h>
#include <stdatomic.h>

#include "base/log.h"
#include "base/ring.h"
#include "base/rng.h"
#include "base/str.h"

enum { N = 3000, PRODUCERS = 4, CAPACITY = 5 };

typedef struct shop {
    dg_ring *ring;
    atomic_int next, stops;
    atomic_long taken;
    atomic_bool too_far;
    int items[N];
} shop;

static void *produce(void *ctx)
{
    shop *s = ctx;

    for (int k; (k = atomic_fetch_add(&s->next, 1)) < N;) {
        dg_rng r = dg_rng_begin(dg_rng_named(1, "delay"), (uint64_t)k, 0);
        volatile int spin = (int)dg_rng_below(&r, 2000);

        while (spin > 0)
            spin--;
        s->items[k] = k;
        if (dg_ring_put(s->ring, (uint64_t)k, &s->items[k]) < 0) {
            atomic_fetch_add(&s->stops, 1);
            break;
        }
        /* one item may be taken but not yet counted */
        if (k >= atomic_load(&s->taken) + CAPACITY + 1)
            atomic_store(&s->too_far, true);
    }
    return NULL;
}

static void items_leave_in_order(void **state)
{
    shop *s = test_calloc(1, sizeof *s);
    pthread_t threads[PRODUCERS];
    void *item = NULL;

    (void)state;
    s->ring = dg_ring_open(CAPACITY);
    for (int i = 0; i < PRODUCERS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, produce, s), 0);
    for (int k = 0; k < N; k++) {
        assert_int_equal(dg_ring_take(s->ring, &item), 0);
        assert_ptr_equal(item, &s->items[k]);
        assert_int_equal(*(int *)item, k);
        assert_in_range(dg_ring_ready(s->ring), 0, CAPACITY);
        atomic_fetch_add(&s->taken, 1);
    }
    dg_ring_end(s->ring, N);
    assert_int_equal(dg_ring_take(s->ring, &item), -DG_ESTOP);
    for (int i = 0; i < PRODUCERS; i++)
        pthread_join(threads[i], NULL);
    assert_false(atomic_load(&s->too_far));
    dg_ring_close(&s->ring);
    assert_null(s->ring);
    dg_ring_close(&s->ring);
    test_free(s);
}

static void disorder_within_the_capacity(void **state)
{
    dg_ring *r = dg_ring_open(4);
    int items[4];
    void *item;

    (void)state;
    assert_int_equal(dg_ring_put(r, 2, &items[2]), 0);
    assert_int_equal(dg_ring_put(r, 1, &items[1]), 0);
    assert_int_equal(dg_ring_ready(r), 0);
    assert_int_equal(dg_ring_put(r, 0, &items[0]), 0);
    assert_int_equal(dg_ring_ready(r), 3);
    for (int k = 0; k < 3; k++) {
        assert_int_equal(dg_ring_take(r, &item), 0);
        assert_ptr_equal(item, &items[k]);
    }
    dg_ring_end(r, 3);
    assert_int_equal(dg_ring_take(r, &item), -DG_ESTOP);
    dg_ring_close(&r);
}

static void *wait_for_one(void *ctx)
{
    shop *s = ctx;
    void *item;

    if (dg_ring_take(s->ring, &item) == -DG_ESTOP)
        atomic_fetch_add(&s->stops, 1);
    return NULL;
}

static void a_stop_wakes_producers_and_consumers(void **state)
{
    for (int full = 0; full < 2; full++) {
        shop *s = test_calloc(1, sizeof *s);
        pthread_t threads[PRODUCERS];

        (void)state;
        s->ring = dg_ring_open(CAPACITY);
        for (int i = 0; i < PRODUCERS; i++)
            assert_int_equal(pthread_create(&threads[i], NULL, full ? produce : wait_for_one, s),
                             0);
        while (full && dg_ring_ready(s->ring) < CAPACITY)
            continue; /* every producer waits by then, or soon will */
        dg_ring_stop(s->ring);
        for (int i = 0; i < PRODUCERS; i++)
            pthread_join(threads[i], NULL);
        assert_int_equal(atomic_load(&s->stops), PRODUCERS);
        dg_ring_close(&s->ring);
        test_free(s);
    }
}

static void an_end_wakes_a_consumer(void **state)
{
    shop s = { .ring = dg_ring_open(1) };
    pthread_t thread;

    (void)state;
    assert_int_equal(pthread_create(&thread, NULL, wait_for_one, &s), 0);
    dg_ring_end(s.ring, 0);
    pthread_join(thread, NULL);
    assert_int_equal(atomic_load(&s.stops), 1);
    dg_ring_close(&s.ring);
}

static void keep(void *ctx, dg_level level, const char *line)
{
    dg_str_fmt(ctx, "%d %s\n", (int)level, line);
}

static void log_lines_reach_the_sink(void **state)
{
    dg_str out = { 0 };
    const dg_env env = { .log = keep, .log_ctx = &out, .now_s = dg_monotonic_s, .threads = 1 };
    double before = env.now_s();

    (void)state;
    dg_log_line(&env, DG_WARN, "%d images, %s", 874, "BCCD");
    dg_log_line(&env, DG_INFO, "plain");
    dg_log_line(NULL, DG_INFO, "nobody listens");
    dg_log_line(&(dg_env){ 0 }, DG_INFO, "nobody listens");
    assert_string_equal(out.s, "2 874 images, BCCD\n1 plain\n");
    assert_true(dg_monotonic_s() >= before);
    dg_str_free(&out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(items_leave_in_order),
        cmocka_unit_test(disorder_within_the_capacity),
        cmocka_unit_test(a_stop_wakes_producers_and_consumers),
        cmocka_unit_test(an_end_wakes_a_consumer),
        cmocka_unit_test(log_lines_reach_the_sink),
    };

    return cmocka_run_group_tests_name("ring", tests, NULL, NULL);
}
