/* str.c: growing, escaping, numbers in any locale, nearest names, readable quantities; dtypes and
 * shapes. */
#include "tests/check.h"

#include <detrgraph/tensor.h>
#include <float.h>
#include <locale.h>
#include <math.h>
#include <string.h>

#include "base/element.h"
#include "base/str.h"

static void grows(void **state)
{
    dg_str s = { 0 };

    (void)state;
    for (int i = 0; i < 10000; i++)
        dg_str_fmt(&s, "%d,", i % 10);
    assert_int_equal(s.n, 20000);
    assert_int_equal(strlen(s.s), 20000);
    dg_str_add_n(&s, "ab", 1);
    dg_str_add(&s, "");
    assert_string_equal(s.s + 19998, "9,a");
    dg_str_free(&s);
    assert_null(s.s);
    dg_str_add_n(&s, "", 0);
    assert_string_equal(s.s, "");
    dg_str_free(&s);
}

static void check_text(void (*add)(dg_str *, const char *), const char *in, const char *expected)
{
    dg_str s = { 0 };

    add(&s, in);
    assert_string_equal(s.s, expected);
    dg_str_free(&s);
}

static void escapes(void **state)
{
    (void)state;
    check_text(dg_str_shell, "a/b-1=x", "a/b-1=x");
    check_text(dg_str_shell, "a b", "'a b'");
    check_text(dg_str_shell, "it's $x", "'it'\\''s $x'");
    check_text(dg_str_shell, "", "''");
    check_text(dg_str_shell, NULL, "''");
    check_text(dg_str_json, NULL, "null");
    check_text(dg_str_json, "", "\"\"");
    check_text(dg_str_json, "a\"b\\c\n\t\001\x7F", "\"a\\\"b\\\\c\\n\\t\\u0001\\u007f\"");
    check_text(dg_str_json, "\xE2\x82\xAC \xF0\x9F\x98\x80", "\"\xE2\x82\xAC \xF0\x9F\x98\x80\"");
    check_text(dg_str_json, "\xC0\x80 \xED\xA0\x80 \xE2\x82", /* overlong, surrogate, cut off */
               "\"\\ufffd\\ufffd \\ufffd\\ufffd\\ufffd \\ufffd\\ufffd\"");
    check_text(dg_str_xml, "", "");
    check_text(dg_str_xml, "<a b=\"c & d\">\n\002",
               "&lt;a b=&quot;c &amp; d&quot;&gt;&#10;\xEF\xBF\xBD");
    check_text(dg_str_plain,
               "\xC2\x9B"
               "31m \xE2\x80\xAE \xC3\xA4\n",
               "?31m ? \xC3\xA4?");
    check_text(dg_str_shown, "a\033[2J\n\tb\r", "a?[2J\n\tb?");
    check_text(dg_str_json, "\xC2\x9B\xE2\x80\xAE\xC3\xA4", "\"\\u009b\\u202e\xC3\xA4\"");
    check_text(dg_str_plain, "a\033[31m\n\xE2\x82\xAC\xE2\x82\x7F", "a?[31m?\xE2\x82\xAC???");
    /* a surrogate, three bytes where two are enough, beyond U+10FFFF */
    check_text(dg_str_plain, "\xED\xA0\x80 \xE0\x9F\xBF \xF4\x90\x80\x80z", "??? ??? ????z");
    assert_true(dg_is_utf8("\xE2\x82\xAC") && dg_is_utf8("") && !dg_is_utf8("b\xE4r"));
    assert_int_equal(dg_mark_bytes("\xEF\xBB\xBF"
                                   "a"),
                     3);
    assert_int_equal(dg_mark_bytes("a"), 0);
}

static void check_real(double v, const char *expected)
{
    dg_str s = { 0 };

    dg_str_json_real(&s, v);
    assert_string_equal(s.s, expected);
    dg_str_free(&s);
}

