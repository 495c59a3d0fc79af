/* lwdetr.c: the decoder with groups of queries and its loss: initial values, steps with fewer
 * tokens than queries and without objects, and what they refuse. */
#include "tests/check.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include <detrgraph/run.h>

enum { WIDTH = 512, QUERIES = 6, GROUPS = 3, ALL = QUERIES * GROUPS, BATCH = 2 };

static const char pipeline[] =
    "<pipeline version='1'><mesh dp='ranks'/><model id='m'><input id='images'/>"
    "<backbone.presnet id='backbone' in='@images' depth='18'/>"
    "<record id='maps' %s='@backbone.s32'/>"
    "<decoder.lwdetr id='decoder' memory='@maps' classes='3' queries='6' groups='3' layers='2' "
    "ffn='32'/></model>"
    "<train steps='10'><loader.synthetic id='data'/>"
    "<sampler.bucket id='pick' in='@data' batch='2' sizes='%d' tail='drop'/>"
    "<batch id='b' in='@pick' max_objects='5'/><use id='out' model='m' images='@b.images'/>"
    "<loss.rfdetr id='loss' predictions='@out' targets='@b.targets'/>"
    "<backward id='grad' loss='@loss.total'/>"
    "<optimizer.adamw id='opt' gradients='@grad' clip='0.1' lr='0.01' "
    "weight_decay='0.1'/></train></pipeline>";

typedef struct opened {
    dg_diag *d;
    dg_run *run;
} opened;

static int open_run(opened *o, const char *map, int size)
{
    char text[4096];
    dg_run_options options = { .size = sizeof options,
                               .file = "lwdetr.xml",
                               .text = text,
                               .precision = "f32",
                               .has_seed = true,
                               .seed = 3,
                               .keep_named = true };
    int rc;

    snprintf(text, sizeof text, pipeline, map, size);
    *o = (opened){ .d = dg_diag_open() };
    rc = dg_run_open(&o->run, &options, o->d);
    return rc ? rc : dg_run_select(o->run, "train", size, size, o->d);
}

static void must(int rc, dg_diag *d)
{
    if (rc)
        fail_msg("%s", dg_diag_text(d));
}

static void close_run(opened *o)
{
    dg_run_close(&o->run);
    dg_diag_close(&o->d);
}

static void get(opened *o, dg_run_space space, const char *name, double *v, int64_t n)
{
    must(dg_run_get(o->run, space, name, v, n, o->d), o->d);
}

static double read_number(opened *o, const char *name)
{
    double v = NAN;

    must(dg_run_read(o->run, name, &v, 1, o->d), o->d);
    return v;
}

/* Images, and this many objects in the first of them. */
static void step(opened *o, int objects)
{
    static const float box[4] = { 0.5F, 0.4F, 0.3F, 0.2F };

    for (int i = 0; i < dg_run_n_inputs(o->run); i++) {
        dg_run_tensor t = dg_run_input_at(o->run, i);
        int64_t n = dg_shape_elements(t.shape);
        double *v = test_malloc((size_t)n * sizeof *v);
        int32_t *k = (int32_t *)v;

        for (int64_t j = 0; j < n; j++) {
            if (t.dtype == DG_I32)
                k[j] = strstr(t.name, "count") ? j == 0 ? objects : 0 : 1;
            else
                v[j] = strstr(t.name, "boxes") ? (double)box[j % 4] : fmod((double)j * 0.618, 1);
        }
        must(dg_run_feed(o->run, t.name, v, n, o->d), o->d);
        test_free(v);
    }
    must(dg_run_step(o->run, o->d), o->d);
}

static double longest_of(const double *v, int64_t n)
{
    double longest = 0;

    for (int64_t i = 0; i < n; i++)
        longest = fmax(longest, fabs(v[i]));
    return longest;
}

/* Heads are copies of one; layers have matrices of their own and equal vectors. */
static void initial_values(void **state)
{
    static double a[WIDTH * WIDTH], b[WIDTH * WIDTH];
    const double glorot = sqrt(6.0 / (2 * WIDTH));
    double rho[ALL * 4];
    opened o;

    (void)state;
    must(open_run(&o, "p5", 64), o.d);
    get(&o, DG_RUN_WEIGHTS, "transformer.enc_out_class_embed.0.weight", a, 3 * WIDTH);
    get(&o, DG_RUN_WEIGHTS, "transformer.enc_out_class_embed.2.weight", b, 3 * WIDTH);
    assert_memory_equal(a, b, 3 * WIDTH * sizeof *a);
    get(&o, DG_RUN_WEIGHTS, "class_embed.weight", b, 3 * WIDTH);
    assert_memory_equal(a, b, 3 * WIDTH * sizeof *a);
    get(&o, DG_RUN_WEIGHTS, "class_embed.bias", b, 3);
    assert_true(fabs(b[2] + log(99)) < 1e-6);
    get(&o, DG_RUN_WEIGHTS, "transformer.enc_out_bbox_embed.1.layers.0.weight", a, WIDTH * WIDTH);
    get(&o, DG_RUN_WEIGHTS, "bbox_embed.layers.0.weight", b, WIDTH * WIDTH);
    assert_memory_equal(a, b, sizeof a);
    get(&o, DG_RUN_WEIGHTS, "transformer.enc_output.0.weight", a, WIDTH * WIDTH);
    get(&o, DG_RUN_WEIGHTS, "transformer.enc_output.1.weight", b, WIDTH * WIDTH);
    assert_memory_not_equal(a, b, sizeof a);
    get(&o, DG_RUN_WEIGHTS, "transformer.decoder.layers.0.self_attn.out_proj.weight", a,
        WIDTH * WIDTH);
    get(&o, DG_RUN_WEIGHTS, "transformer.decoder.layers.1.self_attn.out_proj.weight", b,
        WIDTH * WIDTH);
    assert_memory_not_equal(a, b, sizeof a);
    assert_true(longest_of(a, WIDTH * WIDTH) <= glorot &&
                longest_of(a, WIDTH * WIDTH) > 0.99 * glorot);
    get(&o, DG_RUN_WEIGHTS, "transformer.decoder.layers.0.linear1.bias", a, 32);
    get(&o, DG_RUN_WEIGHTS, "transformer.decoder.layers.1.linear1.bias", b, 32);
    assert_memory_equal(a, b, 32 * sizeof *a);
    assert_true(longest_of(a, 32) > 0);
    get(&o, DG_RUN_WEIGHTS, "refpoint_embed.weight", rho, ALL * 4);
    assert_true(longest_of(rho, ALL * 4) == 0);
    close_run(&o);
}

