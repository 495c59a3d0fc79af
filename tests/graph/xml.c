/* xml: positions of elements and attributes are exact, and what would cost time or memory is
 * refused at once. */
#include "tests/check.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/rng.h"
#include "graph/xml.h"
#include "tests/graph/toy.h"

enum { ATTRS = 4, ELEMENTS = 400 };

/* ---- positions: a document is written with a note of where everything stands ----------------- */

typedef struct note {
    char what[32];
    int line, column;
} note;
typedef struct writer {
    dg_str text;
    int line;
    size_t line_start;
    note notes[ELEMENTS * (2 * ATTRS + 1)];
    int n;
    dg_rng rng;
} writer;

static void put(writer *w, const char *s)
{
    dg_str_add(&w->text, s);
    for (size_t i = w->text.n - strlen(s); i < w->text.n; i++)
        if (w->text.s[i] == '\n') {
            w->line++;
            w->line_start = i + 1;
        }
}

static void mark(writer *w, const char *what)
{
    snprintf(w->notes[w->n].what, sizeof w->notes->what, "%s", what);
    w->notes[w->n].line = w->line;
    w->notes[w->n++].column = (int)(w->text.n - w->line_start) + 1;
}

static const char *pick(writer *w, const char *const list[], int n)
{
    return list[dg_rng_below(&w->rng, (uint64_t)n)];
}

static void element(writer *w, int *left, int depth)
{
    static const char *const spaces[] = { " ", "  ", "\n", "\r\n\t", "\t " }, *const between[] = {
        "", "\n  ", "<!-- < > é \n -->", " ", "\n\n"
    };
    static const char *const values[] = {
        "", "1", "a > b", "Größe", "&lt;&amp;&#10;", "'quoted'", "two\nlines", "tab\t", "日本"
    };
    char name[32];

    (*left)--;
    mark(w, "element");
    put(w, "<e.x");
    for (int i = 0; i < (int)dg_rng_below(&w->rng, ATTRS); i++) {
        bool single = dg_rng_below(&w->rng, 2) == 0;

        put(w, pick(w, spaces, 5));
        snprintf(name, sizeof name, "a%d", i);
        mark(w, name);
        put(w, name);
        put(w, dg_rng_below(&w->rng, 4) ? "" : " ");
        put(w, dg_rng_below(&w->rng, 4) ? "=" : "=\n ");
        put(w, single ? "'" : "\"");
        mark(w, "value");
        const char *value = pick(w, values, 9);

        put(w, single && strchr(value, '\'') ? "plain" : value);
        put(w, single ? "'" : "\"");
    }
    if (dg_rng_below(&w->rng, 3) == 0) {
        put(w, "/>");
        return;
    }
    put(w, ">");
    while (*left > 0 && depth < 20 && dg_rng_below(&w->rng, 3)) {
        put(w, pick(w, between, 5));
        element(w, left, depth + 1);
        put(w, pick(w, between, 5));
    }
    put(w, "</e.x >");
}

static void expect(const writer *w, int *k, const char *what, dg_where at)
{
    const note *n = &w->notes[(*k)++];

    assert_string_equal(n->what, what);
    assert_int_equal(n->line, at.line);
    assert_int_equal(n->column, at.column);
}

static void walk(const writer *w, int *k, const dg_xml *e)
{
    for (; e; e = e->next) {
        expect(w, k, "element", e->at);
        for (int i = 0; i < e->n_attrs; i++) {
            expect(w, k, e->attrs[i].name, e->attrs[i].at);
            expect(w, k, "value", e->attrs[i].value_at);
        }
        walk(w, k, e->first);
    }
}

static void positions(void **state)
{
    (void)state;
    for (int seed = 0; seed < 60; seed++) {
        writer *w = calloc(1, sizeof *w);
        dg_arena *a = dg_arena_open();
        dg_diag *d = dg_diag_open();
        dg_xml *root;
        int left = ELEMENTS, k = 0;

        assert_non_null(w);
        w->line = 1;
        w->rng = dg_rng_begin(dg_rng_named((uint64_t)seed, "xml"), 0, 0);
        put(w, seed % 3   ? ""
               : seed % 2 ? "\xEF\xBB\xBF"
                          : "<?xml version=\"1.0\" encoding='UTF-8'?>\n");
        put(w, seed % 4 ? "" : "<!-- first -->\n");
        mark(w, "element");
        put(w, "<root>");
        while (left > 0)
            element(w, &left, 1);
        put(w, "</root>\n");
        if (dg_xml_parse(&root, a, w->text.s, w->text.n, "f.xml", d) != 0)
            fail_msg("%s", dg_diag_text(d));
        walk(w, &k, root);
        assert_int_equal(k, w->n);
        dg_str_free(&w->text);
        free(w);
        dg_arena_close(&a);
        dg_diag_close(&d);
    }
}