static void reals(void **state)
{
    double back;

    (void)state;
    check_real(0, "0");
    check_real(-0.0, "-0");
    check_real(0.1, "0.1");
    check_real(1e22, "1e+22");
    check_real(1.0 / 3, "0.3333333333333333");
    check_real(0.1 + 0.2, "0.30000000000000004");
    check_real(DBL_MIN / 4, "5.562684646268003e-309");
    check_real((double)NAN, "null");
    check_real(-(double)INFINITY, "null");
    assert_true(dg_parse_f64("-1.5e-3", &back) && back == -1.5e-3);
    assert_true(dg_parse_f64("5e-324", &back) && back > 0);
    assert_true(dg_parse_f64(".5", &back) && back == 0.5);
    assert_true(dg_parse_f64("-0.0e-400", &back) && back == 0);
    static const char *const bad[] = { "",    " 1",    "1 ",  "1e",  "e5", "0x10",   "nan",
                                       "inf", "1e999", "1,5", "--1", ".",  "1e-400", "-0.01e-999" };

    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_false(dg_parse_f64(bad[i], &back));
}

static void reals_ignore_the_locale(void **state)
{
    double v;

    (void)state;
    if (!setlocale(LC_NUMERIC, "de_DE.UTF-8") && !setlocale(LC_NUMERIC, "fr_FR.UTF-8"))
        skip(); /* no locale with a decimal comma is installed */
    check_real(0.5, "0.5");
    assert_true(dg_parse_f64("0.25", &v) && v == 0.25);
    setlocale(LC_NUMERIC, "C");
}

static void integers(void **state)
{
    int64_t v;

    (void)state;
    assert_true(dg_parse_i64("-9223372036854775808", &v) && v == INT64_MIN);
    assert_true(dg_parse_i64("+7", &v) && v == 7);
    static const char *const bad[] = { "",    " 7", "7 ", "7x", "-", "9223372036854775808",
                                       "1.0", "0x7" };

    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_false(dg_parse_i64(bad[i], &v));
}

static void nearest(void **state)
{
    static const char *const names[] = { "weight_decay", "warmup", "width", "lr", "depth" };

    (void)state;
    assert_string_equal(dg_nearest("weigth_decay", names, 5), "weight_decay");
    assert_string_equal(dg_nearest("widht", names, 5), "width");
    assert_string_equal(dg_nearest("dept", names, 5), "depth");
    assert_string_equal(dg_nearest("lrr", names, 5), "lr");
    assert_null(dg_nearest("colour", names, 5));
    assert_null(dg_nearest("x", names, 5));
    assert_null(dg_nearest("", names, 5));
    assert_null(dg_nearest("lr", names, 0));
}

static void quantities(void **state)
{
    char b[32];

    (void)state;
    assert_string_equal(dg_human_bytes(0, b, sizeof b), "0 B");
    assert_string_equal(dg_human_bytes(1023, b, sizeof b), "1023 B");
    assert_string_equal(dg_human_bytes(1024, b, sizeof b), "1.0 KiB");
    assert_string_equal(dg_human_bytes(1048575, b, sizeof b), "1.0 MiB");
    assert_string_equal(dg_human_bytes(1.2 * (1 << 30), b, sizeof b), "1.2 GiB");
    assert_string_equal(dg_human_count(0, b, sizeof b), "0");
    assert_string_equal(dg_human_count(999, b, sizeof b), "999");
    assert_string_equal(dg_human_count(118287, b, sizeof b), "118 287");
    assert_string_equal(dg_human_count(-1234567, b, sizeof b), "-1 234 567");
    assert_string_equal(dg_human_count(-123, b, sizeof b), "-123");
    assert_string_equal(dg_plural(0, "s"), "s");
    assert_string_equal(dg_plural(1, "es"), "");
    assert_string_equal(dg_plural(-1, "s"), "s");
    assert_string_equal(dg_human_time(0.0123, b, sizeof b), "12 ms");
    assert_string_equal(dg_human_time(5.04, b, sizeof b), "5.0 s");
    assert_string_equal(dg_human_time(59.4, b, sizeof b), "59 s");
    assert_string_equal(dg_human_time(59.6, b, sizeof b), "1 min 00 s");
    assert_string_equal(dg_human_time(200, b, sizeof b), "3 min 20 s");
    assert_string_equal(dg_human_time(3723, b, sizeof b), "1 h 02 min");
    assert_string_equal(dg_human_time(200000, b, sizeof b), "2 d 07 h");
    assert_string_equal(dg_human_time(-1, b, sizeof b), "?");
    assert_string_equal(dg_human_time((double)NAN, b, sizeof b), "?");
}

