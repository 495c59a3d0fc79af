/* diag.c: collecting, limits, merging, sorting, and the exact text of both printed forms. */
#include "tests/check.h"

#include <string.h>

static const char text[] = "<pipeline>\n"
                           "\t<conv k=\"3x\"/>\r\n"
                           "  <n name=\"\xC3\xA4\xC3\xB6\" q=\"1\"/>\n"
                           "last";

static const char *source(void *ctx, const char *file, size_t *n)
{
    (void)ctx;
    *n = sizeof text - 1;
    return strcmp(file, "p.xml") == 0 ? text : NULL;
}

static dg_where at(int line, int column)
{
    return (dg_where){ "p.xml", line, column, "train/conv" };
}

static void check_print(const dg_diag *d, const char *expected)
{
    dg_str out = { 0 };

    dg_diag_print(&out, d, source, NULL, false);
    assert_string_equal(out.s, expected);
    dg_str_free(&out);
}

static void a_failure_returns_its_code(void **state)
{
    dg_diag *d = dg_diag_open();

    (void)state;
    assert_int_equal(dg_fail(d, DG_EIO, DG_NOWHERE, "some-id", "%d of %s", 3, "four"), -DG_EIO);
    assert_int_equal(dg_fail(NULL, DG_EINPUT, DG_NOWHERE, "some-id", "unheard"), -DG_EINPUT);
    dg_warn(NULL, DG_NOWHERE, "some-id", "unheard");
    dg_note(NULL, DG_NOWHERE, "unheard");
    dg_help(NULL, "unheard");
    assert_int_equal(dg_diag_errors(d), 1);
    assert_int_equal(dg_diag_warnings(d), 0);
    const dg_err *e = dg_diag_at(d, 0);

    assert_int_equal(e->code, DG_EIO);
    assert_int_equal(e->severity, DG_ERROR);
    assert_string_equal(e->text, "3 of four");
    check_only(d, "some-id");
    assert_int_equal(dg_diag_n(d), 0);
    dg_diag_close(&d);
    assert_null(d);
    dg_diag_close(&d);
}

static void prints_line_and_caret(void **state)
{
    dg_diag *d = dg_diag_open();

    (void)state;
    dg_fail(d, DG_EINPUT, at(2, 10), "attr-type", "k=\"3x\": expected a whole number");
    dg_note(d, at(1, 1), "in this pipeline");
    dg_note(d, DG_NOWHERE, "a note without a place");
    dg_help(d, "write k=\"3\"");
    dg_warn(d, at(3, 18), "unused", "after letters of two bytes");
    dg_fail(d, DG_EINPUT, at(4, 5), "at-end", "just behind the last line");
    dg_fail(d, DG_EINPUT, at(5, 1), "no-line", "beyond the file");
    dg_fail(d, DG_EINPUT, (dg_where){ "q.xml", 7, 0, NULL }, "no-text",
            "a file that cannot be shown");
    dg_fail(d, DG_EINPUT, (dg_where){ "p.xml", 1, 999, NULL }, "far", "beyond the line");
    dg_fail(d, DG_EINPUT, (dg_where){ NULL, 0, 0, "train/loss" }, "node", "a node");
    dg_fail(d, DG_EINPUT, DG_NOWHERE, "nowhere", "two\nlines and an \033[31mescape");
    check_print(d, "p.xml:2:10: error[attr-type]: k=\"3x\": expected a whole number\n"
                   "    2 | \t<conv k=\"3x\"/>\n"
                   "      | \t        ^\n"
                   "  note: p.xml:1:1: in this pipeline\n"
                   "  note: a note without a place\n"
                   "  help: write k=\"3\"\n"
                   "p.xml:3:18: warning[unused]: after letters of two bytes\n"
                   "    3 |   <n name=\"\xC3\xA4\xC3\xB6\" q=\"1\"/>\n"
                   "      |                ^\n"
                   "p.xml:4:5: error[at-end]: just behind the last line\n"
                   "    4 | last\n"
                   "      |     ^\n"
                   "p.xml:5:1: error[no-line]: beyond the file\n"
                   "q.xml:7: error[no-text]: a file that cannot be shown\n"
                   "p.xml:1:999: error[far]: beyond the line\n"
                   "    1 | <pipeline>\n"
                   "train/loss: error[node]: a node\n"
                   "error[nowhere]: two\n    lines and an ?[31mescape\n");
    dg_diag_close(&d);
}

static const char *long_line(void *ctx, const char *file, size_t *n)
{
    (void)file;
    *n = strlen(ctx);
    return ctx;
}

static void a_long_line_is_cut_around_its_column(void **state)
{
    char line[2001];
    dg_str out = { 0 };
    dg_diag *d = dg_diag_open();

    (void)state;
    memset(line, '.', 2000);
    line[2000] = '\0';
    line[999] = 'X';
    dg_fail(d, DG_EINPUT, at(1, 1000), "here", "in the middle");
    dg_diag_print(&out, d, long_line, line, false);
    assert_true(out.n < 400);
    const char *x = strchr(out.s, 'X'), *caret = strchr(out.s, '^');
    const char *x_line = x, *caret_line = caret;

    while (x_line[-1] != '\n')
        x_line--;
    while (caret_line[-1] != '\n')
        caret_line--;
    assert_int_equal(x - x_line, caret - caret_line);
    dg_str_free(&out);
    dg_diag_close(&d);
}

