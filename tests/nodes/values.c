/* values.c: initial values as the reference has them, schedules, and steps in unusual cases:
 * nothing to denoise, unused rows, other variants of the model. */
#include "tests/check.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <detrgraph/run.h>

#include "nodes/optimizer/schedule.h"

static const char pipeline[] =
    "<pipeline version='1'><mesh dp='ranks'/>"
    "<model id='m'><input id='images'/><input id='denoising' optional='true'/>"
    "<backbone.presnet id='backbone' in='@images' depth='18'/>"
    "<encoder.hybrid id='encoder' s8='@backbone.s8' s16='@backbone.s16' s32='@backbone.s32' "
    "width='32' ffn='32' %s/>"
    "<decoder.rtdetr id='decoder' memory='@encoder.out' denoising='@denoising' classes='3' "
    "layers='2' width='32' ffn='32'"
    " queries='10' %s/></model>"
    "<train steps='10'><loader.synthetic id='data'/><sampler.bucket id='pick' in='@data' batch='2' "
    "sizes='%lldx64' tail='drop'/>"
    "<augment id='aug' in='@pick'/><batch id='b' in='@aug' max_objects='5'/>"
    "<denoising id='dn' targets='@b.targets' classes='3' count='4' empty='%s'/>"
    "<use id='out' model='m' images='@b.images' denoising='@dn'/>"
    "<loss.rtdetr id='loss' predictions='@out' targets='@b.targets'/><backward id='grad' "
    "loss='@loss.total'/>"
    "<optimizer.adamw id='opt' gradients='@grad' clip='0.1'/></train></pipeline>";

typedef struct opened {
    dg_diag *d;
    dg_run *run;
} opened;

static void must(int rc, dg_diag *d)
{
    if (rc)
        fail_msg("%s", dg_diag_text(d));
}

static void open_for(opened *o, char classes, const char *encoder, const char *decoder,
                     const char *empty, int64_t w)
{
    char text[8192];
    dg_run_options options = { .size = sizeof options,
                               .file = "values.xml",
                               .text = text,
                               .precision = "f32",
                               .has_seed = true,
                               .seed = 3,
                               .keep_named = true };

    snprintf(text, sizeof text, pipeline, encoder, decoder, (long long)w, empty);
    for (char *at = text; (at = strstr(at, "classes='"));)
        *(at += strlen("classes='")) = classes;
    o->d = dg_diag_open();
    must(dg_run_open(&o->run, &options, o->d), o->d);
    must(dg_run_select(o->run, "train", w, 64, o->d), o->d);
}

static void open_run(opened *o, const char *encoder, const char *decoder, const char *empty,
                     int64_t w)
{
    open_for(o, '3', encoder, decoder, empty, w);
}

static void close_run(opened *o)
{
    dg_run_close(&o->run);
    dg_diag_close(&o->d);
}

static void get(opened *o, const char *name, double *v, int64_t n)
{
    must(dg_run_get(o->run, DG_RUN_WEIGHTS, name, v, n, o->d), o->d);
}

static void initial_values(void **state)
{
    double first[96 * 32], second[96 * 32], bias[8 * 12 * 2];
    double longest = 0, bound = sqrt(6.0 / (32 + 96));
    opened o;

    (void)state;
    open_run(&o, "", "", "pad", 96);
    get(&o, "decoder.dec_score_head.1.bias", bias, 3);
    assert_true(fabs(bias[0] + log(99)) < 1e-6);
    get(&o, "decoder.enc_bbox_head.layers.2.weight", first, 4 * 32);
    assert_true(fabs(first[5]) < 1e-30);
    get(&o, "decoder.denoising_class_embed.weight", first, 4 * 32);
    assert_true(fabs(first[0]) > 0);
    assert_true(fabs(first[3 * 32 + 7]) < 1e-30);
    get(&o, "decoder.decoder.layers.0.self_attn.in_proj_weight", first, 96 * 32);
    get(&o, "decoder.decoder.layers.1.self_attn.in_proj_weight", second, 96 * 32);
    assert_memory_equal(first, second, sizeof first);
    for (int i = 0; i < 96 * 32; i++)
        longest = fmax(longest, fabs(first[i]));
    assert_true(longest <= bound && longest > 0.99 * bound);
    get(&o, "decoder.dec_bbox_head.0.layers.0.weight", first, 32 * 32);
    get(&o, "decoder.dec_bbox_head.1.layers.0.weight", second, 32 * 32);
    assert_true(memcmp(first, second, 32 * 32 * sizeof *first) != 0);
    get(&o, "decoder.decoder.layers.0.cross_attn.sampling_offsets.bias", bias, 8 * 12 * 2);
    assert_true(fabs(bias[2 * 2] - 3) < 1e-6 &&
                fabs(bias[2 * 2 + 1]) < 1e-6); /* head 0, point 3: right */
    assert_true(fabs(bias[24 + 2] - 2) < 1e-6 &&
                fabs(bias[24 + 3] - 2) < 1e-6); /* head 1, point 2: diagonal */
    assert_true(fabs(bias[48 + 4 * 2]) < 1e-6 &&
                fabs(bias[48 + 4 * 2 + 1] - 1) < 1e-6); /* head 2, level 1 again from 1 */
    close_run(&o);
}

