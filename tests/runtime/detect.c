/* detect: a trained detector opened from all places that have one; images in all forms; results,
 * errors, and two detectors side by side. */
#include "tests/check.h"

#include <detrgraph/detect.h>

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/dir.h"
#include "base/file.h"
#include "media/image.h"
#include "runtime/programs.h"
#include "runtime/trained.h"
#include "weights/onnx.h"

enum { BATCH = 2 };

typedef struct place {
    dg_arena *arena;
    dg_diag *d;
    dg_scratch *scratch;
    char root[64];
    const char *pipeline, *weights, *photo;
    dg_image image; /* the photo's */
} place;

static const char *in(place *t, const char *name)
{
    return dg_path_join(t->arena, t->root, name);
}

static const char *data(place *t, const char *name)
{
    return dg_path_join(t->arena, getenv("srcdir"), name);
}

static void copy(place *t, const char *from, const char *to)
{
    char *text;
    size_t n;

    assert_int_equal(dg_file_read(&text, &n, from, 1 << 28, t->d), 0);
    assert_int_equal(dg_file_write(to, text, n, t->d), 0);
    dg_free(text);
}

/* An untrained network's weights do for what is asked here. */
static void save_weights(place *t)
{
    const dg_run_options how = { .size = sizeof how, .file = t->pipeline, .threads = 1 };
    dg_run *run;

    assert_int_equal(dg_run_open(&run, &how, t->d), 0);
    assert_int_equal(dg_run_save(run, DG_RUN_WEIGHTS, t->weights, t->d), 0);
    dg_run_close(&run);
}

/* run: a folder as a run leaves it; weights.safetensors lies beside it */
static int set_up(void **state)
{
    place *t = calloc(1, sizeof *t);
    const char *step;

    t->arena = dg_arena_open();
    t->d = dg_diag_open();
    t->scratch = dg_scratch_open(0);
    strcpy(t->root, "/tmp/detrgraph-detect-XXXXXX");
    assert_non_null(mkdtemp(t->root));
    t->pipeline = data(t, "tests/bad/fixtures/tiny.xml");
    t->photo = data(t, "tests/media/data/rgb.png");
    t->weights = in(t, "weights.safetensors");
    save_weights(t);
    step = in(t, "run/checkpoints/step-000002");
    assert_int_equal(dg_mkdirs(step, t->d), 0);
    copy(t, t->pipeline, in(t, "run/pipeline.xml"));
    copy(t, t->weights, in(t, "run/model.safetensors"));
    copy(t, t->weights, dg_path_join(t->arena, step, "model.safetensors"));
    assert_int_equal(symlink("step-000002", in(t, "run/checkpoints/best")), 0);
    assert_int_equal(dg_image_read(&t->image, t->scratch, t->photo, t->d), 0);
    *state = t;
    return 0;
}

static int tear_down(void **state)
{
    place *t = *state;

    assert_int_equal(system(dg_printf(t->arena, "rm -rf '%s'", t->root)), 0);
    dg_scratch_close(&t->scratch);
    dg_diag_close(&t->d);
    dg_arena_close(&t->arena);
    free(t);
    return 0;
}

static dg_detector *open_at(place *t, const char *model, const char *weights)
{
    const dg_detector_options how = {
        .size = sizeof how, .model = model, .weights = weights, .threads = 1
    };
    dg_detector *p;

    if (dg_detector_open(&p, &how, t->d) < 0) {
        assert_null(p);
        return NULL;
    }
    return p;
}

static const dg_detected *detect_one(place *t, dg_detector *p)
{
    const dg_detected *found;
    int n;

    assert_int_equal(dg_detector_run(p, 0, &found, &n, t->d), 0);
    assert_int_equal(n, 1);
    return found;
}

static void assert_same(const dg_detected *a, const dg_hit *expected, int n)
{
    assert_int_equal(a->n, n);
    assert_memory_equal(a->items, expected, (size_t)n * sizeof *expected);
}

