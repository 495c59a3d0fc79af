/* ops: resizing, colours and geometry give the pixels that Pillow gives; samples keep boxes and
 * image together. */
#include "tests/media/place.h"

#include <math.h>

#include "media/image.h"
#include "media/json.h"

/* floor(256 u(name, i)) of the parity fixtures. */
static dg_image formula_image(place *p, const char *name, int w, int h)
{
    const uint64_t seed = dg_fnv1a_text(name);
    dg_image im;

    assert_int_equal(dg_image_new(&im, p->s, w, h, p->d), 0);
    for (size_t i = 0; i < (size_t)w * (size_t)h * 3; i++) {
        uint64_t z = seed + (i + 1) * 0x9E3779B97F4A7C15u;

        z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
        z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
        im.rgb[i] = (uint8_t)((z ^ (z >> 31)) >> 56);
    }
    return im;
}

static uint64_t hash(const dg_image *im)
{
    return dg_fnv1a(im->rgb, (size_t)im->w * (size_t)im->h * 3);
}

static void change(place *p, dg_image *im, const char *op, double x, double y)
{
    if (strcmp(op, "brightness") == 0)
        dg_image_brightness(im, x);
    else if (strcmp(op, "contrast") == 0)
        dg_image_contrast(im, x);
    else if (strcmp(op, "saturation") == 0)
        dg_image_saturation(im, x);
    else if (strcmp(op, "hue") == 0)
        dg_image_hue(im, x);
    else if (strcmp(op, "resize") == 0)
        assert_int_equal(dg_image_resize(im, p->s, im, (int)x, (int)y, p->d), 0);
    else
        fail_msg("operation %s", op);
}

static void as_pillow(void **state)
{
    place *p = *state;
    char *text, *line, *rest;
    size_t n;
    int cases = 0;

    assert_int_equal(dg_file_read(&text, &n, data(p, "ops.txt"), 0, p->d), 0);
    for (line = strtok_r(text, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest), cases++) {
        char op[32];
        double x, y;
        unsigned long long want;
        dg_image im;

        assert_int_equal(sscanf(line, "%31s %lf %lf %llx", op, &x, &y, &want), 4);
        dg_scratch_reset(p->s);
        im = formula_image(p, "pil_image", 53, 37);
        change(p, &im, op, x, y);
        if (hash(&im) != want)
            fail_msg("%s gives other pixels", line);
    }
    assert_int_equal(cases, 34);
    dg_free(text);
    no_diagnostics(p);
}

static int hex(char c)
{
    return c <= '9' ? c - '0' : c - 'a' + 10;
}

static const dg_json *section(place *p, const char *name)
{
    const dg_json *all;

    assert_int_equal(dg_json_read(&all, p->a, data(p, "image_ops.json"), p->d), 0);
    assert_non_null(dg_json_get(all, name));
    return dg_json_get(all, name);
}

static void fixture_resize(void **state)
{
    place *p = *state;
    const dg_json *outputs = dg_json_get(section(p, "pil_bilinear"), "outputs");
    dg_image im = formula_image(p, "pil_image", 53, 37), out;

    assert_int_equal(outputs->n, 2);
    for (int k = 0; k < outputs->n; k++) {
        const dg_json *o = &outputs->items[k];
        const char *want = dg_json_get(o, "hex")->text;

        assert_int_equal(dg_image_resize(&out, p->s, &im, (int)dg_json_get(o, "w")->number,
                                         (int)dg_json_get(o, "h")->number, p->d),
                         0);
        assert_int_equal(strlen(want), out.w * out.h * 6);
        for (int i = 0; i < out.w * out.h * 3; i++)
            assert_int_equal(out.rgb[i], hex(want[2 * i]) * 16 + hex(want[2 * i + 1]));
    }
}

