/* registry: a class is checked as it comes in; the mistakes of its tables have names. */
#include "tests/check.h"

#include <string.h>

#include "graph/attr.h"
#include "graph/schema.h"
#include "tests/graph/toy.h"

typedef struct conf {
    double x;
    int64_t n;
    const char *s;
    dg_when w;
    dg_children kids;
} conf;

static const dg_port good_ports[] = { DG_IN("in", "f[B]", "in"),
                                      DG_OUT("out", "f[B]", "out"),
                                      { 0 } };
static const dg_attr good_attrs[] = { DG_NUM(conf, x, 1, 0, 2, "x"), { 0 } };

static const dg_node_class good = {
    DG_NODE_CLASS,
    .name = "own.good",
    .brief = "Good.",
    .ports = good_ports,
    .attrs = good_attrs,
    .conf_size = sizeof(conf),
};

/* A class that differs from the good one is refused for exactly this. */
static void refused(dg_node_class c, const char *id)
{
    dg_diag *d = dg_diag_open();
    dg_registry *r = dg_registry_open();

    assert_true(dg_registry_add(r, &c, d) < 0);
    if (dg_diag_n(d) != 1 || strcmp(dg_diag_at(d, 0)->id, id) != 0)
        fail_msg("expected %s: %s", id, dg_diag_text(d));
    assert_null(dg_registry_find(r, c.name ? c.name : "own.good"));
    dg_registry_close(&r);
    dg_diag_close(&d);
}

static void names(void **state)
{
    static const char *const bad[] = { "",          "Own",      "own.", ".own",  "own good", "1own",
                                       "own..good", "pipeline", "use",  "input", "let" };
    dg_node_class c = good;

    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        c.name = bad[i];
        refused(c, "class-name");
    }
    c.name = NULL;
    refused(c, "class-name");
}

static void ports(void **state)
{
    static const dg_port twice[] = { DG_IN("a", "f[B]", ""), DG_IN("a", "f[B]", ""), { 0 } },
                         type[] = { DG_IN("a", "f[B", ""), { 0 } },
                         name[] = { DG_IN("recompute", "f[B]", ""), { 0 } },
                         mains[] = { DG_OUT_MAIN("a", "f[]", ""),
                                     DG_OUT_MAIN("b", "f[]", ""),
                                     { 0 } },
                         flags[] = { { "a", "f[]", DG_PORT_OUT | DG_PORT_OPTIONAL, "" }, { 0 } },
                         none[] = { DG_IN("a", NULL, ""), { 0 } },
                         unknown[] = { { "a", "f[]", 1 << 20, "" }, { 0 } };
    dg_node_class c = good;

    (void)state;
    c.ports = twice;
    refused(c, "class-twice");
    c.ports = type;
    refused(c, "class-type");
    c.ports = none;
    refused(c, "class-type");
    c.ports = name;
    refused(c, "class-name");
    c.ports = mains;
    refused(c, "class-flags");
    c.ports = flags;
    refused(c, "class-flags");
    c.ports = unknown;
    refused(c, "class-flags");
    c.ports = NULL;
    refused(c, "class-table");
}

