/* epoch_plan.c: item choices before a sampler: in order, over ranks, with padding, agreed between
 * ranks. */
#include "tests/check.h"

#include <stdio.h>
#include <string.h>

#include "feed/feeder.h"
#include "nodes/builtin.h"
#include "nodes/sampler/sampler.h"
#include "proof/proof.h"

typedef struct conf {
    const char *axis;
} conf;

static const dg_port ports[] = {
    DG_IN("in", "dataset", "items"),
    DG_OUT("out", "dataset", "fewer items"),
    { 0 },
};
static const dg_port pick_ports[] = {
    DG_IN("in", "picks", "batches"),
    DG_OUT("out", "picks", "batches"),
    { 0 },
};
static const dg_attr attrs[] = {
    DG_AXES(conf, axis, NULL, "mesh axis"),
    { 0 },
};

/* Keeps every other item. */
static int odd(dg_choice *out, const void *self, const dg_choose_args *a, dg_diag *d)
{
    int32_t *v = a->alloc(a->arena, (size_t)a->n * sizeof *v);

    (void)self, (void)d;
    out->n = 0;
    out->items = v;
    for (int64_t i = 1; i < a->n; i += 2)
        v[out->n++] = a->items[i];
    return 0;
}

/* Keeps this rank's share, cut to the smallest rank's, and repeats the first item as padding. */
static int share(dg_choice *out, const void *self, const dg_choose_args *a, dg_diag *d)
{
    int32_t *v = a->alloc(a->arena, (size_t)(a->n + 1) * sizeof *v);

    (void)self, (void)d;
    out->n = 0;
    out->items = v;
    for (int64_t i = a->rank; i < a->n; i += a->ranks)
        v[out->n++] = a->items[i];
    out->n = a->least(a->ctx, out->n);
    if (out->n < 0)
        return (int)out->n;
    v[out->n] = ~v[0];
    out->n++;
    return 0;
}

static const dg_node_class classes[] = {
    { DG_NODE_CLASS,
     .name = "odd",
     .brief = "Every other item.",
     .ports = ports,
     .attrs = attrs,
     .conf_size = sizeof(conf),
     .choose = odd },
    { DG_NODE_CLASS,
     .name = "share",
     .brief = "This rank's.",
     .ports = ports,
     .attrs = attrs,
     .conf_size = sizeof(conf),
     .choose = share },
    { DG_NODE_CLASS,
     .name = "late",
     .brief = "Behind a sampler.",
     .ports = pick_ports,
     .attrs = attrs,
     .conf_size = sizeof(conf),
     .choose = odd },
};

typedef struct fixture {
    dg_diag *d;
    dg_registry *registry;
    dg_graph *graph;
    dg_chain chain;
    dg_dataset *data;
} fixture;

static int open_chain(fixture *f, const char *nodes)
{
    dg_str xml = { 0 };
    int rc;

    *f = (fixture){ .d = dg_diag_open(), .registry = dg_registry_open() };
    for (int i = 0; dg_builtin_nodes[i]; i++)
        assert_int_equal(dg_registry_add(f->registry, dg_builtin_nodes[i], f->d), 0);
    for (int i = 0; i < 3; i++)
        assert_int_equal(dg_registry_add(f->registry, &classes[i], f->d), 0);
    dg_str_fmt(&xml,
               "<pipeline version=\"1\" name=\"t\" seed=\"3\"><mesh dp=\"2\"/><train steps=\"1\">"
               "<loader.synthetic id=\"data\" images=\"30\" width=\"64\" "
               "height=\"64\"/>%s</train></pipeline>",
               nodes);
    rc = dg_graph_parse(&f->graph, xml.s, xml.n, "choice.xml", NULL, 0, f->registry, f->d);
    dg_str_free(&xml);
    if (rc < 0)
        fail_msg("%s", dg_diag_text(f->d));
    rc = dg_graph_chain(&f->chain, f->graph->train, f->d);
    if (rc == 0)
        assert_int_equal(f->chain.loader->class->open(&f->data, f->chain.loader->conf, 3, f->d), 0);
    return rc;
}

static void close_chain(fixture *f)
{
    if (f->data)
        f->data->close(f->data->self);
    dg_graph_close(&f->graph);
    dg_registry_close(&f->registry);
    dg_diag_close(&f->d);
}

/* Counts how often a rank's feeder yields each item, and its padding in *padding. Returns the
 * number of the first sample. */
