/* feeder.c: a pipeline's data nodes on threads: order, bits, starting positions, padding. */
#include "tests/feed/feeder_rig.h"

#include <stdlib.h>
#include <string.h>

static uint64_t digest(const dg_feeder_batch *b)
{
    uint64_t h = 1;

    for (int i = 0; i < b->n_feeds; i++) {
        size_t n = (size_t)dg_shape_elements(b->feeds[i].shape) * 4;

        if (b->data[i])
            h = h * 31 + dg_fnv1a(b->data[i], n);
    }
    for (int i = 0; i < b->n; i++)
        h = h * 31 + (uint64_t)b->samples[i].item + b->samples[i].index;
    return h * 31 + (uint64_t)b->number * 7 + (uint64_t)b->epoch + (uint64_t)b->size.w;
}

enum { MOST = 64 };

/* Writes the digests of all batches to out and returns their number. */
static int run(fixture *f, const dg_feeder_conf *conf, uint64_t out[MOST], int *n_padding)
{
    dg_feeder *s;
    dg_feeder_batch *b;
    int n = 0;

    assert_int_equal(dg_feeder_open(&s, conf, f->d), 0);
    for (;;) {
        assert_int_equal(dg_feeder_next(s, &b, f->d), 0);
        if (!b)
            break;
        assert_true(n < MOST);
        for (int i = 0; i < b->n && n_padding; i++)
            *n_padding += b->padding[i];
        out[n++] = digest(b);
        dg_feeder_give_back(s, b);
    }
    dg_feeder_close(&s);
    return n;
}

static void test_threads(void **state)
{
    uint64_t one[MOST], three[MOST];
    fixture f;

    (void)state;
    open_data(&f, SCENES "<sampler.bucket id=\"pick\" in=\"@data\" batch=\"4\" sizes=\"64,96,96\" "
                         "tail=\"drop\"/>" CHANGES);
    dg_feeder_conf conf = conf_of(&f, 1);

    assert_int_equal(run(&f, &conf, one, NULL), 14);
    conf = conf_of(&f, 3);
    assert_int_equal(run(&f, &conf, three, NULL), 14);
    assert_memory_equal(one, three, 14 * sizeof *one);
    close_data(&f);
}

/* A feeder that starts in the middle yields the same batches as one from the beginning. */
static void test_begin_in_the_middle(void **state)
{
    uint64_t whole[MOST], rest[MOST];
    fixture f;

    (void)state;
    open_data(&f, SCENES "<sampler.bucket id=\"pick\" in=\"@data\" batch=\"4\" sizes=\"64,96\" "
                         "tail=\"pad\"/>" CHANGES);
    dg_feeder_conf conf = conf_of(&f, 2);

    assert_int_equal(run(&f, &conf, whole, NULL), 16);
    conf.number = 11;
    conf.epoch = 1;
    conf.index = 3;
    assert_int_equal(run(&f, &conf, rest, NULL), 5);
    assert_memory_equal(whole + 11, rest, 5 * sizeof *rest);
    conf.number = 8;
    conf.epoch = 0;
    conf.index = 8; /* the end of an epoch is the beginning of the next */
    assert_int_equal(run(&f, &conf, rest, NULL), 8);
    assert_memory_equal(whole + 8, rest, 8 * sizeof *rest);
    close_data(&f);
}

#define PICKED(n) \
    "<sampler.plain id=\"pick\" in=\"@data\" batch=\"" n "\" size=\"64\" tail=\"drop\"/>"
#define COMBINED                                                                             \
    "<augment.rotate id=\"a1\" in=\"@pick\"/><augment.copypaste id=\"a2\" in=\"@a1\"/>"      \
    "<augment.mosaic id=\"a3\" in=\"@a2\" size=\"48\"/><augment.mixup id=\"a4\" in=\"@a3\" " \
    "p=\"0.7\"/><batch id=\"b\" in=\"@a4\"/>"

/* The digest of the images of each sample, by its number in the run. */
static void run_samples(const char *nodes, int threads, int rank, int ranks, uint64_t out[MOST])
{
    fixture f;
    dg_feeder *s;
    dg_feeder_batch *b;

    open_data(&f, nodes);
    dg_feeder_conf conf = conf_of(&f, threads);

    conf.plan.rank = rank;
    conf.plan.ranks = ranks;
    conf.plan.own_images = ranks > 1;
    assert_int_equal(dg_feeder_open(&s, &conf, f.d), 0);
    for (;;) {
        assert_int_equal(dg_feeder_next(s, &b, f.d), 0);
        if (!b)
            break;
        for (int i = 0; i < b->n; i++) {
            const size_t each = (size_t)dg_shape_elements(b->feeds[0].shape) / (size_t)b->n;
            const float *boxes = (const float *)b->data[2] + (size_t)i * 400;

            assert_true(b->samples[i].index < MOST);
            out[b->samples[i].index] =
                dg_fnv1a((const float *)b->data[0] + (size_t)i * each, each * sizeof(float)) ^
                dg_fnv1a(boxes, 400 * sizeof(float));
        }
        dg_feeder_give_back(s, b);
    }
    dg_feeder_close(&s);
    close_data(&f);
}