static void colour_only_when_asked(void **state)
{
    dg_str out = { 0 };
    dg_diag *d = dg_diag_open();

    (void)state;
    dg_fail(d, DG_EINPUT, at(1, 1), "id", "text");
    dg_diag_print(&out, d, source, NULL, true);
    assert_non_null(strstr(out.s, "\033[1;31merror[id]"));
    dg_str_free(&out);
    dg_diag_close(&d);
}

static void json(void **state)
{
    dg_str out = { 0 };
    dg_diag *d = dg_diag_open();

    (void)state;
    dg_diag_json(&out, d);
    assert_string_equal(out.s, "[]\n");
    dg_str_free(&out);
    dg_fail(d, DG_EINPUT, at(2, 10), "attr-type", "\"quoted\" \xFF");
    dg_note(d, at(1, 1), "n1");
    dg_help(d, "h1");
    dg_note(d, DG_NOWHERE, "n2");
    dg_warn(d, DG_NOWHERE, "w", "warned");
    dg_diag_json(&out, d);
    assert_string_equal(
        out.s,
        "[\n{\"severity\":\"error\",\"id\":\"attr-type\",\"message\":\"\\\"quoted\\\" \\ufffd\","
        "\"file\":\"p.xml\",\"line\":2,\"column\":10,\"node\":\"train/conv\",\"notes\":["
        "{\"file\":\"p.xml\",\"line\":1,\"column\":1,\"node\":\"train/conv\",\"message\":\"n1\"},"
        "{\"file\":null,\"line\":0,\"column\":0,\"node\":null,\"message\":\"n2\"}],\"help\":["
        "\"h1\"]},"
        "\n{\"severity\":\"warning\",\"id\":\"w\",\"message\":\"warned\",\"file\":null,\"line\":0,"
        "\"column\":0,\"node\":null,\"notes\":[],\"help\":[]}\n]\n");
    dg_str_free(&out);
    dg_diag_close(&d);
}

static void more_than_the_limit_are_counted(void **state)
{
    dg_str out = { 0 };
    dg_diag *d = dg_diag_open(), *worker = dg_diag_open();

    (void)state;
    for (int i = 0; i < DG_DIAG_MAX + 3; i++) {
        dg_warn(worker, DG_NOWHERE, "w", "%d", i);
        dg_fail(worker, DG_EINPUT, DG_NOWHERE, "e", "%d", i);
        dg_note(worker, DG_NOWHERE, "of %d", i);
    }
    assert_int_equal(dg_diag_errors(worker), DG_DIAG_MAX + 3);
    assert_int_equal(dg_diag_n(worker), 2 * DG_DIAG_MAX);
    dg_fail(d, DG_EINPUT, DG_NOWHERE, "first", "mine");
    dg_diag_merge(d, worker);
    dg_diag_close(&worker);
    assert_int_equal(dg_diag_errors(d), DG_DIAG_MAX + 4);
    assert_int_equal(dg_diag_warnings(d), DG_DIAG_MAX + 3);
    assert_string_equal(dg_diag_at(d, 2)->remarks[0].text, "of 0");
    dg_diag_print(&out, d, NULL, NULL, false);
    assert_non_null(strstr(out.s, "\nand 4 more errors\nand 3 more warnings\n"));
    dg_str_free(&out);
    dg_diag_close(&d);
}

static void sorts_by_place_and_keeps_order(void **state)
{
    static const char *const expected[] = { "nowhere", "a9", "first", "second", "p3" };
    dg_diag *d = dg_diag_open();

    (void)state;
    dg_fail(d, DG_EINPUT, at(3, 1), "p3", "x");
    dg_fail(d, DG_EINPUT, at(2, 4), "first", "x");
    dg_fail(d, DG_EINPUT, at(2, 4), "second", "x");
    dg_fail(d, DG_EINPUT, (dg_where){ "a.xml", 9, 1, NULL }, "a9", "x");
    dg_fail(d, DG_EINPUT, DG_NOWHERE, "nowhere", "x");
    dg_diag_sort(d);
    for (int i = 0; i < 5; i++)
        assert_string_equal(dg_diag_at(d, i)->id, expected[i]);
    dg_diag_close(&d);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_failure_returns_its_code),
        cmocka_unit_test(prints_line_and_caret),
        cmocka_unit_test(a_long_line_is_cut_around_its_column),
        cmocka_unit_test(colour_only_when_asked),
        cmocka_unit_test(json),
        cmocka_unit_test(more_than_the_limit_are_counted),
        cmocka_unit_test(sorts_by_place_and_keeps_order),
    };

    return cmocka_run_group_tests_name("diag", tests, NULL, NULL);
}
