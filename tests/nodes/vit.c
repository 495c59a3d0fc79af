/* vit.c: what <backbone.dinov2> does where no fixture looks: images that are not square, and
 * drop_path. */
#include "tests/check.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include <detrgraph/run.h>

#include "nodes/backbone/resample.h"

static const char pipeline[] =
    "<pipeline version='1'><model id='m'><input id='images'/>"
    "<backbone.dinov2 id='backbone' in='@images' width='8' heads='2' layers='3' patch='4' "
    "windows='2' positions='3' features='1,3' normalize='%s' drop_path='%s'/>"
    "<projector.multiscale id='projector' in='@backbone' width='4' levels='3,4,5' blocks='1'/>"
    "</model><train steps='10'><loader.synthetic id='data'/>"
    "<sampler.plain id='pick' in='@data' batch='%d' size='%dx%d'/><batch id='b' in='@pick'/>"
    "<use id='out' model='m' images='@b.images'/>"
    "<loss.mean id='l3' in='@out.p3'/><loss.mean id='l4' in='@out.p4'/>"
    "<loss.mean id='l5' in='@out.p5'/><sum id='loss' a='@l3' b='@l4' c='@l5'/>"
    "<backward id='grad' loss='@loss'/><optimizer.adamw id='opt' gradients='@grad'/></train>"
    "</pipeline>";

enum { WIDTH = 8, PATCH = 4, SIDE = 3, LAYERS = 3 };

typedef struct opened {
    dg_diag *d;
    dg_run *run;
    int batch, w, h;
} opened;

static void must(int rc, dg_diag *d)
{
    if (rc)
        fail_msg("%s", dg_diag_text(d));
}

static void open_run(opened *o, const char *normalize, const char *drop, int batch, int w, int h)
{
    char text[4096];
    dg_run_options options = { .size = sizeof options,
                               .file = "vit.xml",
                               .text = text,
                               .precision = "f64",
                               .has_seed = true,
                               .seed = 5,
                               .keep_named = true };

    snprintf(text, sizeof text, pipeline, normalize, drop, batch, w, h);
    *o = (opened){ .d = dg_diag_open(), .batch = batch, .w = w, .h = h };
    must(dg_run_open(&o->run, &options, o->d), o->d);
    must(dg_run_select(o->run, "train", w, h, o->d), o->d);
}

static void close_run(opened *o)
{
    dg_run_close(&o->run);
    dg_diag_close(&o->d);
}

/* A number in (-1,1) for every place, the same in every run. */
static double draw(int64_t i)
{
    return 2 * fmod((double)(i + 1) * 0.61803398875, 1) - 1;
}

/* Exchanges the two middle axes of [a,h,w,c]. */
static void transpose(const double *from, double *to, int64_t a, int64_t h, int64_t w, int64_t c)
{
    for (int64_t i = 0; i < a; i++)
        for (int64_t y = 0; y < h; y++)
            for (int64_t x = 0; x < w; x++)
                memcpy(to + ((i * w + x) * h + y) * c, from + ((i * h + y) * w + x) * c,
                       (size_t)c * sizeof *to);
}

#define EMBEDDINGS "backbone.0.encoder.encoder.embeddings."

static void step(opened *o, const double *images)
{
    must(dg_run_feed(o->run, "b.images", images, (int64_t)o->batch * o->h * o->w * 3, o->d), o->d);
    must(dg_run_step(o->run, o->d), o->d);
}

/* transposed: what looks at rows and columns has them exchanged. */
static void set_weights(opened *o, bool transposed)
{
    for (int i = 0; i < dg_run_n_params(o->run); i++) {
        dg_run_param p = dg_run_param_at(o->run, i);
        int64_t k = dg_shape_elements(p.shape);
        double *w = test_malloc((size_t)(2 * k) * sizeof *w), *u = w + k;

        for (int64_t j = 0; j < k; j++)
            w[j] = u[j] = 0.4 * draw(j + 7 * i);
        if (transposed && strcmp(p.name, EMBEDDINGS "position_embeddings") == 0)
            transpose(w + WIDTH, u + WIDTH, 1, SIDE, SIDE, WIDTH);
        else if (transposed && p.shape.rank == 4) /* convolutions */
            transpose(w, u, p.shape.d[0] * p.shape.d[1], p.shape.d[2], p.shape.d[3], 1);
        must(dg_run_set(o->run, DG_RUN_WEIGHTS, p.name, u, k, o->d), o->d);
        test_free(w);
    }
}

/* One step from these weights, on images that are as much transposed. */
static void start(opened *o, bool transposed)
{
    int64_t n = (int64_t)o->batch * o->h * o->w * 3;
    double *v = test_malloc((size_t)n * sizeof *v), *t = test_malloc((size_t)n * sizeof *t);

    set_weights(o, transposed);
    for (int64_t j = 0; j < n; j++)
        v[j] = draw(j);
    if (transposed)
        transpose(v, t, o->batch, o->w, o->h, 3);
    step(o, transposed ? t : v);
    test_free(v);
    test_free(t);
}