static void attributes(void **state)
{
    static const dg_attr
        range[] = { DG_NUM(conf, x, 3, 0, 2, "x"), { 0 } },
        words[] = { { "n", DG_ATTR_ENUM, offsetof(conf, n), false, 0, 2, 0, 0, "a|b", "n" },
                    { 0 } },
        text[] = { DG_WHEN(conf, w, "soon", "w"), { 0 } },
        twice[] = { DG_NUM(conf, x, 1, 0, 2, "x"), DG_NUM(conf, x, 1, 0, 2, "x"), { 0 } },
        port[] = { { "in", DG_ATTR_NUM, 0, false, 0, 0, 0, 1, NULL, "in" }, { 0 } },
        taken[] = { { "id", DG_ATTR_NUM, 0, false, 0, 0, 0, 1, NULL, "id" }, { 0 } },
        outside[] = { { "far", DG_ATTR_NUM, sizeof(conf), false, 0, 0, 0, 1, NULL, "far" }, { 0 } },
        flags[] = { { "x", DG_ATTR_NUM, offsetof(conf, x), false, DG_ATTR_AXES, 1, 0, 2, NULL,
                      "x" },
                    { 0 } },
        unknown[] = { { "s", DG_ATTR_STR, offsetof(conf, s), false, 128, 0, 0, 0, NULL, "s" },
                      { 0 } },
        same[] = { { "n", DG_ATTR_ENUM, offsetof(conf, n), false, 0, 0, 0, 0, "a|a", "n" }, { 0 } },
        blank[] = { { "n", DG_ATTR_ENUM, offsetof(conf, n), false, 0, 0, 0, 0, "a||b", "n" },
                    { 0 } },
        half[] = { DG_INT(conf, n, 0.5, 0, 2, "n"), { 0 } },
        huge[] = { DG_INT(conf, n, 1e300, 0, 1e301, "n"), { 0 } },
        shared[] = { DG_NUM(conf, x, 1, 0, 2, "x"),
                     { "y", DG_ATTR_STR, offsetof(conf, x), false, 0, 0, 0, 0, NULL, "y" },
                     { 0 } },
        across[] = { { "y", DG_ATTR_NUM, offsetof(conf, x) + 1, false, 0, 0, 0, 1, NULL, "y" },
                     { 0 } },
        mute[] = { DG_NUM(conf, x, 1, 0, 2, NULL), { 0 } },
        kind[] = { { "odd", (dg_attr_kind)99, 0, false, 0, 0, 0, 1, NULL, "odd" }, { 0 } };
    static const dg_child_class kids[] = { { "kid", range, sizeof(conf), 0, "kid" }, { 0 } },
                                two[] = { { "kid", NULL, 0, 0, "kid" },
                                          { "kid", NULL, 0, 0, "kid" },
                                          { 0 } },
                                odd[] = { { "A kid", NULL, 0, 0, "kid" }, { 0 } },
                                quiet[] = { { "kid", NULL, 0, 0, NULL }, { 0 } },
                                vast[] = { { "kid", NULL, (size_t)1 << 60, 0, "kid" }, { 0 } },
                                few[] = { { "kid", NULL, 0, -1, "kid" }, { 0 } };
    static const struct {
        const dg_child_class *table;
        const char *id;
    } wrong[] = { { kids, "class-default" }, { two, "class-twice" }, { odd, "class-name" },
                  { quiet, "class-doc" },    { vast, "class-conf" }, { few, "class-conf" } };
    dg_node_class c = good;

    (void)state;
    c.attrs = range;
    refused(c, "class-default");
    c.attrs = words;
    refused(c, "class-default");
    c.attrs = text;
    refused(c, "class-default");
    c.attrs = twice;
    refused(c, "class-twice");
    c.attrs = port;
    refused(c, "class-twice");
    c.attrs = taken;
    refused(c, "class-name");
    c.attrs = outside;
    refused(c, "class-conf");
    c.attrs = kind;
    refused(c, "class-conf");
    c.attrs = same;
    refused(c, "class-twice");
    c.attrs = blank;
    refused(c, "class-twice");
    c.attrs = half;
    refused(c, "class-default");
    c.attrs = huge;
    refused(c, "class-default");
    c.attrs = shared;
    refused(c, "class-conf");
    c.attrs = across;
    refused(c, "class-conf");
    c.attrs = mute;
    refused(c, "class-doc");
    c.attrs = flags;
    refused(c, "class-flags");
    c.attrs = unknown;
    refused(c, "class-flags");
    c = good;
    c.children_offset = offsetof(conf, kids);
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        c.children = wrong[i].table;
        refused(c, wrong[i].id);
    }
}

/* What the engine reads is found by its flag; in tables without flags, by the name of old. */
static void flagged(void **state)
{
    static const dg_attr
        own[] = { DG_STR(conf, s, NULL, "s"), DG_NUM(conf, x, 1, 0, 2, "x"), { 0 } },
        old[] = { { "axis", DG_ATTR_STR, offsetof(conf, s), false, 0, 0, 0, 0, NULL, "axis" },
                  { "batch", DG_ATTR_NUM, offsetof(conf, x), false, 0, 0, 0, 0, NULL, "no INT" },
                  { 0 } },
        new[] = { { "axis", DG_ATTR_STR, offsetof(conf, s), false, 0, 0, 0, 0, NULL, "of a cube" },
                  { "over", DG_ATTR_STR, offsetof(conf, s), false, DG_ATTR_AXES, 0, 0, 0, NULL,
                    "mesh axes" },
                  { "batch", DG_ATTR_INT, offsetof(conf, n), false, 0, 0, 0, 9, NULL, "number" },
                  { 0 } };

    (void)state;
    assert_null(dg_attr_flagged(own, DG_ATTR_AXES));
    assert_null(dg_attr_flagged(NULL, DG_ATTR_AXES));
    assert_ptr_equal(dg_attr_flagged(old, DG_ATTR_AXES), &old[0]);
    assert_null(dg_attr_flagged(old, DG_ATTR_BATCH));
    assert_ptr_equal(dg_attr_flagged(new, DG_ATTR_AXES), &new[1]);
    assert_null(dg_attr_flagged(new, DG_ATTR_BATCH));
}

static int feeds(const void *self, dg_size size, int batch, dg_feed out[], int n)
{
    (void)self, (void)size, (void)batch, (void)out, (void)n;
    return 0;
}

