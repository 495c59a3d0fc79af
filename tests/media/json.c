/* json: the event reader's order, skipping, positions and limits; the tree. */
#include "tests/media/place.h"

#include <math.h>

#include "media/json.h"

/* ---- events: written down as text ------------------------------------------------------------ */

typedef struct trace {
    dg_str s;
    const char *skip; /* key whose value is skipped */
    const char *stop; /* key at which reading is given up */
} trace;

static int on_value(void *ctx, dg_json_reader *r, const dg_json_scalar *v)
{
    trace *t = ctx;

    dg_str_fmt(&t->s, "%zu:", dg_json_offset(r));
    if (v->kind == DG_JSON_NULL)
        dg_str_add(&t->s, "null ");
    else if (v->kind == DG_JSON_BOOL)
        dg_str_add(&t->s, v->truth ? "true " : "false ");
    else
        dg_str_fmt(&t->s, "%s%.*s ", v->kind == DG_JSON_STRING ? "'" : "", (int)v->n, v->text);
    return 0;
}

static int on_key(void *ctx, dg_json_reader *r, const char *text, size_t n)
{
    trace *t = ctx;

    dg_str_fmt(&t->s, "%zu:%.*s= ", dg_json_offset(r), (int)n, text);
    if (t->skip && strlen(t->skip) == n && memcmp(t->skip, text, n) == 0)
        dg_json_skip(r);
    if (t->stop && strlen(t->stop) == n && memcmp(t->stop, text, n) == 0)
        return dg_json_fail(r, "test-stop", "stopped at \"%.*s\"", (int)n, text);
    return 0;
}

static int on_begin(void *ctx, dg_json_reader *r, dg_json_kind kind)
{
    trace *t = ctx;

    dg_str_fmt(&t->s, "%zu:%s ", dg_json_offset(r), kind == DG_JSON_ARRAY ? "[" : "{");
    return 0;
}

static int on_end(void *ctx, dg_json_reader *r, dg_json_kind kind)
{
    trace *t = ctx;

    dg_str_fmt(&t->s, "%zu:%s ", dg_json_offset(r), kind == DG_JSON_ARRAY ? "]" : "}");
    return 0;
}

static const dg_json_events events = {
    .value = on_value,
    .key = on_key,
    .begin = on_begin,
    .end = on_end,
};

static void check_events(place *p, const char *text, const char *skip, const char *want)
{
    trace t = { .skip = skip };

    assert_int_equal(dg_json_events_read(text, strlen(text), "x.json", &events, &t, p->d), 0);
    assert_string_equal(t.s.s, want);
    dg_str_free(&t.s);
}

static void events_in_order(void **state)
{
    place *p = *state;

    check_events(p, "{\"a\": [1, -2.5e3,true], \"b\":{}, \"c\" : \"x\"}", NULL,
                 "0:{ 1:a= 6:[ 7:1 10:-2.5e3 17:true 21:] 24:b= 28:{ 29:} 32:c= 38:'x 41:} ");
    check_events(p, " [null,false]", NULL, "1:[ 2:null 7:false 12:] ");
    check_events(p, "[\"caf\\u00e9\"]", NULL,
                 "0:[ 5:'caf\xC3\xA9 12:] "); /* escapes shift the beginning */
    check_events(p, "7", NULL, "0:7 ");
    check_events(p, "\xEF\xBB\xBF[]", NULL, "0:[ 1:] ");
    no_diagnostics(p);
}

static void skipping(void **state)
{
    place *p = *state;

    check_events(p, "{\"s\":[[1,{\"s\":2}],3],\"t\":4}", "s", "0:{ 1:s= 21:t= 25:4 26:} ");
    check_events(p, "{\"s\":5,\"t\":[{\"s\":{}},6]}", "s",
                 "0:{ 1:s= 7:t= 11:[ 12:{ 13:s= 19:} 21:6 22:] 23:} ");
}

/* Lists and objects under the key to drop are null, whatever they hold; its other values are
 * themselves, and in a string it is no key. */