static dg_shape shape_of(opened *o, const char *name)
{
    for (int i = 0; i < dg_run_n_values(o->run); i++)
        if (strcmp(dg_run_value_at(o->run, i).name, name) == 0)
            return dg_run_value_at(o->run, i).shape;
    fail_msg("no value %s", name);
    return DG_SCALAR;
}

static double *read(opened *o, const char *name, dg_shape *s)
{
    double *v;

    *s = shape_of(o, name);
    v = test_malloc((size_t)dg_shape_elements(*s) * sizeof *v);
    must(dg_run_read(o->run, name, v, dg_shape_elements(*s), o->d), o->d);
    return v;
}

static void compare_transposed(opened *wide, opened *high, const char *name, double least)
{
    dg_shape s, t;
    double *a = read(wide, name, &s), *b = read(high, name, &t), largest = 0;
    int64_t n = dg_shape_elements(s);
    double *c = test_malloc((size_t)n * sizeof *c);

    assert_true(s.rank == 4 && s.d[1] == t.d[2] && s.d[2] == t.d[1] && s.d[1] != s.d[2]);
    transpose(b, c, t.d[0], t.d[1], t.d[2], t.d[3]);
    for (int64_t i = 0; i < n; i++) {
        largest = fmax(largest, fabs(a[i]));
        if (!(fabs(a[i] - c[i]) < 1e-12 * fmax(1, fabs(a[i]))))
            fail_msg("%s, element %lld: %.17g and %.17g", name, (long long)i, a[i], c[i]);
    }
    assert_true(largest > least);
    test_free(a);
    test_free(b);
    test_free(c);
}

/* An image of 48x16 and its transpose give maps, and gradients, that are each other's transpose:
 * rows and columns are nowhere confused. The reference cuts such images into wrong windows. */
static void images_that_are_not_square(void **state)
{
    static const char *const names[] = { "feat.0",      "feat.1",           "projector.0",
                                         "projector.1", "projector.2",      "grad.feat.0",
                                         "grad.feat.1", "grad.projector.0", "grad.projector.2" };
    opened wide, high;
    double *a, *b, c[SIDE * SIDE * WIDTH];
    dg_shape s;

    (void)state;
    open_run(&wide, "false", "0", 2, 48, 16);
    open_run(&high, "false", "0", 2, 16, 48);
    start(&wide, false);
    start(&high, true);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        compare_transposed(&wide, &high, names[i], 1e-6);
    s = DG_SHAPE(1, 1 + SIDE * SIDE, WIDTH);
    a = test_malloc((size_t)dg_shape_elements(s) * sizeof *a);
    b = test_malloc((size_t)dg_shape_elements(s) * sizeof *b);
    must(dg_run_get(wide.run, DG_RUN_GRADIENTS, EMBEDDINGS "position_embeddings", a,
                    dg_shape_elements(s), wide.d),
         wide.d);
    must(dg_run_get(high.run, DG_RUN_GRADIENTS, EMBEDDINGS "position_embeddings", b,
                    dg_shape_elements(s), high.d),
         high.d);
    transpose(b + WIDTH, c, 1, SIDE, SIDE, WIDTH);
    for (int i = 0; i < SIDE * SIDE * WIDTH; i++)
        assert_true(fabs(a[WIDTH + i] - c[i]) < 1e-12 && fabs(a[WIDTH + i]) > 0);
    test_free(a);
    test_free(b);
    close_run(&wide);
    close_run(&high);
}

/* normalize subtracts the mean and divides by the deviation. */
static void normalized_images(void **state)
{
    static const double mean[] = { 0.485, 0.456, 0.406 }, deviation[] = { 0.229, 0.224, 0.225 };
    opened with, without;
    dg_shape s;
    double *a, *b;
    double x[2][2 * 16 * 16 * 3];

    (void)state;
    open_run(&with, "true", "0", 2, 16, 16);
    open_run(&without, "false", "0", 2, 16, 16);
    set_weights(&with, false);
    set_weights(&without, false);
    for (int i = 0; i < 2 * 16 * 16 * 3; i++) {
        x[0][i] = fabs(draw(i));
        x[1][i] = (x[0][i] - mean[i % 3]) / deviation[i % 3];
    }
    step(&with, x[0]);
    step(&without, x[1]);
    a = read(&with, "vit.embed", &s);
    b = read(&without, "vit.embed", &s);
    for (int64_t i = 0; i < dg_shape_elements(s); i++)
        assert_true(fabs(a[i] - b[i]) < 1e-12 * fmax(1, fabs(b[i])));
    test_free(a);
    test_free(b);
    close_run(&with);
    close_run(&without);
}

enum { BATCH = 32, WINDOWS = 4 };

/* Takes a step and counts the images that keep no branch of the last layer (0), attention (1), mlp
 * (2), both (3); what is kept counts `factor` times. */