/* The hits of the photo; *n: how many. */
static dg_hit *expected_hits(place *t, dg_detector *p, int *n)
{
    const dg_detected *f;

    assert_int_equal(dg_detector_add_file(p, t->photo, t->d), 0);
    f = detect_one(t, p);
    *n = f->n;
    return dg_memdup(t->arena, f->items, (size_t)f->n * sizeof *f->items);
}

/* ---- where detectors are --------------------------------------------------------------------- */

static void every_place(void **state)
{
    place *t = *state;
    const char *const models[] = { t->pipeline,
                                   in(t, "run"),
                                   in(t, "run/"),
                                   in(t, "run/checkpoints/best"),
                                   in(t, "run/checkpoints/best/"),
                                   in(t, "run/checkpoints/step-000002/model.safetensors") };
    dg_hit *first = NULL;
    int n = 0;

    for (int i = 0; i < 6; i++) {
        dg_detector *p = open_at(t, models[i], i == 0 ? t->weights : NULL);

        if (!p)
            fail_msg("%s", dg_diag_text(t->d));
        assert_int_equal(dg_detector_room(p), BATCH);
        assert_true(dg_detector_threshold(p) == 0.4);
        if (i == 0)
            first = expected_hits(t, p, &n);
        assert_int_equal(dg_detector_add_file(p, t->photo, t->d), 0);
        assert_same(detect_one(t, p), first, n);
        dg_detector_close(&p);
        assert_null(p);
    }
    assert_int_equal(n, 10);
}

static void write_text(place *t, const char *to, const char *text)
{
    assert_int_equal(dg_file_write(to, text, strlen(text), t->d), 0);
}

/* scored: a run with four checkpoints, of which the last one was not evaluated */
static void make_scored(place *t)
{
    for (int step = 1; step <= 4; step++) {
        const char *at = in(t, dg_printf(t->arena, "scored/checkpoints/step-%06d", step));

        assert_int_equal(dg_mkdirs(at, t->d), 0);
        copy(t, t->weights, dg_path_join(t->arena, at, "model.safetensors"));
        copy(t, t->weights, dg_path_join(t->arena, at, "ema.safetensors"));
        write_text(t, dg_path_join(t->arena, at, "state.json"),
                   dg_printf(t->arena, "{\"step\": %d}\n", step));
    }
    assert_int_equal(symlink("step-000002", in(t, "scored/checkpoints/best")), 0);
    assert_int_equal(symlink("step-000004", in(t, "scored/checkpoints/last")), 0);
    copy(t, t->pipeline, in(t, "scored/pipeline.xml"));
    copy(t, t->weights, in(t, "scored/ema.safetensors"));
    /* `best` may be by another number than AP; "other" evaluates, too */
    write_text(
        t, in(t, "scored/metrics.jsonl"),
        "{\"step\":1,\"evaluate\":\"evaluate\",\"AP\":0.9,\"F1\":0.5,\"threshold\":0.31}\n"
        "{\"step\":2,\"evaluate\":\"evaluate\",\"AP\":0.5,\"F1\":0.6,\"threshold\":0.32}\n"
        "{\"step\":2,\"evaluate\":\"other\",\"AP\":0.5,\"F1\":0.6,\"threshold\":0.92}\n"
        "{\"step\":3,\"evaluate\":\"evaluate\",\"AP\":0.0,\"F1\":0.01,\"threshold\":0.33}\n");
}

static double threshold_of(place *t, const char *model, bool last, const dg_scope *scope)
{
    dg_trained found;

    assert_int_equal(dg_trained_find(&found, model, NULL, last, 0, NULL, t->arena, t->d), 0);
    return dg_trained_threshold(&found, scope, t->d);
}