static uint64_t count(fixture *f, const dg_planning *plan, int seen[30], int *padding)
{
    const dg_feeder_conf how = {
        .plan = *plan, .accumulate = 1, .epochs = 1, .threads = 2, .ahead = 2
    };
    dg_feeder *s;
    dg_feeder_batch *b;
    uint64_t first = 0;

    assert_int_equal(dg_feeder_open(&s, &how, f->d), 0);
    for (;;) {
        assert_int_equal(dg_feeder_next(s, &b, f->d), 0);
        if (!b)
            break;
        first = b->number == 0 ? b->first_sample : first;
        for (int i = 0; i < b->n; i++)
            if (b->padding[i])
                ++*padding;
            else
                seen[b->samples[i].item]++;
        dg_feeder_give_back(s, b);
    }
    dg_feeder_close(&s);
    return first;
}

#define REST "batch=\"4\" sizes=\"64\" tail=\"pad\"/><batch id=\"b\" in=\"@pick\"/>"

static void in_order(void **state)
{
    fixture f;
    int seen[30] = { 0 }, padding = 0;

    (void)state;
    assert_int_equal(open_chain(&f, "<odd id=\"one\" in=\"@data\"/><odd id=\"two\" "
                                    "in=\"@one\"/><sampler.bucket id=\"pick\" in=\"@two\" " REST),
                     0);
    assert_int_equal(f.chain.n_choices, 2);
    assert_string_equal(f.chain.choices[0]->id, "one");
    count(&f, &(dg_planning){ .chain = &f.chain, .data = f.data, .seed = 3, .ranks = 1 }, seen,
          &padding);
    for (int i = 0; i < 30; i++) /* 1 3 5 7 ... -> 3 7 11 ... */
        assert_int_equal(seen[i], i % 4 == 3);
    assert_int_equal(padding, 1); /* seven make two batches of four */
    close_chain(&f);
}

static int64_t least(void *ctx, const dg_node *of, int64_t n, dg_diag *d)
{
    (void)d;
    (void)of;
    ++*(int *)ctx;
    return n - 2;
}

static void over_ranks(void **state)
{
    fixture f;
    int seen[2][30] = { { 0 } }, padding = 0, asked = 0;
    uint64_t first[2];

    (void)state;
    assert_int_equal(open_chain(&f, "<share id=\"own\" in=\"@data\" axis=\"dp\"/><sampler.bucket "
                                    "id=\"pick\" in=\"@own\" " REST),
                     0);
    for (int r = 0; r < 2; r++)
        first[r] = count(&f,
                         &(dg_planning){ .chain = &f.chain,
                                         .data = f.data,
                                         .seed = 3,
                                         .rank = r,
                                         .ranks = 2,
                                         .dealt = 1,
                                         .own_plan = true,
                                         .own_images = true,
                                         .least = least,
                                         .ctx = &asked },
                         seen[r], &padding);
    for (int i = 0; i < 30; i++) /* 15 each, minus two */
        assert_true(seen[0][i] == (i % 2 == 0 && i < 26) && seen[1][i] == (i % 2 == 1 && i < 26));
    assert_int_equal(padding, 2 * 3); /* 13 and one padding, then two more to fill four batches */
    assert_int_equal(asked, 2);
    assert_true(first[0] == 0 && first[1] == 4);
    close_chain(&f);
}

static int64_t lost(void *ctx, const dg_node *of, int64_t n, dg_diag *d)
{
    assert_string_equal(of->class->name, "equalize");
    ++*(int *)ctx;
    return dg_fail(d, DG_EIO, DG_NOWHERE, "collective-failed", "%lld: rank 1 has left",
                   (long long)n);
}

static void ranks_are_lost(void **state)
{
    fixture f;
    int64_t n;
    int asked = 0;

    (void)state;
    assert_int_equal(open_chain(&f, "<equalize id=\"own\" in=\"@data\" "
                                    "axis=\"dp\"/><sampler.bucket id=\"pick\" in=\"@own\" " REST),
                     0);
    assert_int_equal(dg_feeder_length(&n,
                                      &(dg_planning){ .chain = &f.chain,
                                                      .data = f.data,
                                                      .ranks = 2,
                                                      .dealt = 1,
                                                      .ends_together = true,
                                                      .least = lost,
                                                      .ctx = &asked },
                                      0, NULL, f.d),
                     -DG_EIO);
    assert_int_equal(asked, 1);
    check_only(f.d, "collective-failed");
    close_chain(&f);
}

typedef struct noted {
    int64_t asked, n;
    const char *id; /* of the node that asked */
} noted;

static int64_t note(void *ctx, const dg_node *of, int64_t n, dg_diag *d)
{
    noted *last = ctx;

    (void)d;
    *last = (noted){ last->asked + 1, n, of->id };
    return n;
}

/* A rank whose plan fails votes with a negative count, in the name of the node that asks the other
 * ranks next; a rank whose plan succeeds asks how the vote ended. */