/* Scores of other classes begin with what the file's have in common. */
static void values_of_other_classes(void **state)
{
    static const char *const heads[] = { "enc_score_head", "dec_score_head.0", "dec_score_head.1" };
    char folder[] = "/tmp/detrgraph-values-XXXXXX", file[64], from[96], name[64];
    double theirs[3 * 32], ours[5 * 32], bias[5];
    opened o;

    (void)state;
    assert_non_null(mkdtemp(folder));
    snprintf(file, sizeof file, "%s/three.safetensors", folder);
    snprintf(from, sizeof from, "pretrained='%s'", file);
    open_run(&o, "", "", "pad", 96);
    must(dg_run_set(o.run, DG_RUN_WEIGHTS, "decoder.enc_score_head.bias",
                    (const double[]){ -1, -2, -6 }, 3, o.d),
         o.d);
    must(dg_run_save(o.run, DG_RUN_WEIGHTS, file, o.d), o.d);
    for (int h = 0; h < 3; h++) {
        opened new;

        snprintf(name, sizeof name, "decoder.%s.weight", heads[h]);
        get(&o, name, theirs, 3 * 32);
        open_for(&new, '5', "", from, "pad", 96);
        get(&new, name, ours, 5 * 32);
        for (int i = 0; i < 5 * 32; i++)
            assert_true(
                fabs(ours[i] - (theirs[i % 32] + theirs[32 + i % 32] + theirs[64 + i % 32]) / 3) <
                1e-7);
        get(&new, "decoder.enc_score_head.bias", bias, 5);
        assert_true(bias[0] == -3 && bias[4] == -3);
        close_run(&new);
    }
    close_run(&o);
    assert_int_equal(unlink(file), 0);
    assert_int_equal(rmdir(folder), 0);
}

static double longest_of(opened *o, const char *name, int64_t n)
{
    double v[32 * 32], longest = 0;

    get(o, name, v, n);
    for (int64_t i = 0; i < n; i++)
        longest = fmax(longest, fabs(v[i]));
    return longest;
}

/* The decoder's feed-forward parts: Glorot in version 2, PyTorch's default in version 1. */
static void initial_values_by_version(void **state)
{
    static const char name[] = "decoder.decoder.layers.0.linear1.weight";
    const double glorot = sqrt(6.0 / 64), plain = 1 / sqrt(32);
    opened o;

    (void)state;
    open_run(&o, "", "", "pad", 96);
    assert_true(longest_of(&o, name, 32 * 32) <= glorot &&
                longest_of(&o, name, 32 * 32) > 0.99 * glorot);
    close_run(&o);
    open_run(&o, "version='1'", "version='1'", "pad", 96);
    assert_true(longest_of(&o, name, 32 * 32) <= plain &&
                longest_of(&o, name, 32 * 32) > 0.99 * plain);
    close_run(&o);
}

static void feed(opened *o, int objects)
{
    static const float boxes[4] = { 0.5F, 0.4F, 0.3F, 0.2F };

    for (int i = 0; i < dg_run_n_inputs(o->run); i++) {
        dg_run_tensor t = dg_run_input_at(o->run, i);
        int64_t n = dg_shape_elements(t.shape);
        double *v = test_malloc((size_t)n * sizeof *v);
        int32_t *k = (int32_t *)v;

        for (int64_t j = 0; j < n; j++) {
            if (t.dtype == DG_I32)
                k[j] = strstr(t.name, "count") ? j == 0 ? objects : 0 : 1;
            else
                v[j] = strstr(t.name, "boxes") ? (double)boxes[j % 4] : fmod((double)j * 0.618, 1);
        }
        must(dg_run_feed(o->run, t.name, v, n, o->d), o->d);
        test_free(v);
    }
}

static double number(opened *o, const char *name)
{
    double v = NAN;

    must(dg_run_read(o->run, name, &v, 1, o->d), o->d);
    return v;
}

