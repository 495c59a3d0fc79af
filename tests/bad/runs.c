/* runs.c: the exact messages of a run for damaged checkpoints, wrong weights, numbers that are not
 * finite, and too little memory. */
#include "tests/bad/rig.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/file.h"
#include "weights/archive.h"

/* ---- checkpoints ----------------------------------------------------------------------------- */

static void change_state(toy *t, const char *from, const char *to)
{
    char *text, *at;
    size_t n;
    dg_str s = { 0 };

    assert_int_equal(dg_file_read(&text, &n, toy_path(t, "out/checkpoints/step-000002/state.json"),
                                  0, t->d),
                     0);
    at = strstr(text, from);
    assert_non_null(at);
    dg_str_add_n(&s, text, (size_t)(at - text));
    dg_str_add(&s, to);
    dg_str_add(&s, at + strlen(from));
    write_file(t, "out/checkpoints/step-000002/state.json", s.s);
    dg_str_free(&s);
    dg_free(text);
}

static int again(toy *t, const char *text)
{
    return train(t, text, 4,
                 (dg_run_train_options){ .resume = DG_RUN_RESUME,
                                         .resume_from = toy_path(t, "out/checkpoints/last") });
}

static void broken_state(void **state)
{
    toy *t = *state;

    assert_int_equal(train(t, plain(t), 2, (dg_run_train_options){ 0 }), 0);
    change_state(t, "\"format\": 2", "\"format\": 9");
    assert_int_equal(again(t, plain(t)), -DG_EUNSUPPORTED);
    says(t, "checkpoint-format",
         "checkpoint format 9; this version of detrgraph reads formats up to 2");
    /* an older version's, which carries no checksum */
    change_state(t, "\"format\": 9", "\"format\": 1");
    change_state(t, "\"checksum\"", "\"elsewhere\"");
    change_state(t, "\"batch\": 2", "\"batch\": -2");
    assert_int_equal(again(t, plain(t)), -DG_EINPUT);
    says(t, "checkpoint-state", "batch is -2; a count is expected");
    change_state(t, "\"batch\": -2", "\"batch\": 2");
    change_state(t, "\"seed\": \"0", "\"seed\": \"x");
    assert_int_equal(again(t, plain(t)), -DG_EINPUT);
    says(t, "checkpoint-state", "seed is \"x000000000000003\"; 16 hexadecimal digits are expected");
    change_state(t, "{", "[");
    assert_int_equal(again(t, plain(t)), -DG_EINPUT);
    check_only(t->d, "json-syntax");
}

static void another_run(void **state)
{
    toy *t = *state;
    const char *changed = toy_pipeline(t->arena, (toy_text){ .evaluate = "every=\"101 steps\"" });
    char *more = dg_strdup(t->arena, plain(t)), *four = dg_strdup(t->arena, plain(t)),
         *seed = dg_strdup(t->arena, plain(t));

    assert_int_equal(train(t, plain(t), 2, (dg_run_train_options){ 0 }), 0);
    memcpy(strstr(seed, "seed=\"3\""), "seed=\"4\"", 8);
    assert_int_equal(again(t, seed), -DG_EINPUT);
    says(t, "resume-seed", "the checkpoint's seed is 3, this run's 4");
    memcpy(strstr(more, "scenes=\"40\""), "scenes=\"41\"", 11);
    assert_int_equal(again(t, more), -DG_EINPUT);
    check_only(t->d, "resume-data");
    memcpy(strstr(four, "batch=\"4\""), "batch=\"5\"", 9);
    assert_int_equal(again(t, four), -DG_EINPUT);
    says(t, "resume-differs",
         "the batch size was 4 when the checkpoint was written and is 5 now: its place in the "
         "epoch means nothing any more");
    change_state(t, "\"format\": 2", "\"format\": 1");
    change_state(t, "\"checksum\"", "\"elsewhere\"");
    change_state(t, "\"threads\": 1", "\"threads\": 7");
    assert_int_equal(again(t, changed), 0);
    assert_non_null(strstr(t->log.s, "[resume-pipeline]"));
    assert_non_null(strstr(t->log.s, "the number of threads was 7 and is 1 now"));
    assert_non_null(strstr(t->log.s, "[resume-rounding]"));
}

