/* convert: data sets in one form, written in another and read back: boxes, names, and what is
 * refused. */
#include "tests/media/sets.h"

#include <math.h>

#include "media/convert.h"

static void convert(place *p, const char *from, const char *to, dg_form form, dg_converted *said)
{
    const dg_convert_options o = { .to = form, .copy = form == DG_FORM_VOC };

    if (dg_convert(said, temporary(p, from), temporary(p, to), &o, p->d) < 0)
        fail_msg("%s", dg_diag_text(p->d));
}

static dg_coco *open_split(place *p, const char *path, int split)
{
    dg_layout l;
    dg_coco *c = NULL;

    assert_int_equal(dg_layout_find(&l, p->a, temporary(p, path), NULL, p->d), 0);
    if (dg_layout_open(&c, &l, split, NULL, p->d) < 0)
        fail_msg("%s", dg_diag_text(p->d));
    return c;
}

static int image_named(const dg_coco *c, const char *name)
{
    for (int i = 0; i < dg_coco_n_images(c); i++)
        if (strcmp(dg_path_name(dg_coco_image_at(c, i)->file_name), dg_path_name(name)) == 0)
            return i;
    fail_msg("no %s", name);
    return -1;
}

/* The same images by name, and the same boxes, classes by name; crowds where they are kept. */
static void check_same(const dg_coco *a, const dg_coco *b, bool crowds)
{
    assert_int_equal(dg_coco_n_images(a), dg_coco_n_images(b));
    assert_int_equal(dg_coco_n_classes(a), dg_coco_n_classes(b));
    for (int i = 0; i < dg_coco_n_images(a); i++) {
        const dg_coco_image *x = dg_coco_image_at(a, i),
                            *y = dg_coco_image_at(b, image_named(b, x->file_name));
        int k = 0;

        assert_int_equal(x->w, y->w);
        assert_int_equal(x->h, y->h);
        for (int j = 0; j < x->n; j++) {
            const dg_coco_annotation *p = dg_coco_annotation_at(a, x->first + j), *q;

            if (p->crowd && !crowds)
                continue;
            assert_true(k < y->n);
            q = dg_coco_annotation_at(b, y->first + k++);
            assert_string_equal(dg_coco_class_at(a, p->label)->name,
                                dg_coco_class_at(b, q->label)->name);
            assert_memory_equal(&p->x, &q->x, sizeof p->x); /* to the bit */
            assert_memory_equal(&p->y, &q->y, sizeof p->y);
            assert_memory_equal(&p->w, &q->w, sizeof p->w);
            assert_memory_equal(&p->h, &q->h, sizeof p->h);
            assert_int_equal(p->crowd, q->crowd);
        }
        assert_int_equal(k, y->n);
    }
}

static void there_and_back(void **state)
{
    place *p = *state;
    dg_converted said;
    dg_survey *s;

    make_clean(p);
    write_text(p,
               "clean/annotations/val.json", /* with a crowd, and an area that is not its box's */
                                             /* clang-format off */
               "{\"images\": [" IMAGE(7, "4.png") ", " IMAGE(9, "5.jpg") "],\n\"annotations\": [\n" BOX(1, 7, 2, 0, 0, 64, 48)
                   ",\n{\"id\": 2, \"image_id\": 7, \"category_id\": 1, \"bbox\": [3.3, 4.4, 5.123456789, 6],\n"
               " \"area\": 3, \"iscrowd\": 1}"
                   "],\n" CLASSES "}");
                                             /* clang-format on */
    convert(p, "clean", "voc", DG_FORM_VOC, &said);
    assert_true(said.n_splits == 2 && said.n_images == 5 && said.n_objects == 5 &&
                said.n_areas == 1 && said.n_crowd == 0);
    convert(p, "voc", "again", DG_FORM_COCO, &said);
    convert(p, "clean", "yolo", DG_FORM_YOLO, &said);
    assert_true(said.n_objects == 4 && said.n_crowd == 1 && said.n_dropped == 0 && said.n_cut == 0);
    convert(p, "yolo", "once_more", DG_FORM_COCO, &said);
    convert(p, "yolo", "voc_of_yolo", DG_FORM_VOC, &said);
    for (int split = 0; split < 2; split++) {
        static const char *const sets[] = { "voc", "again", "yolo", "once_more", "voc_of_yolo" };
        dg_coco *first = open_split(p, "clean", split);

        for (size_t i = 0; i < sizeof sets / sizeof *sets; i++) {
            dg_coco *c = open_split(p, sets[i], split);

            check_same(first, c, i < 2);
            dg_coco_close(&c);
        }
        dg_coco_close(&first);
    }
    for (int i = 0; i < 3; i++) {
        s = survey(p, (const char *const[]){ "voc", "yolo", "again" }[i], false);
        /* whole, with its images, and nothing besides */
        assert_true(dg_faults_errors(&s->faults) + dg_faults_warnings(&s->faults) == 0);
        dg_survey_close(&s);
    }
    no_diagnostics(p);
}