static void fixture_nearest(void **state)
{
    place *p = *state;
    const dg_json *outputs = dg_json_get(section(p, "nearest"), "outputs");
    dg_image im = formula_image(p, "pil_image", 53, 37), out;

    assert_int_equal(outputs->n, 3);
    for (int k = 0; k < outputs->n; k++) {
        const dg_json *o = &outputs->items[k], *rows = dg_json_get(o, "rows"),
                      *cols = dg_json_get(o, "cols");

        assert_int_equal(dg_image_resize_nearest(&out, p->s, &im, cols->n, rows->n, p->d), 0);
        for (int y = 0; y < out.h; y++)
            for (int x = 0; x < out.w; x++)
                assert_memory_equal(out.rgb + 3 * (y * out.w + x),
                                    im.rgb + 3 * ((int)rows->items[y].number * 53 +
                                                  (int)cols->items[x].number),
                                    3);
    }
    assert_int_equal(dg_nearest_index(69, 640, 736), 59); /* as in single precision */
    assert_int_equal(dg_nearest_index(735, 640, 736), 639);
}

static void check_samples(const dg_json *samples, const uint8_t *rgb)
{
    assert_true(samples->n > 10);
    for (int i = 0; i < samples->n; i++)
        assert_int_equal(rgb[(int)samples->items[i].items[0].number],
                         (int)samples->items[i].items[1].number);
}

static void fixture_jpeg(void **state)
{
    place *p = *state;
    const dg_json *f = section(p, "bccd_eval"), *floats = dg_json_get(f, "float_samples");
    const char *path = shared(p, dg_printf(p->a, "bccd/images/%s", dg_json_get(f, "file")->text));
    dg_image im, small;
    float *real;

    if (!path)
        skip();
    assert_int_equal(dg_image_read(&im, p->s, path, p->d), 0);
    check_samples(dg_json_get(f, "decoded_samples"), im.rgb);
    assert_int_equal(dg_image_resize(&small, p->s, &im, 320, 320, p->d), 0);
    check_samples(dg_json_get(f, "resized_samples"), small.rgb);
    real = dg_scratch_alloc(p->s, 320 * 320 * 3 * sizeof *real);
    dg_image_to_f32(real, &small);
    for (int i = 0; i < floats->n; i++) { /* places are in channel, row, column order */
        int at = (int)floats->items[i].items[0].number, plane = 320 * 320;

        assert_true(fabs(real[at % plane * 3 + at / plane] - floats->items[i].items[1].number) <
                    6e-8);
    }
}

static void geometry(void **state)
{
    place *p = *state;
    dg_image im = formula_image(p, "pil_image", 53, 37), part, canvas;
    const uint8_t fill[3] = { 1, 2, 3 };

    assert_int_equal(dg_image_crop(&part, p->s, &im, 10, 20, 30, 5, p->d), 0);
    for (int y = 0; y < 5; y++)
        assert_memory_equal(part.rgb + y * 90, im.rgb + ((20 + y) * 53 + 10) * 3, 90);
    assert_int_equal(dg_image_paste(&canvas, p->s, &part, 50, 40, 20, 35, fill, p->d), 0);
    for (int y = 0; y < 40; y++)
        for (int x = 0; x < 50; x++) {
            const uint8_t *want =
                y >= 35 && x >= 20 ? part.rgb + ((y - 35) * 30 + x - 20) * 3 : fill;

            assert_memory_equal(canvas.rgb + (y * 50 + x) * 3, want, 3);
        }
    assert_int_equal(dg_image_copy(&canvas, p->s, &im, p->d), 0);
    dg_image_flip(&canvas);
    for (int x = 0; x < 53; x++)
        assert_memory_equal(canvas.rgb + (53 + x) * 3, im.rgb + (53 + 52 - x) * 3, 3);
    dg_image_channels(&canvas, (const int[]){ 2, 0, 1 });
    assert_int_equal(canvas.rgb[0], im.rgb[52 * 3 + 2]);
    assert_int_equal(canvas.rgb[1], im.rgb[52 * 3]);
    assert_int_equal(dg_image_crop(&part, p->s, &im, 30, 0, 24, 5, p->d), -DG_EINPUT);
    check_says(p, "image-crop", "a crop of 24 x 5 at 30, 0 does not lie in an image of 53 x 37");
    assert_int_equal(dg_image_crop(&part, p->s, &im, 30, 0, INT32_MAX, 5, p->d), -DG_EINPUT);
    check_only(p->d, "image-crop");
    assert_int_equal(dg_image_paste(&part, p->s, &im, 60, 40, 8, 0, fill, p->d), -DG_EINPUT);
    check_says(p, "image-paste", "an image of 53 x 37 at 8, 0 does not fit on a canvas of 60 x 40");
}

