/* image: pictures of every kind become what Pillow makes of them; broken ones become errors;
 * writers. */
#include "tests/media/images.h"

static void check_pixels(place *p, const char *name, int w, int h, uint64_t want)
{
    dg_image im;

    dg_scratch_reset(p->s);
    assert_int_equal(dg_image_read(&im, p->s, data(p, name), p->d), 0);
    check_read(p, data(p, name), &im, w, h, want);
}

static void each_kind(place *p, check_image *check)
{
    each_expected(p, data(p, "images.txt"), 24, check);
}

static void every_kind(void **state)
{
    each_kind(*state, check_pixels);
    no_diagnostics(*state);
}

/* Each beginning of each file: an error, or (only the end mark is missing) the whole picture.
 * Never a crash. */
static void check_beginnings(place *p, const char *name, int w, int h, uint64_t want)
{
    char *bytes;
    size_t n;

    (void)w;
    (void)h;
    assert_int_equal(dg_file_read(&bytes, &n, data(p, name), 0, p->d), 0);
    for (size_t k = 0; k < n; k += k < 600 ? 1 : 37) {
        uint8_t *cut = malloc(k ? k : 1); /* exactly as long, so that a sanitizer sees the end */
        dg_image im;
        int rc;

        memcpy(cut, bytes, k);
        dg_scratch_reset(p->s);
        rc = dg_image_decode(&im, p->s, cut, k, name, p->d);
        if (rc == 0) {
            assert_true(k + 3 > n && dg_is_jpeg(cut, k));
            assert_true(image_hash(&im) == want);
        } else {
            assert_int_equal(rc, -DG_EINPUT);
            check_only(p->d,
                       dg_is_jpeg(cut, k) || dg_is_png(cut, k) ? "image-broken" : "image-unknown");
        }
        free(cut);
    }
    dg_free(bytes);
}

static void beginnings(void **state)
{
    each_kind(*state, check_beginnings);
    no_diagnostics(*state);
}

static void truncated_names_file(void **state)
{
    place *p = *state;
    char *bytes;
    size_t n;
    dg_image im;

    assert_int_equal(dg_file_read(&bytes, &n, data(p, "baseline.jpg"), 0, p->d), 0);
    assert_int_equal(dg_file_write(temporary(p, "cut.jpg"), bytes, n - n / 4, p->d), 0);
    dg_free(bytes);
    assert_int_equal(dg_image_read(&im, p->s, temporary(p, "cut.jpg"), p->d), -DG_EINPUT);
    assert_string_equal(dg_diag_at(p->d, 0)->at.file, temporary(p, "cut.jpg"));
    check_says(p, "image-broken", "not a sound JPEG file: the file ends before the image does");
}

static void refused(void **state)
{
    place *p = *state;
    dg_image im;
    int w, h;

    assert_int_equal(dg_image_read(&im, p->s, data(p, "text.jpg"), p->d), -DG_EINPUT);
    check_says(p, "image-unknown",
               "not a JPEG, PNG, BMP, WebP or TIFF file (its first byte is 0x74)");
    assert_int_equal(dg_image_read(&im, p->s, data(p, "empty.png"), p->d), -DG_EINPUT);
    check_says(p, "image-unknown", "the file is empty");
    assert_int_equal(dg_image_read(&im, p->s, data(p, "badcrc.png"), p->d), -DG_EINPUT);
    check_says(p, "image-broken", "CRC");
    assert_int_equal(dg_image_read(&im, p->s, data(p, "huge.png"), p->d), -DG_EINPUT);
    check_says(p, "image-size", "an image of 40000 x 40000 pixels");
    assert_int_equal(dg_image_size(&w, &h, data(p, "huge.png"), p->d), -DG_EINPUT);
    check_only(p->d, "image-size");
    assert_int_equal(dg_image_read(&im, p->s, data(p, "absent.png"), p->d), -DG_EIO);
    check_only(p->d, "file-open");
    assert_int_equal(dg_image_new(&im, p->s, 0, 5, p->d), -DG_EINPUT);
    check_only(p->d, "image-size");
    assert_int_equal(dg_image_new(&im, p->s, 20000, 20000, p->d), -DG_EINPUT);
    check_only(p->d, "image-size");
}