static int begin(void **state, const void *self, const dg_sink_args *args, dg_diag *d)
{
    (void)state, (void)self, (void)args, (void)d;
    return 0;
}

static int schedule(dg_schedule *out, const void *self, const dg_schedule_args *args, dg_diag *d)
{
    (void)out, (void)self, (void)args, (void)d;
    return 0;
}

static void functions(void **state)
{
    static const dg_child_class kids[] = { { 0 } };
    dg_node_class c = good;

    (void)state;
    c.feeds = feeds;
    refused(c, "class-functions");
    c = good;
    c.begin = begin;
    refused(c, "class-functions");
    c = good;
    c.schedule = schedule;
    refused(c, "class-functions");
    c = good;
    c.children = kids;
    c.children_offset = sizeof(conf);
    refused(c, "class-conf");
    c = good;
    c.names_offset = (size_t)-8; /* where the engine would write */
    refused(c, "class-conf");
    c = good;
    c.conf_size = (size_t)1 << 60;
    refused(c, "class-conf");
    c = good;
    c.role = (dg_role)-5;
    refused(c, "class-role");
    c.role = DG_ROLE_SINK + 1;
    refused(c, "class-role");
    c = good;
    c.brief = NULL;
    refused(c, "class-doc");
}

static void versions(void **state)
{
    dg_node_class c = good;
    dg_diag *d = dg_diag_open();
    dg_registry *r = dg_registry_open();

    (void)state;
    c.size += 8; /* of a later version */
    refused(c, "class-size");
    c = good;
    c.port_size--;
    refused(c, "class-size");
    c = good;
    c.attr_size++;
    refused(c, "class-size");
    c = good;
    c.size = 16;
    refused(c, "class-size");
    c = good;
    c.size = offsetof(dg_node_class, item); /* of an earlier one: what it lacks is absent */
    assert_int_equal(dg_registry_add(r, &c, d), 0);
    assert_string_equal(dg_registry_find(r, "own.good")->name, "own.good");
    assert_null(dg_registry_find(r, "own.good")->finish);
    assert_true(dg_registry_add(r, &good, d) < 0); /* there is one of that name */
    check_only(d, "class-twice");
    dg_registry_close(&r);
    dg_diag_close(&d);
}

static void sorted(void **state)
{
    dg_diag *d = dg_diag_open();
    dg_registry *r = toy_registry(d);

    (void)state;
    assert_int_equal(dg_diag_n(d), 0);
    for (int i = 1; i < dg_registry_n(r); i++)
        assert_true(strcmp(dg_registry_at(r, i - 1)->name, dg_registry_at(r, i)->name) < 0);
    for (int i = 0; toy_classes[i]; i++)
        assert_ptr_equal(dg_registry_find(r, toy_classes[i]->name), toy_classes[i]);
    assert_null(dg_registry_find(r, "toy"));
    assert_null(dg_registry_find(r, "zzz"));
    dg_registry_close(&r);
    dg_diag_close(&d);
}

/* The reference says all that the tables hold. */
static void reference(void **state)
{
    static const char *const said[] = {
        "<toy.augment>  augment",
        "Changes images.",
        "what was picked",
        "picks",
        "changed (may drop items)",
        "inside: <flip>, any number",
        "inside: <crop>, at most one",
        "a number from 0 to 1; default 0.5",
        "a number from 0 to 1; needed",
        "of every node: id, when, recompute, connect, on, budget, on_fail, exact, frozen\n",
    };
    dg_diag *d = dg_diag_open();
    dg_registry *r = toy_registry(d);
    dg_str out = { 0 };

    (void)state;
    assert_true(dg_reference_print(&out, r, "toy.augment"));
    for (size_t i = 0; i < sizeof said / sizeof *said; i++)
        if (!strstr(out.s, said[i]))
            fail_msg("\"%s\" is not in\n%s", said[i], out.s);
    dg_str_free(&out);
    assert_false(dg_reference_print(&out, r, "toy.nothing"));
    assert_true(dg_reference_print(&out, r, "use") && dg_reference_print(&out, r, "input"));
    assert_true(dg_reference_print(&out, r, "train") && dg_reference_print(&out, r, "stack"));
    assert_non_null(strstr(out.s, "f32, bf16, f64 or tf32; default"));
    dg_reference_list(&out, r);
    for (int i = 0; toy_classes[i]; i++)
        assert_non_null(strstr(out.s, toy_classes[i]->brief));
    dg_str_free(&out);
    dg_registry_close(&r);
    dg_diag_close(&d);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names),     cmocka_unit_test(ports),    cmocka_unit_test(attributes),
        cmocka_unit_test(functions), cmocka_unit_test(versions), cmocka_unit_test(sorted),
        cmocka_unit_test(reference), cmocka_unit_test(flagged),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