static void values(void **state)
{
    static const char text[] = "<a b='&lt;&amp;&gt;&quot;&apos;&#65;&#x42;' c=\"two\nlines\"/>";
    dg_arena *a = dg_arena_open();
    dg_diag *d = dg_diag_open();
    dg_xml *root;

    (void)state;
    assert_int_equal(dg_xml_parse(&root, a, text, strlen(text), "f.xml", d), 0);
    assert_int_equal(root->n_attrs, 2);
    assert_string_equal(root->attrs[0].value, "<&>\"'AB");
    assert_string_equal(root->attrs[1].value, "two lines"); /* XML 1.0, 3.3.3 */
    dg_arena_close(&a);
    dg_diag_close(&d);
}

/* ---- limits ---------------------------------------------------------------------------------- */

/* Parses text (freed here) and expects exactly this fault. */
static void refused(dg_str *text, const char *id)
{
    dg_arena *a = dg_arena_open();
    dg_diag *d = dg_diag_open();
    dg_xml *root;

    assert_true(dg_xml_parse(&root, a, text->s, text->n, "f.xml", d) < 0);
    assert_null(root);
    check_only(d, id);
    dg_str_free(text);
    dg_arena_close(&a);
    dg_diag_close(&d);
}

static void repeat(dg_str *s, const char *what, int n)
{
    for (int i = 0; i < n; i++)
        dg_str_add(s, what);
}

static void deep(void **state)
{
    dg_str s = { 0 };

    (void)state;
    repeat(&s, "<a>", 100000);
    repeat(&s, "</a>", 100000);
    refused(&s, "xml-too-deep");
    repeat(&s, "<a>", DG_XML_MAX_DEPTH);
    repeat(&s, "</a>", DG_XML_MAX_DEPTH);
    dg_arena *a = dg_arena_open();
    dg_diag *d = dg_diag_open();
    dg_xml *root;

    assert_int_equal(dg_xml_parse(&root, a, s.s, s.n, "f.xml", d), 0);
    dg_str_free(&s);
    dg_arena_close(&a);
    dg_diag_close(&d);
}

static void many(void **state)
{
    dg_str s = { 0 };

    (void)state;
    dg_str_add(&s, "<a>");
    repeat(&s, "<b/>", DG_XML_MAX_ELEMENTS);
    dg_str_add(&s, "</a>");
    refused(&s, "xml-too-many-elements");
    dg_str_add(&s, "<a");
    for (int i = 0; i <= DG_XML_MAX_ATTRS; i++)
        dg_str_fmt(&s, " a%d=''", i);
    dg_str_add(&s, "/>");
    refused(&s, "xml-too-many-attributes");
    dg_str_add(&s, "<a b='");
    repeat(&s, "x", DG_XML_MAX_TAG);
    dg_str_add(&s, "'/>");
    refused(&s, "xml-tag-too-long");
    repeat(&s, " ", DG_XML_MAX_BYTES + 1);
    refused(&s, "file-too-large");
}

/* 100 MB are refused by their size alone: nothing of them is read. */
static void large_file(void **state)
{
    char path[] = "/tmp/dg-large-XXXXXX";
    int fd = mkstemp(path);
    dg_diag *d = dg_diag_open();
    dg_registry *r = toy_registry(d);
    dg_graph *g;

    (void)state;
    assert_true(fd >= 0);
    assert_int_equal(ftruncate(fd, 100 << 20), 0);
    assert_true(dg_graph_load(&g, path, NULL, 0, r, d) < 0);
    assert_null(g);
    check_only(d, "file-too-large");
    close(fd);
    unlink(path);
    dg_registry_close(&r);
    dg_diag_close(&d);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(positions), cmocka_unit_test(values),     cmocka_unit_test(deep),
        cmocka_unit_test(many),      cmocka_unit_test(large_file),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
