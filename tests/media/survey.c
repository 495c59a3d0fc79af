/* survey: a data set with a fault of every kind, all of which are found, and a clean one, in which
 * nothing is. */
#include "tests/media/sets.h"

#include <math.h>

#include "media/json.h"

/* ---- making ---------------------------------------------------------------------------------- */

static void copy_file(place *p, const char *from, const char *to, double share)
{
    char *bytes;
    size_t n;

    assert_int_equal(dg_file_read(&bytes, &n, temporary(p, from), 0, p->d), 0);
    assert_int_equal(dg_file_write(temporary(p, to), bytes, (size_t)((double)n * share), p->d), 0);
    dg_free(bytes);
}

/* Exactly so many faults of each kind, and of the others none. */
typedef struct expected {
    dg_fault_kind kind;
    int n;
    const char *says; /* NULL, or a part of the first one's text or place */
} expected;

static void check_faults(const dg_survey *s, const expected *e, int n)
{
    for (int kind = 0; kind < DG_N_FAULTS; kind++) {
        const expected *x = NULL;

        for (int i = 0; i < n; i++)
            x = (int)e[i].kind == kind ? &e[i] : x;
        for (int i = 0; s->faults.of[kind].n != (x ? x->n : 0) && i < s->faults.of[kind].kept.n;
             i++)
            print_message("# %s: %s %s\n", dg_fault_row_of((dg_fault_kind)kind)->id,
                          s->faults.of[kind].kept.items[i].at.file,
                          s->faults.of[kind].kept.items[i].text);
        if (s->faults.of[kind].n != (x ? x->n : 0))
            fail_msg("%s: %d, expected %d", dg_fault_row_of((dg_fault_kind)kind)->id,
                     (int)s->faults.of[kind].n, x ? x->n : 0);
        if (x && x->says && !strstr(s->faults.of[kind].kept.items[0].text, x->says) &&
            !strstr(s->faults.of[kind].kept.items[0].at.file, x->says))
            fail_msg("%s: \"%s\" does not say \"%s\"", dg_fault_row_of((dg_fault_kind)kind)->id,
                     s->faults.of[kind].kept.items[0].text, x->says);
    }
}

static void has_part(const char *text, const char *part)
{
    if (!strstr(text, part))
        fail_msg("no \"%s\" in\n%s", part, text);
}

/* ---- nothing to find ------------------------------------------------------------------------- */

static void clean(void **state)
{
    place *p = *state;
    dg_survey *s;

    make_clean(p);
    s = survey(p, "clean", true);
    check_faults(s, NULL, 0);
    assert_int_equal(s->layout.form, DG_FORM_COCO);
    assert_int_equal(s->n_splits, 2);
    assert_string_equal(s->splits[0].name, "train");
    assert_int_equal(s->n_images, 5);
    assert_int_equal(s->n_read, 5);
    assert_int_equal(s->n_objects, 4);
    assert_int_equal(s->n_empty, 2);
    assert_int_equal(s->per_class[0], 2);
    assert_int_equal(s->splits[1].per_class[1], 1);
    assert_int_equal(s->most_objects, 2);
    assert_int_equal(s->hist[DG_HIST_OBJECTS].count[0], 2);
    assert_int_equal(s->hist[DG_HIST_OBJECTS].count[1], 2);
    assert_int_equal(s->hist[DG_HIST_OBJECTS].count[2], 1);
    assert_int_equal(s->hist[DG_HIST_SIDE].count[2], 1); /* 20 x 10: 14.1 */
    assert_int_equal(s->hist[DG_HIST_SIDE].count[3], 2);
    assert_int_equal(s->hist[DG_HIST_SIDE].count[4], 1);
    assert_string_equal(s->hist[DG_HIST_IMAGES].label[0], "64 x 48");
    assert_int_equal(s->hist[DG_HIST_IMAGES].count[0], 5);
    assert_true(s->advice.size == 320 && s->advice.max_objects == 10 && s->advice.one_shape);
    assert_true(fabs(dg_survey_imbalance(s) - (1)) <= 0);
    dg_survey_close(&s);
    assert_null(s);
    no_diagnostics(p);
}