static void damaged_weights(void **state)
{
    static const char *const files[] = { "model.safetensors", "ema.safetensors",
                                         "optimizer.safetensors" };
    toy *t = *state;

    assert_int_equal(train(t, plain(t), 2, (dg_run_train_options){ 0 }), 0);
    for (int i = 0; i < 3; i++) {
        const char *path = toy_path(t, dg_printf(t->arena, "out/checkpoints/last/%s", files[i]));
        char *bytes;
        size_t n;

        assert_int_equal(dg_file_read(&bytes, &n, path, 0, t->d), 0);
        assert_int_equal(truncate(path, (off_t)n - 1), 0);
        assert_int_equal(again(t, plain(t)), -DG_EINPUT);
        check_only(t->d, "safetensors-broken");
        assert_int_equal(dg_file_write(path, bytes, n, t->d), 0);
        dg_free(bytes);
    }
    assert_int_equal(again(t, plain(t)), 0);
}

/* ---- weights --------------------------------------------------------------------------------- */

/* Writes the weights of a toy net with one defect. */
static const char *net_file(toy *t, const char *name, const char *leave_out, const char *odd_shape,
                            double bias)
{
    float w[8 * 27] = { 0 }, b[2] = { 0, (float)bias }, ones[8] = { 1, 1, 1, 1, 1, 1, 1, 1 };
    dg_out_entry all[] = {
        { "net.conv.weight", DG_ST_F32, DG_SHAPE(8, 3, 3, 3), w, DG_F32 },
        { "net.norm.weight", DG_ST_F32, DG_SHAPE(8), ones, DG_F32 },
        { "net.norm.bias", DG_ST_F32, DG_SHAPE(8), w, DG_F32 },
        { "net.norm.running_mean", DG_ST_F32, DG_SHAPE(8), w, DG_F32 },
        { "net.norm.running_var", DG_ST_F32, DG_SHAPE(8), ones, DG_F32 },
        { "net.score.weight", DG_ST_F32, DG_SHAPE(2, 8), w, DG_F32 },
        { "net.score.bias", DG_ST_F32, DG_SHAPE(2), b, DG_F32 },
        { "net.box.weight", DG_ST_F32, DG_SHAPE(4, 8), w, DG_F32 },
        { "net.box.bias", DG_ST_F32, DG_SHAPE(4), w, DG_F32 },
    };
    dg_out_entry kept[9];
    int n = 0;

    for (int i = 0; i < 9; i++) {
        if (odd_shape && strcmp(all[i].name, odd_shape) == 0)
            all[i].shape.d[0]--;
        if (!leave_out || !strstr(all[i].name, leave_out))
            kept[n++] = all[i];
    }
    assert_int_equal(dg_safetensors_write(toy_path(t, name), kept, n, NULL, NULL, t->d), 0);
    return toy_path(t, name);
}

static int load(toy *t, const char *file)
{
    dg_run *run = toy_open(t, plain(t), 0, NULL);
    int rc;

    assert_non_null(run);
    rc = dg_run_load(run, file, t->d);
    dg_run_close(&run);
    return rc;
}

static void loading(void **state)
{
    toy *t = *state;

    assert_int_equal(load(t, net_file(t, "whole", NULL, NULL, 0)), 0);
    assert_int_equal(load(t, net_file(t, "less", "score", NULL, 0)), -DG_EINPUT);
    says(t, "weights-missing",
         "it lacks 2 tensors of this model: net.score.weight, net.score.bias");
    assert_int_equal(load(t, net_file(t, "shape", NULL, "net.box.weight", 0)), -DG_EINPUT);
    says(t, "weights-shape",
         "1 tensor has another shape than in this model: net.box.weight (file [3,8], model "
         "[4,8])");
    assert_int_equal(load(t, net_file(t, "nan", NULL, NULL, NAN)), -DG_ENUMERIC);
    says(t, "weights-not-finite", "net.score.bias holds nan at place 1; weights must be finite");
    write_file(t, "text", "these are no weights");
    assert_int_equal(load(t, toy_path(t, "text")), -DG_EINPUT);
    says(t, "weights-format", "neither a safetensors file nor a PyTorch checkpoint");
    assert_int_equal(load(t, toy_path(t, "nothing")), -DG_EIO);
    says(t, "file-open", "cannot open: No such file or directory");
    assert_int_equal(load(t, t->folder), -DG_EINPUT);
    says(t, "weights-folder",
         "no weights in this folder, which would be ema.safetensors, model.safetensors, "
         "model.safetensors.index.json, "
         "pytorch_model.bin or pytorch_model.bin.index.json");
}

