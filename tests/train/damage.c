/* damage: no checkpoint with a flipped bit, an edited state, or another checkpoint's file is
 * loaded: every one is named, and the one before it offered. */
#include "tests/train/toy.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/checksum.h"
#include "base/file.h"
#include "base/str.h"

static const char *const files[] = { "model.safetensors", "ema.safetensors",
                                     "optimizer.safetensors", "state.json" };
enum { N_FILES = 4, FLIPS = 60 };

static const char *pipeline(const toy *t)
{
    return toy_pipeline(t->arena,
                        (toy_text){ .end = "<checkpoint every=\"2 steps\" keep=\"3\"/>" });
}

static void begin(toy *t)
{
    assert_int_equal(toy_train(t, pipeline(t),
                               (dg_run_train_options){ .out = toy_path(t, "out"), .steps = 4 }),
                     0);
}

static char *read(toy *t, const char *file, size_t *n)
{
    char *bytes;

    assert_int_equal(dg_file_read(&bytes, n, file, 0, t->d), 0);
    return bytes;
}

static void write(const char *file, const void *bytes, size_t n)
{
    FILE *f = fopen(file, "we");

    assert_non_null(f);
    assert_int_equal(fwrite(bytes, 1, n, f), n);
    assert_int_equal(fclose(f), 0);
}

static bool names(const toy *t, const char *file)
{
    const dg_err *e = dg_diag_n(t->d) ? dg_diag_at(t->d, 0) : NULL;

    return e && e->severity == DG_ERROR && e->at.file && strstr(e->at.file, file);
}

/* Resumes from the last checkpoint, which must be refused by name. */
static void check_refused(toy *t, const char *file, const char *what)
{
    int rc = toy_train(t, pipeline(t),
                       (dg_run_train_options){ .resume = DG_RUN_RESUME,
                                               .resume_from = toy_path(t, "out/checkpoints/last"),
                                               .steps = 6 });

    if (rc >= 0)
        fail_msg("%s was loaded", what);
    if (!names(t, file))
        fail_msg("%s is not named: %s", what, dg_diag_text(t->d));
    if (!strstr(dg_diag_text(t->d), "step-000002"))
        fail_msg("%s: the checkpoint before it is not offered: %s", what, dg_diag_text(t->d));
    dg_diag_clear(t->d);
}

static void flipped_bits(void **state)
{
    toy *t = *state;

    begin(t);
    for (int f = 0; f < N_FILES; f++) {
        const char *path =
            toy_path(t, dg_printf(t->arena, "out/checkpoints/step-000004/%s", files[f]));
        size_t n;
        char *bytes = read(t, path, &n);

        for (size_t i = 0; i < FLIPS; i++) {
            size_t at = (i * 2654435761u + i * n / FLIPS) % n, bit = i % 8;

            bytes[at] = (char)(bytes[at] ^ 1 << bit);
            write(path, bytes, n);
            check_refused(t, files[f],
                          dg_printf(t->arena, "bit %zu of byte %zu of %s", bit, at, files[f]));
            bytes[at] = (char)(bytes[at] ^ 1 << bit);
        }
        write(path, bytes, n);
        dg_free(bytes);
    }
    /* and whole again */
    assert_int_equal(toy_train(t, pipeline(t),
                               (dg_run_train_options){ .out = toy_path(t, "out"),
                                                       .resume = DG_RUN_RESUME,
                                                       .steps = 6 }),
                     0);
}

/* Edits every line of state.json: another digit, or another letter. */
static void edited_states(void **state)
{
    toy *t = *state;
    const char *path;
    size_t n;
    char *bytes;
    int edits = 0;

    begin(t);
    path = toy_path(t, "out/checkpoints/step-000004/state.json");
    bytes = read(t, path, &n);
    for (char *line = bytes; line && *line; line = strchr(line, '\n') + 1) {
        char *value = strstr(line, ": "), *end = strchr(line, '\n'), before;

        if (!value || value > end)
            continue;
        value += value[2] == '"' ? 3 : 2;
        before = *value;
        *value = before >= '0' && before < '9' ? (char)(before + 1) : '1';
        write(path, bytes, n);
        check_refused(t, "state.json", line);
        *value = before;
        edits++;
    }
    assert_true(edits > 20);
    dg_free(bytes);
}