/* Steps stay finite, and every term is there, whatever the images hold. */
static void steps(void **state)
{
    static const char *const variants[][3] = {
        { "", "", "pad" },
        { "", "", "absent" },
        { "version='1'", "version='1'", "pad" },
        { "expansion='1'", "select='agnostic' learn_query_content='true'", "pad" },
        { "", "select='one2many'", "pad" },
    };

    (void)state;
    for (size_t i = 0; i < sizeof variants / sizeof *variants; i++) {
        opened o;

        open_run(&o, variants[i][0], variants[i][1], variants[i][2], 96);
        for (int objects = 0; objects <= 3; objects += 3) {
            double dn;

            feed(&o, objects);
            must(dg_run_step(o.run, o.d), o.d);
            assert_true(isfinite(number(&o, "loss.total")) && number(&o, "loss.total") > 0);
            assert_true(isfinite(number(&o, "grad_norm")));
            dn = number(&o, "loss.loss_vfl_dn_1");
            assert_true(objects || strcmp(variants[i][2], "absent") != 0 ? dn > 0
                                                                         : fabs(dn) < 1e-30);
            assert_true(objects ? number(&o, "loss.loss_giou") > 0
                                : fabs(number(&o, "loss.loss_giou")) < 1e-30);
        }
        close_run(&o);
    }
}

/* Square images only, and the offsets of a discrete decoder are not trained. */
static void discrete(void **state)
{
    opened o;

    (void)state;
    open_run(&o, "", "method='discrete'", "pad", 64);
    for (int i = 0; i < dg_run_n_params(o.run); i++) {
        dg_run_param p = dg_run_param_at(o.run, i);

        assert_true(!strstr(p.name, "sampling_offsets") || !p.trainable);
    }
    feed(&o, 2);
    must(dg_run_step(o.run, o.d), o.d);
    assert_true(isfinite(number(&o, "loss.total")));
    close_run(&o);
}

static void schedule(void **state)
{
    dg_schedule_conf cosine = {
        .warmup = { DG_STEPS, 10 }, .first = 1, .decay = 1, .hold = { DG_STEPS, 50 }, .to = 0.02
    };
    dg_schedule_conf steps_ = { .decay = 2,
                                .gamma = 0.1,
                                .milestones = { 2, (const int64_t[]){ 3, 5 } } };
    dg_clock clock = { .n_steps = 100, .steps_per_epoch = 10 };

    (void)state;
    assert_true(fabs(dg_schedule_factor(&cosine, &clock) - 0.1) < 1e-12);
    clock.step = 9;
    assert_true(fabs(dg_schedule_factor(&cosine, &clock) - 1) < 1e-12);
    clock.step = 50;
    assert_true(fabs(dg_schedule_factor(&cosine, &clock) - 1) < 1e-12);
    clock.step = 75;
    assert_true(fabs(dg_schedule_factor(&cosine, &clock) - 0.51) < 1e-12);
    clock.step = 100;
    assert_true(fabs(dg_schedule_factor(&cosine, &clock) - 0.02) < 1e-12);
    /* shares move with the length of the run */
    for (int64_t n = 20; n <= 2000; n *= 10) {
        const dg_schedule_conf shares = {
            .warmup = { DG_SHARE, 10 }, .first = 1, .decay = 1, .hold = { DG_SHARE, 50 }, .to = 0.02
        };
        dg_clock at = { .n_steps = n };

        assert_true(fabs(dg_schedule_factor(&shares, &at) - 10.0 / (double)n) < 1e-12);
        at.step = n / 2;
        assert_true(fabs(dg_schedule_factor(&shares, &at) - 1) < 1e-12);
        at.step = n * 3 / 4;
        assert_true(fabs(dg_schedule_factor(&shares, &at) - 0.51) < 1e-12);
        assert_false(dg_reached(&(dg_when){ DG_SHARE, 90 }, &at));
        at.step = n * 9 / 10;
        assert_true(dg_reached(&(dg_when){ DG_SHARE, 90 }, &at));
        at.n_steps = 0; /* unknown */
        assert_false(dg_reached(&(dg_when){ DG_SHARE, 90 }, &at));
    }
    clock.epoch = 4;
    assert_true(fabs(dg_schedule_factor(&steps_, &clock) - 0.1) < 1e-12);
    clock.epoch = 5;
    assert_true(fabs(dg_schedule_factor(&steps_, &clock) - 0.01) < 1e-12);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(initial_values),
        cmocka_unit_test(values_of_other_classes),
        cmocka_unit_test(initial_values_by_version),
        cmocka_unit_test(steps),
        cmocka_unit_test(discrete),
        cmocka_unit_test(schedule),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
