/* stream.c: the data nodes of a pipeline on threads: order, bits, places to begin, padding, faults. */
#include "tests/check.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/file.h"
#include "base/str.h"
#include "graph/graph.h"
#include "nodes/builtin.h"
#include "runtime/stream.h"

typedef struct fixture {
    dg_diag     *d;
    dg_registry *registry;
    dg_graph    *graph;
    dg_chain     chain;
    dg_dataset  *data;
} fixture;

static const char *const keys[] = { "images", "targets.labels", "targets.boxes", "targets.count" };

/* ---- nodes that drop samples: all of them, or every other one ------------------------------------------------ */

static int drops_all(const void *conf, dg_sample *sm, dg_draw *draw, const dg_clock *clock, dg_diag *d)
{
    (void)conf, (void)sm, (void)draw, (void)clock, (void)d;
    return 1;
}

static int drops_odd(const void *conf, dg_sample *sm, dg_draw *draw, const dg_clock *clock, dg_diag *d)
{
    (void)conf, (void)draw, (void)clock, (void)d;
    return sm->item % 2;
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
static const dg_node_class silent = { DG_NODE_CLASS, .name = "drop.silent", .role = DG_ROLE_AUGMENT, .brief = "Drops.",
                                      .ports = silent_ports, .item = drops_odd };
static const dg_node_class declared = { DG_NODE_CLASS, .name = "drop.odd", .role = DG_ROLE_AUGMENT, .brief = "Drops.",
                                        .ports = declared_ports, .item = drops_odd };
static const dg_node_class greedy = { DG_NODE_CLASS, .name = "drop.all", .role = DG_ROLE_AUGMENT, .brief = "Drops.",
                                      .ports = declared_ports, .item = drops_all };
/* ---- samplers that plan what they do not list ------------------------------------------------------------------ */

static const dg_port plan_ports[] = { DG_IN("in", "dataset", "images"), DG_OUT("out", "picks", "one batch"), { 0 } };

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

static int list_one(const void *conf, const dg_size **sizes, int *batch)
{
    static const dg_size one = { 64, 64 };

    (void)conf;
    *sizes = &one;
    *batch = 2;
    return 1;
}

static const dg_node_class wide = { DG_NODE_CLASS, .name = "plan.wide", .role = DG_ROLE_SAMPLER, .brief = "Plans.",
                                    .ports = plan_ports, .schedule = plan_wide, .sizes = list_one };
static const dg_node_class many = { DG_NODE_CLASS, .name = "plan.many", .role = DG_ROLE_SAMPLER, .brief = "Plans.",
                                    .ports = plan_ports, .schedule = plan_many, .sizes = list_one };
static const dg_node_class *const droppers[] = { &silent, &declared, &greedy, &wide, &many, NULL };

static void open_data(fixture *f, const char *nodes)
{
    dg_str xml = { 0 };
    int    rc;

    f->d = dg_diag_open();
    f->registry = dg_registry_open();
    for (int i = 0; dg_builtin_nodes[i]; i++)
        assert_int_equal(dg_registry_add(f->registry, dg_builtin_nodes[i], f->d), 0);
    for (int i = 0; droppers[i]; i++)
        assert_int_equal(dg_registry_add(f->registry, droppers[i], f->d), 0);
    dg_str_fmt(&xml, "<pipeline version=\"1\" name=\"t\" seed=\"3\"><train steps=\"1\">%s</train></pipeline>", nodes);
    rc = dg_graph_parse(&f->graph, xml.s, xml.n, "stream.xml", NULL, 0, f->registry, f->d);
    dg_str_free(&xml);
    if (rc < 0) {
        dg_str text = { 0 };

        dg_diag_print(&text, f->d, NULL, NULL, false);
        print_error("%s", text.s);
        dg_str_free(&text);
    }
    assert_int_equal(rc, 0);
    assert_int_equal(dg_graph_chain(&f->chain, f->graph->train, f->d), 0);
    assert_int_equal(f->chain.loader->class->open(&f->data, f->chain.loader->conf, 3, f->d), 0);
}

static void close_data(fixture *f)
{
    f->data->close(f->data->self);
    dg_graph_close(&f->graph);
    dg_registry_close(&f->registry);
    dg_diag_close(&f->d);
}

static dg_stream_conf conf_of(fixture *f, int threads)
{
    return (dg_stream_conf){
        .plan = { .chain = &f->chain, .data = f->data, .seed = 3, .ranks = 1 }, .accumulate = 1, .epochs = 2, .keys = keys, .n_keys = 4,
        .threads = threads, .ahead = 2,
    };
}

static uint64_t digest(const dg_stream_batch *b)
{
    uint64_t h = 1;

    for (int i = 0; i < b->n_feeds; i++) {
        size_t n = (size_t)dg_shape_elements(b->feeds[i].shape) * 4;

        h = h * 31 + dg_hash(b->data[i], n);
    }
    for (int i = 0; i < b->n; i++)
        h = h * 31 + (uint64_t)b->samples[i].item + b->samples[i].index;
    return h * 31 + (uint64_t)b->number * 7 + (uint64_t)b->epoch + (uint64_t)b->size.w;
}

enum { MOST = 64 };

/* Digests of all batches; how many. */
static int run(fixture *f, const dg_stream_conf *conf, uint64_t out[MOST], int *n_padding)
{
    dg_stream       *s;
    dg_stream_batch *b;
    int              n = 0;

    assert_int_equal(dg_stream_open(&s, conf, f->d), 0);
    for (;;) {
        assert_int_equal(dg_stream_next(s, &b, f->d), 0);
        if (!b)
            break;
        assert_true(n < MOST);
        for (int i = 0; i < b->n && n_padding; i++)
            *n_padding += b->padding[i];
        out[n++] = digest(b);
        dg_stream_give_back(s, b);
    }
    dg_stream_close(&s);
    return n;
}

#define SCENES "<loader.synthetic id=\"data\" images=\"30\" width=\"96\" height=\"64\"/>"
#define CHANGES                                                                                            \
    "<augment id=\"aug\" in=\"@pick\"><photometric/><zoom_out/><iou_crop/><flip/></augment><batch id=\"b\" in=\"@aug\"/>"

static void test_threads(void **state)
{
    uint64_t one[MOST], three[MOST];
    fixture  f;

    (void)state;
    open_data(&f, SCENES "<sampler.bucket id=\"pick\" in=\"@data\" batch=\"4\" sizes=\"64,96,96\" tail=\"drop\"/>" CHANGES);
    dg_stream_conf conf = conf_of(&f, 1);

    assert_int_equal(run(&f, &conf, one, NULL), 14);
    conf = conf_of(&f, 3);
    assert_int_equal(run(&f, &conf, three, NULL), 14);
    assert_memory_equal(one, three, 14 * sizeof *one);
    close_data(&f);
}

/* A stream that begins in the middle gives what the whole one gives from there. */
static void test_begin_in_the_middle(void **state)
{
    uint64_t whole[MOST], rest[MOST];
    fixture  f;

    (void)state;
    open_data(&f, SCENES "<sampler.bucket id=\"pick\" in=\"@data\" batch=\"4\" sizes=\"64,96\" tail=\"pad\"/>" CHANGES);
    dg_stream_conf conf = conf_of(&f, 2);

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

static void test_padding(void **state)
{
    uint64_t out[MOST];
    fixture  f;
    int      padding = 0;
    int64_t  n, dropped;

    (void)state;
    open_data(&f, SCENES "<sampler.bucket id=\"pick\" in=\"@data\" batch=\"4\" sizes=\"64\" shuffle=\"false\" tail=\"keep\"/>"
                         "<batch id=\"b\" in=\"@pick\"/>");
    dg_stream_conf conf = conf_of(&f, 2);

    conf.epochs = 1;
    assert_int_equal(run(&f, &conf, out, &padding), 8);
    assert_int_equal(padding, 2);
    conf.plan.ranks = 2;
    assert_int_equal(dg_stream_length(&n, &conf.plan, 0, &dropped, f.d), 0);
    assert_int_equal(n, 4);
    close_data(&f);
}

/* Every rank sees its own slots of the same plan. */
static void test_ranks(void **state)
{
    fixture f;
    int     seen[30] = { 0 };

    (void)state;
    open_data(&f, SCENES "<sampler.bucket id=\"pick\" in=\"@data\" batch=\"5\" sizes=\"64,96\" tail=\"drop\"/>"
                         "<batch id=\"b\" in=\"@pick\"/>");
    for (int rank = 0; rank < 3; rank++) {
        dg_stream_conf   conf = conf_of(&f, 1);
        dg_stream       *s;
        dg_stream_batch *b;

        conf.plan.rank = rank;
        conf.plan.ranks = 3;
        conf.plan.own = true;
        conf.epochs = 1;
        assert_int_equal(dg_stream_open(&s, &conf, f.d), 0);
        for (int k = 0; k < 2; k++) {
            assert_int_equal(dg_stream_next(s, &b, f.d), 0);
            assert_non_null(b);
            assert_int_equal(b->first_sample, 15 * k + 5 * rank);
            for (int i = 0; i < b->n; i++)
                seen[b->samples[i].item]++;
            dg_stream_give_back(s, b);
        }
        dg_stream_close(&s);
    }
    for (int i = 0; i < 30; i++)
        assert_int_equal(seen[i], 1);
    close_data(&f);
}

static void test_targets(void **state)
{
    fixture          f;
    dg_stream       *s;
    dg_stream_batch *b;
    int              objects = 0, empty = 0;

    (void)state;
    open_data(&f, SCENES "<sampler.bucket id=\"pick\" in=\"@data\" batch=\"5\" sizes=\"96x64\" tail=\"drop\"/>" CHANGES);
    dg_stream_conf conf = conf_of(&f, 2);

    assert_int_equal(dg_stream_open(&s, &conf, f.d), 0);
    for (;;) {
        assert_int_equal(dg_stream_next(s, &b, f.d), 0);
        if (!b)
            break;
        const float   *images = b->data[0], *boxes = b->data[2];
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
                    assert_true(t[0] == 0 && t[1] == 0 && t[2] == 0 && t[3] == 0 && labels[i * 100 + j] == 0);
                }
            }
        }
        dg_stream_give_back(s, b);
    }
    dg_stream_close(&s);
    assert_true(objects > 50 && empty > 0);
    close_data(&f);
}