/* ---- a fault of every kind ------------------------------------------------------------------- */

static void plant(place *p)
{
    /* clang-format off */
    static const char train[] =
        "{\"images\": [\n"
        IMAGE(1, "1.jpg") ", " IMAGE(2, "2.jpg") ", " IMAGE(3, "by\\\\gone.jpg") ", " IMAGE(4, "text.jpg") ",\n"
        IMAGE(5, "cut.jpg") ", {\"id\": 6, \"file_name\": \"6.jpg\", \"width\": 48, \"height\": 64},\n"
        IMAGE(2, "2.jpg") ", " IMAGE(7, "copy.jpg") "],\n"
        "\"annotations\": [\n"
        BOX(1, 1, 1, 2, 3, 20, 30) ",\n" BOX(2, 1, 2, 2, 3, 20, 10) ",\n"
        BOX(2, 2, 4, 5, 5, 9, 9) ",\n" BOX(3, 1, 99, 5, 5, 9, 9) ",\n" BOX(4, 999, 1, 5, 5, 9, 9) ",\n"
        BOX(5, 2, 1, 5, 5, 0, 9) ",\n" BOX(6, 2, 1, 70, 5, 9, 9) ",\n" BOX(7, 2, 1, 60, 5, 9, 9) ",\n"
        BOX(8, 7, 1, 10, 10, 20, 20) ",\n" BOX(9, 7, 2, 10, 10, 20, 20.5) "],\n"
        "\"categories\": [{\"id\": 1, \"name\": \"nut\"}, {\"id\": 2, \"name\": \"bolt\"},\n"
        "{\"id\": 2, \"name\": \"bolt\"}, {\"id\": 3, \"name\": \"empty\"}, {\"id\": 4, \"name\": \"nail\"}]}";
    static const char val[] =
        "{\"images\": [" IMAGE(1, "leak.jpg") "],\n"
        "\"annotations\": [\n" BOX(1, 1, 1, 1, 1, 9, 9) ", " BOX(2, 1, 4, 20, 1, 9, 9) "],\n"
        "\"categories\": [{\"id\": 1, \"name\": \"nut\"}, {\"id\": 2, \"name\": \"bolt\"},\n"
        "{\"id\": 3, \"name\": \"empty\"}, {\"id\": 4, \"name\": \"screw\"}]}";
    /* clang-format on */

    for (int i = 1; i <= 6; i++)
        write_image(p, dg_printf(p->a, "bad/images/%d.jpg", i), i);
    copy_file(p, "bad/images/1.jpg", "bad/images/leak.jpg", 1);
    copy_file(p, "bad/images/2.jpg", "bad/images/copy.jpg", 1);
    copy_file(p, "bad/images/5.jpg", "bad/images/cut.jpg", 0.9);
    write_text(p, "bad/images/text.jpg", "this is not an image");
    for (int i = 3; i <= 4; i++)
        unlink(temporary(p, dg_printf(p->a, "bad/images/%d.jpg", i)));
    write_text(p, "bad/annotations/train.json", train);
    write_text(p, "bad/annotations/val.json", val);
    write_text(p, "bad/annotations/test.json", "{\"images\": [");
}

