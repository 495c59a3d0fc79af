/* choose: what partition, filter and equalize leave of a data set, on each of three ranks. */
#include "tests/check.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/diag.h"
#include "graph/graph.h"
#include "nodes/builtin.h"

enum { ITEMS = 10, RANKS = 3 };

static void info(void *self, int item, dg_item_info *out)
{
    (void)self;
    *out = (dg_item_info){ .id = item, .n_objects = item % 3 };
}

static void *alloc(void *arena, size_t bytes)
{
    return dg_alloc(arena, bytes);
}

static int64_t least(void *ctx, int64_t n)
{
    int64_t *all = ctx;

    return *all < n ? *all : n;
}

typedef struct bench {
    dg_arena *arena;
    dg_registry *r;
    dg_graph *g;
    dg_diag *d;
    int32_t items[ITEMS];
    dg_dataset data;
} bench;

/* The node `x` of a pipeline with this element between loader and sampler. */
static const dg_node *open_bench(bench *b, const char *element)
{
    static const char before[] =
        "<pipeline version=\"1\"><mesh dp=\"3\"/><model id=\"m\"><input id=\"i\"/>"
        "<layer.linear in=\"@i\" width=\"2\"/></model><train steps=\"1\">"
        "<loader.synthetic id=\"d\"/>";
    static const char after[] =
        "<sampler.plain id=\"p\" in=\"@x\" batch=\"1\" size=\"32\"/></train></pipeline>";
    char text[2048];

    *b = (bench){ .arena = dg_arena_open(), .r = dg_registry_open(), .d = dg_diag_open() };
    b->data = (dg_dataset){ .size = sizeof b->data, .n_items = ITEMS, .name = "ten", .info = info };
    for (int i = 0; i < ITEMS; i++)
        b->items[i] = i;
    for (int i = 0; dg_builtin_nodes[i]; i++)
        assert_int_equal(dg_registry_add(b->r, dg_builtin_nodes[i], b->d), 0);
    snprintf(text, sizeof text, "%s%s%s", before, element, after);
    if (dg_graph_parse(&b->g, text, strlen(text), "t.xml", NULL, 0, b->r, b->d) < 0)
        fail_msg("%s", dg_diag_text(b->d));
    return dg_map_get(b->g->train->ids, "x");
}

static void close_bench(bench *b)
{
    dg_graph_close(&b->g);
    dg_registry_close(&b->r);
    dg_diag_close(&b->d);
    dg_arena_close(&b->arena);
}

static int choose(bench *b, const dg_node *node, int rank, int64_t fewest, dg_choice *out)
{
    dg_choose_args a = { .data = &b->data,
                         .n = ITEMS,
                         .items = b->items,
                         .seed = 5,
                         .rank = rank,
                         .ranks = RANKS,
                         .least = least,
                         .ctx = &fewest,
                         .alloc = alloc,
                         .arena = b->arena };

    return node->class->choose(out, node->conf, &a, b->d);
}

/* Every item goes to so many ranks; padding stands for items that are there as well. */
static void count_items(bench *b, const char *element, const int64_t counts[RANKS], int times)
{
    const dg_node *node = open_bench(b, element);
    int seen[ITEMS] = { 0 }, n_once = 0;

    for (int rank = 0; rank < RANKS; rank++) {
        dg_choice c;

        assert_int_equal(choose(b, node, rank, 0, &c), 0);
        assert_int_equal(c.n, counts[rank]);
        for (int64_t i = 0; i < c.n; i++)
            if (c.items[i] >= 0)
                seen[c.items[i]]++;
    }
    for (int i = 0; i < ITEMS; i++)
        n_once += seen[i] == 1;
    assert_int_equal(n_once, times);
    close_bench(b);
}

static void partition(void **state)
{
    bench b;

    (void)state;
    count_items(&b, "<partition id=\"x\" in=\"@d\" axis=\"dp\"/>", (int64_t[]){ 4, 3, 3 }, ITEMS);
    count_items(&b, "<partition id=\"x\" in=\"@d\" axis=\"dp\" equal=\"drop\"/>",
                (int64_t[]){ 3, 3, 3 }, 9);
    count_items(&b,
                "<partition id=\"x\" in=\"@d\" axis=\"dp\" equal=\"pad\" shuffle=\"true\" "
                "seed=\"shared\"/>",
                (int64_t[]){ 4, 4, 4 }, ITEMS);
}

static void filter(void **state)
{
    bench b;
    const dg_node *node = open_bench(&b, "<filter id=\"x\" in=\"@d\" min_objects=\"2\"/>");
    dg_choice c;

    (void)state;
    assert_int_equal(choose(&b, node, 0, 0, &c), 0);
    assert_int_equal(c.n, 3); /* 2, 5, 8 */
    assert_true(c.items[0] == 2 && c.items[1] == 5 && c.items[2] == 8);
    close_bench(&b);
}

static void equalize(void **state)
{
    bench b;
    const dg_node *node = open_bench(&b, "<equalize id=\"x\" in=\"@d\" axis=\"dp\"/>");
    dg_choice c;

    (void)state;
    assert_int_equal(choose(&b, node, 0, 7, &c), 0);
    assert_int_equal(c.n, 7);
    assert_int_equal(choose(&b, node, 0, 70, &c), 0);
    assert_int_equal(c.n, ITEMS);
    assert_int_equal(choose(&b, node, 0, -1, &c), -1); /* another rank is gone */
    close_bench(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(partition), cmocka_unit_test(filter),
                                        cmocka_unit_test(equalize) };

    return cmocka_run_group_tests_name("choose", tests, NULL, NULL);
}