static void names_and_refusals(void **state)
{
    const dg_convert_options voc = { .to = DG_FORM_VOC };
    place *p = *state;
    dg_converted said;
    dg_coco *c;

    /* two images of one name, a name that must be escaped, and what YOLO cannot hold */
    write_image(p, "names/images/x/1.jpg", 1);
    write_image(p, "names/images/y/1.jpg", 2);
    /* clang-format off */
    write_text(p, "names/annotations/train.json",
               "{\"images\": [" IMAGE(1, "x/1.jpg") ", " IMAGE(2, "y/1.jpg") "],\n"
               "\"annotations\": [\n" BOX(1, 1, 1, 60, 3, 20, 30)
                   ",\n" BOX(2, 2, 1, 80, 3, 2, 2) ",\n" BOX(3, 2, 1, 8, 3, 0, 2)
                   "],\n\"categories\": [{\"id\": 1, \"name\": \"a: \\\"<b>\\\" & c\"}]}");
    /* clang-format on */
    convert(p, "names", "out/voc", DG_FORM_VOC, &said);
    assert_true(said.n_renamed == 1 && said.n_objects == 3);
    c = open_split(p, "out/voc", 0);
    assert_string_equal(dg_coco_class_at(c, 0)->name, "a: \"<b>\" & c");
    assert_string_equal(dg_coco_image_at(c, 1)->file_name, "JPEGImages/1_2.jpg");
    dg_coco_close(&c);
    convert(p, "names", "out/yolo", DG_FORM_YOLO, &said);
    assert_true(said.n_cut == 1 && said.n_dropped == 2 && said.n_objects == 1);
    c = open_split(p, "out/yolo", 0);
    assert_string_equal(dg_coco_class_at(c, 0)->name, "a: \"<b>\" & c");
    assert_true(fabs(dg_coco_annotation_at(c, 0)->w - 4) <= 1e-9);
    dg_coco_close(&c);
    no_diagnostics(p);

    assert_int_equal(dg_convert(&said, temporary(p, "names"), temporary(p, "out/voc"), &voc, p->d),
                     -DG_EINPUT);
    check_says(p, "dir-exists", "there already");
    unlink(temporary(p, "names/images/y/1.jpg"));
    assert_int_equal(dg_convert(&said, temporary(p, "names"), temporary(p, "out/half"), &voc, p->d),
                     -DG_EIO);
    check_says(p, "file-open", "cannot open");
    assert_false(dg_exists(temporary(p, "out/half")));
    assert_false(dg_exists(dg_printf(p->a, "%s/out/half.tmp-%ld", p->folder, (long)getpid())));
    /* clang-format off */
    write_text(p, "names/annotations/val.json",
               "{\"images\": [" IMAGE(1, "x/1.jpg") "], \"annotations\": [], " CLASSES "}");
    /* clang-format on */
    assert_int_equal(dg_convert(&said, temporary(p, "names"), temporary(p, "out/half"), &voc, p->d),
                     -DG_EINPUT);
    check_says(p, "convert-classes", "not those of");
    write_image(p, "plain/1.jpg", 1);
    assert_int_equal(dg_convert(&said, temporary(p, "plain"), temporary(p, "out/half"), &voc, p->d),
                     -DG_EINPUT);
    check_says(p, "convert-plain", "no labels");
}

