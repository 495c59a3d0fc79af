/* feeder_faults.c: failures of a feeder: unreadable images, nodes that break their declarations, no
 * memory, no thread. */
#include "tests/feed/feeder_rig.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/file.h"
#include "base/str.h"

/* ---- nodes that drop samples: all, or every other one --- */

static int drops_all(const void *conf, dg_sample *sm, dg_draw *draw, const dg_clock *clock,
                     dg_diag *d)
{
    (void)conf, (void)sm, (void)draw, (void)clock, (void)d;
    return 1;
}

static int drops_odd(const void *conf, dg_sample *sm, dg_draw *draw, const dg_clock *clock,
                     dg_diag *d)
{
    (void)conf, (void)draw, (void)clock, (void)d;
    return sm->item % 2;
}

/* Its draw decides, so an item that takes the place of another must have a draw of its own. */
static int drops_drawn(const void *conf, dg_sample *sm, dg_draw *draw, const dg_clock *clock,
                       dg_diag *d)
{
    (void)conf, (void)sm, (void)clock, (void)d;
    return dg_draw_uniform(draw) < 0.5;
}

static const dg_port silent_ports[] = {
    DG_IN("in", "picks", "samples"),
    DG_OUT("out", "samples", "some of them, which is not said"),
    { 0 },
};
static const dg_port declared_ports[] = {
    DG_IN("in", "picks", "samples"),
    DG_OUT_FLAGS("out", "samples", DG_PORT_DROPS, "some of them"),
    { 0 },
};
static const dg_node_class silent = { DG_NODE_CLASS,
                                     .name = "drop.silent",
                                     .role = DG_ROLE_AUGMENT,
                                     .brief = "Drops.",
                                     .ports = silent_ports,
                                     .item = drops_odd };
static const dg_node_class declared = { DG_NODE_CLASS,
                                       .name = "drop.odd",
                                       .role = DG_ROLE_AUGMENT,
                                       .brief = "Drops.",
                                       .ports = declared_ports,
                                       .item = drops_odd };
static const dg_node_class drawn = { DG_NODE_CLASS,
                                    .name = "drop.drawn",
                                    .role = DG_ROLE_AUGMENT,
                                    .brief = "Drops.",
                                    .ports = declared_ports,
                                    .item = drops_drawn };
static const dg_node_class greedy = { DG_NODE_CLASS,
                                     .name = "drop.all",
                                     .role = DG_ROLE_AUGMENT,
                                     .brief = "Drops.",
                                     .ports = declared_ports,
                                     .item = drops_all };

/* ---- samplers that plan unlisted sizes --- */

static const dg_port plan_ports[] = { DG_IN("in", "dataset", "images"),
                                      DG_OUT("out", "picks", "one batch"),
                                      { 0 } };

static int plan_one(dg_schedule *out, const dg_schedule_args *a, int64_t side, int batch)
{
    int32_t *items = a->alloc(a->arena, (size_t)batch * (size_t)a->ranks * sizeof *items);
    dg_pick *pick = a->alloc(a->arena, sizeof *pick);

    *pick = (dg_pick){ side, side, items };
    *out = (dg_schedule){ .n_picks = 1, .picks = pick, .batch = batch };
    return 0;
}

static int plan_wide(dg_schedule *out, const void *conf, const dg_schedule_args *a, dg_diag *d)
{
    (void)conf, (void)d;
    return plan_one(out, a, 96, 2);
}

static int plan_many(dg_schedule *out, const void *conf, const dg_schedule_args *a, dg_diag *d)
{
    (void)conf, (void)d;
    return plan_one(out, a, 64, 3);
}

static int plan_beyond(dg_schedule *out, const void *conf, const dg_schedule_args *a, dg_diag *d)
{
    int rc = plan_one(out, a, 64, 2);

    (void)conf, (void)d;
    ((int32_t *)(uintptr_t)out->picks[0].items)[1] = a->data->n_items;
    return rc;
}