static void count_paths(opened *o, const double *images, double factor, int kinds[4])
{
    static const char module[] = "backbone.0.encoder.encoder.encoder.layer.2.";
    static const char *const names[] = { "attention", "mlp" };
    char name[96];
    double lambda[2][WIDTH], *before, *after, *branch[2];
    dg_shape s;
    int64_t per;

    for (int i = 0; i < 2; i++) {
        snprintf(name, sizeof name, "%slayer_scale%d.lambda1", module, i + 1);
        must(dg_run_get(o->run, DG_RUN_WEIGHTS, name, lambda[i], WIDTH, o->d), o->d);
    }
    step(o, images);
    before = read(o, "vit.layer.1", &s);
    after = read(o, "vit.layer.2", &s);
    per = dg_shape_elements(s) / BATCH;
    assert_int_equal(s.d[0], BATCH * WINDOWS);
    for (int i = 0; i < 2; i++) {
        snprintf(name, sizeof name, "%s%s", module, names[i]);
        branch[i] = read(o, name, &s);
    }
    for (int64_t b = 0; b < BATCH; b++) {
        int fits[4] = { 1, 1, 1, 1 }; /* bit 0: attention is kept, bit 1: mlp */

        for (int64_t i = b * per; i < (b + 1) * per; i++)
            for (int k = 0; k < 4; k++) {
                double want = (k & 1 ? factor * lambda[0][i % WIDTH] * branch[0][i] : 0) +
                              (k & 2 ? factor * lambda[1][i % WIDTH] * branch[1][i] : 0);

                fits[k] &= fabs(after[i] - before[i] - want) < 1e-12;
            }
        assert_int_equal(fits[0] + fits[1] + fits[2] + fits[3], 1);
        for (int k = 0; k < 4; k++)
            kinds[k] += fits[k];
    }
    test_free(before);
    test_free(after);
    test_free(branch[0]);
    test_free(branch[1]);
}

/* The last layer's factors of kept branches in the first updates; 1: nothing is dropped. */
static void count_updates(const char *drop, int n, const double *factors)
{
    int64_t size = BATCH * 16 * 16 * 3;
    double *images = test_malloc((size_t)size * sizeof *images);
    opened o;

    for (int64_t j = 0; j < size; j++)
        images[j] = draw(j);
    open_run(&o, "false", drop, BATCH, 16, 16);
    set_weights(&o, false);
    for (int i = 0; i < n; i++) {
        int kinds[4] = { 0 };

        count_paths(&o, images, factors[i], kinds);
        if (factors[i] == 1)
            assert_int_equal(kinds[3], BATCH);
        else
            assert_true(kinds[1] > 0 && kinds[2] > 0 && kinds[3] > 0 && kinds[3] < BATCH);
    }
    test_free(images);
    close_run(&o);
}

/* What is kept counts 1 / (1 - rate) times. The first layer keeps all. */
static void dropped_paths(void **state)
{
    (void)state;
    count_updates("0.5", 2, (double[]){ 2, 2 });
    count_updates("0.5' drop_when='early' drop_until='2", 3, (double[]){ 2, 2, 1 });
    count_updates("0.5' drop_when='falling' drop_until='3", 4, (double[]){ 2, 4 / 3.0, 1, 1 });
    count_updates("0.5' drop_when='late' drop_until='1", 3, (double[]){ 1, 2, 2 });
}

/* Rows of PyTorch's matrices, to six digits; every row sums to 1. */
static void resampled_rows(void **state)
{
    static const struct {
        int64_t from, to, row, begin;
        int n;
        double weights[8];
    } rows[] = {
        { 24, 14, 0, 0, 4, { .565696, .454741, .015124, -.035561 } },
        { 24, 14, 7, 9, 7, { -.000488, -.043002, .104160, .531375, .427152, .014207, -.033403 } },
        { 24, 34, 0, 0, 2, { 1.059622, -.059622 } },
        { 37, 40, 20, 17, 4, { -.066810, .613632, .510665, -.057487 } },
    };

    (void)state;
    for (size_t r = 0; r < sizeof rows / sizeof *rows; r++) {
        int64_t from = rows[r].from;
        double *m = test_malloc((size_t)(from * rows[r].to) * sizeof *m), sum = 0;

        dg_resample_bicubic(from, rows[r].to, m);
        for (int64_t j = 0; j < from; j++) {
            int64_t k = j - rows[r].begin;
            double want = k >= 0 && k < rows[r].n ? rows[r].weights[k] : 0,
                   got = m[rows[r].row * from + j];

            assert_true(fabs(got - want) <= 5.1e-7);
            sum += got;
        }
        assert_true(fabs(sum - 1) < 1e-12);
        test_free(m);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(images_that_are_not_square),
        cmocka_unit_test(normalized_images),
        cmocka_unit_test(dropped_paths),
        cmocka_unit_test(resampled_rows),
    };

    return cmocka_run_group_tests_name("vit", tests, NULL, NULL);
}