/* Images whose names do not tell their kind get the ending of it. */
static void endings(void **state)
{
    place *p = *state;
    dg_converted said;
    dg_coco *c;

    write_bitmap(p, "kinds/images/a", 0);
    write_image(p, "kinds/images/b.jpg", 1);
    assert_int_equal(rename(temporary(p, "kinds/images/b.jpg"), temporary(p, "kinds/images/b")), 0);
    write_image(p, "kinds/images/c.png", 2);
    assert_int_equal(rename(temporary(p, "kinds/images/c.png"), temporary(p, "kinds/images/c")), 0);
    /* clang-format off */
    write_text(p, "kinds/annotations/train.json",
               "{\"images\": [" IMAGE(1, "a") ", " IMAGE(2, "b") ", " IMAGE(3, "c") "],\n"
               "\"annotations\": [" BOX(1, 1, 1, 2, 3, 20, 30) "], " CLASSES "}");
    /* clang-format on */
    convert(p, "kinds", "out/voc", DG_FORM_VOC, &said);
    c = open_split(p, "out/voc", 0);
    assert_string_equal(dg_coco_image_at(c, 0)->file_name, "JPEGImages/a.bmp");
    assert_string_equal(dg_coco_image_at(c, 1)->file_name, "JPEGImages/b.jpg");
    assert_string_equal(dg_coco_image_at(c, 2)->file_name, "JPEGImages/c.png");
    dg_coco_close(&c);
    no_diagnostics(p);
}

/* What a form cannot hold is refused before anything is made; splits of one purpose are one key of
 * data.yaml. */
static void refused_beforehand(void **state)
{
    static const struct {
        const char *train, *id, *says;
        dg_form to;
        /* clang-format off */
    } bad[] = {
        { "{\"images\": [" IMAGE(1, "1.jpg") ", " IMAGE(2, "1.jpg") "], \"annotations\": [], " CLASSES "}", "convert-twice",
          "1.jpg is listed twice", DG_FORM_COCO },
        { "{\"images\": [" IMAGE(1, "1.jpg") "], \"annotations\": [], " CLASSES "}", "convert-twice", "other objects",
          DG_FORM_VOC },
        { "{\"images\": [" IMAGE(1, "1.jpg")
          "], \"annotations\": [], \"categories\": [{\"id\": 1, \"name\": \"a\\u0001\"}]}", "convert-class",
          "\"a\\u0001\"", DG_FORM_VOC },
        { "{\"images\": [" IMAGE(1, "1.jpg")
          "], \"annotations\": [], \"categories\": [{\"id\": 1, \"name\": \"a \"}]}", "convert-class", "\"a \"",
          DG_FORM_VOC },
        { "{\"images\": [" IMAGE(1, "1.jpg")
          "], \"annotations\": [], \"categories\": [{\"id\": 1, \"name\": \"a\"}, {\"id\": 2, \"name\": \"a\"}]}", "convert-class",
          "two classes have the name", DG_FORM_YOLO },
        { "{\"images\": [" IMAGE(1, "../../secret.txt") "], \"annotations\": [], " CLASSES "}", "image-unknown", "JPEG",
          DG_FORM_COCO },
        /* clang-format on */
    };
    place *p = *state;
    dg_converted said;
    dg_coco *c;

    write_image(p, "bad/images/1.jpg", 1);
    write_text(p, "secret.txt", "secret");
    /* clang-format off */
    write_text(p, "bad/annotations/val.json",
               "{\"images\": [" IMAGE(1, "1.jpg") "], \"annotations\": [" BOX(1, 1, 1, 2, 3, 20, 30) "], " CLASSES "}");
    /* clang-format on */
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        const dg_convert_options o = { .to = bad[i].to,
                                       .copy = true,
                                       .splits = i == 1 ? NULL : "train" };

        write_text(p, "bad/annotations/train.json", bad[i].train);
        assert_int_equal(dg_convert(&said, temporary(p, "bad"), temporary(p, "new"), &o, p->d),
                         -DG_EINPUT);
        check_says(p, bad[i].id, bad[i].says);
    }
    write_image(p, "years/images/a b.jpg", 1);
    write_image(p, "years/images/2.jpg", 2);
    /* clang-format off */
    write_text(p, "years/annotations/train2014.json",
               "{\"images\": [" IMAGE(1, "a b.jpg") "], \"annotations\": [], " CLASSES "}");
    write_text(p, "years/annotations/train2017.json", "{\"images\": [" IMAGE(1, "2.jpg") "], \"annotations\": [], " CLASSES "}");
    /* clang-format on */
    convert(p, "years", "years_yolo", DG_FORM_YOLO, &said);
    c = open_split(p, "years_yolo", 0);
    assert_int_equal(dg_coco_n_images(c), 2);
    dg_coco_close(&c);
    convert(p, "years", "years_voc", DG_FORM_VOC, &said);
    assert_int_equal(said.n_renamed, 1);
    c = open_split(p, "years_voc", 0);
    assert_string_equal(dg_coco_image_at(c, 0)->file_name, "JPEGImages/a_b.jpg");
    dg_coco_close(&c);
    /* clang-format off */
    write_text(p, "years/annotations/other.json", "{\"images\": [" IMAGE(1, "2.jpg") "], \"annotations\": [], " CLASSES "}");
    /* clang-format on */

    const dg_convert_options two = { .to = DG_FORM_YOLO, .splits = "train2014,other" };

    assert_int_equal(dg_convert(&said, temporary(p, "years"), temporary(p, "new"), &two, p->d),
                     -DG_EINPUT);
    check_says(p, "convert-split", "\"other\" is none of them");
    assert_false(dg_exists(temporary(p, "new")));

    /* a file in the root has no folder's name to take */
    write_image(p, "flat/1.jpg", 1);
    /* clang-format off */
    write_text(p, "flat/_annotations.coco.json", "{\"images\": [" IMAGE(1, "1.jpg") "], \"annotations\": [], " CLASSES "}");
    /* clang-format on */
    convert(p, "flat", "flat_voc", DG_FORM_VOC, &said);
    assert_true(dg_exists(temporary(p, "flat_voc/ImageSets/Main/train.txt")));
    no_diagnostics(p);
}