/* The twenty kinds of faults, each planted once. */
static const expected planted[] = {
    { DG_FAULT_ANNOTATION, 1, "not valid JSON" },      /* test.json is cut */
    { DG_FAULT_IMAGE_MISSING, 1, "gone.jpg" },         /* listed, and not there */
    { DG_FAULT_IMAGE_UNREADABLE, 1, "text.jpg" },      /* text under an image's name */
    { DG_FAULT_IMAGE_CUT, 1, "cut.jpg" },              /* the last tenth of the file is missing */
    { DG_FAULT_IMAGE_SIZE, 1, "48 x 64" },             /* annotated as portrait, is landscape */
    { DG_FAULT_IMAGE_TWICE, 1, "image with id 2" },    /* two entries of one id */
    { DG_FAULT_ID_TWICE, 1, "the id 2" },              /* two boxes of one id */
    { DG_FAULT_CLASS_TWICE, 1, "category with id 2" }, /* two entries of one class */
    { DG_FAULT_CLASS_UNKNOWN, 1, "category_id 99" },   /* a box of a class that is not listed */
    { DG_FAULT_IMAGE_UNKNOWN, 1, "image_id 999" },     /* a box of an image that is not listed */
    { DG_FAULT_CLASSES_DIFFER, 1, "class 3 is \"screw\"" }, /* val lists another class */
    { DG_FAULT_LEAK, 1, "leak.jpg" },                       /* one content in train and val */
    { DG_FAULT_BOX_EMPTY, 1, "width 0" },                   /* no width */
    { DG_FAULT_BOX_OUTSIDE, 1, "left 70" },                 /* wholly outside */
    { DG_FAULT_BOX_CUT, 1, "left 60" },                     /* partly outside */
    { DG_FAULT_BOX_TWICE, 1, "nut and bolt" },              /* two boxes of one object */
    { DG_FAULT_IMAGE_COPY, 1, "content of" },               /* one content twice in train */
    { DG_FAULT_UNLISTED, 1, "5.jpg" },                      /* a file that nothing lists */
    { DG_FAULT_CLASS_EMPTY, 1, "empty" },                   /* a class without objects */
    { DG_FAULT_CLASS_UNTRAINED, 1, "screw" },               /* a class with objects in val alone */
};

/* A bitmap has no marker at its end: its header tells how long it is. */
static void bitmaps(void **state)
{
    static const expected cut[] = { { DG_FAULT_IMAGE_CUT, 1, "b.bmp" } };
    place *p = *state;
    dg_survey *s;

    write_bitmap(p, "bmp/images/a.bmp", 1);
    write_bitmap(p, "bmp/images/b.bmp", 2);
    write_text(p, "bmp/annotations/train.json",
               "{\"images\": [" IMAGE(1, "a.bmp") ", " IMAGE(
                   2, "b.bmp") "], \"annotations\": [" BOX(1, 1, 1, 2, 3, 20,
                                                           30) ", " BOX(2, 2, 2, 2, 3, 20,
                                                                        30) "], " CLASSES "}");
    s = survey(p, "bmp", false);
    check_faults(s, NULL, 0);
    dg_survey_close(&s);
    copy_file(p, "bmp/images/b.bmp", "bmp/images/b.bmp", 0.9);
    s = survey(p, "bmp", false);
    check_faults(s, cut, 1);
    dg_survey_close(&s);
    no_diagnostics(p);
}

/* Thousands of boxes on one image are not compared pair by pair; two of one object are still found.
 */
static void crowded(void **state)
{
    place *p = *state;
    dg_str json = { 0 };
    dg_survey *s;

    make_clean(p);
    dg_str_add(&json, "{\"images\": [" IMAGE(1, "1.jpg") "],\n\"annotations\": [\n");
    for (int i = 0; i <= 3000; i++) {
        const int k = i < 3000 ? i : 1234; /* the last one is drawn twice */

        dg_str_fmt(&json,
                   "%s{\"id\": %d, \"image_id\": 1, \"category_id\": 1, \"iscrowd\": 0, "
                   "\"area\": 1, \"bbox\": [%d, %g, 0.9, 0.9]}",
                   i ? "," : "", i + 1, k % 60, 0.94 * (k / 60));
    }
    dg_str_add(&json, "],\n" CLASSES "}");
    write_text(p, "clean/annotations/train.json", json.s);
    s = survey(p, "clean", false);
    assert_int_equal(s->faults.of[DG_FAULT_BOX_TWICE].n, 1);
    assert_non_null(strstr(s->faults.of[DG_FAULT_BOX_TWICE].kept.items[0].text, "1235"));
    dg_survey_close(&s);
    dg_str_free(&json);
    dg_diag_clear(p->d);
}