static void more_than_wanted(void **state)
{
    toy *t = *state;
    float x[2] = { 0 };
    const dg_out_entry e[] = { { "decoder.weight", DG_ST_F32, DG_SHAPE(2), x, DG_F32 } };
    dg_run *run = toy_open(t, plain(t), 0, NULL);

    assert_non_null(run);
    assert_int_equal(dg_safetensors_write(toy_path(t, "other"), e, 1, NULL, NULL, t->d), 0);
    assert_int_equal(dg_run_load(run, toy_path(t, "other"), t->d), -DG_EINPUT);
    check_only(t->d, "weights-missing");
    dg_run_close(&run);
}

static dg_run *open_pretrained(toy *t, const char *file, int n, const char *const *sets)
{
    const char *net = dg_printf(t->arena, "pretrained=\"%s\"", file);

    return toy_open(t, toy_pipeline(t->arena, (toy_text){ .net = net }), n, sets);
}

static void pretrained(void **state)
{
    toy *t = *state;
    dg_run *run = open_pretrained(t, net_file(t, "whole", NULL, NULL, 0.5), 0, NULL);
    double bias[2];

    if (!run)
        fail_msg("%s", dg_diag_text(t->d));
    assert_int_equal(dg_run_get(run, DG_RUN_WEIGHTS, "net.score.bias", bias, 2, t->d), 0);
    assert_true(bias[1] == 0.5);
    assert_int_equal(dg_run_get(run, DG_RUN_EMA, "net.score.bias", bias, 2, t->d), 0);
    assert_true(bias[1] == 0.5);
    assert_non_null(strstr(t->log.s, "9 of 9 tensors from"));
    dg_run_close(&run);

    run = open_pretrained(t, net_file(t, "part", "score.weight", "net.box.bias", 0.5), 0, NULL);
    assert_non_null(run);
    assert_non_null(strstr(t->log.s, "1 tensor keeps its initial values, the shape differs: "
                                     "net.box.bias (file [3], model [4]) "
                                     "[pretrained-shape]"));
    assert_non_null(strstr(t->log.s, ": net.score.weight [pretrained-missing]"));
    dg_run_close(&run);

    assert_null(open_pretrained(t, net_file(t, "none", "net", NULL, 0), 0, NULL));
    check_only(t->d, "pretrained-nothing");
    assert_null(open_pretrained(t, toy_path(t, "whole"), 1, (const char *const[]){ "ballast=3" }));
    says(t, "pretrained-frozen",
         "1 frozen tensor is not in OUT/whole and would keep random values for ever: net.ballast");
}

/* ---- numbers --------------------------------------------------------------------------------- */

static void loss_not_finite(void **state)
{
    toy *t = *state;
    const char *text =
        toy_pipeline(t->arena, (toy_text){ .loss = "breaks=\"3\"",
                                           .end = "<checkpoint every=\"1 steps\" keep=\"1\"/>" });
    int done;

    assert_int_equal(train(t, text, 0, (dg_run_train_options){ 0 }), -DG_ENUMERIC);
    if (!strstr(dg_diag_at(t->d, 0)->text, "node train/loss: loss_box is"))
        fail_msg("%s", dg_diag_at(t->d, 0)->text);
    assert_non_null(strstr(dg_diag_at(t->d, 0)->text, "; images "));
    assert_non_null(strstr(dg_diag_at(t->d, 0)->text, "; nothing was updated"));
    check_only(t->d, "loss-not-finite");
    done = t->n_reports; /* the last checkpoint is from the step before */
    assert_true(
        done == 0 ||
        dg_exists(toy_path(t, dg_printf(t->arena, "out/checkpoints/step-%06d/state.json", done))));
}

