/* resume: a run that was stopped and continued is, bit for bit, the run that was not; same seed,
 * same bits. */
#include "tests/train/toy.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"

static void same_file(toy *t, const char *a, const char *b)
{
    char *x, *y;
    size_t n, m;

    assert_int_equal(dg_file_read(&x, &n, toy_path(t, a), 0, t->d), 0);
    assert_int_equal(dg_file_read(&y, &m, toy_path(t, b), 0, t->d), 0);
    assert_int_equal(n, m);
    assert_memory_equal(x, y, n);
    dg_free(x);
    dg_free(y);
}

static void same_run(toy *t, const char *a, const char *b)
{
    static const char *const files[] = { "model.safetensors", "ema.safetensors",
                                         "checkpoints/last/optimizer.safetensors" };
    char x[64], y[64];

    for (int i = 0; i < 3; i++) {
        snprintf(x, sizeof x, "%s/%s", a, files[i]);
        snprintf(y, sizeof y, "%s/%s", b, files[i]);
        same_file(t, x, y);
    }
}

static int train(toy *t, const char *text, const char *out, int64_t steps, dg_run_resume resume)
{
    return toy_train(t, text,
                     (dg_run_train_options){
                         .out = toy_path(t, out), .steps = steps, .resume = resume });
}

static int count_lines(toy *t, const char *name)
{
    char *text;
    size_t n;
    int lines = 0;

    assert_int_equal(dg_file_read(&text, &n, toy_path(t, name), 0, t->d), 0);
    for (size_t i = 0; i < n; i++)
        lines += text[i] == '\n';
    dg_free(text);
    return lines;
}

static void check_ok(toy *t, int rc)
{
    if (rc < 0)
        fail_msg("%s", dg_diag_text(t->d));
}

static void twice_the_same(void **state)
{
    toy *t = *state;
    const char *text = toy_pipeline(t->arena, (toy_text){ 0 });

    check_ok(t, train(t, text, "a", 0, DG_RUN_FRESH));
    assert_int_equal(t->n_reports, 12);
    assert_int_equal(t->n_evaluations, 2);
    check_ok(t, train(t, text, "b", 0, DG_RUN_FRESH));
    same_run(t, "a", "b");
    assert_int_equal(count_lines(t, "a/metrics.jsonl"), 14);
    static const char *const left[] = { "a/pipeline.xml",
                                        "a/run.log",
                                        "a/first-batches.jpg",
                                        "a/evaluate/detections.json",
                                        "a/evaluate/step-000012.jpg",
                                        "a/checkpoints/step-000012/state.json" };

    for (size_t i = 0; i < sizeof left / sizeof left[0]; i++)
        assert_true(dg_exists(toy_path(t, left[i])));
}

/* Stopped at every step once: in the middle of an epoch, at its end, at an evaluation. */
static void stop_and_resume(void **state)
{
    toy *t = *state;
    const char *text = toy_pipeline(t->arena, (toy_text){ 0 });

    check_ok(t, train(t, text, "whole", 0, DG_RUN_FRESH));
    for (int k = 1; k < 12; k += 2) {
        char out[16];

        snprintf(out, sizeof out, "cut%d", k);
        check_ok(t, train(t, text, out, k, DG_RUN_FRESH));
        assert_int_equal(t->n_reports, k);
        check_ok(t, train(t, text, out, 0, DG_RUN_RESUME_AUTO));
        assert_int_equal(t->n_reports, 12 - k);
        same_run(t, "whole", out);
        assert_int_equal(count_lines(t, dg_printf(t->arena, "%s/metrics.jsonl", out)), 14);
    }
}

static void accumulated(void **state)
{
    toy *t = *state;
    const char *text =
        toy_pipeline(t->arena, (toy_text){ .train = "steps=\"9\" accumulate=\"3\"" });

    check_ok(t, train(t, text, "whole", 0, DG_RUN_FRESH));
    check_ok(t, train(t, text, "cut", 4, DG_RUN_FRESH));
    check_ok(t, train(t, text, "cut", 0, DG_RUN_RESUME));
    same_run(t, "whole", "cut");
}

