/* rng.c: Philox against the known answers of the Random123 distribution, and the moments of the
 * distributions. */
#include "tests/check.h"

#include <math.h>
#include <string.h>

#include "base/rng.h"

static void known_answers(void **state)
{
    static const struct {
        uint32_t counter[4];
        dg_rng_key key;
        uint32_t out[4];
    } rows[] = {
        { { 0, 0, 0, 0 }, { { 0, 0 } }, { 0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8 } },
        {
            { 0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff },
            { { 0xffffffff, 0xffffffff } },
            { 0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd },
        },
        {
            { 0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344 },
            { { 0xa4093822, 0x299f31d0 } },
            { 0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1 },
        },
    };

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        uint32_t out[4];

        dg_philox(rows[i].key, rows[i].counter, out);
        assert_memory_equal(out, rows[i].out, sizeof out);
    }
}

static void a_stream_is_its_counters(void **state)
{
    dg_rng_key key = dg_rng_named(7, "train/aug");
    dg_rng r = dg_rng_begin(key, 0x100000002u, 5), again = r;
    const uint32_t counter[4] = { 1, 5, 2, 1 };
    uint32_t out[4];

    (void)state;
    for (int i = 0; i < 4; i++)
        dg_rng_u32(&r);
    dg_philox(key, counter, out);
    for (int i = 0; i < 4; i++)
        assert_int_equal(dg_rng_u32(&r), out[i]);
    r = again;
    for (int i = 0; i < 1000; i++)
        assert_int_equal(dg_rng_u32(&r), dg_rng_u32(&again));
}

static void seeds_and_names_are_apart(void **state)
{
    dg_rng_key a = dg_rng_named(1, "x"), b = dg_rng_named(2, "x"), c = dg_rng_named(1, "y"),
               d = dg_rng_named(1, "x");

    (void)state;
    assert_memory_equal(&a, &d, sizeof a);
    assert_memory_not_equal(&a, &b, sizeof a);
    assert_memory_not_equal(&a, &c, sizeof a);
}

static void moments(void **state)
{
    enum { N = 200000 };
    dg_rng r = dg_rng_begin(dg_rng_named(3, "moments"), 0, 0);
    double u1 = 0, u2 = 0, n1 = 0, n2 = 0, n4 = 0;

    (void)state;
    for (int i = 0; i < N; i++) {
        double u = dg_rng_uniform(&r), z = dg_rng_normal(&r);

        assert_true(u >= 0 && u < 1);
        u1 += u;
        u2 += u * u;
        n1 += z;
        n2 += z * z;
        n4 += z * z * z * z;
    }
    /* bounds are more than 5 standard errors */
    assert_true(fabs(u1 / N - 0.5) < 0.005 && fabs(u2 / N - 1.0 / 3) < 0.005);
    assert_true(fabs(n1 / N) < 0.012 && fabs(n2 / N - 1) < 0.02 && fabs(n4 / N - 3) < 0.12);
}

static void many_at_a_time(void **state)
{
    enum { N = 75 }; /* some groups of lanes, and what is left */
    dg_rng_key key = dg_rng_named(6, "many");
    double all[N], part[N];
    dg_rng r = dg_rng_begin(key, 0, 0);

    (void)state;
    for (int i = 0; i < N; i++)
        all[i] = dg_rng_uniform(&r);
    for (int from = 0; from < N; from++)
        for (int n = 0; from + n <= N; n++) {
            memset(part, 0, sizeof part);
            dg_rng_uniforms(key, (uint64_t)from, part, n);
            assert_memory_equal(part, all + from, (size_t)n * sizeof *all);
            for (int i = n; i < N; i++)
                assert_true(part[i] == 0);
        }
    assert_true(dg_rng_scaled(0, -2, 4) == -2 && dg_rng_scaled(0.5, -2, 4) == 1);
}

static void ranges(void **state)
{
    dg_rng r = dg_rng_begin(dg_rng_named(4, "ranges"), 0, 0);
    int count[7] = { 0 };

    (void)state;
    for (int i = 0; i < 70000; i++)
        count[dg_rng_below(&r, 7)]++;
    for (int k = 0; k < 7; k++)
        assert_in_range(count[k], 9500, 10500);
    assert_int_equal(dg_rng_below(&r, 0), 0);
    assert_int_equal(dg_rng_below(&r, 1), 0);
    for (int i = 0; i < 1000; i++) {
        /* every rounding could reach the excluded end */
        assert_true(dg_rng_range(&r, 0.5, nextafter(0.5, 1)) == 0.5);
    }
    assert_true(dg_u32_to_unit(0) == 0.0f && dg_u32_to_unit(UINT32_MAX) < 1.0f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(known_answers),
        cmocka_unit_test(a_stream_is_its_counters),
        cmocka_unit_test(seeds_and_names_are_apart),
        cmocka_unit_test(moments),
        cmocka_unit_test(many_at_a_time),
        cmocka_unit_test(ranges),
    };

    return cmocka_run_group_tests_name("rng", tests, NULL, NULL);
}