/* Nodes that take further images give the same samples on any number of threads and ranks. */
static void test_further(void **state)
{
    uint64_t one[MOST] = { 0 }, three[MOST] = { 0 }, ranks[MOST] = { 0 }, plain[MOST] = { 0 };
    int same = 0;

    (void)state;
    run_samples(SCENES PICKED("4") COMBINED, 1, 0, 1, one);
    run_samples(SCENES PICKED("4") COMBINED, 3, 0, 1, three);
    run_samples(SCENES PICKED("2") COMBINED, 2, 0, 2, ranks);
    run_samples(SCENES PICKED("2") COMBINED, 1, 1, 2, ranks);
    run_samples(SCENES PICKED("4") "<batch id=\"b\" in=\"@pick\"/>", 1, 0, 1, plain);
    assert_memory_equal(one, three, sizeof one);
    assert_memory_equal(one, ranks, sizeof one);
    for (int i = 0; i < 56; i++) {
        assert_true(one[i] != 0);
        same += one[i] == plain[i];
        for (int k = 0; k < i; k++)
            assert_true(one[i] != one[k]);
    }
    assert_true(same < 56 / 4);
}

/* A run that begins in the middle, as a resumed one, takes the same further images. */
static void test_further_in_the_middle(void **state)
{
    uint64_t whole[MOST], rest[MOST];
    fixture f;

    (void)state;
    open_data(&f, SCENES PICKED("4") COMBINED);
    dg_feeder_conf conf = conf_of(&f, 2);

    assert_int_equal(run(&f, &conf, whole, NULL), 14);
    conf.number = 9;
    conf.epoch = 1;
    conf.index = 2;
    assert_int_equal(run(&f, &conf, rest, NULL), 5);
    assert_memory_equal(whole + 9, rest, 5 * sizeof *rest);
    close_data(&f);
}

#define MIXED(id, in) "<augment.mixup id=\"" id "\" in=\"@" in "\" p=\"1\"/>"

static int takes_undeclared(const void *conf, dg_sample *sm, dg_draw *draw, const dg_clock *clock,
                            dg_diag *d)
{
    dg_sample other;

    (void)conf, (void)clock;
    return dg_sample_further(&other, sm, draw, d);
}

/* As a plugin that was built before samples had parts. */
static int takes_a_short_one(const void *conf, dg_sample *sm, dg_draw *draw, const dg_clock *clock,
                             dg_diag *d)
{
    unsigned char room[sizeof(dg_sample)];
    dg_sample *other = dg_scratch_alloc(sm->scratch, sizeof *other);
    int rc;

    (void)conf, (void)clock;
    assert_non_null(other);
    memset(other, 0xA5, sizeof *other);
    rc = (dg_sample_further)(other, sm, draw, d);
    memset(room, 0xA5, sizeof room);
    assert_memory_equal((char *)other + offsetof(dg_sample, part_w), room,
                        sizeof room - offsetof(dg_sample, part_w));
    assert_int_equal(other->size, offsetof(dg_sample, part_w));
    assert_true(rc < 0 || other->image.rgb);
    return rc;
}

static const dg_port silent_ports[] = { DG_IN("in", "picks", "samples"),
                                        DG_OUT("out", "samples", "the same"),
                                        { 0 } };
static const dg_node_class silent = { DG_NODE_CLASS,
                                     .name = "further.silent",
                                     .role = DG_ROLE_AUGMENT,
                                     .brief = "Takes a further image.",
                                     .ports = silent_ports,
                                     .item = takes_undeclared };

static const dg_node_class shorter = { DG_NODE_CLASS,
                                      .name = "further.short",
                                      .role = DG_ROLE_AUGMENT,
                                      .brief = "Takes a further image.",
                                      .ports = silent_ports,
                                      .item = takes_a_short_one };

/* No byte is written behind what a plugin's sample has. */
static void test_further_for_an_older_plugin(void **state)
{
    uint64_t out[MOST];
    fixture f;

    (void)state;
    open_data_with(&f,
                   SCENES PICKED("4") "<further.short id=\"first\" in=\"@pick\"/>"
                                      "<batch id=\"b\" in=\"@first\"/>",
                   (const dg_node_class *const[]){ &shorter, NULL });
    dg_feeder_conf conf = conf_of(&f, 2);

    assert_int_equal(run(&f, &conf, out, NULL), 14);
    close_data(&f);
}