static void dropping(void **state)
{
    static const char text[] = "{\"big\":[1,\"]\\\"\",{\"x\":[2]}],\"t\":4,\"s\":\"a\\\"big\\\": "
                               "[\",\"big\": {\"}\":[]} ,\"big\":7}";
    static const char cut[] = "{\"t\": 1,\n\"big\":[1,\"]\"";
    place *p = *state;
    dg_json_events dropping_big = events;
    trace t = { 0 };

    dropping_big.drop = "big";
    assert_int_equal(dg_json_events_read(text, sizeof text - 1, "x.json", &dropping_big, &t, p->d),
                     0);
    assert_string_equal(
        t.s.s,
        "0:{ 1:big= 7:null 27:t= 31:4 33:s= 39:'a\"big\": [ 51:big= 58:null 68:big= 74:7 75:} ");
    dg_str_free(&t.s);
    no_diagnostics(p);
    assert_int_equal(dg_json_events_read(cut, sizeof cut - 1, "x.json", &dropping_big, &t, p->d),
                     -DG_EINPUT);
    assert_int_equal(dg_diag_at(p->d, 0)->at.line, 2);
    check_says(p, "json-syntax", "premature EOF");
    dg_str_free(&t.s);
}

static void stopped(void **state)
{
    place *p = *state;
    trace t = { .stop = "b" };
    const char *text = "{\n  \"a\": 1,\n  \"b\": 2\n}";

    assert_int_equal(dg_json_events_read(text, strlen(text), "x.json", &events, &t, p->d),
                     -DG_EINPUT);
    assert_string_equal(dg_diag_at(p->d, 0)->at.file, "x.json");
    assert_int_equal(dg_diag_at(p->d, 0)->at.line, 3);
    assert_int_equal(dg_diag_at(p->d, 0)->at.column, 3);
    check_says(p, "test-stop", "stopped at \"b\"");
    dg_str_free(&t.s);
}

/* ---- errors ---------------------------------------------------------------------------------- */

static void check_bad(place *p, const char *text, size_t n, const char *id, const char *says,
                      int line)
{
    const dg_json *v;

    assert_int_equal(dg_json_parse(&v, p->a, text, n, "bad.json", p->d), -DG_EINPUT);
    assert_int_equal(dg_diag_at(p->d, 0)->at.line, line);
    assert_string_equal(dg_diag_at(p->d, 0)->at.file, "bad.json");
    check_says(p, id, says);
}

static void bad_texts(void **state)
{
    static const struct {
        const char *text, *says;
        int line;
    } cases[] = {
        { "", "premature EOF", 1 },
        { "{\n\"a\": [1,\n2", "premature EOF", 3 },
        { "{\n\"a\" 1}", "object key and value must be separated", 2 },
        { "[1,]", "unallowed token", 1 },
        { "[01]", "after array element", 1 },
        { "[NaN]", "invalid char", 1 },
        { "[1] x", "", 1 },
        { "[\"a\nb\"]", "invalid character inside string", 1 },
        { "[\"\xFF\"]", "invalid bytes in UTF8 string", 1 },
        { "{1: 2}", "invalid object key", 1 },
        { "]", "unallowed token", 1 },
        { "[1,\n\"a\\u0000b\"]", "a text with a NUL character, \\u0000", 2 },
        { "{\"a\\u0000\": 1}", "a text with a NUL character, \\u0000", 1 },
    };
    place *p = *state;

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        check_bad(p, cases[i].text, strlen(cases[i].text), "json-syntax", cases[i].says,
                  cases[i].line);

    const dg_json *v;

    assert_int_equal(dg_json_parse(&v, p->a, "{\"a\": [-Infinity]}", 18, "bad.json", p->d),
                     -DG_EINPUT);
    assert_non_null(strstr(dg_diag_at(p->d, 0)->remarks[0].text, "JSON has no NaN"));
    check_only(p->d, "json-syntax");
}

static void limits(void **state)
{
    place *p = *state;
    const dg_json *v;
    char text[1024];

    memset(text, '[', 256);
    memset(text + 256, ']', 256);
    assert_int_equal(dg_json_parse(&v, p->a, text, 512, "x", p->d), 0);
    memset(text, '[', 300);
    check_bad(p, text, 300, "json-depth", "nested more than 256 deep", 1);
    memset(text, '1', 500);
    text[0] = '[';
    text[500] = ']';
    check_bad(p, text, 501, "json-syntax", "a number of 499 characters", 1);
    check_bad(p, text, (size_t)DG_JSON_MAX_BYTES + 1, "json-size", "bytes of JSON", 0);
}

static void many_values(void **state)
{
    place *p = *state;
    size_t n = 2 * (size_t)DG_JSON_MAX_VALUES + 4;
    char *text = malloc(n);

    for (size_t i = 0; i < n; i++)
        text[i] = i == 0 ? '[' : i % 2 ? '1' : ',';
    check_bad(p, text, n, "json-size", "more than", 1);
    free(text);
}

/* ---- tree ------------------------------------------------------------------------------------ */

