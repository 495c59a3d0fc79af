/* contract: the language of port types: read, printed, refused with the place of the fault,
 * unified. */
#include "tests/check.h"

#include <stdio.h>
#include <string.h>

#include "graph/contract.h"

typedef struct bench {
    dg_arena *arena;
    dg_dims dims;
    dg_letters letters;
} bench;

static void open_bench(bench *b)
{
    *b = (bench){ .arena = dg_arena_open() };
    b->dims.arena = b->arena;
    b->letters.dims = &b->dims;
}

static const dg_contract *read_type(bench *b, const char *text)
{
    const char *why;
    int at;
    const dg_contract *c = dg_contract_parse(&b->letters, text, 0, &at, &why);

    if (!c)
        fail_msg("%s: %s at %d", text, why, at);
    return c;
}

static void reads_and_prints(void **state)
{
    static const char *const texts[] = {
        "f[]",
        "i[]",
        "f[B,N,D]",
        "i[4]",
        "f[B,H8,W8,C8]",
        "f[...]",
        "f[...,D]",
        "f[B,...]",
        "f[B,...,D]",
        "f[B,N<=M,4]",
        "f[N<=200]",
        "any",
        "dataset",
        "picks",
        "samples",
        "batch",
        "gradients",
        "parameters",
        "metrics",
        "{a:f[],b?:i[B],c_*:f[B,N]}",
        "{a:{b:{c:any}}}",
        "f[A,B,C,D,E,F]",
    };
    bench b;

    (void)state;
    open_bench(&b);
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        dg_str out = { 0 };

        dg_contract_print(&out, &b.dims, read_type(&b, texts[i]));
        assert_string_equal(out.s, texts[i]);
        dg_str_free(&out);
    }
    dg_arena_close(&b.arena);
}

static void refuses(void **state)
{
    static const struct {
        const char *text;
        int at;
    } bad[] = {
        { "", 0 },
        { "f", 0 },
        { "f[", 2 },
        { "f[B", 3 },
        { "f[b]", 2 },
        { "f[0]", 3 },
        { "f[B,]", 4 },
        { "f[B]]", 4 },
        { "x[B]", 0 },
        { "f[...,...]", 9 },
        { "f[A,B,C,D,E,F,G]", 14 },
        { "f[99999999999]", 11 },
        { "f[N<=]", 5 },
        { "{}", 1 },
        { "{a}", 2 },
        { "{a:f[]", 6 },
        { "{a:f[],}", 7 },
        { "{A:f[]}", 1 },
        { "{a:f[],a:f[]}", 8 },
        { "{a*?:f[]}", 3 },
        { "anything", 0 },
        { "any ", 3 },
        { "{a:{a:{a:{a:{a:{a:{a:{a:{a:any}}}}}}}}}", 27 },
    };
    bench b;

    (void)state;
    open_bench(&b);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        const char *why = NULL;
        int at;

        if (dg_contract_parse(&b.letters, bad[i].text, 0, &at, &why))
            fail_msg("%s is taken for a type", bad[i].text);
        assert_non_null(why);
        if (at != bad[i].at)
            fail_msg("%s: fault at %d (%s), expected at %d", bad[i].text, at, why, bad[i].at);
    }
    dg_arena_close(&b.arena);
}