/* A canvas is never larger than an image may be: sixteen times these sides would be. */
static void test_large_canvas(void **state)
{
    uint64_t all[MOST];
    fixture  f;

    (void)state;
    open_data(&f, "<loader.synthetic id=\"data\" images=\"4\" width=\"4096\" height=\"32\"/>"
                  "<sampler.bucket id=\"pick\" in=\"@data\" batch=\"2\" sizes=\"64\" tail=\"drop\"/>"
                  "<augment id=\"aug\" in=\"@pick\"><zoom_out p=\"1\" most=\"16\"/></augment><batch id=\"b\" in=\"@aug\"/>");
    dg_stream_conf conf = conf_of(&f, 1);

    assert_int_equal(run(&f, &conf, all, NULL), 4);
    close_data(&f);
}

/* ---- a data set with one broken image --------------------------------------------------------------------- */

static void write_set(const char *folder, dg_diag *d)
{
    static const char json[] =
        "{\"images\":[{\"id\":5,\"file_name\":\"a.jpg\",\"width\":8,\"height\":8},{\"id\":6,\"file_name\":\"b.jpg\",\"width\":8,"
        "\"height\":8}],\"categories\":[{\"id\":7,\"name\":\"x\"}],\"annotations\":[{\"id\":1,\"image_id\":5,\"category_id\":7,"
        "\"bbox\":[1,1,4,4],\"area\":16,\"iscrowd\":0},{\"id\":2,\"image_id\":5,\"category_id\":7,"
        "\"bbox\":[2,2,4,4],\"area\":16,\"iscrowd\":0}]}";
    /* 8x8, gray. It is named a.jpg: files are told apart by content. b.jpg is no image that anybody reads. */
    static const uint8_t png[] = {
        0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a, 0x00, 0x00, 0x00, 0x0d, 0x49, 0x48, 0x44, 0x52,
        0x00, 0x00, 0x00, 0x08, 0x00, 0x00, 0x00, 0x08, 0x08, 0x00, 0x00, 0x00, 0x00, 0xe1, 0x64, 0xe1,
        0x57, 0x00, 0x00, 0x00, 0x0c, 0x49, 0x44, 0x41, 0x54, 0x78, 0xda, 0x63, 0x60, 0xa0, 0x0e, 0x00,
        0x00, 0x00, 0x48, 0x00, 0x01, 0x10, 0x45, 0xef, 0xd2, 0x00, 0x00, 0x00, 0x00, 0x49, 0x45, 0x4e,
        0x44, 0xae, 0x42, 0x60, 0x82,
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
    open_data(f, xml);
}

static void test_broken_image(void **state)
{
    char             folder[] = "/tmp/dg-stream-XXXXXX", command[64];
    dg_diag         *d = dg_diag_open();
    dg_stream       *s;
    dg_stream_batch *b;
    fixture          f;

    (void)state;
    assert_non_null(mkdtemp(folder));
    write_set(folder, d);
    open_broken(&f, folder, "stop");
    dg_stream_conf conf = conf_of(&f, 1);

    assert_int_equal(dg_stream_open(&s, &conf, f.d), 0);
    assert_true(dg_stream_next(s, &b, f.d) < 0);
    assert_int_equal(dg_diag_errors(f.d), 1);
    assert_non_null(strstr(dg_diag_at(f.d, 0)->at.file, "b.jpg"));
    dg_stream_close(&s);
    close_data(&f);

    open_broken(&f, folder, "replace");
    conf = conf_of(&f, 1);
    assert_int_equal(dg_stream_open(&s, &conf, f.d), 0);
    assert_int_equal(dg_stream_next(s, &b, f.d), 0);
    assert_int_equal(b->n_replaced, 1);
    assert_int_equal(b->samples[0].item, 0);
    assert_int_equal(b->samples[1].item, 0);
    check_only(b->diag, "sample-replaced");
    dg_stream_give_back(s, b);
    dg_stream_close(&s);
    close_data(&f);
    snprintf(command, sizeof command, "rm -r %s", folder);
    assert_int_equal(system(command), 0);
    dg_diag_close(&d);
}

static void test_too_many_objects(void **state)
{
    dg_stream       *s;
    dg_stream_batch *b;
    fixture          f;

    (void)state;
    open_data(&f, "<loader.synthetic id=\"data\" images=\"8\" min_objects=\"3\" max_objects=\"5\"/>"
                  "<sampler.bucket id=\"pick\" in=\"@data\" batch=\"2\" sizes=\"64\"/><batch id=\"b\" in=\"@pick\" max_objects=\"1\"/>");
    dg_stream_conf conf = conf_of(&f, 2);

    assert_int_equal(dg_stream_open(&s, &conf, f.d), 0);
    assert_true(dg_stream_next(s, &b, f.d) < 0);
    check_only(f.d, "batch-objects");
    dg_stream_close(&s);
    close_data(&f);
}

/* Memory is laid out for what a sampler lists. */
static void test_unlisted(void **state)
{
    static const struct {
        const char *class, *said;
    } cases[] = { { "plan.wide", "node \"train/pick\" picked 96x96 for batch 1, and does not list that size" },
                  { "plan.many", "node \"train/pick\" plans batches of 3, declared 2" } };

    (void)state;
    for (int i = 0; i < 2; i++) {
        dg_str     xml = { 0 };
        dg_stream *s;
        fixture    f;

        dg_str_fmt(&xml, SCENES "<%s id=\"pick\" in=\"@data\"/><batch id=\"b\" in=\"@pick\"/>", cases[i].class);
        open_data(&f, xml.s);
        dg_stream_conf conf = conf_of(&f, 1);

        assert_true(dg_stream_open(&s, &conf, f.d) < 0);
        assert_non_null(strstr(dg_diag_at(f.d, 0)->text, cases[i].said));
        check_only(f.d, "contract-size");
        close_data(&f);
        dg_str_free(&xml);
    }
}

static void test_no_batch(void **state)
{
    dg_stream *s;
    fixture    f;

    (void)state;
    open_data(&f, SCENES "<sampler.bucket id=\"pick\" in=\"@data\" batch=\"31\" sizes=\"64\" tail=\"drop\"/><batch id=\"b\" in=\"@pick\"/>");
    dg_stream_conf conf = conf_of(&f, 1);

    assert_true(dg_stream_open(&s, &conf, f.d) < 0);
    assert_null(s);
    check_only(f.d, "sampler-empty");
    close_data(&f);
}

/* Closing does not wait for batches that nobody takes. */
static void test_close_early(void **state)
{
    dg_stream *s;
    fixture    f;

    (void)state;
    open_data(&f, SCENES "<sampler.bucket id=\"pick\" in=\"@data\" batch=\"4\" sizes=\"64\"/>" CHANGES);
    dg_stream_conf conf = conf_of(&f, 3);

    conf.epochs = 0;
    for (int i = 0; i < 20; i++) {
        assert_int_equal(dg_stream_open(&s, &conf, f.d), 0);
        dg_stream_close(&s);
    }
    conf.epochs = 1;
    conf.keys = NULL; /* nobody wants the tensors */
    conf.n_keys = 0;
    assert_int_equal(dg_stream_open(&s, &conf, f.d), 0);
    dg_stream_close(&s);
    close_data(&f);
}

/* More batches at once than memory can hold. */
static void test_no_memory(void **state)
{
    fixture       f;
    dg_stream    *s;
    struct rlimit before, now;

    (void)state;
    if (SANITIZED)
        skip();
    open_data(&f, SCENES "<sampler.bucket id=\"pick\" in=\"@data\" batch=\"4\" sizes=\"64\"/>" CHANGES);
    dg_stream_conf conf = conf_of(&f, 1 << 28);

    getrlimit(RLIMIT_AS, &before);
    now = (struct rlimit){ (rlim_t)1 << 35, before.rlim_max };
    assert_int_equal(setrlimit(RLIMIT_AS, &now), 0);
    int rc = dg_stream_open(&s, &conf, f.d);

    assert_int_equal(setrlimit(RLIMIT_AS, &before), 0);
    assert_int_equal(rc, -DG_EMEMORY);
    assert_null(s);
    assert_string_equal(dg_diag_at(f.d, 0)->text, "no memory for the loader");
    check_only(f.d, "out-of-memory");
    close_data(&f);
}

/* A thread whose stack fits nowhere. */
static void test_no_thread(void **state)
{
    fixture        f;
    dg_stream     *s;
    pthread_attr_t before, vast;

    (void)state;
    if (SANITIZED)
        skip(); /* they choose stacks of their own */
    open_data(&f, SCENES "<sampler.bucket id=\"pick\" in=\"@data\" batch=\"4\" sizes=\"64\"/>" CHANGES);
    dg_stream_conf conf = conf_of(&f, 1);

    assert_int_equal(pthread_getattr_default_np(&before), 0);
    assert_int_equal(pthread_getattr_default_np(&vast), 0);
    assert_int_equal(pthread_attr_setstacksize(&vast, (size_t)1 << 47), 0);
    assert_int_equal(pthread_setattr_default_np(&vast), 0);
    int rc = dg_stream_open(&s, &conf, f.d);

    assert_int_equal(pthread_setattr_default_np(&before), 0);
    pthread_attr_destroy(&vast);
    pthread_attr_destroy(&before);
    assert_int_equal(rc, -DG_EMEMORY);
    assert_string_equal(dg_diag_at(f.d, 0)->text, "cannot start loader thread 1 of 1");
    check_only(f.d, "loader-thread");
    close_data(&f);
}

static dg_size by_clock(void *ctx, int64_t number, const dg_clock *clock)
{
    (void)ctx, (void)number;
    return clock->step % 2 ? (dg_size){ 96, 96 } : (dg_size){ 64, 64 };
}

/* A batch carries the clock by which its size was chosen: that of its number, or of the step at which a scope is gone through. */
static void test_clock(void **state)
{
    (void)state;
    for (int still = 0; still < 2; still++) {
        dg_stream       *s;
        dg_stream_batch *b;
        fixture          f;

        open_data(&f, SCENES "<sampler.bucket id=\"pick\" in=\"@data\" batch=\"4\" sizes=\"64\" tail=\"drop\"/><batch id=\"b\" in=\"@pick\"/>");
        dg_stream_conf conf = conf_of(&f, 2);

        conf.accumulate = 2;
        conf.still = still;
        conf.now = (dg_clock){ .step = 7, .epoch = 3 };
        conf.resize = by_clock;
        assert_int_equal(dg_stream_open(&s, &conf, f.d), 0);
        for (int64_t i = 0; i < 4; i++) {
            assert_int_equal(dg_stream_next(s, &b, f.d), 0);
            assert_non_null(b);
            assert_int_equal(b->clock.step, still ? 7 : i / 2);
            assert_int_equal(b->clock.epoch, still ? 3 : b->epoch);
            assert_int_equal(b->size.w, by_clock(NULL, i, &b->clock).w);
            dg_stream_give_back(s, b);
        }
        dg_stream_close(&s);
        close_data(&f);
    }
}

static void open_dropper(fixture *f, const char *class)
{
    char xml[256];

    snprintf(xml, sizeof xml,
             SCENES "<sampler.bucket id=\"pick\" in=\"@data\" batch=\"4\" sizes=\"64\" tail=\"drop\"/>"
                    "<%s id=\"drop\" in=\"@pick\"/><batch id=\"b\" in=\"@drop\"/>", class);
    open_data(f, xml);
}

/* A node that says that it drops has another sample in its place; one that does not has broken its word, of which no vote is taken. */
static void test_dropped(void **state)
{
    static const char *const faults[][3] = {
        { "drop.silent on_fail=\"vote\"", "contract-drops", "port \"out\" dropped an item" },
        { "drop.all", "samples-dropped", "items in a row were dropped" },
    };
    dg_stream       *s;
    dg_stream_batch *b;
    fixture          f;

    (void)state;
    open_dropper(&f, "drop.odd");
    dg_stream_conf conf = conf_of(&f, 2);

    assert_int_equal(dg_stream_open(&s, &conf, f.d), 0);
    for (;;) {
        assert_int_equal(dg_stream_next(s, &b, f.d), 0);
        if (!b)
            break;
        for (int i = 0; i < b->n; i++)
            assert_int_equal(b->samples[i].item % 2, 0);
        dg_stream_give_back(s, b);
    }
    dg_stream_close(&s);
    close_data(&f);
    for (size_t i = 0; i < sizeof faults / sizeof faults[0]; i++) {
        open_dropper(&f, faults[i][0]);
        conf = conf_of(&f, 1);
        assert_int_equal(dg_stream_open(&s, &conf, f.d), 0);
        assert_true(dg_stream_next(s, &b, f.d) < 0);
        assert_non_null(strstr(dg_diag_at(f.d, 0)->text, faults[i][2]));
        check_only(f.d, faults[i][1]);
        dg_stream_close(&s);
        close_data(&f);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_threads),      cmocka_unit_test(test_begin_in_the_middle),
        cmocka_unit_test(test_padding),      cmocka_unit_test(test_ranks),
        cmocka_unit_test(test_targets),      cmocka_unit_test(test_broken_image),
        cmocka_unit_test(test_large_canvas), cmocka_unit_test(test_dropped),
        cmocka_unit_test(test_clock),
        cmocka_unit_test(test_unlisted),
        cmocka_unit_test(test_no_batch),     cmocka_unit_test(test_too_many_objects),
        cmocka_unit_test(test_close_early),  cmocka_unit_test(test_no_memory),
        cmocka_unit_test(test_no_thread),
    };

    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
