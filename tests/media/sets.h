/* sets.h: data sets that tests of media make: files, pictures of which no two are alike,
 * annotations in COCO form. */
#ifndef DG_TESTS_MEDIA_SETS_H
#define DG_TESTS_MEDIA_SETS_H

#include "tests/media/place.h"

#include "media/image.h"
#include "media/survey.h"

#define IMAGE(id, name) \
    "{\"id\": " #id ", \"file_name\": \"" name "\", \"width\": 64, \"height\": 48}"
#define BOX(id, image, class, x, y, w, h)     \
    "{\"id\": " #id ", \"image_id\": " #image \
    ", \"category_id\": " #class ", \"bbox\": [" #x ", " #y ", " #w ", " #h "]}"
#define CLASSES "\"categories\": [{\"id\": 1, \"name\": \"nut\"}, {\"id\": 2, \"name\": \"bolt\"}]"

static inline void write_text(place *p, const char *name, const char *text)
{
    const char *path = temporary(p, name);

    assert_int_equal(dg_mkdirs(dg_path_folder(p->a, path), p->d), 0);
    assert_int_equal(dg_file_write(path, text, strlen(text), p->d), 0);
}

enum { PICTURE_W = 64, PICTURE_H = 48 };

/* Picture number `seed`: no two are alike. */
static inline void write_image(place *p, const char *name, int seed)
{
    const char *path = temporary(p, name);
    dg_image im;

    assert_int_equal(dg_mkdirs(dg_path_folder(p->a, path), p->d), 0);
    assert_int_equal(dg_image_new(&im, p->s, PICTURE_W, PICTURE_H, p->d), 0);
    for (int i = 0; i < PICTURE_W * PICTURE_H * 3; i++)
        im.rgb[i] = (uint8_t)(i / 3 % PICTURE_W * 3 + seed * 17);
    assert_int_equal(dg_image_write(path, &im, p->d), 0);
}

/* The same size as a bitmap, black but for a dot. */
static inline void write_bitmap(place *p, const char *name, int seed)
{
    static const uint8_t header[] = { 'B', 'M', 0,         0, 0,  0, 0, 0, 0,         0,
                                      54,  0,   0,         0, 40, 0, 0, 0, PICTURE_W, 0,
                                      0,   0,   PICTURE_H, 0, 0,  0, 1, 0, 24 };
    const size_t n = 54 + PICTURE_W * PICTURE_H * 3;
    char *bytes = DG_NEW_N(p->a, n, char);

    memcpy(bytes, header, sizeof header);
    bytes[54 + 3 * seed] = 99;
    write_text(p, name, "");
    assert_int_equal(dg_file_write(temporary(p, name), bytes, n, p->d), 0);
}

/* Five images in two splits, nothing wrong. */
static inline void make_clean(place *p)
{
    for (int i = 1; i <= 5; i++)
        write_image(p, dg_printf(p->a, "clean/images/%d.%s", i, i % 2 ? "jpg" : "png"), i);
    write_text(
        p, "clean/annotations/train.json",
        "{\"images\": [" IMAGE(1, "1.jpg") ", " IMAGE(2, "2.png") ", " IMAGE(
            3,
            "3.jpg") "],\n\"annotations\": [\n" BOX(1, 1, 1, 2, 3, 20,
                                                    30) ",\n" BOX(2, 1, 2, 2, 3, 20,
                                                                  10) ",\n" BOX(3, 2, 1, 44.5, 3.25,
                                                                                20,
                                                                                44.5) "],\n" CLASSES
                                                                                      "}");
    write_text(p, "clean/annotations/val.json",
               "{\"images\": [" IMAGE(1, "4.png") ", " IMAGE(
                   2, "5.jpg") "],\n\"annotations\": [\n" BOX(1, 1, 2, 0, 0, 64, 48) "],\n" CLASSES
                                                                                     "}");
}

static inline dg_survey *survey(place *p, const char *name, bool decode)
{
    const dg_survey_options o = { .threads = 2, .decode = decode };
    dg_survey *s = NULL;

    if (dg_survey_open(&s, temporary(p, name), &o, p->d) < 0)
        fail_msg("%s", dg_diag_text(p->d));
    return s;
}

#endif
