/* archive: safetensors and PyTorch files: round trips, every element type, and files that lie. */
#include "tests/check.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zip.h>

#include "base/str.h"
#include "weights/archive.h"
#include "weights/weight_names.h"
#include "weights/pickle.h"

static dg_diag *diag;

static const char *data(const char *name)
{
    static char path[512];
    const char *top = getenv("srcdir");

    snprintf(path, sizeof path, "%s/tests/weights/data/%s", top ? top : ".", name);
    return path;
}

static void scratch_path(char *path, size_t n)
{
    snprintf(path, n, "/tmp/detrgraph-archive-%ld", (long)getpid());
}

/* A safetensors file with this header and n bytes of zeros. */
static int open_header(dg_archive **a, const char *header, size_t n)
{
    dg_str bytes = { 0 };
    char path[64];
    int rc;

    for (int i = 0; i < 8; i++)
        dg_str_add_n(&bytes, &(char){ (char)(strlen(header) >> 8 * i) }, 1);
    dg_str_add(&bytes, header);
    for (size_t i = 0; i < n; i++)
        dg_str_add_n(&bytes, "", 1);
    scratch_path(path, sizeof path);
    assert_int_equal(dg_file_write(path, bytes.s, bytes.n, diag), 0);
    rc = dg_archive_open(a, path, diag);
    dg_str_free(&bytes);
    unlink(path);
    return rc;
}

static void writes_and_reads(void **state)
{
    float w[6] = { 1, -2, 0.1f, 1e-30f, 3e38f, -0.0f };
    double anchors[2] = { INFINITY, 0.25 }, mask[2] = { 1, 0 };
    int64_t count = 1761;
    const dg_out_entry e[] = {
        { "a.weight", DG_ST_F32, DG_SHAPE(2, 3), w, DG_F32 },
        { "a.\"odd\"\n", DG_ST_F64, DG_SHAPE(6), w, DG_F32 },
        { "n.num_batches_tracked", DG_ST_I64, DG_SCALAR, &count, DG_I64 },
        { "anchors", DG_ST_F32, DG_SHAPE(2), anchors, DG_F64 },
        { "mask", DG_ST_BOOL, DG_SHAPE(1, 2), mask, DG_F64 },
    };
    const char *const meta[] = { "step", "12", NULL };
    char path[64];
    dg_archive *a;
    double got[6];

    (void)state;
    scratch_path(path, sizeof path);
    assert_int_equal(dg_safetensors_write(path, e, 5, meta, NULL, diag), 0);
    assert_int_equal(dg_archive_open(&a, path, diag), 0);
    unlink(path);
    assert_int_equal(a->n, 5);
    for (int k = 0; k < 2; k++) {
        dg_entry_read(dg_archive_find(a, e[k].name), got);
        for (int i = 0; i < 6; i++)
            assert_true(got[i] == (double)w[i]);
    }
    assert_true(dg_shape_equal(dg_archive_find(a, "a.weight")->shape, DG_SHAPE(2, 3)));
    dg_entry_read(dg_archive_find(a, "n.num_batches_tracked"), got);
    assert_true(got[0] == 1761);
    dg_entry_read(dg_archive_find(a, "anchors"), got);
    assert_true(isinf(got[0]) && got[1] == 0.25);
    assert_int_equal(dg_archive_find(a, "mask")->type, DG_ST_BOOL);
    assert_null(dg_archive_find(a, "other"));
    dg_archive_close(&a);
    assert_null(a);
}