static void limited_memory(void **state)
{
    place *p = *state;
    dg_scratch *s = dg_scratch_open(8192);
    dg_image im, small;
    dg_sample sample = { .scratch = s };

    assert_int_equal(dg_image_new(&small, s, 16, 16, p->d), 0);
    assert_int_equal(dg_image_new(&im, s, 200, 200, p->d), -DG_EMEMORY);
    check_says(p, "image-memory", "no memory for an image of 200 x 200 pixels");
    assert_int_equal(dg_image_resize(&im, s, &small, 17, 17, p->d), 0);
    assert_int_equal(dg_image_resize(&im, s, &small, 16, 500, p->d), -DG_EMEMORY);
    check_only(p->d, "image-memory");
    assert_int_equal(dg_image_read(&im, s, data(p, "turn6.png"), p->d), -DG_EMEMORY);
    check_only(p->d, "image-memory");
    sample.image = small;
    assert_int_equal(dg_sample_resize(&sample, 300, 300, p->d), -DG_EMEMORY);
    check_only(p->d, "image-memory");
    assert_ptr_equal(sample.image.rgb, small.rgb); /* untouched */
    dg_scratch_close(&s);
    assert_null(s);
    dg_scratch_close(&s);
}

static void scratch_is_used_again(void **state)
{
    place *p = *state;
    size_t held;

    for (int round = 0; round < 3; round++) {
        dg_scratch_reset(p->s);
        for (int i = 0; i < 10; i++) {
            uint8_t *piece = dg_scratch_alloc(p->s, 50000);

            assert_non_null(piece);
            assert_int_equal((uintptr_t)piece % 64, 0);
            memset(piece, round, 50000);
        }
        if (round == 1)
            held = dg_scratch_bytes(p->s);
        if (round == 2)
            assert_int_equal(dg_scratch_bytes(p->s), held);
    }
    assert_null(dg_scratch_alloc(p->s, SIZE_MAX - 3));
}

static void reduced_and_stored(void **state)
{
    place *p = *state;
    dg_image im;

    assert_int_equal(dg_image_read_as(&im, p->s, data(p, "turn6.jpg"),
                                      (dg_decode){ .stored = true }, p->d),
                     0);
    assert_int_equal(im.w, 37);
    assert_int_equal(im.h, 29);
    assert_int_equal(dg_image_read_as(&im, p->s, data(p, "turn6.jpg"), (dg_decode){ .reduce = 4 },
                                      p->d),
                     0);
    assert_int_equal(im.w, 8);
    assert_int_equal(im.h, 10);
}

static void written(void **state)
{
    place *p = *state;
    dg_image im, back;
    int64_t off = 0;

    assert_int_equal(dg_image_read(&im, p->s, data(p, "444.jpg"), p->d), 0);
    assert_int_equal(dg_image_write(temporary(p, "x.png"), &im, p->d), 0);
    assert_int_equal(dg_image_read(&back, p->s, temporary(p, "x.png"), p->d), 0);
    assert_true(image_hash(&im) == image_hash(&back));
    assert_int_equal(dg_image_write(temporary(p, "x.jpg"), &im, p->d), 0);
    assert_int_equal(dg_image_read(&back, p->s, temporary(p, "x.jpg"), p->d), 0);
    for (int i = 0; i < im.w * im.h * 3; i++)
        off += abs(im.rgb[i] - back.rgb[i]);
    assert_true(off / (im.w * im.h * 3) < 16);
    assert_int_equal(dg_image_write(temporary(p, "x.gif"), &im, p->d), -DG_EINPUT);
    check_says(p, "image-kind", "end its name in .png or .jpg");
    assert_int_equal(dg_image_write(temporary(p, "no/x.png"), &im, p->d), -DG_EIO);
    dg_diag_clear(p->d);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(every_kind, set_up, tear_down),
        cmocka_unit_test_setup_teardown(beginnings, set_up, tear_down),
        cmocka_unit_test_setup_teardown(truncated_names_file, set_up, tear_down),
        cmocka_unit_test_setup_teardown(refused, set_up, tear_down),
        cmocka_unit_test_setup_teardown(limited_memory, set_up, tear_down),
        cmocka_unit_test_setup_teardown(scratch_is_used_again, set_up, tear_down),
        cmocka_unit_test_setup_teardown(reduced_and_stored, set_up, tear_down),
        cmocka_unit_test_setup_teardown(written, set_up, tear_down),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