/* Whatever files are called, the new folder holds them all, and nothing is written outside of it.
 */
static void wild_names(void **state)
{
    static const dg_form forms[] = { DG_FORM_COCO, DG_FORM_VOC, DG_FORM_YOLO };
    place *p = *state;
    char *name = dg_alloc(p->a, 260);
    dg_converted said;
    dg_listing beside;

    write_image(p, "far/1.jpg", 1);
    write_image(p, "wild/images/.hidden.png", 2);
    write_image(p, "wild/images/it's \"b\" & c.JPG", 3);
    write_image(p, "wild/images/\xC3\xBC.png", 4);
    write_image(p, "other.png", 5);
    assert_int_equal(rename(temporary(p, "other.png"), temporary(p, "wild/images/none")), 0);
    /* clang-format off */
    write_text(p, "wild/annotations/train.json",
               dg_printf(p->a,
                         "{\"images\": [" IMAGE(1, "../../far/1.jpg") ", {\"id\": 2, \"file_name\": \"%s\", \"width\": 64, \"height\": 48}, "
                         IMAGE(3, ".hidden.png") ", " IMAGE(4, "it's \\\"b\\\" & c.JPG") ", " IMAGE(5, "\xC3\xBC.png") ", " IMAGE(6, "none")
                         "], \"annotations\": [" BOX(1, 1, 1, 2, 3, 20, 30) ", " BOX(2, 6, 2, 2, 3, 20, 30) "], " CLASSES "}",
                         temporary(p, "far/../far/1.jpg")));
    /* clang-format on */
    for (int i = 0; i < 3; i++) {
        const char *to = dg_printf(p->a, "new/%d", i);
        dg_coco *c;

        convert(p, "wild", to, forms[i], &said);
        /* of the two 1.jpg one, .hidden.png, none; VOC: the one with blanks */
        assert_true(said.n_renamed == 3 + (i == 1));
        c = open_split(p, to, 0);
        assert_int_equal(dg_coco_n_images(c), 6);
        assert_int_equal(dg_coco_n_annotations(c), 2);
        for (int k = 0; k < 6; k++)
            assert_int_equal(dg_coco_probe(c, k, dg_coco_folder(c), p->d), 0);
        dg_coco_close(&c);
    }
    assert_int_equal(dg_dir_list(&beside, NULL, p->a, temporary(p, "far"), p->d), 0);
    assert_int_equal(beside.n, 1);
    assert_int_equal(dg_dir_list(NULL, &beside, p->a, temporary(p, "new"), p->d), 0);
    assert_int_equal(beside.n, 3);
    no_diagnostics(p);

    /* a second one of a name as long as a file system takes */
    const dg_convert_options coco = { .to = DG_FORM_COCO };

    memset(name, 'n', 250);
    for (int i = 0; i < 2; i++) {
        const char *folder = dg_printf(p->a, "long/images/%c", 'a' + i);

        write_image(p, dg_path_join(p->a, folder, "1.png"), i);
        assert_int_equal(rename(temporary(p, dg_path_join(p->a, folder, "1.png")),
                                temporary(p, dg_printf(p->a, "%s/%s.png", folder, name))),
                         0);
    }
    write_text(
        p, "long/annotations/train.json",
        dg_printf(p->a,
                  "{\"images\": [{\"id\": 1, \"file_name\": \"a/%s.png\", \"width\": 64, "
                  "\"height\": 48}, {\"id\": 2, \"file_name\": "
                  "\"b/%s.png\", \"width\": 64, \"height\": 48}], \"annotations\": [], " CLASSES
                  "}",
                  name, name));
    assert_int_equal(dg_convert(&said, temporary(p, "long"), temporary(p, "new/long"), &coco, p->d),
                     -DG_EIO);
    check_says(p, "convert-link", "name too long");
    /* clang-format off */
    write_text(p, "long/annotations/train.json", "{\"images\": [" IMAGE(1, "..") "], \"annotations\": [], " CLASSES "}");
    /* clang-format on */
    assert_int_equal(dg_convert(&said, temporary(p, "long"), temporary(p, "new/long"), &coco, p->d),
                     -DG_EIO);
    check_says(p, "file-kind", "this is a folder");
    assert_false(dg_exists(temporary(p, "new/long")));
}