static void refuses_headers(void **state)
{
    static const struct {
        const char *header;
        size_t n;
        const char *id;
    } cases[] = {
        { "[]", 0, "weights-format" },
        { "{\"a\":3}", 0, "safetensors-broken" },
        { "{\"a\":{\"dtype\":\"F32\",\"shape\":[2]}}", 8, "safetensors-broken" },
        { "{\"a\":{\"dtype\":\"F8_E4M3\",\"shape\":[2],\"data_offsets\":[0,2]}}", 2,
          "weights-type" },
        { "{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,9]}}", 8,
          "safetensors-broken" },
        { "{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[8,0]}}", 8,
          "safetensors-broken" },
        { "{\"a\":{\"dtype\":\"F32\",\"shape\":[3],\"data_offsets\":[0,8]}}", 8,
          "safetensors-broken" },
        { "{\"a\":{\"dtype\":\"F32\",\"shape\":[-2],\"data_offsets\":[0,8]}}", 8,
          "safetensors-broken" },
        { "{\"a\":{\"dtype\":\"F32\",\"shape\":[1.5],\"data_offsets\":[0,8]}}", 8,
          "safetensors-broken" },
        { "{\"a\":{\"dtype\":\"F32\",\"shape\":[1000000,1000000,1000000,1000000],\"data_offsets\":["
          "0,8]}}",
          8, "safetensors-broken" },
        { "{\"a\":{\"dtype\":\"F32\",\"shape\":[1,1,1,1,1,1,1],\"data_offsets\":[0,4]}}", 4,
          "weights-rank" },
        { "{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[4,8]}}", 8,
          "safetensors-broken" },
        { "{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}}", 8,
          "safetensors-broken" },
        { "{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]},"
          "\"b\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]}}",
          8, "safetensors-broken" },
        { "{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]},"
          "\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[4,8]}}",
          8, "safetensors-broken" },
        { "{\"__metadata__\":[]}", 0, "safetensors-broken" },
        { "{\"__metadata__\":{},\"__metadata__\":{}}", 0, "safetensors-broken" },
        { "{\"a\\u0000b\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}}", 4,
          "json-syntax" },
        { "{\"a\":", 0, "json-syntax" },
    };
    dg_archive *a;

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        assert_true(open_header(&a, cases[i].header, cases[i].n) < 0);
        assert_null(a);
        check_only(diag, cases[i].id);
    }
    assert_int_equal(
        open_header(&a, "{\"a\":{\"dtype\":\"F32\",\"shape\":[0,3],\"data_offsets\":[0,0]}}", 0),
        0);
    assert_int_equal(dg_archive_find(a, "a")->n, 0);
    dg_archive_close(&a);
    char path[64];

    scratch_path(path, sizeof path);
    assert_int_equal(dg_file_write(path, "\377\377\377\377\0\0\0\0{}", 10, diag),
                     0); /* a header of 4 GB */
    assert_true(dg_archive_open(&a, path, diag) < 0);
    check_only(diag, "safetensors-broken");
    unlink(path);
}

static void check_values(const dg_archive *a, const char *name, int n, const double *want)
{
    const dg_entry *e = dg_archive_find(a, name);
    double got[32];

    assert_non_null(e);
    assert_int_equal(e->n, n);
    dg_entry_read(e, got);
    for (int i = 0; i < n; i++)
        assert_true(got[i] == want[i]);
}

static void reads_torch(void **state)
{
    static const char *const files[] = { "plain.pth", "deflated.pth", "old.pth" };
    double ramp[24];
    dg_archive *a;

    (void)state;
    for (int i = 0; i < 24; i++)
        ramp[i] = i / 8.0;
    for (int f = 0; f < 3; f++) {
        if (dg_archive_open(&a, data(files[f]), diag) < 0)
            fail_msg("%s", dg_diag_text(diag));
        assert_int_equal(a->n, 9);
        check_values(a, "a.weight", 24, ramp);
        assert_true(dg_shape_equal(dg_archive_find(a, "a.weight")->shape, DG_SHAPE(2, 3, 4)));
        check_values(a, "a.turned", 6, (double[]){ 0, 3, 1, 4, 2, 5 });
        check_values(a, "b.half", 4, (double[]){ 1, -2.5, 65504, 0x1p-24 });
        check_values(a, "b.brain", 3, (double[]){ 1, -3, 0.5 });
        check_values(a, "c.double", 1, (double[]){ 0.1 });
        check_values(a, "c.count", 1, (double[]){ 17 });
        check_values(a, "c.mask", 2, (double[]){ 1, 0 });
        check_values(a, "d.view", 5, (double[]){ 2, 3, 4, 5, 6 });
        check_values(a, "d.view2", 4, (double[]){ 0, 3, 6, 9 });
        dg_archive_close(&a);
    }
}