static void thresholds(void **state)
{
    place *t = *state;
    static const struct {
        const char *model;
        bool last;
        double expected;
    } cases[] = {
        { "scored", false, 0.32 },
        { "scored", true, 0.4 }, /* not evaluated */
        { "scored/ema.safetensors", false, 0.4 },
        { "scored/checkpoints/best", false, 0.32 },
        { "scored/checkpoints/best/", false, 0.32 },
        { "scored/checkpoints/last", false, 0.4 },
        { "scored/checkpoints/step-000001", false, 0.31 },
        { "scored/checkpoints/step-000001/ema.safetensors", false, 0.31 },
        { "scored/checkpoints/step-000001/model.safetensors", false, 0.4 }, /* the averages are */
        { "scored/checkpoints/step-000003", false, 0.4 },                   /* learned nothing */
    };
    const dg_run_options how = { .size = sizeof how, .file = t->pipeline, .threads = 1 };
    const dg_scope *scope;
    dg_run *run;
    dg_detector *p;

    make_scored(t);
    assert_int_equal(dg_run_open(&run, &how, t->d), 0);
    assert_null(dg_run_folder(run));
    scope = dg_run_pipeline(run)->graph->evaluates[0];
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        double v = threshold_of(t, in(t, cases[i].model), cases[i].last, scope);

        if (v != cases[i].expected)
            fail_msg("%s: %g", cases[i].model, v);
    }
    assert_int_equal(unlink(in(t, "scored/checkpoints/last")), 0);
    assert_int_equal(symlink("step-000001", in(t, "scored/checkpoints/last")), 0);
    assert_true(threshold_of(t, in(t, "scored"), true, scope) == 0.31);
    dg_run_close(&run);
    p = open_at(t, in(t, "scored/checkpoints/step-000001"), NULL);
    assert_true(dg_detector_threshold(p) == 0.31);
    dg_detector_close(&p);
    /* damaged files do not silently make it the usual one */
    write_text(t, in(t, "scored/metrics.jsonl"), "not a line\n");
    p = open_at(t, in(t, "scored/checkpoints/step-000001"), NULL);
    assert_true(dg_detector_threshold(p) == 0.4);
    check_only(t->d, "threshold-lost");
    dg_detector_close(&p);
    write_text(t, in(t, "scored/checkpoints/step-000001/state.json"), "{\"step\"");
    p = open_at(t, in(t, "scored/checkpoints/step-000001"), NULL);
    assert_true(dg_detector_threshold(p) == 0.4);
    check_only(t->d, "threshold-lost");
    dg_detector_close(&p);
}

static void no_place(void **state)
{
    place *t = *state;
    char text[16];

    assert_null(open_at(t, t->pipeline, NULL)); /* weights are missing */
    check_only(t->d, "detector-model");
    assert_null(open_at(t, t->root, NULL)); /* a folder without a pipeline */
    check_only(t->d, "detector-model");
    assert_null(open_at(t, in(t, "nowhere"), NULL));
    assert_true(dg_diag_write_json(t->d, NULL, 0) > 40);
    assert_true(dg_diag_write_json(t->d, text, sizeof text) > 40);
    assert_int_equal(strlen(text), sizeof text - 1);
    assert_memory_equal(text, "[\n{\"severity\":\"", sizeof text - 1);
    check_only(t->d, "detector-model");
    assert_null(open_at(t, in(t, "nowhere.xml"), t->weights));
    check_only(t->d, "file-open");
    assert_null(open_at(t, t->pipeline, t->photo));
    assert_int_equal(dg_diag_errors(t->d), 1);
    dg_diag_clear(t->d);
}

static void names_of_others(void **state)
{
    place *t = *state;
    const dg_coco_class names[] = { { 5, "nut" } };
    dg_detector_options how = { .size = sizeof how, .model = in(t, "run"), .threads = 1 };
    dg_detector *p;
    int n;

    /* the pipeline's data are there: their names count */
    how.names = names;
    how.n_names = 1;
    assert_int_equal(dg_detector_open(&p, &how, t->d), 0);
    assert_string_equal(dg_detector_classes(p, &n)[0].name, "disc");
    assert_int_equal(n, 2);
    dg_detector_close(&p);
}

/* ---- images ---------------------------------------------------------------------------------- */