/* The same images are held out in every form, each image is in one of the two parts, and its boxes
 * are with it. */
static void held_out(void **state)
{
    static const char *const sets[] = { "many", "many_voc", "many_yolo" };
    place *p = *state;
    dg_converted said;
    dg_coco *c, *first[2];
    dg_str images = { 0 }, boxes = { 0 };

    for (int i = 1; i <= 25; i++) {
        write_image(p, dg_printf(p->a, "many/images/%02d.png", i), i);
        dg_str_fmt(&images,
                   "%s{\"id\": %d, \"file_name\": \"%02d.png\", \"width\": 64, \"height\": 48}",
                   i > 1 ? ", " : "", i, i);
        for (int k = 0; k < i % 3; k++)
            dg_str_fmt(
                &boxes,
                "%s{\"id\": %d, \"image_id\": %d, \"category_id\": 1, \"bbox\": [%d, %d, 8, 9]}",
                boxes.n ? ", " : "", 100 * k + i, i, i, 10 * k);
    }
    write_text(p, "many/annotations/train.json",
               dg_printf(p->a, "{\"images\": [%s], \"annotations\": [%s], " CLASSES "}", images.s,
                         boxes.s));
    convert(p, "many", "many_voc", DG_FORM_VOC, &said);
    convert(p, "many", "many_yolo", DG_FORM_YOLO, &said);
    for (int i = 0; i < 3; i++)
        for (int held = 0; held < 2; held++) {
            c = open_split(p, sets[i], 0);
            assert_int_equal(dg_coco_hold_out(c, 0.2, held, p->d), 0);
            assert_int_equal(dg_coco_n_images(c), held ? 5 : 20);
            if (i == 0)
                first[held] = c;
            for (int k = 0; k < dg_coco_n_images(c); k++) {
                const dg_coco_image *im = dg_coco_image_at(c, k),
                                    *x = dg_coco_image_at(first[held], k);
                const int number = atoi(dg_path_name(im->file_name));

                assert_string_equal(dg_path_name(im->file_name), dg_path_name(x->file_name));
                assert_int_equal(im->n, number % 3);
                for (int j = 0; j < im->n; j++) {
                    assert_int_equal(dg_coco_annotation_at(c, im->first + j)->image, k);
                    assert_int_equal((int)dg_coco_annotation_at(c, im->first + j)->x, number);
                }
            }
            if (i)
                dg_coco_close(&c);
        }
    assert_int_equal(dg_coco_n_annotations(first[0]) + dg_coco_n_annotations(first[1]), 25);
    assert_int_equal(dg_coco_report(first[0])->n_objects, dg_coco_n_annotations(first[0]));
    for (int i = 0; i < 5; i++)
        for (int k = 0; k < 20; k++)
            assert_true(dg_coco_image_at(first[1], i)->id != dg_coco_image_at(first[0], k)->id);
    assert_int_equal(dg_coco_hold_out(first[1], 0.01, true, p->d), 0); /* at least one */
    assert_int_equal(dg_coco_n_images(first[1]), 1);
    assert_int_equal(dg_coco_hold_out(first[1], 0.5, true, p->d), -DG_EINPUT);
    check_says(p, "data-hold-out", "of 1 image leaves none");
    dg_coco_close(&first[0]);
    dg_coco_close(&first[1]);
    dg_str_free(&images);
    dg_str_free(&boxes);
    no_diagnostics(p);
}