static void reads_checkpoints(void **state)
{
    dg_archive *a;

    (void)state;
    assert_int_equal(dg_archive_open(&a, data("reference.pth"), diag), 0);
    assert_string_equal(a->part, "ema.module");
    check_values(a, "w", 2, (double[]){ 2, 2 });
    check_values(a, "p", 1, (double[]){ 5 });
    dg_archive_close(&a);
    assert_int_equal(dg_archive_open(&a, data("model.pth"), diag), 0);
    assert_string_equal(a->part, "model");
    check_values(a, "p", 1, (double[]){ 4 });
    dg_archive_close(&a);
}

/* Of mmcv, and of its successor with a history of classes of its own; both by
 * tests/weights/mmcv.py.
 */
static void reads_mmcv(void **state)
{
    static const char *const files[] = { "mmcv.pth", "mmengine.pth" };
    dg_archive *a;

    (void)state;
    for (int f = 0; f < 2; f++) {
        if (dg_archive_open(&a, data(files[f]), diag) < 0)
            fail_msg("%s", dg_diag_text(diag));
        assert_string_equal(a->part, "state_dict");
        assert_int_equal(a->n, 2);
        check_values(a, "rpn_head.rpn_cls.bias", 3, (double[]){ 0.5, -1, 2 });
        check_values(a, "backbone.bn1.num_batches_tracked", 1, (double[]){ 7 });
        assert_string_equal(dg_weight_names_brief(dg_weight_names_of_archive(a), a),
                            "the names of Co-DETR's reference");
        dg_archive_close(&a);
    }
}

/* In the form before 1.6, of a model on several GPUs, with tensors, options and numbers beside it
 * that nobody wants. */
static void reads_old_checkpoints(void **state)
{
    dg_archive *a;

    (void)state;
    assert_int_equal(dg_archive_open(&a, data("old_checkpoint.pth"), diag), 0);
    assert_string_equal(a->part, "ema.module");
    check_values(a, "module.w", 2, (double[]){ 1, 2 });
    assert_int_equal(dg_archive_translate(a, dg_weight_names_all[0], diag), 0);
    check_values(a, "w", 2, (double[]){ 1, 2 });
    check_values(a, "p", 1, (double[]){ 5 });
    dg_archive_close(&a);
}

/* Whose names those of a reference are: what only that model has tells it. */
static void tells_whose_names(void **state)
{
    static const char *const cases[][2] = {
        { "module.query_head.label_embedding.weight", "the names of Co-DETR's reference" },
        { "backbone.0.encoder.encoder.layernorm.weight", "the names of RF-DETR's reference" },
        { "decoder.dec_score_head.0.weight", "the names of RT-DETRv2's PyTorch reference" },
        { "conv1.weight", "names of no known reference" },
    };
    dg_archive *a;
    char head[256];

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        snprintf(head, sizeof head,
                 "{\"%s\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}}", cases[i][0]);
        assert_int_equal(open_header(&a, head, 4), 0);
        assert_string_equal(dg_weight_names_brief(dg_weight_names_of_archive(a), a), cases[i][1]);
        dg_archive_close(&a);
    }
}

static void unwraps_names(void **state)
{
    dg_archive *a;

    (void)state;
    assert_int_equal(
        open_header(
            &a,
            "{\"module._orig_mod.encoder.input_proj.0.1.weight\":{\"dtype\":\"F32\",\"shape\":[1],"
            "\"data_offsets\":[0,4]}}",
            4),
        0);
    assert_string_equal(dg_weight_names_name(dg_weight_names_of_archive(a)), "reference-v1");
    assert_int_equal(dg_archive_translate(a, dg_weight_names_all[0], diag), 0);
    assert_non_null(dg_archive_find(a, "encoder.input_proj.0.norm.weight"));
    dg_archive_close(&a);
}

