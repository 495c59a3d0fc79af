/* images.h: lists of pictures with what they must become, one a line: name, width, height, hash of
 * the pixels. */
#ifndef DG_TESTS_MEDIA_IMAGES_H
#define DG_TESTS_MEDIA_IMAGES_H

#include "tests/media/place.h"

#include "media/image.h"

static inline uint64_t image_hash(const dg_image *im)
{
    return dg_fnv1a(im->rgb, (size_t)im->w * (size_t)im->h * 3);
}

typedef void check_image(place *p, const char *name, int w, int h, uint64_t hash);

static inline void each_expected(place *p, const char *list, int n_expected, check_image *check)
{
    char *text, *line, *rest;
    size_t n;
    int cases = 0;

    assert_int_equal(dg_file_read(&text, &n, list, 0, p->d), 0);
    for (line = strtok_r(text, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest), cases++) {
        char name[64];
        int w, h;
        unsigned long long want;

        assert_int_equal(sscanf(line, "%63s %d %d %llx", name, &w, &h, &want), 4);
        check(p, name, w, h, want);
    }
    assert_int_equal(cases, n_expected);
    dg_free(text);
}

/* Compares what has been read from the file with what is wanted of it. */
static inline void check_read(place *p, const char *path, const dg_image *im, int w, int h,
                              uint64_t want)
{
    int got_w, got_h;

    assert_int_equal(im->w, w);
    assert_int_equal(im->h, h);
    if (image_hash(im) != want)
        fail_msg("%s decodes to other pixels", path);
    assert_int_equal(dg_image_size(&got_w, &got_h, path, p->d), 0);
    assert_int_equal(got_w, w);
    assert_int_equal(got_h, h);
}

#endif