static void assert_box(dg_box b, double x1, double y1, double x2, double y2)
{
    assert_true(b.x1 == x1 && b.y1 == y1 && b.x2 == x2 && b.y2 == y2);
}

static void samples(void **state)
{
    place *p = *state;
    dg_object objects[] = { { .box = { 0, 0, 53, 37 }, .label = 1 },
                            { .box = { 10, 5, 30, 25 }, .label = 2 },
                            { .box = { 0, 30, 4, 37 }, .label = 3 } };
    dg_sample sm = { .image = formula_image(p, "pil_image", 53, 37),
                     .objects = objects,
                     .n_objects = 3,
                     .scratch = p->s };

    dg_sample_flip(&sm);
    assert_box(objects[1].box, 23, 5, 43, 25);
    assert_box(objects[2].box, 49, 30, 53, 37);
    assert_int_equal(dg_sample_paste(&sm, 106, 74, 50, 30, (const uint8_t[]){ 0, 0, 0 }, p->d), 0);
    assert_int_equal(sm.image.w, 106);
    assert_box(objects[0].box, 50, 30, 103, 67);
    assert_box(objects[1].box, 73, 35, 93, 55);
    assert_int_equal(dg_sample_crop(&sm, 60, 25, 40, 30, p->d), 0);
    assert_box(objects[0].box, 0, 5, 40, 30);
    assert_box(objects[1].box, 13, 10, 33, 30);
    assert_box(objects[2].box, 0, 0, 0, 0); /* its centre, at x = 101, was outside */
    assert_int_equal(dg_sample_sanitize(&sm, 1.0), 1);
    assert_int_equal(sm.n_objects, 2);
    assert_int_equal(dg_sample_resize(&sm, 7, 11, p->d), 0);
    assert_box(objects[0].box, 0, 5.0 * 11 / 30, 7, 11);
    assert_int_equal(dg_sample_sanitize(&sm, 1.0), 0); /* a box at the edge stays inside */
    assert_int_equal(dg_sample_sanitize(&sm, 4.0), 1);
    assert_int_equal(objects[0].label, 1);
    no_diagnostics(p);
}

static void overlap(void **state)
{
    (void)state;
    assert_true(dg_box_iou((dg_box){ 0, 0, 2, 2 }, (dg_box){ 1, 1, 3, 3 }) == 1.0 / 7.0);
    assert_true(dg_box_iou((dg_box){ 0, 0, 2, 2 }, (dg_box){ 2, 0, 3, 3 }) == 0.0);
    assert_true(dg_box_iou((dg_box){ 1, 1, 1, 1 }, (dg_box){ 1, 1, 1, 1 }) == 0.0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(as_pillow, set_up, tear_down),
        cmocka_unit_test_setup_teardown(fixture_resize, set_up, tear_down),
        cmocka_unit_test_setup_teardown(fixture_nearest, set_up, tear_down),
        cmocka_unit_test_setup_teardown(fixture_jpeg, set_up, tear_down),
        cmocka_unit_test_setup_teardown(geometry, set_up, tear_down),
        cmocka_unit_test_setup_teardown(samples, set_up, tear_down),
        cmocka_unit_test(overlap),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
