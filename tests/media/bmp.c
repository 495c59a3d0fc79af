/* bmp: bitmaps of every kind give the same picture; damaged ones are refused. */
#include "tests/media/place.h"

#include "media/image.h"

enum { MOST = 512 };

typedef struct bytes {
    uint8_t p[MOST];
    size_t n;
} bytes;

static void put(bytes *b, uint32_t v, int n)
{
    for (int i = 0; i < n; i++)
        b->p[b->n++] = (uint8_t)(v >> (8 * i));
}

/* A header of 40 bytes, or of 12 as OS/2 has it, and the palette red, green, blue, white. */
static bytes header(int bits, int compression, int32_t h, bool palette, bool old)
{
    static const uint32_t colours[] = { 0xff0000, 0x00ff00, 0x0000ff, 0xffffff };
    bytes b = { .n = 0 };

    put(&b, 'B' | 'M' << 8, 2);
    put(&b, 0, 4);
    put(&b, 0, 4);
    put(&b, (old ? 26U : 54U) + (palette ? (old ? 12U : 16U) : 0U) + (compression == 3 ? 12U : 0U),
        4);
    put(&b, old ? 12 : 40, 4);
    put(&b, 3, old ? 2 : 4);
    put(&b, (uint32_t)h, old ? 2 : 4);
    put(&b, 1, 2);
    put(&b, (uint32_t)bits, 2);
    if (!old) {
        put(&b, (uint32_t)compression, 4);
        for (int i = 0; i < 3; i++)
            put(&b, 0, 4);
        put(&b, palette ? 4 : 0, 4);
        put(&b, 0, 4);
    }
    for (int i = 0; palette && i < 4; i++)
        put(&b, colours[i], old ? 3 : 4);
    return b;
}

static void add(bytes *b, const uint8_t *p, size_t n)
{
    memcpy(b->p + b->n, p, n);
    b->n += n;
}
#define ADD(b, ...) \
    add(b, (const uint8_t[]){ __VA_ARGS__ }, sizeof((const uint8_t[]){ __VA_ARGS__ }))

/* 3 x 2: red green blue over white red green. */
static void check_picture(place *p, const bytes *b)
{
    static const uint8_t want[] = { 255, 0,   0,   0,   255, 0, 0, 0,   255,
                                    255, 255, 255, 255, 0,   0, 0, 255, 0 };
    dg_image im;

    if (dg_image_decode(&im, p->s, b->p, b->n, "x.bmp", p->d) < 0)
        fail_msg("%s", dg_diag_text(p->d));
    assert_true(im.w == 3 && im.h == 2);
    assert_memory_equal(im.rgb, want, sizeof want);
    assert_true(dg_bmp_is_whole(b->p, b->n));
    for (size_t n = 2; n < b->n; n++) { /* cut off: refused, or, in run lengths, at their end */
        const int rc = dg_image_decode(&im, p->s, b->p, n, "x.bmp", p->d);

        if (rc < 0)
            assert_int_equal(dg_diag_n(p->d), 1);
        assert_int_equal(dg_is_bmp(b->p, n) && dg_bmp_is_whole(b->p, n), rc == 0);
        dg_diag_clear(p->d);
    }
}

#define RED 0, 0, 255
#define GREEN 0, 255, 0
#define BLUE 255, 0, 0
#define WHITE 255, 255, 255

static void test_kinds(void **state)
{
    place *p = *state;
    bytes b = header(24, 0, 2, false, false);

    ADD(&b, WHITE, RED, GREEN, 0, 0, 0, RED, GREEN, BLUE, 0, 0, 0);
    check_picture(p, &b);
    b = header(32, 0, -2, false, false);
    ADD(&b, RED, 9, GREEN, 9, BLUE, 9, WHITE, 9, RED, 9, GREEN, 9);
    check_picture(p, &b);
    b = header(8, 0, 2, true, false);
    ADD(&b, 3, 0, 1, 0, 0, 1, 2, 0);
    check_picture(p, &b);
    b = header(4, 0, -2, true, false);
    ADD(&b, 0x01, 0x20, 0, 0, 0x30, 0x10, 0, 0);
    check_picture(p, &b);
    b = header(24, 0, 2, false, true);
    ADD(&b, WHITE, RED, GREEN, 0, 0, 0, RED, GREEN, BLUE, 0, 0, 0);
    check_picture(p, &b);
    b = header(16, 3, 2, false, false); /* 5, 6 and 5 bits */
    put(&b, 0xf800, 4);
    put(&b, 0x07e0, 4);
    put(&b, 0x001f, 4);
    ADD(&b, 0xff, 0xff, 0x00, 0xf8, 0xe0, 0x07, 0, 0, 0x00, 0xf8, 0xe0, 0x07, 0x1f, 0, 0, 0);
    check_picture(p, &b);
    b = header(16, 0, 2, false, false); /* 5 bits each */
    ADD(&b, 0xff, 0x7f, 0x00, 0x7c, 0xe0, 0x03, 0, 0, 0x00, 0x7c, 0xe0, 0x03, 0x1f, 0, 0, 0);
    check_picture(p, &b);
}

static void test_runs(void **state)
{
    place *p = *state;
    bytes b = header(8, 1, 2, true, false);

    ADD(&b, 1, 3, 1, 0, 1, 1, 0, 0, 0, 3, 0, 1, 2, 0, 0, 1); /* a run each; three as they are */
    check_picture(p, &b);
    b = header(8, 1, 2, true, false);
    ADD(&b, 1, 3, 0, 2, 1, 0, 1, 1, 0, 0, 0, 2, 1, 0, 1, 1, 9, 2, 0, 1); /* leaves out red ones */
    check_picture(p, &b);
    b = header(4, 2, 2, true, false);
    ADD(&b, 2, 0x30, 1, 0x10, 0, 0, 0, 3, 0x01, 0x20, 0, 1);
    check_picture(p, &b);
}

static void test_refused(void **state)
{
    place *p = *state;
    dg_image im;
    bytes b[] = { header(24, 0, 2, false, false), header(24, 4, 2, false, false),
                  header(7, 0, 2, false, false), header(24, 0, 0, false, false),
                  header(8, 1, -2, true, false) };
    static const char *const id[] = { "bmp-data", "bmp-data", "bmp-data", "image-size",
                                      "bmp-data" };

    for (size_t i = 0; i < sizeof b / sizeof *b; i++) {
        assert_true(dg_image_decode(&im, p->s, b[i].p, b[i].n, "x.bmp", p->d) < 0);
        check_only(p->d, id[i]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_kinds, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_runs, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_refused, set_up, tear_down),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