static void every_fault(void **state)
{
    place *p = *state;
    dg_survey *s;

    plant(p);
    for (int decode = 0; decode < 2; decode++) {
        s = survey(p, "bad", decode);
        check_faults(s, planted, sizeof planted / sizeof *planted);
        assert_int_equal(dg_faults_errors(&s->faults), 12);
        assert_int_equal(dg_faults_warnings(&s->faults), 8);
        dg_survey_close(&s);
    }
    no_diagnostics(p);
}

static void faults_of_other_forms(void **state)
{
    static const expected voc[] = {
        { DG_FAULT_ANNOTATION, 2, NULL },
        { DG_FAULT_CLASS_UNKNOWN, 1, "gnat" },
        { DG_FAULT_IMAGE_TWICE, 1, "listed twice" },
        { DG_FAULT_UNLISTED, 2, "without an .xml" },
    };
    static const expected yolo[] = {
        { DG_FAULT_ANNOTATION, 1, "1 number behind the class" },
        { DG_FAULT_IMAGE_UNREADABLE, 1, "c.jpg" },
        { DG_FAULT_CLASS_UNKNOWN, 1, "class 7" },
        { DG_FAULT_IMAGE_TWICE, 1, "listed twice" },
        { DG_FAULT_UNLISTED, 1, "lonely.txt" },
    };
    place *p = *state;
    dg_survey *s;

    for (int i = 0; i < 4; i++)
        write_image(p, dg_printf(p->a, "voc/JPEGImages/%c.jpg", 'a' + i), i);
    write_text(p, "voc/Annotations/a.xml",
               "<annotation><object><name>ant</name>"
               "<bndbox><xmin>1</xmin><ymin>1</ymin><xmax>9</xmax><ymax>9</ymax></bndbox></object>"
               "<object><name>gnat</name>"
               "<bndbox><xmin>1</xmin><ymin>20</ymin><xmax>9</xmax><ymax>29</ymax></bndbox></"
               "object></annotation>");
    write_text(p, "voc/Annotations/b.xml", "<annotation>");
    write_text(p, "voc/classes.txt", "ant\n");
    write_text(p, "voc/ImageSets/Main/train.txt", "a\nb\nmissing\na\n");
    s = survey(p, "voc", false);
    check_faults(s, voc, 4);
    dg_survey_close(&s);

    for (int i = 0; i < 3; i++)
        write_image(p, dg_printf(p->a, "yolo/images/train/%c.jpg", 'a' + i), i);
    write_text(p, "yolo/images/train/c.jpg", "");
    write_text(p, "yolo/labels/train/a.txt", "0 0.5 0.5 0.5 0.5\n7 0.2 0.2 0.1 0.1\n");
    write_text(p, "yolo/labels/train/b.txt", "0 0.5\n");
    write_text(p, "yolo/labels/train/lonely.txt", "");
    write_text(p, "yolo/data.yaml", "train: [images/train, twice.txt]\nnames: [ant]\n");
    write_text(p, "yolo/twice.txt", "images/train/b.jpg\n");
    s = survey(p, "yolo", false);
    check_faults(s, yolo, 5);
    dg_survey_close(&s);
    no_diagnostics(p);
}

/* ---- the four numbers of a box --------------------------------------------------------------- */

/* A COCO set of one image of 64 x 48 with these boxes. */
static void write_boxes(place *p, const double (*v)[4], int n)
{
    dg_str json = { 0 };

    dg_str_add(&json, "{\"images\": [" IMAGE(1, "1.jpg") "],\n\"annotations\": [");
    for (int i = 0; i < n; i++)
        dg_str_fmt(&json,
                   "%s{\"id\": %d, \"image_id\": 1, \"category_id\": %d, "
                   "\"bbox\": [%g, %g, %g, %g]}",
                   i ? ",\n" : "", i + 1, 1 + i % 2, v[i][0], v[i][1], v[i][2], v[i][3]);
    dg_str_add(&json, "],\n" CLASSES "}");
    write_text(p, "boxes/annotations/train.json", json.s);
    dg_str_free(&json);
}