/* A data set of 40 images: a nut in each, a bolt in the first ten, and in the last ten, which are
 * copies of the first. */
static void make_copies(place *p)
{
    dg_str images = { 0 }, boxes = { 0 };

    for (int i = 1; i <= 40; i++) {
        write_image(p, dg_printf(p->a, "copies/images/%02d.png", i), i > 30 ? i - 30 : i);
        dg_str_fmt(&images,
                   "%s{\"id\": %d, \"file_name\": \"%02d.png\", \"width\": 64, \"height\": 48}",
                   i > 1 ? ", " : "", i, i);
        for (int k = 1; k <= (i <= 10 || i > 30 ? 2 : 1); k++)
            dg_str_fmt(
                &boxes,
                "%s{\"id\": %d, \"image_id\": %d, \"category_id\": %d, \"bbox\": [%d, 0, 8, 9]}",
                boxes.n ? ", " : "", 100 * k + i, i, k, i);
    }
    write_text(p, "copies/annotations/all.json",
               dg_printf(p->a, "{\"images\": [%s], \"annotations\": [%s], " CLASSES "}", images.s,
                         boxes.s));
    dg_str_free(&images);
    dg_str_free(&boxes);
}

/* Both parts have every class's share, and no file of one is in the other. */
static void held_out_fairly(void **state)
{
    const dg_convert_options o = { .to = DG_FORM_YOLO, .hold_out = 0.2 };
    place *p = *state;
    dg_converted said;
    dg_coco *part[2];
    dg_survey *s;

    make_copies(p);
    for (int held = 0; held < 2; held++) {
        part[held] = open_split(p, "copies", 0);
        assert_int_equal(dg_coco_hold_out(part[held], 0.2, held, p->d), 0);
        assert_int_equal(dg_coco_n_images(part[held]), held ? 8 : 32);
        assert_int_equal(dg_coco_report(part[held])->per_class[0], held ? 8 : 32);
        assert_int_equal(dg_coco_report(part[held])->per_class[1], held ? 4 : 16);
    }
    for (int i = 0; i < 8; i++)
        for (int k = 0; k < 32; k++) {
            const int a = (int)dg_coco_image_at(part[1], i)->id,
                      b = (int)dg_coco_image_at(part[0], k)->id;

            assert_true(a != b && a != b + 30 && b != a + 30);
        }
    dg_coco_close(&part[0]);
    dg_coco_close(&part[1]);
    /* the same parts as splits on disk; data check finds no leak */
    if (dg_convert(&said, temporary(p, "copies"), temporary(p, "parts"), &o, p->d) < 0)
        fail_msg("%s", dg_diag_text(p->d));
    assert_true(said.n_splits == 2 && said.has_val && said.n_images == 40);
    s = survey(p, "parts", false);
    assert_int_equal(s->faults.of[DG_FAULT_LEAK].n, 0);
    assert_int_equal(s->splits[1].n_images, 8);
    dg_survey_close(&s);
    assert_int_equal(dg_convert(&said, temporary(p, "parts"), temporary(p, "again"), &o, p->d),
                     -DG_EINPUT);
    check_says(p, "convert-hold-out", "2 splits already: train, val");
}

/* A class with all its objects in one image is trained on; images that are all the same cannot be
 * parted. */
static void held_out_edges(void **state)
{
    place *p = *state;
    dg_coco *c;

    for (int i = 1; i <= 3; i++)
        write_image(p, dg_printf(p->a, "few/images/%d.png", i), i);
    for (int i = 1; i <= 2; i++)
        write_image(p, dg_printf(p->a, "same/images/%d.png", i), 1);
    /* clang-format off */
    write_text(p, "few/annotations/all.json",
               "{\"images\": [" IMAGE(1, "1.png") ", " IMAGE(2, "2.png") ", " IMAGE(3, "3.png")
               "], \"annotations\": [" BOX(1, 1, 1, 0, 0, 9, 9) ", " BOX(2, 2, 1, 0, 0, 9, 9) ", "
               BOX(3, 3, 1, 0, 0, 9, 9) ", " BOX(4, 2, 2, 0, 0, 9, 9) ", " BOX(5, 2, 2, 9, 9, 9, 9)
               "], " CLASSES "}");
    write_text(p, "same/annotations/all.json",
               "{\"images\": [" IMAGE(1, "1.png") ", " IMAGE(2, "2.png")
               "], \"annotations\": [" BOX(1, 1, 1, 0, 0, 9, 9) "], " CLASSES "}");
    /* clang-format on */
    for (int held = 1; held >= 0; held--) {
        c = open_split(p, "few", 0);
        assert_int_equal(dg_coco_hold_out(c, 0.3, held, p->d), 0);
        assert_int_equal(dg_coco_n_images(c), held ? 1 : 2);
        assert_int_equal(dg_coco_report(c)->per_class[1], held ? 0 : 2);
        dg_coco_close(&c);
    }
    c = open_split(p, "same", 0);
    assert_int_equal(dg_coco_hold_out(c, 0.5, true, p->d), -DG_EINPUT);
    check_says(p, "data-hold-out", "the same content");
    dg_coco_close(&c);
}