static const dg_port stream_ports[] = { DG_IN("in", "stream", "images"),
                                        DG_OUT("out", "stream", "one too many"),
                                        { 0 } };

static int choose_beyond(dg_choice *out, const void *conf, const dg_choose_args *a, dg_diag *d)
{
    int32_t *items = a->alloc(a->arena, sizeof *items);

    (void)conf, (void)d;
    *items = ~a->data->n_items;
    *out = (dg_choice){ 1, items };
    return 0;
}

static int list_one(const void *conf, const dg_size **sizes, int *batch)
{
    static const dg_size one = { 64, 64 };

    (void)conf;
    *sizes = &one;
    *batch = 2;
    return 1;
}

static const dg_node_class wide = { DG_NODE_CLASS,
                                   .name = "plan.wide",
                                   .role = DG_ROLE_SAMPLER,
                                   .brief = "Plans.",
                                   .ports = plan_ports,
                                   .schedule = plan_wide,
                                   .sizes = list_one };
static const dg_node_class many = { DG_NODE_CLASS,
                                   .name = "plan.many",
                                   .role = DG_ROLE_SAMPLER,
                                   .brief = "Plans.",
                                   .ports = plan_ports,
                                   .schedule = plan_many,
                                   .sizes = list_one };
static const dg_node_class beyond = { DG_NODE_CLASS,
                                     .name = "plan.beyond",
                                     .role = DG_ROLE_SAMPLER,
                                     .brief = "Plans.",
                                     .ports = plan_ports,
                                     .schedule = plan_beyond,
                                     .sizes = list_one };
static const dg_node_class chosen = { DG_NODE_CLASS,
                                     .name = "choose.beyond",
                                     .role = DG_ROLE_SAMPLER,
                                     .brief = "Chooses.",
                                     .ports = stream_ports,
                                     .choose = choose_beyond };
static const dg_node_class *const wrong[] = { &silent, &declared, &greedy, &drawn, &wide,
                                              &many,   &beyond,   &chosen, NULL };

/* ---- a data set with one broken image -------------------------------------------------------- */

static void write_set(const char *folder, dg_diag *d)
{
    static const char json[] =
        "{\"images\":[{\"id\":5,\"file_name\":\"a.jpg\",\"width\":8,\"height\":8},{\"id\":6,\"file_"
        "name\":\"b.jpg\",\"width\":8,"
        "\"height\":8}],\"categories\":[{\"id\":7,\"name\":\"x\"}],\"annotations\":[{\"id\":1,"
        "\"image_id\":5,\"category_id\":7,"
        "\"bbox\":[1,1,4,4],\"area\":16,\"iscrowd\":0},{\"id\":2,\"image_id\":5,\"category_id\":7,"
        "\"bbox\":[2,2,4,4],\"area\":16,\"iscrowd\":0}]}";
    /* 8x8, gray: a PNG named a.jpg, because the type is read from the content. b.jpg is no
     * image. */
    static const uint8_t png[] = {
        0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a, 0x00, 0x00, 0x00, 0x0d, 0x49, 0x48,
        0x44, 0x52, 0x00, 0x00, 0x00, 0x08, 0x00, 0x00, 0x00, 0x08, 0x08, 0x00, 0x00, 0x00,
        0x00, 0xe1, 0x64, 0xe1, 0x57, 0x00, 0x00, 0x00, 0x0c, 0x49, 0x44, 0x41, 0x54, 0x78,
        0xda, 0x63, 0x60, 0xa0, 0x0e, 0x00, 0x00, 0x00, 0x48, 0x00, 0x01, 0x10, 0x45, 0xef,
        0xd2, 0x00, 0x00, 0x00, 0x00, 0x49, 0x45, 0x4e, 0x44, 0xae, 0x42, 0x60, 0x82,
    };
    char path[512];

    snprintf(path, sizeof path, "%s/images", folder);
    assert_int_equal(dg_mkdirs(path, d), 0);
    snprintf(path, sizeof path, "%s/annotations", folder);
    assert_int_equal(dg_mkdirs(path, d), 0);
    snprintf(path, sizeof path, "%s/annotations/train.json", folder);
    assert_int_equal(dg_file_write(path, json, sizeof json - 1, d), 0);
    snprintf(path, sizeof path, "%s/images/a.jpg", folder);
    assert_int_equal(dg_file_write(path, png, sizeof png, d), 0);
    snprintf(path, sizeof path, "%s/images/b.jpg", folder);
    assert_int_equal(dg_file_write(path, "P6 8 8 255\n", 11, d), 0);
}

