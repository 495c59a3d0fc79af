/* draw: what is drawn stands where it should, and no name, box or size stops the drawing. */
#include "tests/media/place.h"

#include <math.h>

#include "media/draw.h"
#include "media/image.h"

static bool near_color(const dg_image *im, int x, int y, const uint8_t want[3])
{
    const uint8_t *p = im->rgb + 3 * (y * im->w + x);

    return abs(p[0] - want[0]) + abs(p[1] - want[1]) + abs(p[2] - want[2]) < 60;
}

static int count_color(const dg_image *im, const uint8_t want[3])
{
    int n = 0;

    for (int y = 0; y < im->h; y++)
        for (int x = 0; x < im->w; x++)
            n += near_color(im, x, y, want);
    return n;
}

static void picture(void **state)
{
    place *p = *state;
    const char *const names[] = { "apple", "p\xC3\xA4r" };
    const dg_mark marks[] = { { { 20, 40, 80, 90 }, 1, 0.75 },
                              { { 50, 10, 95, 30 }, 7, -1.0 },
                              { { NAN, 0, INFINITY, 5 }, 0, 0.5 },
                              { { -50, -50, 1e9, 1e9 }, 0, 0.5 } };
    dg_image im, out;
    dg_tile tile = { .image = &im, .marks = marks, .n_marks = 2 };
    uint8_t one[3], seven[3];

    assert_int_equal(dg_image_new(&im, p->s, 100, 100, p->d), 0);
    dg_draw_color(one, 1);
    dg_draw_color(seven, 7);
    assert_int_equal(dg_draw_picture(&out, p->s, &tile, (dg_labels){ names, 2 }, 0, p->d), 0);
    assert_int_equal(out.w, 100);
    assert_true(near_color(&out, 20, 70, one) && near_color(&out, 50, 90, one) &&
                near_color(&out, 60, 10, seven));
    assert_true(out.rgb[3 * (70 * 100 + 50)] == 0); /* inside a box the picture stays */
    assert_int_equal(dg_draw_picture(&out, p->s, &tile, (dg_labels){ NULL, 0 }, 640, p->d), 0);
    assert_int_equal(out.w, 700);
    assert_true(near_color(&out, 20 * 7, 70 * 7, one));
    tile.n_marks = 4;
    assert_int_equal(dg_draw_picture(&out, p->s, &tile, (dg_labels){ names, 2 }, 0, p->d), 0);
    no_diagnostics(p);
}

/* Letters that the first font lacks come from another, or stand as their numbers: two names never
 * look alike. */
static void letters(void **state)
{
    place *p = *state;
    const char *const names[] = { "\xE6\xB5\xA3\xE7\x86\x8A", "\xE7\x8C\xAB\xE7\x86\x8A" };
    const dg_mark mark = { { 20, 60, 180, 180 }, 0, -1.0 };
    dg_image im, out[2];
    dg_tile tile = { .image = &im, .marks = &mark, .n_marks = 1 };
    int differ = 0;

    assert_int_equal(dg_image_new(&im, p->s, 200, 200, p->d), 0);
    memset(im.rgb, 128, 200 * 200 * 3);
    for (int i = 0; i < 2; i++)
        assert_int_equal(dg_draw_picture(&out[i], p->s, &tile, (dg_labels){ &names[i], 1 }, 0,
                                         p->d),
                         0);
    for (int i = 0; i < 200 * 200 * 3; i++)
        differ += out[0].rgb[i] != out[1].rgb[i];
    assert_true(differ > 20);
    no_diagnostics(p);
    dg_draw_check_names((const dg_coco_class[]){ { .name = "nut" }, { .name = "\xC3\xA9" } }, 2,
                        p->d);
    no_diagnostics(p);
    /* no font has the last code point of Unicode */
    dg_draw_check_names((const dg_coco_class[]){ { .name = "nut" },
                                                 { .name = "\xF4\x8F\xBF\xBD" } },
                        2, p->d);
    check_only(p->d, "font-missing");
}

static void mosaic(void **state)
{
    place *p = *state;
    dg_mark mark = { { 0, 0, 40, 20 }, 3, 0.5 };
    dg_image wide, high, out;
    uint8_t three[3];
    const dg_tile tiles[] = {
        { &wide, &mark, 1, "first.jpg" },
        { &high, NULL, 0, NULL },
        { &wide, NULL, 0,
          "no UTF-8: \xFF\xC3 \xED\xA0\x80 \n a name that is much too long for the little place it "
          "has" },
    };

    assert_int_equal(dg_image_new(&wide, p->s, 40, 20, p->d), 0);
    assert_int_equal(dg_image_new(&high, p->s, 20, 40, p->d), 0);
    memset(wide.rgb, 200, 40 * 20 * 3);
    memset(high.rgb, 100, 40 * 20 * 3);
    dg_draw_color(three, 3);
    assert_int_equal(dg_draw_mosaic(&out, p->s, tiles, 3, 2, 160, 160, (dg_labels){ NULL, 0 },
                                    p->d),
                     0);
    assert_int_equal(out.w, 2 * 166 + 6);
    assert_int_equal(out.h, 2 * (160 + 22 + 6) + 6);
    assert_true(count_color(&out, three) > 200);
    assert_true(near_color(&out, 6 + 80, 6 + 120, (const uint8_t[]){ 200, 200, 200 }));
    assert_true(near_color(&out, 172 + 80, 6 + 80, (const uint8_t[]){ 100, 100, 100 }));
    assert_true(near_color(&out, 172 + 20, 6 + 80, (const uint8_t[]){ 33, 33, 36 }));
    assert_int_equal(dg_draw_mosaic(&out, p->s, tiles, 1, 2, 160, 160, (dg_labels){ NULL, 0 },
                                    p->d),
                     0);
    assert_int_equal(out.h, 80 + 22 + 6 + 6); /* cells as high as the highest picture */
    no_diagnostics(p);
}

static void too_large(void **state)
{
    place *p = *state;
    dg_image im, out;
    const dg_tile tile = { .image = &im };

    assert_int_equal(dg_image_new(&im, p->s, 32768, 1, p->d), 0); /* one more than cairo draws */
    assert_int_equal(dg_draw_picture(&out, p->s, &tile, (dg_labels){ NULL, 0 }, 0, p->d),
                     -DG_EMEMORY);
    check_says(p, "draw-canvas", "cannot draw a picture of 32768 x 1");
    assert_int_equal(dg_draw_mosaic(&out, p->s, &tile, 1, 1, 40000, 10, (dg_labels){ NULL, 0 },
                                    p->d),
                     -DG_EINPUT);
    check_only(p->d, "image-size");
}

static void colors_differ(void **state)
{
    (void)state;
    for (int a = 0; a < 12; a++)
        for (int b = 0; b < a; b++) {
            uint8_t x[3], y[3];

            dg_draw_color(x, a);
            dg_draw_color(y, b);
            assert_true(abs(x[0] - y[0]) + abs(x[1] - y[1]) + abs(x[2] - y[2]) > 60);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(picture, set_up, tear_down),
        cmocka_unit_test_setup_teardown(letters, set_up, tear_down),
        cmocka_unit_test_setup_teardown(mosaic, set_up, tear_down),
        cmocka_unit_test_setup_teardown(too_large, set_up, tear_down),
        cmocka_unit_test(colors_differ),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