/* Lines of another kind, or none, under a checksum made right. */
static void other_kinds(void **state)
{
    static const char *const keys[] = { "precision", "threads", "ranks", "cpu", "versions" };
    toy *t = *state;
    const char *path, *bytes, *sum;
    size_t n;
    char *whole;

    begin(t);
    path = toy_path(t, "out/checkpoints/step-000004/state.json");
    whole = read(t, path, &n);
    bytes = dg_strndup(t->arena, whole, n);
    dg_free(whole);
    sum = strstr(bytes, "  \"checksum\"");
    assert_non_null(sum);
    for (size_t i = 0; i < 2 * sizeof keys / sizeof *keys; i++) {
        const char *key = keys[i / 2], *line = strstr(bytes, dg_printf(t->arena, "\"%s\": ", key)),
                   *rest = line ? strchr(line, '\n') + 1 : NULL;
        dg_str other = { 0 };

        assert_non_null(line);
        dg_str_add_n(&other, bytes, (size_t)(line - bytes));
        dg_str_fmt(&other, i % 2 ? "\"%s\": {},\n  " : "\"x%s\": 2,\n  ", key);
        dg_str_add_n(&other, rest + 2, (size_t)(sum - rest - 2));
        dg_str_fmt(&other, "  \"checksum\": \"%016llx\"\n}\n",
                   (unsigned long long)dg_fnv1a(other.s, other.n));
        write(path, other.s, other.n);
        check_refused(t, "state.json", dg_printf(t->arena, "%s, %zu", key, i % 2));
        dg_str_free(&other);
    }
}

/* Files that are whole, but belong to the checkpoint before. */
static void mixed_up(void **state)
{
    toy *t = *state;

    begin(t);
    for (int f = 0; f < N_FILES; f++) {
        const char *to =
            toy_path(t, dg_printf(t->arena, "out/checkpoints/step-000004/%s", files[f]));
        size_t n, m;
        char *own = read(t, to, &n),
             *other =
                 read(t,
                      toy_path(t, dg_printf(t->arena, "out/checkpoints/step-000002/%s", files[f])),
                      &m);

        write(to, other, m);
        check_refused(t, "checkpoints/last", files[f]);
        write(to, own, n);
        dg_free(own);
        dg_free(other);
    }
}

static void checksums(void **state)
{
    enum { N = 300 };
    unsigned char bytes[N];
    dg_checksum whole = { 0 }, none = { 0 }, longer = { 0 };

    (void)state;
    for (int i = 0; i < N; i++)
        bytes[i] = (unsigned char)(i * 7);
    dg_checksum_add(&whole, bytes, N);
    /* what files of earlier versions say, on every CPU */
    assert_true(dg_checksum_end(&whole) == UINT64_C(0x02a665527b43f75f));
    for (size_t k = 0; k <= N; k++) { /* in two pieces */
        dg_checksum two = { 0 };

        dg_checksum_add(&two, bytes, k);
        dg_checksum_add(&two, bytes + k, N - k);
        assert_true(dg_checksum_end(&two) == dg_checksum_end(&whole));
    }
    for (size_t bit = 0; bit < 8 * N; bit++) {
        dg_checksum other = { 0 };

        bytes[bit / 8] ^= (unsigned char)(1 << bit % 8);
        dg_checksum_add(&other, bytes, N);
        bytes[bit / 8] ^= (unsigned char)(1 << bit % 8);
        assert_true(dg_checksum_end(&other) != dg_checksum_end(&whole));
    }
    memset(bytes, 0, N); /* as many zeros, and one more */
    dg_checksum_add(&none, bytes, 128);
    dg_checksum_add(&longer, bytes, 129);
    assert_true(dg_checksum_end(&none) != dg_checksum_end(&longer));
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, toy_set_up, toy_tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(flipped_bits), TEST(edited_states),         TEST(other_kinds),
        TEST(mixed_up),     cmocka_unit_test(checksums),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