/* Three nodes may take further images for one another. A fourth is an error that names it: of the
 * chain, or with the first sample, if its class does not declare what it does. */
static void test_further_depth(void **state)
{
    uint64_t out[MOST];
    dg_feeder *s;
    dg_feeder_batch *b;
    fixture f;

    (void)state;
    open_data(&f, SCENES PICKED("4") MIXED("a1", "pick") MIXED("a2", "a1")
                      MIXED("a3", "a2") "<batch id=\"b\" in=\"@a3\"/>");
    dg_feeder_conf conf = conf_of(&f, 2);

    assert_int_equal(run(&f, &conf, out, NULL), 14);
    close_data(&f);
    open_data_with(&f,
                   SCENES PICKED("4") "<further.silent id=\"first\" in=\"@pick\"/>" MIXED("a1",
                                                                                          "first")
                       MIXED("a2", "a1") MIXED("a3", "a2") "<batch id=\"b\" in=\"@a3\"/>",
                   (const dg_node_class *const[]){ &silent, NULL });
    conf = conf_of(&f, 1);
    assert_int_equal(dg_feeder_open(&s, &conf, f.d), 0);
    assert_int_equal(dg_feeder_next(s, &b, f.d), -DG_EINPUT);
    assert_non_null(strstr(dg_diag_at(f.d, 0)->text, "first\" takes further"));
    assert_true(dg_diag_at(f.d, 0)->at.line > 0);
    check_only(f.d, "further-deep");
    dg_feeder_close(&s);
    close_data(&f);
}

static void test_padding(void **state)
{
    uint64_t out[MOST];
    fixture f;
    int padding = 0;
    int64_t n, dropped;

    (void)state;
    open_data(&f, SCENES "<sampler.bucket id=\"pick\" in=\"@data\" batch=\"4\" sizes=\"64\" "
                         "shuffle=\"false\" tail=\"keep\"/>"
                         "<batch id=\"b\" in=\"@pick\"/>");
    dg_feeder_conf conf = conf_of(&f, 2);

    conf.epochs = 1;
    assert_int_equal(run(&f, &conf, out, &padding), 8);
    assert_int_equal(padding, 2);
    conf.plan.ranks = 2;
    assert_int_equal(dg_feeder_length(&n, &conf.plan, 0, &dropped, f.d), 0);
    assert_int_equal(n, 4);
    close_data(&f);
}

/* Every rank yields its own slots of the same plan. */
static void test_ranks(void **state)
{
    fixture f;
    int seen[30] = { 0 };

    (void)state;
    open_data(&f, SCENES
              "<sampler.bucket id=\"pick\" in=\"@data\" batch=\"5\" sizes=\"64,96\" tail=\"drop\"/>"
              "<batch id=\"b\" in=\"@pick\"/>");
    for (int rank = 0; rank < 3; rank++) {
        dg_feeder_conf conf = conf_of(&f, 1);
        dg_feeder *s;
        dg_feeder_batch *b;

        conf.plan.rank = rank;
        conf.plan.ranks = 3;
        conf.plan.own_images = true;
        conf.epochs = 1;
        assert_int_equal(dg_feeder_open(&s, &conf, f.d), 0);
        for (int k = 0; k < 2; k++) {
            assert_int_equal(dg_feeder_next(s, &b, f.d), 0);
            assert_non_null(b);
            assert_int_equal(b->first_sample, 15 * k + 5 * rank);
            for (int i = 0; i < b->n; i++)
                seen[b->samples[i].item]++;
            dg_feeder_give_back(s, b);
        }
        dg_feeder_close(&s);
    }
    for (int i = 0; i < 30; i++)
        assert_int_equal(seen[i], 1);
    close_data(&f);
}

static void test_targets(void **state)
{
    fixture f;
    dg_feeder *s;
    dg_feeder_batch *b;
    int objects = 0, empty = 0;

    (void)state;
    open_data(&f, SCENES "<sampler.bucket id=\"pick\" in=\"@data\" batch=\"5\" sizes=\"96x64\" "
                         "tail=\"drop\"/>" CHANGES);
    dg_feeder_conf conf = conf_of(&f, 2);

    assert_int_equal(dg_feeder_open(&s, &conf, f.d), 0);
    for (;;) {
        assert_int_equal(dg_feeder_next(s, &b, f.d), 0);
        if (!b)
            break;
        const float *images = b->data[0], *boxes = b->data[2];
        const int32_t *labels = b->data[1], *count = b->data[3];

        for (int64_t i = 0; i < dg_shape_elements(b->feeds[0].shape); i++)
            assert_true(images[i] >= 0 && images[i] <= 1);
        for (int i = 0; i < b->n; i++) {
            empty += count[i] == 0;
            for (int j = 0; j < 100; j++) {
                const float *t = boxes + (i * 100 + j) * 4;

                if (j < count[i]) {
                    objects++;
                    assert_in_range(labels[i * 100 + j], 0, 2);
                    assert_true(t[2] > 0 && t[3] > 0);
                    assert_true(t[0] - t[2] / 2 >= -1e-6f && t[0] + t[2] / 2 <= 1 + 1e-6f);
                    assert_true(t[1] - t[3] / 2 >= -1e-6f && t[1] + t[3] / 2 <= 1 + 1e-6f);
                } else {
                    assert_true(t[0] == 0 && t[1] == 0 && t[2] == 0 && t[3] == 0 &&
                                labels[i * 100 + j] == 0);
                }
            }
        }
        dg_feeder_give_back(s, b);
    }
    dg_feeder_close(&s);
    assert_true(objects > 50 && empty > 0);
    close_data(&f);
}