static void plans_end_together(void **state)
{
    static const struct {
        const char *nodes;
        int status;
        int64_t asked, last;
        const char *id;
    } cases[] = {
        { "<equalize id=\"own\" in=\"@data\" axis=\"dp\"/><sampler.bucket id=\"pick\" "
          "in=\"@own\" " REST,
          0, 2, 8, "pick" },
        { "<filter id=\"no\" in=\"@data\" min_objects=\"99\"/><equalize id=\"own\" in=\"@no\" "
          "axis=\"dp\"/>"
          "<sampler.bucket id=\"pick\" in=\"@own\" " REST,
          -DG_EINPUT, 2, -1, "pick" },
        { "<filter id=\"no\" in=\"@data\" min_objects=\"99\"/><sampler.bucket id=\"pick\" "
          "in=\"@no\" batch=\"4\" sizes=\"64\" tail=\"pad\"/><equalize id=\"even\" in=\"@pick\" "
          "axis=\"dp\"/><batch id=\"b\" in=\"@even\"/>",
          -DG_EINPUT, 1, -1, "even" },
    };

    (void)state;
    for (int i = 0; i < 3; i++) {
        fixture f;
        int64_t n;
        noted last = { 0 };

        assert_int_equal(open_chain(&f, cases[i].nodes), 0);
        assert_int_equal(dg_feeder_length(&n,
                                          &(dg_planning){ .chain = &f.chain,
                                                          .data = f.data,
                                                          .ranks = 2,
                                                          .dealt = 3,
                                                          .own_plan = true,
                                                          .ends_together = true,
                                                          .least = note,
                                                          .ctx = &last },
                                          0, NULL, f.d),
                         cases[i].status);
        assert_true(last.asked == cases[i].asked && last.n == cases[i].last);
        assert_string_equal(last.id, cases[i].id);
        close_chain(&f);
    }
}

/* A choice after the sampler chooses batches: every other one of eight. */
static void behind_a_sampler(void **state)
{
    fixture f;
    int seen[30] = { 0 }, padding = 0;

    (void)state;
    assert_int_equal(open_chain(&f, "<odd id=\"one\" in=\"@data\"/>"
                                    "<sampler.bucket id=\"pick\" in=\"@one\" batch=\"4\" "
                                    "sizes=\"64\" shuffle=\"false\" tail=\"pad\"/>"
                                    "<late id=\"l\" in=\"@pick\"/><batch id=\"b\" in=\"@l\"/>"),
                     0);
    assert_int_equal(f.chain.n_choices, 2);
    assert_int_equal(f.chain.n_before, 1);
    count(&f, &(dg_planning){ .chain = &f.chain, .data = f.data, .seed = 3, .ranks = 1 }, seen,
          &padding);
    for (int i = 0; i < 30; i++) /* 1 3 5 7 | 9 11 13 15 | 17 19 21 23 | 25 27 29 and one padding */
        assert_int_equal(seen[i], i % 2 && i / 8 % 2);
    assert_int_equal(padding, 1);
    close_chain(&f);
}

/* Sizes of a rank's batches, and how often it yields each item. */
static int sizes_of(fixture *f, int rank, bool dealt, int64_t sizes[30], int seen[30], int *padding)
{
    dg_arena *a = dg_arena_open();
    const dg_planning p = { .chain = &f->chain,
                            .data = f->data,
                            .seed = 3,
                            .rank = rank,
                            .ranks = 2,
                            .dealt = dealt,
                            .own_plan = true };
    dg_schedule plan;

    assert_int_equal(dg_epoch_plan_make(&plan, a, &p, 0, NULL, f->d), 0);
    for (int64_t i = 0; i < plan.n_picks; i++) {
        sizes[i] = plan.picks[i].w;
        for (int k = 0; k < plan.batch; k++)
            if (plan.picks[i].items[k] >= 0)
                seen[plan.picks[i].items[k]]++;
            else
                ++*padding;
    }
    dg_arena_close(&a);
    return (int)plan.n_picks;
}

/* Fifteen batches of two sizes: the k-th batch of both ranks has one size, and no batch mixes
 * sizes. */