static void open_broken(fixture *f, const char *folder, const char *on_error)
{
    char xml[1024];

    snprintf(xml, sizeof xml,
             "<loader.coco id=\"data\" root=\"%s\" split=\"train\" on_error=\"%s\"/>"
             "<sampler.bucket id=\"pick\" in=\"@data\" batch=\"2\" sizes=\"32\" shuffle=\"false\"/>"
             "<batch id=\"b\" in=\"@pick\" max_objects=\"%d\"/>",
             folder, on_error, strcmp(on_error, "replace") == 0 ? 2 : 9);
    open_data_with(f, xml, wrong);
}

static void test_broken_image(void **state)
{
    char folder[] = "/tmp/dg-stream-XXXXXX", command[64];
    dg_diag *d = dg_diag_open();
    dg_feeder *s;
    dg_feeder_batch *b;
    fixture f;

    (void)state;
    assert_non_null(mkdtemp(folder));
    write_set(folder, d);
    open_broken(&f, folder, "stop");
    dg_feeder_conf conf = conf_of(&f, 1);

    assert_int_equal(dg_feeder_open(&s, &conf, f.d), 0);
    assert_true(dg_feeder_next(s, &b, f.d) < 0);
    assert_int_equal(dg_diag_errors(f.d), 1);
    assert_non_null(strstr(dg_diag_at(f.d, 0)->at.file, "b.jpg"));
    dg_feeder_close(&s);
    close_data(&f);

    open_broken(&f, folder, "replace");
    conf = conf_of(&f, 1);
    assert_int_equal(dg_feeder_open(&s, &conf, f.d), 0);
    assert_int_equal(dg_feeder_next(s, &b, f.d), 0);
    assert_int_equal(b->n_replaced, 1);
    assert_int_equal(b->samples[0].item, 0);
    assert_int_equal(b->samples[1].item, 0);
    check_only(b->diag, "sample-replaced");
    dg_feeder_give_back(s, b);
    dg_feeder_close(&s);
    close_data(&f);
    snprintf(command, sizeof command, "rm -r %s", folder);
    assert_int_equal(system(command), 0);
    dg_diag_close(&d);
}

static void test_too_many_objects(void **state)
{
    dg_feeder *s;
    dg_feeder_batch *b;
    fixture f;

    (void)state;
    open_data(&f, "<loader.synthetic id=\"data\" images=\"8\" min_objects=\"3\" max_objects=\"5\"/>"
                  "<sampler.bucket id=\"pick\" in=\"@data\" batch=\"2\" sizes=\"64\"/><batch "
                  "id=\"b\" in=\"@pick\" max_objects=\"1\"/>");
    dg_feeder_conf conf = conf_of(&f, 2);

    assert_int_equal(dg_feeder_open(&s, &conf, f.d), 0);
    assert_true(dg_feeder_next(s, &b, f.d) < 0);
    check_only(f.d, "batch-objects");
    dg_feeder_close(&s);
    close_data(&f);
}

/* Memory is planned for the sizes a sampler lists. */
static void test_unlisted(void **state)
{
    static const struct {
        const char *class, *said;
    } cases[] = { { "plan.wide",
                    "node \"train/pick\" picked 96x96 for batch 1, and does not list that size" },
                  { "plan.many", "node \"train/pick\" plans batches of 3, declared 2" } };

    (void)state;
    for (int i = 0; i < 2; i++) {
        dg_str xml = { 0 };
        dg_feeder *s;
        fixture f;

        dg_str_fmt(&xml, SCENES "<%s id=\"pick\" in=\"@data\"/><batch id=\"b\" in=\"@pick\"/>",
                   cases[i].class);
        open_data_with(&f, xml.s, wrong);
        dg_feeder_conf conf = conf_of(&f, 1);

        assert_true(dg_feeder_open(&s, &conf, f.d) < 0);
        assert_non_null(strstr(dg_diag_at(f.d, 0)->text, cases[i].said));
        check_only(f.d, "contract-size");
        close_data(&f);
        dg_str_free(&xml);
    }
}