/* The fault of one of the kinds that are about the whole split, or none (says NULL). */
static void check_form(place *p, const char *set, dg_fault_kind kind, const char *says)
{
    static const dg_fault_kind kinds[] = { DG_FAULT_BOX_NORMALIZED, DG_FAULT_BOX_FORM,
                                           DG_FAULT_NO_OBJECTS };
    dg_survey *s = survey(p, set, false);

    for (int i = 0; i < 3; i++) {
        assert_int_equal(s->faults.of[kinds[i]].n, says && kinds[i] == kind);
        if (says && kinds[i] == kind)
            has_part(s->faults.of[kinds[i]].kept.items[0].text, says);
    }
    dg_survey_close(&s);
    no_diagnostics(p);
}

static void other_numbers(void **state)
{
    static const double right[][4] = {
        { 2, 3, 20, 30 }, { 40, 20, 24, 28 }, { 30, 2, 9, 9 }, { 1, 30, 50, 18 }, { 50, 5, 10, 10 }
    };
    static const double shares[][4] = { { .1, .1, .3, .3 }, { .5, .5, .5, .5 } };
    static const double edge[][4] = { { 2, 3, 20, 30 },
                                      { 50, 30, 20, 28 },
                                      { 60, 40, 9, 18 },
                                      { 1, 30, 50, 30 },
                                      { 50, 5, 30, 10 } };
    static const double middle[4] = { 30, 20, 10, 8 };
    double corners[5][4], centres[5][4], crowd[80][4];
    place *p = *state;

    write_image(p, "boxes/images/1.jpg", 1);
    for (int i = 0; i < 5; i++)
        for (int k = 0; k < 2; k++) {
            corners[i][k] = right[i][k];
            corners[i][k + 2] = right[i][k] + right[i][k + 2];
            centres[i][k] = right[i][k] + right[i][k + 2] / 2;
            centres[i][k + 2] = right[i][k + 2];
        }
    write_boxes(p, right, 5);
    check_form(p, "boxes", DG_N_FAULTS, NULL);
    write_boxes(p, shares, 2);
    check_form(p, "boxes", DG_FAULT_BOX_NORMALIZED, "2 of 2 boxes are below 1.5 px");
    write_boxes(p, (const double(*)[4])corners, 5);
    check_form(p, "boxes", DG_FAULT_BOX_FORM, "read as left, top, right, bottom, 0 do");
    write_boxes(p, (const double(*)[4])centres, 5);
    check_form(p, "boxes", DG_FAULT_BOX_FORM, "read as centre x, centre y, width, height, 0 do");
    for (int i = 0; i < 80; i++)
        memcpy(crowd[i], i < 8 ? centres[1] : middle, sizeof middle);
    write_boxes(p, (const double(*)[4])crowd, 80);
    check_form(p, "boxes", DG_FAULT_BOX_FORM, "8 of 80 boxes reach outside their image; read as c");
    write_boxes(p, (const double(*)[4])crowd + 1, 39); /* seven of 39 say little */
    check_form(p, "boxes", DG_N_FAULTS, NULL);
    write_boxes(p, edge, 5); /* many reach outside, and no other form explains it */
    check_form(p, "boxes", DG_N_FAULTS, NULL);
    write_boxes(p, right, 0);
    check_form(p, "boxes", DG_FAULT_NO_OBJECTS, "none of 1 image");

    write_image(p, "corners/images/train/a.jpg", 1);
    write_text(p, "corners/data.yaml", "train: images/train\nnames: [ant]\n");
    write_text(p, "corners/labels/train/a.txt",
               "0 0.1 0.1 0.4 0.5\n0 0.5 0.4 0.9 0.9\n0 0.6 0.1 0.7 0.3\n0 0.2 0.5 0.9 0.8\n");
    check_form(p, "corners", DG_FAULT_BOX_FORM, "write centre x, centre y, width, height");
    write_text(p, "corners/labels/train/a.txt",
               "0 0.25 0.3 0.3 0.4\n0 0.7 0.65 0.4 0.5\n0 0.65 0.2 0.1 0.2\n0 0.5 0.6 0.7 0.3\n");
    check_form(p, "corners", DG_N_FAULTS, NULL);
}