static void aligned(void **state)
{
    static const char *const equal[] = { "none", "drop", "pad" };

    (void)state;
    for (int e = 0; e < 3; e++) {
        fixture f;
        int seen[30] = { 0 }, padding = 0, n[2], once = 0;
        int64_t sizes[2][30];
        char text[400];

        snprintf(text, sizeof text,
                 "<sampler.bucket id=\"all\" in=\"@data\" batch=\"2\" sizes=\"64,96\"/>"
                 "<partition id=\"own\" in=\"@all\" axis=\"dp\" aligned=\"true\" "
                 "equal=\"%s\"/><batch id=\"b\" in=\"@own\"/>",
                 equal[e]);
        assert_int_equal(open_chain(&f, text), 0);
        assert_int_equal(dg_graph_runnable(f.graph, f.d), 0);
        for (int r = 0; r < 2; r++)
            n[r] = sizes_of(&f, r, true, sizes[r], seen, &padding);
        assert_true(e == 0 ? n[0] + n[1] == 15 && n[0] > n[1] : n[0] == n[1]);
        for (int k = 0; k < n[1]; k++)
            assert_int_equal(sizes[0][k], sizes[1][k]);
        for (int i = 0; i < 30; i++)
            once += seen[i] == 1;
        assert_int_equal(once, e == 1 ? 4 * n[0] : 30);
        assert_int_equal(padding, e == 2 ? 4 * n[0] - 30 : 0);
        close_chain(&f);
    }
}

/* Item sizes after augmentation are unknown when the plan is made. */
static void behind_changes(void **state)
{
    fixture f;

    (void)state;
    assert_int_equal(open_chain(&f, "<sampler.bucket id=\"pick\" in=\"@data\" batch=\"4\" "
                                    "sizes=\"64\"/><augment id=\"aug\" in=\"@pick\"/>"
                                    "<filter id=\"l\" in=\"@aug\"/><batch id=\"b\" in=\"@l\"/>"),
                     0);
    assert_int_equal(dg_graph_runnable(f.graph, f.d), -DG_EINPUT);
    check_only(f.d, "data-choice");
    close_chain(&f);
}

static void *from_arena(void *arena, size_t bytes)
{
    return dg_alloc(arena, bytes);
}

/* Batches in a row have one size, which Python would choose at the number of the update; those left
 * over are dropped. */
static void sizes_of_updates(void **state)
{
    enum { SIZES = 11, ALIKE = 3 };
    /* random.seed(it); random.choice(range(11)) */
    static const int chosen[] = { 6, 2, 0, 3, 3, 9, 9, 5, 3, 7, 9, 7, 7, 4, 1, 3 };
    dg_size sizes[SIZES];
    dg_arena *arena = dg_arena_open();
    fixture f;

    (void)state;
    for (int i = 0; i < SIZES; i++)
        sizes[i] = (dg_size){ 224 + 32 * i, 224 + 32 * i };
    dg_sampler_conf c = { .batch = 2,
                          .tail = DG_TAIL_DROP,
                          .alike = ALIKE,
                          .shuffle = true,
                          .draw = DG_SAMPLER_PYTHON,
                          .sizes = { SIZES, sizes } };

    assert_int_equal(open_chain(&f, "<sampler.bucket id=\"pick\" in=\"@data\" " REST), 0);
    for (int64_t epoch = 0; epoch < 3; epoch++) {
        dg_schedule_args a = { .data = f.data,
                               .epoch = epoch,
                               .seed = 7,
                               .ranks = 1,
                               .alloc = from_arena,
                               .arena = arena };
        dg_schedule plan;

        assert_int_equal(dg_sampler_schedule(&plan, &c, &a, f.d), 0);
        assert_int_equal(plan.n_picks, 15);
        for (int i = 0; i < plan.n_picks; i++) /* 30 images are 5 updates of 3 batches of 2 */
            assert_int_equal(plan.picks[i].w, sizes[chosen[epoch * 5 + i / ALIKE]].w);
    }
    c.batch = 4; /* 7 batches: 2 updates, where 3 are counted */
    dg_schedule_args a = {
        .data = f.data, .epoch = 1, .seed = 7, .ranks = 1, .alloc = from_arena, .arena = arena
    };
    dg_schedule plan;

    assert_int_equal(dg_sampler_schedule(&plan, &c, &a, f.d), 0);
    assert_int_equal(plan.n_picks, 6);
    assert_int_equal(plan.dropped, 6);
    assert_int_equal(plan.picks[0].w, sizes[chosen[3]].w);
    c.draw = DG_SAMPLER_SEED;
    assert_int_equal(dg_sampler_schedule(&plan, &c, &a, f.d), 0);
    assert_int_equal(plan.picks[3].w, plan.picks[5].w);
    close_chain(&f);
    dg_arena_close(&arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(in_order),
        cmocka_unit_test(sizes_of_updates),
        cmocka_unit_test(over_ranks),
        cmocka_unit_test(ranks_are_lost),
        cmocka_unit_test(plans_end_together),
        cmocka_unit_test(behind_a_sampler),
        cmocka_unit_test(aligned),
        cmocka_unit_test(behind_changes),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