/* Item numbers out of range: from a sampler, from a choice before it, and from one after it, where
 * an item is a batch. */
static void test_beyond(void **state)
{
    static const struct {
        const char *nodes, *said;
    } cases[] = { { "<plan.beyond id=\"pick\" in=\"@data\"/>", "node \"train/pick\" gave item " },
                  { "<choose.beyond id=\"some\" in=\"@data\"/><sampler.bucket id=\"pick\" "
                    "in=\"@some\" batch=\"2\" sizes=\"64\"/>",
                    "node \"train/some\" gave item " },
                  { "<sampler.bucket id=\"all\" in=\"@data\" batch=\"2\" "
                    "sizes=\"64\"/><choose.beyond id=\"pick\" in=\"@all\"/>",
                    "node \"train/pick\" gave item " } };

    (void)state;
    for (int i = 0; i < 3; i++) {
        dg_str xml = { 0 };
        dg_feeder *s;
        fixture f;

        dg_str_fmt(&xml, SCENES "%s<batch id=\"b\" in=\"@pick\"/>", cases[i].nodes);
        open_data_with(&f, xml.s, wrong);
        dg_feeder_conf conf = conf_of(&f, 1);

        assert_true(dg_feeder_open(&s, &conf, f.d) < 0);
        assert_non_null(strstr(dg_diag_at(f.d, 0)->text, cases[i].said));
        check_only(f.d, "contract-item");
        close_data(&f);
        dg_str_free(&xml);
    }
}

static void test_no_batch(void **state)
{
    dg_feeder *s;
    fixture f;

    (void)state;
    open_data(&f, SCENES "<sampler.bucket id=\"pick\" in=\"@data\" batch=\"31\" sizes=\"64\" "
                         "tail=\"drop\"/><batch id=\"b\" in=\"@pick\"/>");
    dg_feeder_conf conf = conf_of(&f, 1);

    assert_true(dg_feeder_open(&s, &conf, f.d) < 0);
    assert_null(s);
    check_only(f.d, "sampler-empty");
    close_data(&f);
}

/* More batches in flight than memory can hold. */
static void test_no_memory(void **state)
{
    fixture f;
    dg_feeder *s;
    struct rlimit before, now;

    (void)state;
    if (SANITIZED)
        skip();
    open_data(&f,
              SCENES "<sampler.bucket id=\"pick\" in=\"@data\" batch=\"4\" sizes=\"64\"/>" CHANGES);
    dg_feeder_conf conf = conf_of(&f, 1 << 28);

    getrlimit(RLIMIT_AS, &before);
    now = (struct rlimit){ (rlim_t)1 << 35, before.rlim_max };
    assert_int_equal(setrlimit(RLIMIT_AS, &now), 0);
    int rc = dg_feeder_open(&s, &conf, f.d);

    assert_int_equal(setrlimit(RLIMIT_AS, &before), 0);
    assert_int_equal(rc, -DG_EMEMORY);
    assert_null(s);
    assert_string_equal(dg_diag_at(f.d, 0)->text, "no memory for the loader");
    check_only(f.d, "out-of-memory");
    close_data(&f);
}