/* The photo's pixels in another order, with a gap behind each row. */
static dg_pixels reordered(place *t, dg_pixel_order order, int bytes, int gap)
{
    const int at[][3] = { { 0, 1, 2 }, { 2, 1, 0 }, { 0, 1, 2 }, { 2, 1, 0 } };
    const dg_image *im = &t->image;
    const size_t stride = (size_t)(im->w * bytes + gap);
    uint8_t *out = dg_alloc(t->arena, stride * (size_t)im->h);

    memset(out, 0xa5, stride * (size_t)im->h);
    for (int y = 0; y < im->h; y++)
        for (int x = 0; x < im->w; x++)
            for (int c = 0; c < 3; c++)
                out[(size_t)y * stride + (size_t)(x * bytes + at[order][c])] =
                    im->rgb[3 * (y * im->w + x) + c];
    return (dg_pixels){ im->w, im->h, order, gap ? (int64_t)stride : 0, out };
}

static void every_form(void **state)
{
    place *t = *state;
    dg_detector *p = open_at(t, in(t, "run"), NULL);
    int n;
    const dg_hit *expected = expected_hits(t, p, &n);
    dg_pixels pixels;
    char *bytes;
    size_t length;

    assert_int_equal(dg_file_read(&bytes, &length, t->photo, 1 << 28, t->d), 0);
    assert_int_equal(dg_detector_add_bytes(p, "bytes", bytes, length, t->d), 0);
    dg_free(bytes); /* copies are kept */
    assert_string_equal(detect_one(t, p)->name, "bytes");
    for (int order = DG_PIXELS_RGB; order <= DG_PIXELS_BGRA; order++)
        for (int gap = 0; gap <= 5; gap += 5) {
            pixels = reordered(t, (dg_pixel_order)order, order < DG_PIXELS_RGBA ? 3 : 4, gap);
            assert_int_equal(dg_detector_add_pixels(p, "pixels", &pixels, t->d), 0);
            assert_same(detect_one(t, p), expected, n);
        }
    /* rows from the last to the first */
    pixels = reordered(t, DG_PIXELS_RGB, 3, 0);
    for (int y = 0; y < pixels.h / 2; y++)
        for (int x = 0; x < 3 * pixels.w; x++) {
            uint8_t *a = (uint8_t *)pixels.data + y * 3 * pixels.w + x,
                    *b = (uint8_t *)pixels.data + (pixels.h - 1 - y) * 3 * pixels.w + x, v = *a;

            *a = *b;
            *b = v;
        }
    pixels.data += (pixels.h - 1) * 3 * pixels.w;
    pixels.stride = -3 * pixels.w;
    assert_int_equal(dg_detector_add_pixels(p, "pixels", &pixels, t->d), 0);
    assert_same(detect_one(t, p), expected, n);
    dg_detector_close(&p);
}

static void gray_pixels(void **state)
{
    place *t = *state;
    dg_detector *p = open_at(t, in(t, "run"), NULL);
    const int pixels = t->image.w * t->image.h;
    uint8_t *gray = dg_alloc(t->arena, (size_t)pixels);
    const dg_pixels g = { t->image.w, t->image.h, DG_PIXELS_GRAY, 0, gray };
    const dg_detected *f;

    for (int i = 0; i < pixels; i++)
        gray[i] = t->image.rgb[3 * i];
    assert_int_equal(dg_detector_add_pixels(p, "gray", &g, t->d), 0);
    f = detect_one(t, p);
    for (int i = 0; i < pixels; i++)
        for (int c = 0; c < 3; c++)
            assert_int_equal(f->image->rgb[3 * i + c], gray[i]);
    dg_detector_close(&p);
}