/* ---- what is printed ------------------------------------------------------------------------- */

static void has(const dg_str *text, const char *part)
{
    has_part(text->s, part);
}

static void printed(void **state)
{
    place *p = *state;
    dg_survey *s;
    dg_str text = { 0 }, json = { 0 }, page = { 0 };
    const dg_json *tree;

    plant(p);
    s = survey(p, "bad", false);
    dg_survey_text(&text, s, false);
    has(&text, "error[image-missing] images that are missing: 1");
    has(&text, "bad/images/by\\gone.jpg: there is no such file; folders are parted by /");
    has(&text, "12 errors, 8 warnings");
    assert_null(strchr(text.s, '\033'));
    dg_survey_json(&json, s);
    assert_int_equal(dg_json_parse(&tree, p->a, json.s, json.n, "check.json", p->d), 0);
    assert_int_equal(dg_json_get(tree, "errors")->number, 12);
    assert_int_equal(dg_json_get(tree, "faults")->n, sizeof planted / sizeof *planted);
    assert_int_equal(dg_json_get(tree, "splits")->n, 3);
    assert_int_equal(dg_survey_html(&page, s, p->d), 0);
    has(&page, "data:image/jpeg;base64,/9j/");
    has(&page, "<svg");
    has(&page, "gone.jpg");
    has(&page, "<p>COCO, 5 classes");
    has(&page, "pixels on their longer side (median); of the boxes");
    has(&page, "the most in one image are 2, in ");
    assert_null(strstr(page.s, "http"));
    dg_str_free(&text);
    dg_str_free(&json);
    dg_str_free(&page);
    dg_survey_close(&s);
    no_diagnostics(p);
}

/* Images are as large as they are, within limits; large ones with small boxes keep more. */
static void advised_sizes(void **state)
{
    static const struct {
        int side, box, size; /* of images, of boxes, advised */
    } cases[] = {
        { 64, 14, 320 },  { 320, 11, 320 },  { 500, 12, 512 },
        { 700, 30, 640 }, { 1000, 12, 896 }, { 1000, 8, 1024 },
    };
    place *p = *state;

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const int side = cases[i].side, box = cases[i].box;
        char name[16], file[64], text[400];
        dg_survey *s;

        snprintf(name, sizeof name, "set%zu", i);
        snprintf(file, sizeof file, "%s/annotations/train.json", name);
        snprintf(text, sizeof text,
                 "{\"images\":[{\"id\":1,\"file_name\":\"a.png\",\"width\":%d,\"height\":%d}],"
                 "\"annotations\":[{\"id\":1,\"image_id\":1,\"category_id\":1,\"iscrowd\":0,"
                 "\"bbox\":[0,0,%d,%d],\"area\":%d}],"
                 "\"categories\":[{\"id\":1,\"name\":\"a\"}]}",
                 side, side / 2, box, box, box * box);
        write_text(p, file, text);
        s = survey(p, name, false);
        assert_int_equal(s->advice.size, cases[i].size);
        dg_survey_close(&s);
    }
}