static void columns(void **state)
{
    (void)state;
    assert_int_equal(dg_str_padding("car", 5), 2);
    assert_int_equal(dg_str_padding("wei\u00dfe Zelle", 12), 1);
    assert_int_equal(dg_str_padding("\u8840\u5c0f\u677f", 8),
                     2);                               /* three letters, two columns each */
    assert_int_equal(dg_str_padding("e\u0301", 3), 2); /* an accent of its own */
    assert_int_equal(dg_str_padding("a\xff", 3), 1);
    assert_int_equal(dg_str_padding("too long", 3), 0);
}

static void conversions(void **state)
{
    const double from[] = { 0, -0.0, 1.0 / 3, -1e300, 1e-300, 16777217, NAN, 255 };
    enum { N = sizeof from / sizeof *from };
    float many[N], one[N];
    uint16_t narrow[N], alone[N];

    (void)state;
    for (int i = 0; i < N; i++) {
        dg_element_set(one, DG_F32, i, from[i]);
        dg_element_set(alone, DG_BF16, i, from[i]);
    }
    dg_elements_convert(many, DG_F32, from, DG_F64, N);
    assert_memory_equal(many, one, sizeof one);
    dg_elements_convert(narrow, DG_BF16, from, DG_F64, N);
    assert_memory_equal(narrow, alone, sizeof alone);
    memset(many, 0, sizeof many);
    dg_elements_convert(many, DG_F32, one, DG_F32, N);
    assert_memory_equal(many, one, sizeof one);
}

static void hashes(void **state)
{
    (void)state; /* test vectors by the FNV authors */
    assert_true(dg_fnv1a_text("") == 0xcbf29ce484222325u);
    assert_true(dg_fnv1a_text("a") == 0xaf63dc4c8601ec8cu);
    assert_true(dg_fnv1a_text("foobar") == 0x85944171f73967e8u);
}

static void shapes(void **state)
{
    char b[64], tight[6];

    (void)state;
    assert_int_equal(dg_shape_elements(DG_SCALAR), 1);
    assert_int_equal(dg_shape_elements(DG_SHAPE(4, 300, 256)), 307200);
    assert_true(dg_shape_equal(DG_SHAPE(2, 3), DG_SHAPE(2, 3)));
    assert_false(dg_shape_equal(DG_SHAPE(2, 3), DG_SHAPE(3, 2)));
    assert_false(dg_shape_equal(DG_SHAPE(2), DG_SHAPE(2, 1)));
    assert_string_equal(dg_shape_print(DG_SHAPE(4, 300, 256), b, sizeof b), "[4,300,256]");
    assert_string_equal(dg_shape_print(DG_SCALAR, b, sizeof b), "[]");
    assert_string_equal(dg_shape_print(DG_SHAPE(4, 300, 256), tight, sizeof tight), "[4,30");
    assert_int_equal(dg_dtype_size(DG_BF16), 2);
    assert_int_equal(dg_dtype_size(DG_REAL), 0);
    assert_string_equal(dg_dtype_name(DG_I64), "i64");
    for (int t = 0; t < DG_N_DTYPES; t++)
        assert_string_not_equal(dg_dtype_name((dg_dtype)t), "?");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(grows),       cmocka_unit_test(escapes),
        cmocka_unit_test(reals),       cmocka_unit_test(reals_ignore_the_locale),
        cmocka_unit_test(integers),    cmocka_unit_test(nearest),
        cmocka_unit_test(quantities),  cmocka_unit_test(hashes),
        cmocka_unit_test(shapes),      cmocka_unit_test(columns),
        cmocka_unit_test(conversions),
    };

    return cmocka_run_group_tests_name("str", tests, NULL, NULL);
}