static void bad_images(void **state)
{
    place *t = *state;
    dg_detector *p = open_at(t, in(t, "run"), NULL);
    int n, room;
    const dg_hit *expected = expected_hits(t, p, &n);
    const uint8_t *rgb = t->image.rgb;
    const dg_pixels whole = { t->image.w, t->image.h, DG_PIXELS_RGB, 0, rgb };
    const struct {
        dg_pixels p;
        const char *id;
    } bad[] = { { { 37, 29, DG_PIXELS_RGB, 0, NULL }, "image-pixels" },
                { { 37, 29, (dg_pixel_order)9, 0, rgb }, "image-pixels" },
                { { 37, 29, (dg_pixel_order)-1, 0, rgb }, "image-pixels" },
                { { 37, 29, DG_PIXELS_RGB, 110, rgb }, "image-pixels" },
                { { 37, 29, DG_PIXELS_RGB, -110, rgb }, "image-pixels" },
                { { 37, 29, DG_PIXELS_RGB, INT64_MIN, rgb }, "image-pixels" },
                { { 37, 29, DG_PIXELS_RGB, INT64_MAX, rgb }, "image-pixels" },
                { { 37, 29, DG_PIXELS_RGB, INT64_MAX / 16, rgb }, "image-pixels" },
                { { 0, 29, DG_PIXELS_RGB, 0, rgb }, "image-size" },
                { { 37, -1, DG_PIXELS_RGB, 0, rgb }, "image-size" },
                { { 40000, 29, DG_PIXELS_GRAY, 0, rgb }, "image-size" } };

    for (int before = 0; before < BATCH; before++) { /* images that are in the batch */
        for (int i = 0; i < before; i++)
            assert_int_equal(dg_detector_add_file(p, t->photo, t->d), 0);
        room = dg_detector_room(p);
        for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
            assert_int_equal(dg_detector_add_pixels(p, "x", &bad[i].p, t->d), -DG_EINPUT);
            check_only(t->d, bad[i].id);
        }
        assert_int_equal(dg_detector_add_bytes(p, "x", "no image", 8, t->d), -DG_EINPUT);
        check_only(t->d, "image-unknown");
        assert_int_equal(dg_detector_add_bytes(p, "x", "", 0, t->d), -DG_EINPUT);
        dg_diag_clear(t->d);
        assert_int_equal(dg_detector_add_file(p, in(t, "none.png"), t->d), -DG_EIO);
        check_only(t->d, "file-open");
        assert_int_equal(dg_detector_room(p), room);
        assert_int_equal(dg_detector_add_file(p, t->photo, t->d), 0);
        if (before == 0)
            assert_same(detect_one(t, p), expected, n);
    }
    assert_int_equal(dg_detector_room(p), 0); /* a whole batch takes no more in any form */
    assert_int_equal(dg_detector_add_file(p, t->photo, t->d), -DG_EINPUT);
    check_only(t->d, "detector-full");
    assert_int_equal(dg_detector_add_bytes(p, "x", "no image", 8, t->d), -DG_EINPUT);
    check_only(t->d, "detector-full");
    assert_int_equal(dg_detector_add_pixels(p, "x", &whole, t->d), -DG_EINPUT);
    check_only(t->d, "detector-full");
    assert_int_equal(dg_detector_room(p), 0);
    dg_detector_close(&p); /* with a batch that was never computed */
}

/* ---- threads --------------------------------------------------------------------------------- */

typedef struct work {
    place *t;
    dg_diag *d;
    dg_detector *p;
    const dg_hit *expected;
    int n, wrong;
} work;

static void *detect_often(void *ctx)
{
    work *w = ctx;

    for (int i = 0; i < 4; i++) {
        const dg_detected *found;
        int n;

        w->wrong += dg_detector_add_file(w->p, w->t->photo, w->d) < 0;
        w->wrong += dg_detector_run(w->p, 0, &found, &n, w->d) < 0 || n != 1;
        w->wrong += !w->wrong &&
                    (found->n != w->n ||
                     memcmp(found->items, w->expected, (size_t)w->n * sizeof *w->expected) != 0);
    }
    return NULL;
}