static void gradient_not_finite(void **state)
{
    toy *t = *state;

    assert_int_equal(train(t, toy_pipeline(t->arena, (toy_text){ .loss = "cliff=\"true\"" }), 0,
                           (dg_run_train_options){ 0 }),
                     -DG_ENUMERIC);
    assert_int_equal(t->n_reports, 0);
    assert_non_null(strstr(dg_diag_at(t->d, 0)->text,
                           "step 1: the loss is finite and the gradient is not, first in net."));
    check_only(t->d, "gradient-not-finite");
}

/* ---- memory ---------------------------------------------------------------------------------- */

/* Limits the address space to what is used now plus `more` bytes; returns the former limit. */
static struct rlimit limit(int64_t more)
{
    struct rlimit before, now;
    FILE *f = fopen("/proc/self/statm", "r");
    long pages = 0;

    assert_non_null(f);
    assert_int_equal(fscanf(f, "%ld", &pages), 1);
    fclose(f);
    getrlimit(RLIMIT_AS, &before);
    now = (struct rlimit){ (rlim_t)(pages * sysconf(_SC_PAGESIZE) + more), before.rlim_max };
    assert_int_equal(setrlimit(RLIMIT_AS, &now), 0);
    return before;
}

static void too_little_memory(void **state)
{
    static const char *const heavy[] = { "ballast=20000000" }, *const wide[] = { "batch=4000",
                                                                                 "scenes=8000" };
    toy *t = *state;
    struct rlimit before;
    dg_run *run;
    int rc;

    if (SANITIZED)
        skip();
    before = limit(100 << 20);
    run = toy_open(t, plain(t), 1, heavy);
    setrlimit(RLIMIT_AS, &before);
    assert_null(run);
    check_only(t->d, "memory-parameters");

    run = toy_open(t, plain(t), 2, wide);
    assert_non_null(run);
    before = limit(150 << 20);
    rc = dg_run_train(run,
                      &(dg_run_train_options){ .size = sizeof(dg_run_train_options),
                                               .out = toy_path(t, "out") },
                      t->d);
    setrlimit(RLIMIT_AS, &before);
    assert_int_equal(rc, -DG_EMEMORY);
    check_only(t->d, "memory-refused");
    before = limit(50 << 20);
    /* called directly, so no check of memory precedes it */
    rc = dg_run_select(run, "train", 32, 32, t->d);
    setrlimit(RLIMIT_AS, &before);
    assert_int_equal(rc, -DG_EMEMORY);
    check_only(t->d, "memory-plan");
    dg_run_close(&run);
}

static void no_memory_for_a_tensor(void **state)
{
    enum { N = 8 << 20 };
    static const char *const sets[] = { "ballast=8388608" };
    toy *t = *state;
    struct rlimit before;
    const char *header =
        "{\"net.ballast\":{\"dtype\":\"F32\",\"shape\":[8388608],\"data_offsets\":[0,33554432]}}";
    uint8_t length[8] = { (uint8_t)strlen(header) };
    dg_run *run;
    FILE *f;
    int rc;

    if (SANITIZED)
        skip();
    run = toy_open(t, plain(t), 1, sets);
    f = fopen(toy_path(t, "big"), "wb");
    assert_non_null(run);
    assert_int_equal(fwrite(length, 1, 8, f) + fwrite(header, 1, strlen(header), f),
                     8 + strlen(header));
    fclose(f);
    assert_int_equal(truncate(toy_path(t, "big"), 8 + (off_t)strlen(header) + 4L * N), 0);
    before = limit(40 << 20);
    rc = dg_run_load(run, toy_path(t, "big"), t->d);
    setrlimit(RLIMIT_AS, &before);
    assert_int_equal(rc, -DG_EMEMORY);
    says(t, "weights-memory", "no memory for its net.ballast");
    dg_run_close(&run);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, toy_set_up, toy_tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(broken_state),      TEST(another_run),
        TEST(damaged_weights),   TEST(loading),
        TEST(more_than_wanted),  TEST(pretrained),
        TEST(loss_not_finite),   TEST(gradient_not_finite),
        TEST(too_little_memory), TEST(no_memory_for_a_tensor),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
