/* formats: WebP and TIFF of every kind become the pixels that others make of them; what is cut,
 * damaged or a bomb becomes an error before memory is taken; builds without their libraries name
 * the package. */
#include "tests/media/images.h"

static const char *format(place *p, const char *name)
{
    return data(p, dg_printf(p->a, "formats/%s", name));
}

static bool is_read(const char *name)
{
#if defined DG_WEBP && defined DG_TIFF
    return name != NULL;
#elif defined DG_WEBP
    return dg_path_ends(name, ".webp");
#elif defined DG_TIFF
    return dg_path_ends(name, ".tif");
#else
    return !name;
#endif
}

static void check_pixels(place *p, const char *name, int w, int h, uint64_t want)
{
    dg_image im;
    int rc;

    dg_scratch_reset(p->s);
    rc = dg_image_read(&im, p->s, format(p, name), p->d);
    if (!is_read(name)) {
        assert_int_equal(rc, -DG_EINPUT);
        check_says(p, "image-unsupported", "and this build has no lib");
        return;
    }
    if (rc < 0)
        fail_msg("%s: %s", name, dg_diag_text(p->d));
    check_read(p, format(p, name), &im, w, h, want);
}

static void each_kind(place *p, check_image *check)
{
    each_expected(p, format(p, "formats.txt"), 19, check);
}

static void every_kind(void **state)
{
    each_kind(*state, check_pixels);
    no_diagnostics(*state);
}

/* Each beginning of each file: an error, or, where what is missing does not matter, the whole
 * picture. Where it is an error of the pixels, what looks for cut files knows it, too. */
static void check_beginnings(place *p, const char *name, int w, int h, uint64_t want)
{
    char *bytes;
    size_t n;

    (void)w;
    (void)h;
    assert_int_equal(dg_file_read(&bytes, &n, format(p, name), 0, p->d), 0);
    for (size_t k = 0; is_read(name) && k < n; k += k < 300 ? 1 : 61) {
        uint8_t *cut = malloc(k ? k : 1); /* exactly as long, so that a sanitizer sees the end */
        const bool webp = dg_path_ends(name, ".webp");
        dg_image im;
        int rc;

        memcpy(cut, bytes, k);
        dg_scratch_reset(p->s);
        rc = dg_image_decode(&im, p->s, cut, k, name, p->d);
        if (rc == 0) {
            assert_true(!webp && image_hash(&im) == want);
            assert_true(dg_tiff_is_whole(cut, k));
        } else {
            assert_int_equal(rc, -DG_EINPUT);
            check_only(p->d,
                       dg_is_webp(cut, k) || dg_is_tiff(cut, k) ? "image-broken" : "image-unknown");
            assert_false(dg_is_webp(cut, k) && dg_webp_is_whole(cut, k));
            assert_false(dg_is_tiff(cut, k) && dg_tiff_is_whole(cut, k));
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

static void check_refused(place *p, const char *name, const char *id, const char *part)
{
    dg_image im;

    if (!is_read(name))
        return;
    assert_int_equal(dg_image_read(&im, p->s, format(p, name), p->d), -DG_EINPUT);
    assert_string_equal(dg_diag_at(p->d, 0)->at.file, format(p, name));
    check_says(p, id, part);
}

static void refused(void **state)
{
    place *p = *state;
    int w, h;

    check_refused(p, "animated.webp", "image-broken", "it is an animation");
    check_refused(p, "huge.tif", "image-size", "an image of 40000 x 40000 pixels");
    check_refused(p, "bomb.tif", "image-broken", "the file ends before the image does");
    check_refused(p, "samples.tif", "image-broken", "");
    check_refused(p, "floats.tif", "image-broken", "");
    if (is_read("huge.tif")) {
        assert_int_equal(dg_image_size(&w, &h, format(p, "huge.tif"), p->d), -DG_EINPUT);
        check_only(p->d, "image-size");
    }
}

static void endings(void **state)
{
    place *p = *state;
    char *bytes;
    size_t n;

    assert_int_equal(dg_file_read(&bytes, &n, format(p, "lossy.webp"), 0, p->d), 0);
    assert_string_equal(dg_image_ending(bytes, n), "webp");
    dg_free(bytes);
    assert_int_equal(dg_file_read(&bytes, &n, format(p, "big.tif"), 0, p->d), 0);
    assert_string_equal(dg_image_ending(bytes, n), "tif");
    dg_free(bytes);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(every_kind, set_up, tear_down),
        cmocka_unit_test_setup_teardown(beginnings, set_up, tear_down),
        cmocka_unit_test_setup_teardown(refused, set_up, tear_down),
        cmocka_unit_test_setup_teardown(endings, set_up, tear_down),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