static void side_by_side(void **state)
{
    place *t = *state;
    work w[2] = { { .t = t }, { .t = t } };
    pthread_t threads[2];

    for (int i = 0; i < 2; i++) {
        w[i].p = open_at(t, in(t, "run"), NULL);
        w[i].expected = expected_hits(t, w[i].p, &w[i].n);
        w[i].d = dg_diag_open();
    }
    for (int i = 0; i < 2; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, detect_often, &w[i]), 0);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(pthread_join(threads[i], NULL), 0);
        assert_int_equal(w[i].wrong, 0);
        dg_detector_close(&w[i].p);
        dg_diag_close(&w[i].d);
    }
}

/* ---- exported with 16-bit floats ------------------------------------------------------------- */

/* The first vector of at least eight weights that an evaluation reads. */
static dg_run_param some_vector(const dg_run *run)
{
    for (int i = 0; i < dg_run_n_params(run); i++) {
        const dg_run_param p = dg_run_param_at(run, i);

        if (p.shape.rank == 1 && p.shape.d[0] >= 8 && strstr(p.name, "norm.bias"))
            return p;
    }
    fail();
    return (dg_run_param){ 0 };
}

static int export_halves(place *t, dg_run *run, const char *to)
{
    const dg_graph *g = dg_run_pipeline(run)->graph;
    const dg_programs *programs = dg_run_programs(run);
    const dg_onnx_source from = { .graph = g,
                                  .program = dg_programs_of(programs, g->evaluates[0])->program,
                                  .store = programs->store,
                                  .space = DG_WEIGHTS,
                                  .versions = "test",
                                  .threshold = -1,
                                  .half = true };

    return dg_onnx_write(&from, to, t->d);
}

static void halves(void **state)
{
    place *t = *state;
    static const double numbers[8] = { 65504,      0,       1 + 0x1p-11, -1 - 0x3p-11,
                                       -0x1.8p-24, 0x1p-25, 0x1.ff8p-15, 0x1.fffp-15 };
    /* little-endian; ties go to the even neighbour */
    static const uint8_t expected[16] = { 0xff, 0x7b, 0x00, 0x00, 0x00, 0x3c, 0x02, 0xbc,
                                          0x02, 0x80, 0x00, 0x00, 0xff, 0x03, 0x00, 0x04 };
    const dg_run_options how = { .size = sizeof how, .file = t->pipeline, .threads = 1 };
    dg_run *run;
    dg_run_param p;
    double *v;
    char *bytes;
    size_t n;

    assert_int_equal(dg_run_open(&run, &how, t->d), 0);
    p = some_vector(run);
    p.name = dg_strdup(t->arena, p.name);
    v = dg_alloc(t->arena, (size_t)p.shape.d[0] * sizeof *v);
    memcpy(v, numbers, sizeof numbers);
    assert_int_equal(dg_run_set(run, DG_RUN_WEIGHTS, p.name, v, p.shape.d[0], t->d), 0);
    assert_int_equal(export_halves(t, run, in(t, "h.onnx")), 0);
    assert_int_equal(dg_file_read(&bytes, &n, in(t, "h.onnx"), 1 << 28, t->d), 0);
    assert_non_null(memmem(bytes, n, expected, sizeof expected));
    dg_free(bytes);
    dg_run_close(&run);

    assert_int_equal(dg_run_open(&run, &how, t->d), 0); /* an export changes the program */
    v[0] = 65520;
    assert_int_equal(dg_run_set(run, DG_RUN_WEIGHTS, p.name, v, p.shape.d[0], t->d), 0);
    assert_int_equal(export_halves(t, run, in(t, "none.onnx")), -DG_EUNSUPPORTED);
    check_only(t->d, "onnx-half");
    assert_false(dg_exists(in(t, "none.onnx")));
    dg_run_close(&run);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_place), cmocka_unit_test(thresholds),
        cmocka_unit_test(no_place),    cmocka_unit_test(names_of_others),
        cmocka_unit_test(every_form),  cmocka_unit_test(gray_pixels),
        cmocka_unit_test(bad_images),  cmocka_unit_test(side_by_side),
        cmocka_unit_test(halves),
    };

    return cmocka_run_group_tests(tests, set_up, tear_down);
}