static void tree(void **state)
{
    static const char text[] = "{\"name\": \"a\\\"b\", \"list\": [1.5, [], {\"x\": true}],\n "
                               "\"n\": null, \"name\": \"last\"}";
    place *p = *state;
    const dg_json *v, *list, *x;

    assert_int_equal(dg_json_parse(&v, p->a, text, sizeof text - 1, "t.json", p->d), 0);
    assert_int_equal(v->kind, DG_JSON_OBJECT);
    assert_int_equal(v->n, 4);
    assert_string_equal(v->items[0].text, "a\"b");
    assert_string_equal(dg_json_get(v, "name")->text, "last");
    assert_int_equal(dg_json_get(v, "n")->kind, DG_JSON_NULL);
    assert_int_equal(dg_json_get(v, "n")->at.line, 2);
    assert_int_equal(dg_json_get(v, "n")->at.column, 7);
    assert_null(dg_json_get(v, "absent"));
    assert_null(dg_json_get(NULL, "x"));
    list = dg_json_get(v, "list");
    assert_int_equal(list->n, 3);
    assert_true(list->items[0].number == 1.5);
    assert_int_equal(list->items[1].n, 0);
    assert_true(dg_json_get(&list->items[2], "x")->truth);
    assert_null(dg_json_get(list, "x"));

    assert_int_equal(dg_json_need(&x, v, "list", DG_JSON_ARRAY, p->d), 0);
    assert_ptr_equal(x, list);
    assert_int_equal(dg_json_need(&x, v, "list", DG_JSON_OBJECT, p->d), -DG_EINPUT);
    check_says(p, "json-kind", "\"list\" is an array, expected an object");
    assert_int_equal(dg_json_need(&x, v, "absent", DG_JSON_OBJECT, p->d), -DG_EINPUT);
    check_says(p, "json-key", "this object has no \"absent\"");
    assert_int_equal(dg_json_need(&x, list, "a", DG_JSON_OBJECT, p->d), -DG_EINPUT);
    check_says(p, "json-kind", "an array where an object with \"a\" is expected");
}

/* ---- numbers --------------------------------------------------------------------------------- */

static dg_json_scalar number(const char *text)
{
    return (dg_json_scalar){ .kind = DG_JSON_NUMBER, .text = text, .n = strlen(text) };
}

static void numbers(void **state)
{
    static const char *const texts[] = {
        "0",
        "-0",
        "1",
        "0.1",
        "123456789.123456",
        "-2.5",
        "1e5",
        "1.7976931348623157e308",
        "5e-324",
        "640.0",
        "0.30000000000000004",
        "9007199254740993",
        "123456789012345678901234567890",
        "0.000001",
        "12345.6789012345678",
        "0.00000000000000000000001",
        "999999999999999",
    };
    double x;
    int64_t i;
    dg_json_scalar text = { .kind = DG_JSON_STRING, .text = "1", .n = 1 };

    (void)state;
    for (size_t k = 0; k < sizeof texts / sizeof *texts; k++) {
        dg_json_scalar v = number(texts[k]);

        assert_true(dg_json_real(&v, &x));
        assert_true(x == strtod(texts[k], NULL));
    }
    text = number("-1e999");
    assert_true(dg_json_real(&text, &x) && isinf(x) && x < 0);
    text = number("9223372036854775807");
    assert_true(dg_json_int(&text, &i) && i == INT64_MAX);
    text = number("9223372036854775808");
    assert_false(dg_json_int(&text, &i));
    text = number("-17.0");
    assert_true(dg_json_int(&text, &i) && i == -17);
    text = number("1.5");
    assert_false(dg_json_int(&text, &i));
    text = number("1e300");
    assert_false(dg_json_int(&text, &i));
    text.kind = DG_JSON_STRING;
    assert_false(dg_json_int(&text, &i));
    assert_false(dg_json_real(&text, &x));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(events_in_order, set_up, tear_down),
        cmocka_unit_test_setup_teardown(skipping, set_up, tear_down),
        cmocka_unit_test_setup_teardown(dropping, set_up, tear_down),
        cmocka_unit_test_setup_teardown(stopped, set_up, tear_down),
        cmocka_unit_test_setup_teardown(bad_texts, set_up, tear_down),
        cmocka_unit_test_setup_teardown(limits, set_up, tear_down),
        cmocka_unit_test_setup_teardown(many_values, set_up, tear_down),
        cmocka_unit_test_setup_teardown(tree, set_up, tear_down),
        cmocka_unit_test(numbers),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