/* What was written is read back whole, and drawn alike. */
static void read_back(void **state)
{
    place *p = *state;
    dg_survey *s, *again;
    dg_str json = { 0 }, twice = { 0 }, page = { 0 }, part = { 0 };

    plant(p);
    s = survey(p, "bad", false);
    dg_survey_json(&json, s);
    write_text(p, "check.json", json.s);
    assert_int_equal(dg_survey_read(&again, temporary(p, "check.json"), p->d), 0);
    dg_survey_json(&twice, again);
    assert_string_equal(json.s, twice.s);
    dg_survey_html_part(&page, s);
    dg_survey_html_part(&part, again);
    assert_string_equal(page.s, part.s);
    has(&part, "gone.jpg");
    assert_null(strstr(part.s, "<img"));
    dg_str_free(&json);
    dg_str_free(&twice);
    dg_str_free(&page);
    dg_str_free(&part);
    dg_survey_close(&s);
    dg_survey_close(&again);
    write_text(
        p, "check.json",
        "{\"splits\":[{\"name\":\"a\",\"images\":-1,\"per_class\":[-1e300,1e300,null,2]}],"
        "\"histograms\":{},"
        "\"classes\":[{\"name\":\"a\"},{\"name\":\"b\"},{\"name\":\"c\"},{\"name\":\"d\"}]}");
    assert_int_equal(dg_survey_read(&again, temporary(p, "check.json"), p->d), 0);
    assert_int_equal(again->splits[0].n_images, 0);
    for (int k = 0; k < 4; k++)
        assert_int_equal(again->splits[0].per_class[k], k == 3 ? 2 : 0);
    dg_survey_close(&again);
    no_diagnostics(p);
    write_text(p, "check.json", "{\"splits\":[]}");
    assert_int_equal(dg_survey_read(&again, temporary(p, "check.json"), p->d), -DG_EINPUT);
    check_only(p->d, "data-survey");
}

/* An index over annotations of somebody else, whose images are mixed up. */
static void lent(void **state)
{
    static const dg_coco_annotation mixed[] = {
        { .id = 1, .image = 1, .w = 8, .h = 8 },
        { .id = 2, .image = 0, .w = 0, .h = 8 },
        { .id = 3, .image = 1, .label = 1, .w = 16, .h = 8 },
    };
    place *p = *state;
    dg_survey_source source = { .name = "train" };
    dg_faults found = { .arena = p->a, .split = -1 };
    dg_survey *s;

    for (int n = 0; n <= 3; n++) {
        dg_coco *c = dg_index_open("somewhere");

        c->n_images = c->n_classes = 2;
        c->images = DG_NEW_N(c->arena, 2, dg_coco_image);
        c->classes = DG_NEW_N(c->arena, 2, dg_coco_class);
        for (int i = 0; i < 2; i++) {
            c->images[i] =
                (dg_coco_image){ .id = i, .file_name = i ? "b.jpg" : "a.jpg", .w = 32, .h = 32 };
            c->classes[i] = (dg_coco_class){ i, i ? "nut" : "bolt" };
        }
        assert_true(dg_index_over(c, mixed, n));
        assert_int_equal(c->lent, n < 2);
        dg_fault_note(&found, DG_FAULT_IMAGE_UNREADABLE, 0, (dg_where){ .file = "a.jpg" },
                      "no image");
        source.index = c;
        source.found = &found;
        s = dg_survey_of("loader.own", "somewhere", &source, 1);
        assert_int_equal(s->n_objects, n > 0 ? n - (n > 1) : 0);
        assert_int_equal(s->per_class[0], n > 0);
        assert_int_equal(s->per_class[1], n > 2);
        assert_int_equal(s->faults.of[DG_FAULT_BOX_EMPTY].n, n > 1);
        assert_int_equal(s->faults.of[DG_FAULT_IMAGE_UNREADABLE].n, n + 1);
        assert_int_equal(s->hist[DG_HIST_ASPECT].count[7], n > 2);
        dg_survey_close(&s);
    }
}

/* ---- which form ------------------------------------------------------------------------------ */

static void check_layout(place *p, const char *path, const char *wanted, dg_form form,
                         const char *splits, int others)
{
    dg_layout l;
    dg_str names = { 0 };

    if (dg_layout_find(&l, p->a, temporary(p, path), wanted, p->d) < 0)
        fail_msg("%s: %s", path, dg_diag_text(p->d));
    for (int i = 0; i < l.splits.n; i++)
        dg_str_fmt(&names, "%s%s", i ? " " : "", l.splits.items[i].name);
    assert_string_equal(names.s, splits);
    assert_int_equal(l.form, form);
    assert_int_equal(l.others.n, others);
    dg_str_free(&names);
}