/* Sizes come from the headers of images, and ids may be texts, the same in all lists. */
static void unsized_and_text_ids(void **state)
{
    place *p = *state;
    const dg_data_report *report;
    dg_coco *c, *d;
    dg_survey *s;

    write_image(p, "text/images/a.png", 1);
    write_image(p, "text/images/b.png", 2);
    write_text(
        p, "text/annotations/train.json",
        "{\"images\": [{\"id\": \"a.png\", \"file_name\": \"a.png\"},"
        "{\"id\": \"b.png\", \"file_name\": \"b.png\", \"width\": 64, \"height\": 48}],"
        "\"annotations\": [{\"id\": \"x\", \"image_id\": \"a.png\", \"category_id\": \"7\","
        " \"bbox\": [60, 40, 10, 10]}, {\"id\": \"y\", \"image_id\": \"b.png\","
        " \"category_id\": 7, \"bbox\": [1, 2, 3, 4]}],"
        "\"categories\": [{\"id\": 7, \"name\": \"nut\"}, {\"id\": \"8\", \"name\": \"NUT\"}]}");
    c = open_split(p, "text", 0);
    report = dg_coco_report(c);
    assert_true(report->n_images == 2 && report->n_objects == 2 && report->n_cut == 1);
    for (int i = 0; i < 2; i++) {
        const dg_coco_image *im = dg_coco_image_at(c, i);

        assert_true(im->w == 64 && im->h == 48 && im->n == 1);
        assert_true(im->id >= 1LL << 52 && im->id < 1LL << 53);
        assert_int_equal(dg_coco_find_image(c, im->id), i);
    }
    assert_int_equal(dg_coco_find_class(c, 8), 1);
    /* what the loader opens is the same */
    assert_int_equal(dg_coco_open_in(&d, dg_coco_path(c), dg_coco_folder(c), false, false, p->d),
                     0);
    assert_int_equal(dg_coco_image_at(d, 1)->w, 64);
    dg_coco_close(&d);
    dg_coco_close(&c);
    s = survey(p, "text", false);
    assert_int_equal(dg_faults_errors(&s->faults), 0);
    assert_int_equal(s->faults.of[DG_FAULT_CLASS_ALIKE].n, 1);
    dg_survey_close(&s);
    assert_int_equal(remove(temporary(p, "text/images/a.png")), 0);
    assert_int_equal(dg_coco_open_in(&d, temporary(p, "text/annotations/train.json"),
                                     temporary(p, "text/images"), false, false, p->d),
                     -DG_EIO);
    assert_int_equal(dg_coco_open_in(&d, temporary(p, "text/annotations/train.json"),
                                     temporary(p, "text/images"), true, false, p->d),
                     0);
    dg_coco_close(&d);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(there_and_back, set_up, tear_down),
        cmocka_unit_test_setup_teardown(endings, set_up, tear_down),
        cmocka_unit_test_setup_teardown(names_and_refusals, set_up, tear_down),
        cmocka_unit_test_setup_teardown(refused_beforehand, set_up, tear_down),
        cmocka_unit_test_setup_teardown(wild_names, set_up, tear_down),
        cmocka_unit_test_setup_teardown(held_out, set_up, tear_down),
        cmocka_unit_test_setup_teardown(unsized_and_text_ids, set_up, tear_down),
        cmocka_unit_test_setup_teardown(held_out_fairly, set_up, tear_down),
        cmocka_unit_test_setup_teardown(held_out_edges, set_up, tear_down),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
