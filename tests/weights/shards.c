/* shards: weights in several files: what the index says is what there is, or nothing is read. */
#include "tests/check.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/dir.h"
#include "weights/archive.h"

static dg_diag *diag;
static char folder[64];

static const char *in_folder(const char *name)
{
    static char path[128];

    snprintf(path, sizeof path, "%s/%s", folder, name);
    return path;
}

static void write_index(const char *name, const char *map)
{
    char text[512];
    int n = snprintf(text, sizeof text,
                     "{\"metadata\": {\"total_size\": 20},\n \"weight_map\": {%s}}\n", map);

    assert_int_equal(dg_file_write(in_folder(name), text, (size_t)n, diag), 0);
}

/* a.st holds x = {1,2} and y = 3, b.st holds z = {4,5}. */
static int set_up(void **state)
{
    static const float v[] = { 1, 2, 3, 4, 5 };
    const dg_out_entry e[] = {
        { "x", DG_ST_F32, DG_SHAPE(2), v, DG_F32 },
        { "y", DG_ST_F32, DG_SCALAR, v + 2, DG_F32 },
        { "z", DG_ST_F32, DG_SHAPE(1, 2), v + 3, DG_F32 },
    };

    (void)state;
    diag = dg_diag_open();
    snprintf(folder, sizeof folder, "/tmp/detrgraph-shards-%ld", (long)getpid());
    assert_int_equal(dg_mkdirs(folder, diag), 0);
    assert_int_equal(dg_safetensors_write(in_folder("a.st"), e, 2, NULL, NULL, diag), 0);
    assert_int_equal(dg_safetensors_write(in_folder("b.st"), e + 2, 1, NULL, NULL, diag), 0);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    dg_dir_remove(folder);
    dg_diag_close(&diag);
    return 0;
}

static void reads_all(void **state)
{
    static const char *const names[] = { "x", "y", "z" };
    dg_archive *a;
    double v[2];
    int at = 0;

    (void)state;
    write_index("model.safetensors.index.json",
                "\"z\": \"b.st\", \"x\": \"a.st\", \"y\": \"a.st\"");
    assert_int_equal(dg_archive_open(&a, folder, diag), 0); /* which finds the index */
    assert_int_equal(a->n, 3);
    assert_int_equal(dg_map_n(a->shards), 2);
    for (int i = 0; i < 3; i++) {
        const dg_entry *e = dg_archive_find(a, names[i]);

        dg_entry_read(e, v);
        for (int k = 0; k < (int)e->n; k++)
            assert_true(v[k] == ++at);
    }
    dg_archive_close(&a);
    unlink(in_folder("model.safetensors.index.json"));
}

static void refuses(void **state)
{
    static const struct {
        const char *map, *id, *says;
    } cases[] = {
        { "\"x\": \"a.st\", \"y\": \"a.st\", \"z\": \"c.st\"", "file-open", "cannot open" },
        { "\"x\": \"../a.st\"", "shards-place", "the place of x is \"../a.st\"" },
        { "\"x\": \"/a.st\"", "shards-place", "the place of x is \"/a.st\"" },
        { "\"x\": \"..\"", "shards-place", "the place of x is \"..\"" },
        { "\"x\": \"\"", "shards-place", "the place of x is \"\"" },
        { "\"x\": 7", "shards-place", "the place of x is a number" },
        { "\"x\": \"index.json\"", "weights-format", "neither" },
        { "\"x\": \"a.st\"", "shards-broken", "y is in this file and nowhere in index.json" },
        { "\"x\": \"a.st\", \"y\": \"b.st\", \"z\": \"b.st\"", "shards-broken",
          "y is in this file, and the index places it in b.st" },
        { "\"x\": \"a.st\", \"y\": \"a.st\", \"w\": \"a.st\"", "shards-broken",
          "w is missing in a.st" },
        { "\"x\": \"a.st\", \"y\": \"a.st\", \"x\": \"b.st\"", "shards-broken",
          "x has two places" },
    };
    dg_archive *a;

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        write_index("index.json", cases[i].map);
        assert_true(dg_archive_open(&a, in_folder("index.json"), diag) < 0);
        assert_null(a);
        if (!strstr(dg_diag_at(diag, 0)->text, cases[i].says))
            fail_msg("%s: %s", cases[i].map, dg_diag_at(diag, 0)->text);
        check_only(diag, cases[i].id);
    }
}

static void finds_places(void **state)
{
    static const char *const names[] = {
        /* the last first, as each one goes before those that are there already */
        "pytorch_model.bin.index.json",
        "pytorch_model.bin",
        "model.safetensors.index.json",
        "model.safetensors",
        "ema.safetensors",
    };
    dg_arena *arena = dg_arena_open();
    dg_archive *a;

    (void)state;
    assert_true(dg_archive_open(&a, folder, diag) < 0);
    check_only(diag, "weights-folder");
    for (int i = 0; i < 5; i++) {
        assert_int_equal(dg_file_write(in_folder(names[i]), "", 0, diag), 0);
        assert_string_equal(dg_path_name(dg_archive_place(arena, folder, false)), names[i]);
    }
    assert_string_equal(dg_path_name(dg_archive_place(arena, folder, true)), "model.safetensors");
    assert_string_equal(dg_archive_place(arena, "no/such", false), "no/such");
    dg_arena_close(&arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reads_all),
        cmocka_unit_test(refuses),
        cmocka_unit_test(finds_places),
    };

    return cmocka_run_group_tests(tests, set_up, tear_down);
}