static void layouts(void **state)
{
    place *p = *state;
    dg_layout l;

    write_text(p, "coco/annotations/captions_train2017.json", "{}");
    write_text(p, "coco/annotations/instances_val2017.json", "{}");
    write_text(p, "coco/annotations/instances_train2017.json", "{}");
    check_layout(p, "coco", NULL, DG_FORM_COCO, "train2017 val2017", 1);
    check_layout(p, "coco", "val2017", DG_FORM_COCO, "val2017", 1);
    check_layout(p, "coco", "captions_train2017", DG_FORM_COCO, "captions_train2017", 0);
    check_layout(p, "coco/annotations/captions_train2017.json", NULL, DG_FORM_COCO,
                 "captions_train2017", 0);
    write_text(p, "two/annotations/train.json", "{}");
    write_text(p, "two/annotations/king_train.json", "{}");
    write_text(p, "two/annotations/king_test.json", "{}");
    check_layout(p, "two", NULL, DG_FORM_COCO, "train", 2);
    check_layout(p, "two", "king_test,king_train", DG_FORM_COCO, "king_train king_test", 0);
    write_text(p, "robo/train/_annotations.coco.json", "{}");
    write_text(p, "robo/valid/_annotations.coco.json", "{}");
    check_layout(p, "robo/", NULL, DG_FORM_COCO, "train valid", 0);
    write_text(p, "voc/Annotations/a.xml", "");
    check_layout(p, "voc", NULL, DG_FORM_VOC, "all", 0);
    write_text(p, "voc/ImageSets/Main/val.txt", "");
    write_text(p, "voc/ImageSets/Main/trainval.txt", "");
    check_layout(p, "voc", NULL, DG_FORM_VOC, "trainval val", 0);
    write_text(p, "voc/ImageSets/Main/train.txt", "");
    check_layout(p, "voc", NULL, DG_FORM_VOC, "train val", 0);
    check_layout(p, "voc", "trainval", DG_FORM_VOC, "trainval", 0);
    write_text(p, "yolo/data.yml", "val: images/val\ntrain: images/train\nnames: [a]\n");
    check_layout(p, "yolo", NULL, DG_FORM_YOLO, "train val", 0);
    check_layout(p, "yolo/data.yml", NULL, DG_FORM_YOLO, "train val", 0);
    write_text(p, "plain/a/b.jpg", "");
    check_layout(p, "plain", NULL, DG_FORM_PLAIN, "all", 0);
    no_diagnostics(p);

    write_text(p, "other/notes.txt", "");
    assert_int_equal(dg_layout_find(&l, p->a, temporary(p, "other"), NULL, p->d), -DG_EINPUT);
    check_says(p, "data-form", "no data set");
    assert_int_equal(dg_layout_find(&l, p->a, temporary(p, "other/notes.txt"), NULL, p->d),
                     -DG_EINPUT);
    check_says(p, "data-form", "expected a folder");
    assert_int_equal(dg_layout_find(&l, p->a, temporary(p, "none"), NULL, p->d), -DG_EIO);
    check_says(p, "data-missing", "no such");
    assert_int_equal(dg_layout_find(&l, p->a, temporary(p, "voc"), "train,vall", p->d), -DG_EINPUT);
    check_says(p, "data-split", "train,vall");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(clean, set_up, tear_down),
        cmocka_unit_test_setup_teardown(crowded, set_up, tear_down),
        cmocka_unit_test_setup_teardown(bitmaps, set_up, tear_down),
        cmocka_unit_test_setup_teardown(every_fault, set_up, tear_down),
        cmocka_unit_test_setup_teardown(faults_of_other_forms, set_up, tear_down),
        cmocka_unit_test_setup_teardown(other_numbers, set_up, tear_down),
        cmocka_unit_test_setup_teardown(printed, set_up, tear_down),
        cmocka_unit_test_setup_teardown(advised_sizes, set_up, tear_down),
        cmocka_unit_test_setup_teardown(read_back, set_up, tear_down),
        cmocka_unit_test_setup_teardown(lent, set_up, tear_down),
        cmocka_unit_test_setup_teardown(layouts, set_up, tear_down),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