static void agrees(void **state)
{
    static const struct {
        const char *from, *to, *why; /* why NULL: they agree */
    } rows[] = {
        { "f[B,N,D]", "f[B,N,D]", NULL },
        { "f[2,3]", "f[A,B]", NULL },
        { "f[A,A]", "f[4,4]", NULL },
        { "f[A,A]", "f[4,5]", "it is f[4,4], and f[4,5] is expected: dimension 2 is 4, not 5" },
        { "f[B,N]", "f[B,N,D]", "it is f[B,N], and f[B,N,D] is expected" },
        { "f[B]", "i[B]", "it is f[B], and i[B] is expected" },
        { "f[3,4,5]", "f[...,D]", NULL },
        { "f[...]", "f[3,4]", NULL },
        { "f[...,7]", "f[B,N,8]",
          "it is f[...,7], and f[B,N,8] is expected: dimension 1 is 7, not 8" },
        { "f[1,...,2]", "f[1,...,3]",
          "it is f[1,...,2], and f[1,...,3] is expected: dimension 2 is 2, not 3" },
        { "f[]", "f[...,D]", "it is f[], and f[...,D] is expected" },
        { "f[B,N<=100,4]", "f[B,M,4]", NULL },
        { "f[B,N<=100,4]", "f[B,K<=50,4]",
          "it is f[B,N<=100,4], and f[B,K<=50,4] is expected: dimension 2 is 100, not 50" },
        { "any", "f[B]", NULL },
        { "{a:f[]}", "any", NULL },
        { "picks", "samples", NULL },
        { "samples", "picks", NULL },
        { "dataset", "samples", "it is dataset, and samples is expected" },
        { "{a:f[],b:i[B]}", "{a:f[]}", NULL },
        { "{a:f[]}", "{a:f[],b:i[]}",
          "it has no key \"b\": it is {a:f[]}, and {a:f[],b:i[]} is expected" },
        { "{a:f[]}", "{a:f[],b?:i[]}", NULL },
        { "{a?:f[]}", "{a:f[]}",
          "it has no key \"a\" on some steps: it is {a?:f[]}, and {a:f[]} is expected" },
        { "{a?:f[]}", "{a?:f[]}", NULL },
        { "{l_*:f[]}", "{l_x:f[]}", NULL },
        { "{l_a:f[]}", "{l_*:f[]}", NULL },
        { "{a:{b:f[2]}}", "{a:{b:f[3]}}",
          "key \"a\": key \"b\": it is f[2], and f[3] is expected: dimension 1 is 2, not 3" },
        { "gradients", "parameters", "it is gradients, and parameters is expected" },
    };

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        dg_str why = { 0 };
        bench b;
        dg_letters other;

        open_bench(&b);
        other = (dg_letters){ .dims = &b.dims };
        const dg_contract *from = read_type(&b, rows[i].from), *to;

        b.letters = other;
        to = read_type(&b, rows[i].to);
        bool ok = dg_contract_unify(&b.dims, from, to, &why);

        if (ok != !rows[i].why || (!ok && strcmp(why.s, rows[i].why) != 0))
            fail_msg("%s to %s: \"%s\", expected \"%s\"", rows[i].from, rows[i].to,
                     why.s ? why.s : "", rows[i].why ? rows[i].why : "");
        dg_str_free(&why);
        dg_arena_close(&b.arena);
    }
}

/* A letter is known everywhere as soon as it is known somewhere; a copy has letters of its own. */
static void letters(void **state)
{
    bench b;
    dg_str out = { 0 };
    const dg_contract *a, *copy, *number, *other;
    dg_renaming map = { 0 };

    (void)state;
    open_bench(&b);
    a = read_type(&b, "{x:f[B,N],y:f[N,N]}");
    copy = dg_contract_copy(&b.dims, a, &map);
    b.letters.n = 0;
    number = read_type(&b, "f[7,7]");
    other = read_type(&b, "f[P,Q]");
    assert_true(dg_contract_unify(&b.dims, a->fields[1].type, other, &out));
    assert_true(dg_contract_unify(&b.dims, other, number, &out));
    dg_contract_print(&out, &b.dims, a);
    dg_str_add(&out, " ");
    dg_contract_print(&out, &b.dims, copy);
    assert_string_equal(out.s, "{x:f[B,7],y:f[7,7]} {x:f[B,N],y:f[N,N]}");
    dg_str_free(&out);
    dg_arena_close(&b.arena);
}

static void holds(void **state)
{
    bench b;
    const dg_contract *c;
    int64_t bound[16] = { 0 };

    (void)state;
    open_bench(&b);
    c = read_type(&b, "f[B,N,N,3]");
    assert_true(dg_contract_holds(&b.dims, c, DG_REAL, DG_SHAPE(2, 5, 5, 3), bound));
    assert_true(dg_contract_holds(&b.dims, c, DG_F32, DG_SHAPE(2, 5, 5, 3), bound));
    assert_false(dg_contract_holds(&b.dims, c, DG_REAL, DG_SHAPE(3, 5, 5, 3), bound)); /* B is 2 */
    memset(bound, 0, sizeof bound);
    assert_false(dg_contract_holds(&b.dims, c, DG_REAL, DG_SHAPE(2, 5, 6, 3), bound));
    memset(bound, 0, sizeof bound);
    assert_false(dg_contract_holds(&b.dims, c, DG_REAL, DG_SHAPE(2, 5, 5, 4), bound));
    assert_false(dg_contract_holds(&b.dims, c, DG_I32, DG_SHAPE(2, 5, 5, 3), bound));
    assert_false(dg_contract_holds(&b.dims, c, DG_REAL, DG_SHAPE(2, 5, 5), bound));
    memset(bound, 0, sizeof bound);
    assert_true(
        dg_contract_holds(&b.dims, read_type(&b, "i[...,K]"), DG_I32, DG_SHAPE(1, 2, 9), bound));
    assert_false(dg_contract_holds(&b.dims, read_type(&b, "f[...,K]"), DG_REAL, DG_SCALAR, bound));
    dg_arena_close(&b.arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reads_and_prints), cmocka_unit_test(refuses), cmocka_unit_test(agrees),
        cmocka_unit_test(letters),          cmocka_unit_test(holds),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