/* Names of a backbone's file, of a dialect, become ours. */
static void renames_backbone(const char *dialect, const char *const names[][2], int n)
{
    char header[1024] = "{";
    dg_archive *a;

    for (int i = 0; i < n; i++)
        snprintf(header + strlen(header), 160,
                 "%s\"%s\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[%d,%d]}",
                 i ? "," : "", names[i][0], 4 * i, 4 * i + 4);
    strcat(header, "}");
    assert_int_equal(open_header(&a, header, (size_t)(4 * n)), 0);
    assert_string_equal(dg_weight_names_name(dg_weight_names_of_archive(a)), dialect);
    assert_int_equal(dg_archive_translate(a, dg_weight_names_all[0], diag), 0);
    for (int i = 0; i < n; i++)
        assert_non_null(dg_archive_find(a, names[i][1]));
    dg_archive_close(&a);
}

static void renames_a_dinov2(void **state)
{
#define VIT "backbone.0.encoder.encoder."
    static const char *const names[][2] = {
        { "embeddings.position_embeddings", VIT "embeddings.position_embeddings" },
        { "encoder.layer.11.mlp.fc1.weight", VIT "encoder.layer.11.mlp.fc1.weight" },
        { "layernorm.bias", VIT "layernorm.bias" },
    };

    (void)state;
    renames_backbone("dinov2", names, 3);
}

static void renames_a_swin(void **state)
{
    static const char *const names[][2] = {
        { "features.0.0.weight", "backbone.patch_embed.proj.weight" },
        { "features.5.11.attn.qkv.bias", "backbone.layers.2.blocks.11.attn.qkv.bias" },
        { "features.7.1.mlp.0.weight", "backbone.layers.3.blocks.1.mlp.fc1.weight" },
        { "features.3.0.mlp.3.bias", "backbone.layers.1.blocks.0.mlp.fc2.bias" },
        { "features.6.reduction.weight", "backbone.layers.2.downsample.reduction.weight" },
    };

    (void)state;
    renames_backbone("torchvision", names, 5);
}

static void refuses_other_contents(void **state)
{
    dg_archive *a;

    (void)state;
    assert_true(dg_archive_open(&a, data("list.pth"), diag) < 0);
    assert_string_equal(dg_diag_at(diag, 0)->text,
                        "a dictionary of tensors is expected, this file holds a list");
    check_only(diag, "pth-no-state");
    assert_true(dg_archive_open(&a, data("empty.pth"), diag) < 0);
    assert_string_equal(dg_diag_at(diag, 0)->text, "its dictionary model holds no tensor");
    check_only(diag, "pth-no-state");
    assert_true(dg_archive_open(&a, data("../data"), diag) < 0);
    check_only(diag, "weights-folder");
}

/* A file of a few kilobytes that would fill the memory. */
static void refuses_a_bomb(void **state)
{
    enum { N = 4 << 20 };
    const char *path = "/tmp/detrgraph-bomb.pth";
    char *nothing = malloc(N);
    zip_t *zip;
    dg_archive *a;

    (void)state;
    assert_non_null(nothing);
    memset(nothing, 'N', N); /* pickle's None */
    zip = zip_open(path, ZIP_CREATE | ZIP_TRUNCATE, NULL);
    assert_non_null(zip);
    assert_true(zip_file_add(zip, "archive/data.pkl", zip_source_buffer(zip, nothing, N, 0), 0) >=
                0);
    assert_int_equal(zip_close(zip), 0);
    assert_true(dg_archive_open(&a, path, diag) < 0);
    assert_non_null(strstr(dg_diag_at(diag, 0)->text, "compressed beyond"));
    check_only(diag, "pth-broken");
    unlink(path);
    free(nothing);
}

static void runs_nothing(void **state)
{
    dg_archive *a;

    (void)state;
    assert_true(dg_archive_open(&a, data("evil.pth"), diag) < 0);
    assert_non_null(strstr(dg_diag_at(diag, 0)->text, "posix.system"));
    check_only(diag, "pickle-name");
    assert_int_not_equal(access("/tmp/owned", F_OK), 0);
}

/* Every file cut at every length, and with every byte changed, is read or refused, and never with
 * two errors. */
