/* swin.c: <backbone.swin> against data/swin.json: maps, loss and the gradients of all parameters,
 * as torchvision's model computes them in f64 (data/make_swin.py); sides that are no multiples of
 * patches or windows, and maps of a single window, which detectors shift. And drop_path. */
#include "tests/check.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "media/json.h"
#include "tests/ops/formula.h"
#include <detrgraph/run.h>

static const char pipeline[] =
    "<pipeline version='1'><model id='m'><input id='images'/>"
    "<backbone.swin id='backbone' in='@images' width='8' heads='1,2,2,4' depths='2,2,2,2' "
    "window='3' normalize='false' drop_path='%s'/></model>"
    "<train steps='10'><loader.synthetic id='data'/>"
    "<sampler.plain id='pick' in='@data' batch='2' size='%dx%d'/><batch id='b' in='@pick'/>"
    "<use id='out' model='m' images='@b.images'/>"
    "<loss.mean id='l2' in='@out.c2'/><loss.mean id='l3' in='@out.c3'/>"
    "<loss.mean id='l4' in='@out.c4'/><loss.mean id='l5' in='@out.c5'/>"
    "<sum id='loss' a='@l2' b='@l3' c='@l4' d='@l5'/>"
    "<backward id='grad' loss='@loss'/><optimizer.adamw id='opt' gradients='@grad'/></train>"
    "</pipeline>";

enum { BATCH = 2 };

typedef struct opened {
    dg_arena *arena;
    dg_diag *d;
    dg_run *run;
    const dg_json *entry;
    double bound; /* of relative errors */
} opened;

static void must(int rc, dg_diag *d)
{
    if (rc)
        fail_msg("%s", dg_diag_text(d));
}

static const dg_json *at(const dg_json *object, const char *key)
{
    const dg_json *x = dg_json_get(object, key);

    if (!x)
        fail_msg("the fixture has no %s", key);
    return x;
}

static void near(const opened *o, double ours, double stored, double scale, const char *what)
{
    if (!(fabs(ours - stored) <= o->bound * fmax(scale, 1e-9)))
        fail_msg("%s: %.17g, expected %.17g", what, ours, stored);
}

/* Element i of a parameter: matrices by their fan-in, weights of norms about 1, biases about 0. */
static double parameter(const char *name, dg_shape shape, int64_t i)
{
    double fan_in = (double)dg_shape_elements(shape) / (double)shape.d[0], u = formula_u(name, i);
    size_t n = strlen(name);

    if (shape.rank > 1)
        return (double)(float)((2 * u - 1) * sqrt(3 / fan_in));
    return (double)(float)(n > 4 && strcmp(name + n - 4, "bias") == 0 ? 0.2 * (u - 0.5) : 0.5 + u);
}

static void open_run(opened *o, const dg_json *entry, const char *precision, const char *drop)
{
    int h = (int)at(entry, "size")->items[0].number, w = (int)at(entry, "size")->items[1].number;
    int64_t n = (int64_t)BATCH * h * w * 3;
    double *images = test_malloc((size_t)n * sizeof *images);
    char text[2048];
    dg_run_options options = { .size = sizeof options,
                               .file = "swin.xml",
                               .text = text,
                               .precision = precision,
                               .has_seed = true,
                               .seed = 5,
                               .keep_named = true };

    o->entry = entry;
    snprintf(text, sizeof text, pipeline, drop, w, h);
    must(dg_run_open(&o->run, &options, o->d), o->d);
    must(dg_run_select(o->run, "train", w, h, o->d), o->d);
    for (int i = 0; i < dg_run_n_params(o->run); i++) {
        dg_run_param p = dg_run_param_at(o->run, i);
        int64_t k = dg_shape_elements(p.shape);
        double *v = test_malloc((size_t)k * sizeof *v);

        for (int64_t j = 0; j < k; j++)
            v[j] = parameter(p.name, p.shape, j);
        must(dg_run_set(o->run, DG_RUN_WEIGHTS, p.name, v, k, o->d), o->d);
        test_free(v);
    }
    for (int64_t i = 0; i < n; i++)
        images[i] = formula("images", i, 2, -1);
    must(dg_run_feed(o->run, "b.images", images, n, o->d), o->d);
    must(dg_run_step(o->run, o->d), o->d);
    test_free(images);
}

static double *read_value(const opened *o, const char *name, dg_shape *s)
{
    double *v;
    int found = -1;

    for (int i = 0; i < dg_run_n_values(o->run); i++)
        if (strcmp(dg_run_value_at(o->run, i).name, name) == 0)
            found = i;
    if (found < 0)
        fail_msg("no value %s", name);
    *s = dg_run_value_at(o->run, found).shape;
    v = test_malloc((size_t)dg_shape_elements(*s) * sizeof *v);
    must(dg_run_read(o->run, name, v, dg_shape_elements(*s), o->d), o->d);
    return v;
}