/* A thread whose stack does not fit in memory. */
static void test_no_thread(void **state)
{
    fixture f;
    dg_feeder *s;
    pthread_attr_t before, vast;

    (void)state;
    if (SANITIZED)
        skip(); /* sanitizers choose their own stacks */
    open_data(&f,
              SCENES "<sampler.bucket id=\"pick\" in=\"@data\" batch=\"4\" sizes=\"64\"/>" CHANGES);
    dg_feeder_conf conf = conf_of(&f, 1);

    assert_int_equal(pthread_getattr_default_np(&before), 0);
    assert_int_equal(pthread_getattr_default_np(&vast), 0);
    assert_int_equal(pthread_attr_setstacksize(&vast, (size_t)1 << 47), 0);
    assert_int_equal(pthread_setattr_default_np(&vast), 0);
    int rc = dg_feeder_open(&s, &conf, f.d);

    assert_int_equal(pthread_setattr_default_np(&before), 0);
    pthread_attr_destroy(&vast);
    pthread_attr_destroy(&before);
    assert_int_equal(rc, -DG_EMEMORY);
    assert_string_equal(dg_diag_at(f.d, 0)->text, "cannot start loader thread 1 of 1");
    check_only(f.d, "loader-thread");
    close_data(&f);
}

static void open_dropper(fixture *f, const char *class)
{
    char xml[256];

    snprintf(xml, sizeof xml,
             SCENES
             "<sampler.bucket id=\"pick\" in=\"@data\" batch=\"4\" sizes=\"64\" tail=\"drop\"/>"
             "<%s id=\"drop\" in=\"@pick\"/><batch id=\"b\" in=\"@drop\"/>",
             class);
    open_data_with(f, xml, wrong);
}

/* Half of all samples, and of those that take their place: an epoch comes to its end. */
static void test_dropped_by_draw(void **state)
{
    dg_feeder *s;
    dg_feeder_batch *b;
    fixture f;
    int n = 0;

    (void)state;
    open_dropper(&f, "drop.drawn");
    dg_feeder_conf conf = conf_of(&f, 2);

    assert_int_equal(dg_feeder_open(&s, &conf, f.d), 0);
    for (;;) {
        assert_int_equal(dg_feeder_next(s, &b, f.d), 0);
        if (!b)
            break;
        n += b->n;
        dg_feeder_give_back(s, b);
    }
    assert_true(n > 0);
    dg_feeder_close(&s);
    close_data(&f);
}

/* A sample dropped by a node that declares DG_PORT_DROPS is replaced; an undeclared drop is an
 * error without a vote. */
static void test_dropped(void **state)
{
    static const char *const faults[][3] = {
        { "drop.silent on_fail=\"vote\"", "contract-drops", "port \"out\" dropped an item" },
        { "drop.all", "samples-dropped", "items in a row were dropped" },
    };
    dg_feeder *s;
    dg_feeder_batch *b;
    fixture f;

    (void)state;
    open_dropper(&f, "drop.odd");
    dg_feeder_conf conf = conf_of(&f, 2);

    assert_int_equal(dg_feeder_open(&s, &conf, f.d), 0);
    for (;;) {
        assert_int_equal(dg_feeder_next(s, &b, f.d), 0);
        if (!b)
            break;
        for (int i = 0; i < b->n; i++)
            assert_int_equal(b->samples[i].item % 2, 0);
        dg_feeder_give_back(s, b);
    }
    dg_feeder_close(&s);
    close_data(&f);
    for (size_t i = 0; i < sizeof faults / sizeof faults[0]; i++) {
        open_dropper(&f, faults[i][0]);
        conf = conf_of(&f, 1);
        assert_int_equal(dg_feeder_open(&s, &conf, f.d), 0);
        assert_true(dg_feeder_next(s, &b, f.d) < 0);
        assert_non_null(strstr(dg_diag_at(f.d, 0)->text, faults[i][2]));
        check_only(f.d, faults[i][1]);
        dg_feeder_close(&s);
        close_data(&f);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_dropped_by_draw),  cmocka_unit_test(test_broken_image),
        cmocka_unit_test(test_too_many_objects), cmocka_unit_test(test_unlisted),
        cmocka_unit_test(test_beyond),           cmocka_unit_test(test_no_batch),
        cmocka_unit_test(test_no_memory),        cmocka_unit_test(test_no_thread),
        cmocka_unit_test(test_dropped),
    };

    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