/* Four tokens for six queries: the first 3 * 4 references come from tokens, the others are rho. */
static void fewer_tokens_than_queries(void **state)
{
    double rho[ALL * 4], ref[BATCH * ALL * 4], boxes[BATCH * 4 * GROUPS * 4];
    opened o;

    (void)state;
    must(open_run(&o, "p5", 64), o.d);
    for (int i = 0; i < ALL * 4; i++)
        rho[i] = (i % 7 - 3) * 0.125;
    must(dg_run_set(o.run, DG_RUN_WEIGHTS, "refpoint_embed.weight", rho, ALL * 4, o.d), o.d);
    step(&o, 2);
    must(dg_run_read(o.run, "ref", ref, BATCH * ALL * 4, o.d), o.d);
    must(dg_run_read(o.run, "enc.topk_boxes", boxes, BATCH * 4 * GROUPS * 4, o.d), o.d);
    for (int b = 0; b < BATCH; b++)
        for (int r = 0; r < ALL; r++) {
            bool chosen = r < 4 * GROUPS;
            const double *have = ref + ((int64_t)b * ALL + r) * 4, *by = rho + (int64_t)r * 4,
                         *e = chosen ? boxes + ((int64_t)b * 4 * GROUPS + r) * 4 : NULL;

            for (int k = 0; k < 2; k++) {
                assert_true(fabs(have[k] - (e ? by[k] * e[k + 2] + e[k] : by[k])) < 1e-6);
                assert_true(fabs(have[k + 2] - (e ? exp(by[k + 2]) * e[k + 2] : by[k + 2])) < 1e-6);
            }
        }
    assert_true(read_number(&o, "loss.objects") == 2 * GROUPS);
    assert_true(isfinite(read_number(&o, "grad_norm")));
    close_run(&o);
}

/* All terms are there; those of boxes and their heads' gradients are zero, and decay goes on. */
static void without_objects(void **state)
{
    static const char *const sets[] = { "", "_0", "_enc" };
    double before[4 * WIDTH], after[4 * WIDTH], gradient[WIDTH * 4];
    char name[64];
    opened o;

    (void)state;
    must(open_run(&o, "p5", 96), o.d);
    for (int i = 0; i < 4 * WIDTH; i++)
        before[i] = 0.5;
    must(dg_run_set(o.run, DG_RUN_WEIGHTS, "bbox_embed.layers.2.weight", before, 4 * WIDTH, o.d),
         o.d);
    step(&o, 0);
    for (int i = 0; i < 3; i++) {
        snprintf(name, sizeof name, "loss.loss_bbox%s", sets[i]);
        assert_true(read_number(&o, name) == 0);
        snprintf(name, sizeof name, "loss.loss_giou%s", sets[i]);
        assert_true(read_number(&o, name) == 0);
        snprintf(name, sizeof name, "loss.loss_ce%s", sets[i]);
        assert_true(read_number(&o, name) > 0);
    }
    assert_true(read_number(&o, "loss.objects") == 1);
    get(&o, DG_RUN_GRADIENTS, "bbox_embed.layers.2.weight", gradient, 4 * WIDTH);
    assert_true(longest_of(gradient, 4 * WIDTH) == 0);
    get(&o, DG_RUN_WEIGHTS, "bbox_embed.layers.2.weight", after, 4 * WIDTH);
    assert_true(fabs(after[0] - 0.5 * (1 - 0.01 * 0.1)) < 1e-6);
    close_run(&o);
}

static void memory_without_maps_is_refused(void **state)
{
    bool found = false;
    opened o;

    (void)state;
    assert_int_not_equal(open_run(&o, "s32", 64), 0);
    for (int i = 0; i < dg_diag_n(o.d); i++)
        found = found || strcmp(dg_diag_at(o.d, i)->id, "decoder-memory") == 0;
    if (!found)
        fail_msg("decoder-memory expected, found: %s", dg_diag_text(o.d));
    close_run(&o);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(initial_values),
        cmocka_unit_test(fewer_tokens_than_queries),
        cmocka_unit_test(without_objects),
        cmocka_unit_test(memory_without_maps_is_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