static void interrupted(void **state)
{
    toy *t = *state;
    const char *text = toy_pipeline(t->arena, (toy_text){ 0 });

    check_ok(t, train(t, text, "whole", 0, DG_RUN_FRESH));
    t->stop_at = 5;
    assert_int_equal(train(t, text, "cut", 0, DG_RUN_FRESH), -DG_ESTOP);
    check_only(t->d, "stopped");
    assert_int_equal(t->n_reports, 5);
    t->stop_at = 0;
    check_ok(t, train(t, text, "cut", 0, DG_RUN_RESUME_AUTO));
    same_run(t, "whole", "cut");
}

/* The evaluation that was cut short is made when the run goes on. */
static void interrupted_in_an_evaluation(void **state)
{
    toy *t = *state;
    const char *text =
        toy_pipeline(t->arena,
                     (toy_text){
                         .end =
                             "<checkpoint every=\"6 steps\" best=\"@coco.AR100\" keep=\"1\"/>" });

    check_ok(t, train(t, text, "whole", 0, DG_RUN_FRESH));
    for (int k = 6; k <= 12; k += 6) {
        const char *out = dg_printf(t->arena, "cut%d", k);

        t->stop_at = k;
        assert_int_equal(train(t, text, out, 0, DG_RUN_FRESH), -DG_ESTOP);
        check_only(t->d, "stopped");
        assert_int_equal(t->n_evaluations, k / 6 - 1);
        t->stop_at = 0;
        check_ok(t, train(t, text, out, 0, DG_RUN_RESUME));
        assert_int_equal(t->n_evaluations, 3 - k / 6);
        assert_int_equal(count_lines(t, dg_printf(t->arena, "%s/metrics.jsonl", out)), 14);
        same_run(t, "whole", out);
        same_file(t, "whole/checkpoints/best/model.safetensors",
                  dg_printf(t->arena, "%s/checkpoints/best/model.safetensors", out));
    }
}

/* A newer checkpoint that is broken is passed over. */
static void falls_back(void **state)
{
    toy *t = *state;
    const char *text =
        toy_pipeline(t->arena, (toy_text){ .end = "<checkpoint every=\"2 steps\" keep=\"3\"/>" });

    check_ok(t, train(t, text, "whole", 0, DG_RUN_FRESH));
    check_ok(t, train(t, text, "cut", 6, DG_RUN_FRESH));
    assert_int_equal(truncate(toy_path(t, "cut/checkpoints/step-000006/ema.safetensors"), 100), 0);
    check_ok(t, train(t, text, "cut", 0, DG_RUN_RESUME_AUTO));
    assert_int_equal(t->n_reports, 8);
    assert_non_null(strstr(t->log.s, "step-000006 is passed over"));
    same_run(t, "whole", "cut");
}

static void keeps_some(void **state)
{
    toy *t = *state;
    const char *text =
        toy_pipeline(t->arena,
                     (toy_text){
                         .evaluate = "every=\"1 steps\"",
                         .end =
                             "<checkpoint every=\"1 steps\" keep=\"2\" best=\"@coco.AR100\"/>" });
    char best[64];
    ssize_t n;

    check_ok(t, train(t, text, "a", 0, DG_RUN_FRESH));
    assert_true(dg_exists(toy_path(t, "a/checkpoints/step-000012/state.json")));
    assert_true(dg_exists(toy_path(t, "a/checkpoints/step-000011/state.json")));
    assert_true(dg_exists(toy_path(t, "a/checkpoints/best/model.safetensors")));
    n = readlink(toy_path(t, "a/checkpoints/best"), best, sizeof best - 1);
    assert_true(n > 0);
    best[n] = '\0';
    for (int k = 1; k < 11; k++) {
        char name[32];

        snprintf(name, sizeof name, "step-%06d", k);
        assert_int_equal(dg_exists(toy_path(t, dg_printf(t->arena, "a/checkpoints/%s", name))),
                         strcmp(name, best) == 0);
    }
}