/* A canvas is capped at the largest image size: sixteen times these sides would exceed it. */
static void test_large_canvas(void **state)
{
    uint64_t all[MOST];
    fixture f;

    (void)state;
    open_data(&f,
              "<loader.synthetic id=\"data\" images=\"4\" width=\"4096\" height=\"32\"/>"
              "<sampler.bucket id=\"pick\" in=\"@data\" batch=\"2\" sizes=\"64\" tail=\"drop\"/>"
              "<augment id=\"aug\" in=\"@pick\"><zoom_out p=\"1\" most=\"16\"/></augment><batch "
              "id=\"b\" in=\"@aug\"/>");
    dg_feeder_conf conf = conf_of(&f, 1);

    assert_int_equal(run(&f, &conf, all, NULL), 4);
    close_data(&f);
}

/* Closing does not wait for batches that are never taken. */
static void test_close_early(void **state)
{
    dg_feeder *s;
    fixture f;

    (void)state;
    open_data(&f,
              SCENES "<sampler.bucket id=\"pick\" in=\"@data\" batch=\"4\" sizes=\"64\"/>" CHANGES);
    dg_feeder_conf conf = conf_of(&f, 3);

    conf.epochs = 0;
    for (int i = 0; i < 20; i++) {
        assert_int_equal(dg_feeder_open(&s, &conf, f.d), 0);
        dg_feeder_close(&s);
    }
    conf.epochs = 1;
    conf.keys = NULL; /* no tensors requested */
    conf.n_keys = 0;
    assert_int_equal(dg_feeder_open(&s, &conf, f.d), 0);
    dg_feeder_close(&s);
    close_data(&f);
}

static dg_size by_clock(void *ctx, int64_t number, const dg_clock *clock)
{
    (void)ctx, (void)number;
    return clock->step % 2 ? (dg_size){ 96, 96 } : (dg_size){ 64, 64 };
}

/* A batch carries the clock that chose its size: its own number, or the step at which its scope
 * runs. */
static void test_clock(void **state)
{
    (void)state;
    for (int still = 0; still < 2; still++) {
        dg_feeder *s;
        dg_feeder_batch *b;
        fixture f;

        open_data(&f, SCENES "<sampler.bucket id=\"pick\" in=\"@data\" batch=\"4\" sizes=\"64\" "
                             "tail=\"drop\"/><batch id=\"b\" in=\"@pick\"/>");
        dg_feeder_conf conf = conf_of(&f, 2);

        conf.accumulate = 2;
        conf.frozen_clock = still;
        conf.now = (dg_clock){ .step = 7, .epoch = 3 };
        conf.resize = by_clock;
        assert_int_equal(dg_feeder_open(&s, &conf, f.d), 0);
        for (int64_t i = 0; i < 4; i++) {
            assert_int_equal(dg_feeder_next(s, &b, f.d), 0);
            assert_non_null(b);
            assert_int_equal(b->clock.step, still ? 7 : i / 2);
            assert_int_equal(b->clock.epoch, still ? 3 : b->epoch);
            assert_int_equal(b->size.w, by_clock(NULL, i, &b->clock).w);
            dg_feeder_give_back(s, b);
        }
        dg_feeder_close(&s);
        close_data(&f);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_threads),
        cmocka_unit_test(test_begin_in_the_middle),
        cmocka_unit_test(test_further),
        cmocka_unit_test(test_further_in_the_middle),
        cmocka_unit_test(test_further_depth),
        cmocka_unit_test(test_padding),
        cmocka_unit_test(test_further_for_an_older_plugin),
        cmocka_unit_test(test_ranks),
        cmocka_unit_test(test_targets),
        cmocka_unit_test(test_large_canvas),
        cmocka_unit_test(test_close_early),
        cmocka_unit_test(test_clock),
    };

    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