/* v [n] against a norm and samples. */
static void compare(const opened *o, const dg_json *stored, const double *v, int64_t n,
                    const char *what)
{
    const dg_json *samples = at(stored, "samples");
    double l2 = dg_json_number(stored, "l2"), own = 0, rms = l2 / sqrt((double)n);

    assert_true((double)n == dg_json_number(stored, "n"));
    for (int64_t i = 0; i < n; i++)
        own += v[i] * v[i];
    near(o, sqrt(own), l2, l2, what);
    for (int k = 0; k < samples->n; k++)
        near(o, v[(int64_t)samples->items[k].items[0].number], samples->items[k].items[1].number,
             fmax(rms, fabs(samples->items[k].items[1].number)), what);
}

static void compare_map(const opened *o, const dg_json *stored)
{
    char name[32];
    dg_shape s;
    double *v;

    snprintf(name, sizeof name, "backbone.%s", stored->key);
    v = read_value(o, name, &s);
    assert_int_equal(s.rank, 4);
    for (int i = 0; i < 4; i++)
        assert_true((double)s.d[i] == at(stored, "shape")->items[i].number);
    compare(o, stored, v, dg_shape_elements(s), name);
    test_free(v);
}

static void compare_gradients(const opened *o)
{
    const dg_json *grads = at(o->entry, "grads");

    assert_int_equal(grads->n, dg_run_n_params(o->run));
    for (int i = 0; i < dg_run_n_params(o->run); i++) {
        dg_run_param p = dg_run_param_at(o->run, i);
        int64_t n = dg_shape_elements(p.shape);
        double *v = test_malloc((size_t)n * sizeof *v);

        must(dg_run_get(o->run, DG_RUN_GRADIENTS, p.name, v, n, o->d), o->d);
        compare(o, at(grads, p.name), v, n, p.name);
        test_free(v);
    }
}

static void open_step(opened *o, const char *entry, const char *precision, const char *drop)
{
    const char *top = getenv("srcdir"), *file;
    const dg_json *root;

    *o = (opened){ .arena = dg_arena_open(), .d = dg_diag_open() };
    file = dg_printf(o->arena, "%s/tests/nodes/data/swin.json", top ? top : ".");
    must(dg_json_read(&root, o->arena, file, o->d), o->d);
    open_run(o, at(root, entry), precision, drop);
}

static void close_step(opened *o)
{
    dg_run_close(&o->run);
    dg_diag_close(&o->d);
    dg_arena_close(&o->arena);
}

static void step(const char *entry, const char *precision, double bound)
{
    const dg_json *maps;
    opened o;

    open_step(&o, entry, precision, "0");
    o.bound = bound;
    maps = at(o.entry, "maps");
    assert_int_equal(maps->n, 4);
    for (int i = 0; i < maps->n; i++)
        compare_map(&o, &maps->items[i]);
    compare_gradients(&o);
    close_step(&o);
}

static void many_windows(void **state)
{
    (void)state;
    step("windows", "f64", 1e-9);
    step("windows", "f32", 2e-4);
}

static void maps_of_one_window(void **state)
{
    (void)state;
    step("one_window", "f64", 1e-9);
    step("one_window", "f32", 2e-4);
}

/* In how many images the two states are the same. */
static int unchanged(const opened *o, const char *before, const char *after)
{
    dg_shape s, t;
    double *v = read_value(o, before, &s), *u = read_value(o, after, &t);
    size_t each = (size_t)(dg_shape_elements(s) / BATCH) * sizeof *v;
    int n = 0;

    assert_true(dg_shape_elements(s) == dg_shape_elements(t));
    for (int i = 0; i < BATCH; i++)
        n += memcmp((char *)v + (size_t)i * each, (char *)u + (size_t)i * each, each) == 0;
    test_free(v);
    test_free(u);
    return n;
}

/* With these draws both images leave out both branches of the last layer; the first keeps all. */
static void dropped_paths(void **state)
{
    opened o;

    (void)state;
    open_step(&o, "one_window", "f64", "0.99");
    assert_int_equal(unchanged(&o, "swin.embed", "swin.0.0"), 0);
    assert_int_equal(unchanged(&o, "swin.3.0", "swin.3.1"), BATCH);
    close_step(&o);
    open_step(&o, "one_window", "f64", "0");
    assert_int_equal(unchanged(&o, "swin.3.0", "swin.3.1"), 0);
    close_step(&o);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(many_windows),
        cmocka_unit_test(maps_of_one_window),
        cmocka_unit_test(dropped_paths),
    };

    return cmocka_run_group_tests_name("swin", tests, NULL, NULL);
}
