/* Curves as SVG: what stands in them, and that odd numbers do no harm. */
#include "tests/check.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "media/chart.h"

enum { MANY = 5000 };

static int count(const char *text, const char *word)
{
    int n = 0;

    for (const char *p = strstr(text, word); p; p = strstr(p + 1, word))
        n++;
    return n;
}

static dg_str draw(const dg_line *lines, int n, bool smooth)
{
    dg_str s = { 0 };
    const dg_chart c = { .x_name = "step",
                         .unit = "s",
                         .lines = lines,
                         .n = n,
                         .smooth = smooth,
                         .width = 420,
                         .height = 220 };

    dg_chart_svg(&s, &c);
    assert_int_equal(count(s.s, "<svg"), count(s.s, "</svg>"));
    assert_int_equal(count(s.s, "nan"), 0);
    assert_int_equal(count(s.s, "inf"), 0);
    return s;
}

static void test_few(void **state)
{
    const dg_point p[] = { { 100, 0.25 }, { 200, 0.5 }, { 300, 0.75 } };
    dg_str s = draw(&(dg_line){ "a < b", p, 3, 9 }, 1, false);

    (void)state;
    assert_int_equal(count(s.s, "<circle"), 3);
    assert_int_equal(count(s.s, "line c1 dash"), 1); /* colours come again with dashes */
    assert_int_equal(count(s.s, "a &lt; b 0.5"), 1);
    assert_int_equal(count(s.s, "step 300"), 1);
    dg_str_free(&s);
}

/* Thousands of points are no larger a picture than its columns, and a spike does not flatten the
 * rest. */
static void test_many(void **state)
{
    dg_point *p = calloc(MANY, sizeof *p);
    dg_str s;

    (void)state;
    for (int i = 0; i < MANY; i++)
        p[i] = (dg_point){ i + 1, i == 40 ? 1e6 : 1 + sin(i * 0.01) };
    s = draw(&(dg_line){ "x", p, MANY, 0 }, 1, true);
    assert_int_equal(count(s.s, "<path class=\"line faint c0\""), 1);
    assert_true(s.n < 60000);
    assert_int_equal(count(s.s, ">1 000 000<"), 0);
    dg_str_free(&s);
    free(p);
}

static void test_odd(void **state)
{
    const dg_point odd[] = { { 1, NAN }, { 2, INFINITY }, { 3, -1e300 }, { 4, 1e300 } },
                   same[] = { { 5, 7 }, { 5, 7 } }, nothing[] = { { 1, NAN } };
    const dg_line lines[] = { { "odd", odd, 4, 0 }, { "same", same, 2, 1 } };
    dg_str s = draw(lines, 2, false);

    (void)state;
    dg_str_free(&s);
    s = draw(&lines[1], 1, false);
    dg_str_free(&s);
    for (double v = 1; v < 1e300; v *= 1e7) { /* neighbours, of any size */
        const dg_point pair[] = { { v, v }, { nextafter(v, INFINITY), nextafter(v, INFINITY) } };

        s = draw(&(dg_line){ "pair", pair, 2, 0 }, 1, false);
        assert_true(s.n < 10000);
        dg_str_free(&s);
    }
    s = draw(&(dg_line){ "nothing", nothing, 1, 0 }, 1, true);
    assert_int_equal(count(s.s, "class=\"band\""), 0);
    dg_str_free(&s);
    s = draw(NULL, 0, true);
    dg_str_free(&s);
}

static void test_numbers(void **state)
{
    static const struct {
        double v;
        const char *text;
    } table[] = { { 0, "0" },       { 0.0004, "0.0004" }, { 12345.6, "12 346" },
                  { -2.5, "-2.5" }, { 1234, "1234" },     { NAN, "–" } };

    (void)state;
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        dg_str s = { 0 };

        dg_chart_number(&s, table[i].v, 4);
        assert_string_equal(s.s, table[i].text);
        dg_str_free(&s);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_few),
        cmocka_unit_test(test_many),
        cmocka_unit_test(test_odd),
        cmocka_unit_test(test_numbers),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