static void survives_damage(void **state)
{
    static const char *const files[] = { "plain.pth", "old.pth", "old_checkpoint.pth",
                                         "reference.pth" };
    char path[64];

    (void)state;
    scratch_path(path, sizeof path);
    for (int f = 0; f < 4; f++) {
        char *bytes;
        size_t n;

        assert_int_equal(dg_file_read(&bytes, &n, data(files[f]), 0, diag), 0);
        for (size_t i = 0; i < 2 * n; i += 7) {
            size_t at = i % n;
            dg_archive *a = NULL;
            FILE *out = fopen(path, "wb");

            bytes[at] = (char)(bytes[at] ^ 0x55);
            assert_int_equal(fwrite(bytes, 1, i < n ? at : n, out), i < n ? at : n);
            fclose(out);
            bytes[at] = (char)(bytes[at] ^ 0x55);
            if (dg_archive_open(&a, path, diag) == 0) {
                for (int k = 0; k < a->n; k++) {
                    double *v = calloc((size_t)a->entries[k].n + 1, sizeof *v);

                    dg_entry_read(&a->entries[k], v);
                    free(v);
                }
                assert_int_equal(dg_diag_n(diag), 0);
            } else {
                assert_int_equal(dg_diag_n(diag), 1);
            }
            dg_archive_close(&a);
            dg_diag_clear(diag);
        }
        dg_free(bytes);
    }
    unlink(path);
}

static void pickle(const char *bytes, size_t n, const char *id)
{
    dg_arena *arena = dg_arena_open();
    dg_pickle *v;

    assert_true(dg_pickle_parse(&v, arena, (const uint8_t *)bytes, n, NULL, NULL, "x.pkl", diag) <
                0);
    check_only(diag, id);
    dg_arena_close(&arena);
}
#define PICKLE(text, id) pickle(text, sizeof text - 1, id)

static void refuses_pickles(void **state)
{
    (void)state;
    PICKLE("", "pickle-broken");
    PICKLE("\x80\x02", "pickle-broken");
    PICKLE("\x80\x09N.", "pickle-broken");
    PICKLE("\x80\x02.", "pickle-broken");
    PICKLE("\x80\x02i", "pickle-opcode");
    PICKLE("\x80\x02X\xff\xff\xff\xffz.", "pickle-broken");
    PICKLE("\x80\x02h\x05.", "pickle-broken");
    PICKLE("\x80\x02Nj\x05\x00\x00\x00.", "pickle-broken");
    PICKLE("\x80\x02Nr\xff\xff\xff\x7f.", "pickle-broken");
    PICKLE("\x80\x02t.", "pickle-broken");
    PICKLE("\x80\x02]NNs.", "pickle-broken");
    PICKLE("\x80\x02}(Nu.", "pickle-broken");
    PICKLE("\x80\x02"
           "cos\nsystem\n(tR.",
           "pickle-name");
    PICKLE("\x80\x02N)R.", "pickle-broken");
    PICKLE("\x80\x02"
           "ctorch\nFloatStorage\n)R.",
           "pickle-broken");
    PICKLE("\x80\x02"
           "ctorch._utils\n_rebuild_parameter\n)R.",
           "pickle-broken");
    PICKLE("\x80\x02NQ.", "pickle-broken");
    PICKLE("\x80\x02\x8a\x09.", "pickle-broken");
    PICKLE("\x80\x02"
           "ctorch\nF",
           "pickle-broken");
}

static int set_up(void **state)
{
    (void)state;
    diag = dg_diag_open();
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    dg_diag_close(&diag);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(writes_and_reads),
        cmocka_unit_test(refuses_headers),
        cmocka_unit_test(reads_torch),
        cmocka_unit_test(reads_checkpoints),
        cmocka_unit_test(reads_mmcv),
        cmocka_unit_test(reads_old_checkpoints),
        cmocka_unit_test(unwraps_names),
        cmocka_unit_test(tells_whose_names),
        cmocka_unit_test(renames_a_dinov2),
        cmocka_unit_test(renames_a_swin),
        cmocka_unit_test(refuses_other_contents),
        cmocka_unit_test(refuses_a_bomb),
        cmocka_unit_test(runs_nothing),
        cmocka_unit_test(refuses_pickles),
        cmocka_unit_test(survives_damage),
    };

    return cmocka_run_group_tests(tests, set_up, tear_down);
}