/* What a save beside the run holds is what a run that ends there saves, on any device. */
static void saves_what_was(void **state)
{
    static const char *const files[] = { "model", "ema", "optimizer" };
    const char *asked = getenv("DETRGRAPH_DEVICE");
    toy *t = *state;
    const char *text =
        toy_pipeline(t->arena, (toy_text){ .end = "<checkpoint every=\"1 steps\" keep=\"20\"/>" });

    if (!asked)
        setenv("DETRGRAPH_DEVICE", "far", 1);
    check_ok(t, train(t, text, "all", 0, DG_RUN_FRESH));
    for (int step = 1; step <= 12; step += 3) {
        check_ok(t, train(t, text, dg_printf(t->arena, "to-%d", step), step, DG_RUN_FRESH));
        for (int i = 0; i < 3; i++)
            same_file(t,
                      dg_printf(t->arena, "all/checkpoints/step-%06d/%s.safetensors", step,
                                files[i]),
                      dg_printf(t->arena, "to-%d/checkpoints/last/%s.safetensors", step, files[i]));
    }
    if (!asked)
        unsetenv("DETRGRAPH_DEVICE");
}

static void patience(void **state)
{
    toy *t = *state;
    const char *text =
        toy_pipeline(t->arena,
                     (toy_text){ .train = "steps=\"400\" patience=\"3 steps\"",
                                 .evaluate = "every=\"1 steps\"",
                                 .end =
                                     "<checkpoint every=\"1000 steps\" keep=\"1\" "
                                     "best=\"@coco.APl\"/>" }); /* -1 for ever: no large objects */
    check_ok(t, train(t, text, "a", 0, DG_RUN_FRESH));
    assert_int_equal(t->n_reports, 4);
    assert_non_null(strstr(t->log.s, "patience"));
}

static void loss_falls(void **state)
{
    toy *t = *state;
    const char *text = toy_pipeline(t->arena, (toy_text){ .train = "epochs=\"6\"" });
    char *lines;
    size_t n;
    double first, last;

    check_ok(t, train(t, text, "a", 0, DG_RUN_FRESH));
    assert_int_equal(t->n_reports, 60);
    assert_int_equal(dg_file_read(&lines, &n, toy_path(t, "a/metrics.jsonl"), 0, t->d), 0);
    first = strtod(strstr(lines, "\"loss\":") + 7, NULL);
    last = strtod(strstr(strstr(lines, "{\"step\":60"), "\"loss\":") + 7, NULL);
    assert_true(last < 0.7 * first);
    dg_free(lines);
}

/* Every loss of metrics.jsonl, in order. */
static int read_losses(toy *t, const char *name, double *out, int most)
{
    char *text, *at;
    size_t n;
    int k = 0;

    assert_int_equal(dg_file_read(&text, &n, toy_path(t, name), 0, t->d), 0);
    for (at = text; k < most && (at = strstr(at, "\"loss\":")); at++)
        out[k++] = strtod(at + 7, NULL);
    dg_free(text);
    return k;
}

/* Other threads: the same data and draws, so losses that differ by rounding alone. */
static void other_threads(void **state)
{
    toy *t = *state;
    const char *text = toy_pipeline(t->arena, (toy_text){ 0 });
    double one[12], three[12];

    check_ok(t, train(t, text, "one", 0, DG_RUN_FRESH));
    t->threads = 3;
    check_ok(t, train(t, text, "three", 0, DG_RUN_FRESH));
    assert_int_equal(read_losses(t, "one/metrics.jsonl", one, 12), 12);
    assert_int_equal(read_losses(t, "three/metrics.jsonl", three, 12), 12);
    for (int i = 0; i < 12; i++)
        assert_true(fabs(one[i] - three[i]) <= 1e-4 * fabs(one[i]));
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, toy_set_up, toy_tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(twice_the_same),
        TEST(stop_and_resume),
        TEST(accumulated),
        TEST(interrupted),
        TEST(interrupted_in_an_evaluation),
        TEST(falls_back),
        TEST(keeps_some),
        TEST(saves_what_was),
        TEST(patience),
        TEST(loss_falls),
        TEST(other_threads),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
