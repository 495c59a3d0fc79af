/* marks: VOC in UTF-16; LabelMe, CVAT and CSV: the same two images and three boxes in every form
 * and arrangement, and what is refused with which words. */
#include "tests/media/place.h"

#include <math.h>

#include "media/layout.h"
#include "base/str.h"
#include "media/marks.h"
#include "media/survey.h"

static void write_text(place *p, const char *name, const char *text)
{
    const char *path = temporary(p, name);

    assert_int_equal(dg_mkdirs(dg_path_folder(p->a, path), p->d), 0);
    assert_int_equal(dg_file_write(path, text, strlen(text), p->d), 0);
}

static void write_image(place *p, const char *name, int w, int h)
{
    const char *path = temporary(p, name);
    dg_image im;

    assert_int_equal(dg_mkdirs(dg_path_folder(p->a, path), p->d), 0);
    assert_int_equal(dg_image_new(&im, p->s, w, h, p->d), 0);
    assert_int_equal(dg_image_write(path, &im, p->d), 0);
}

static void check_box(const dg_coco *c, int64_t i, int image, const char *class, double x, double y,
                      double w, double h)
{
    const dg_coco_annotation *a = dg_coco_annotation_at(c, i);

    assert_int_equal(a->image, image);
    assert_string_equal(dg_coco_class_at(c, a->label)->name, class);
    if (fabs(a->x - x) + fabs(a->y - y) + fabs(a->w - w) + fabs(a->h - h) > 1e-6)
        fail_msg("box %d is %g %g %g %g", (int)i, a->x, a->y, a->w, a->h);
}

/* `data check` finds nothing wrong, and says of which form the set is. */
static void survey(place *p, const char *root, dg_form form)
{
    const dg_survey_options o = { 0 };
    dg_diag *d = dg_diag_open();
    dg_survey *s = NULL;
    dg_str text = { 0 };

    if (dg_survey_open(&s, temporary(p, root), &o, d) < 0)
        fail_msg("%s", dg_diag_text(d));
    dg_survey_text(&text, s, false);
    if (dg_faults_errors(&s->faults) || !strstr(text.s, dg_form_title(form)))
        fail_msg("%s", text.s);
    dg_str_free(&text);
    dg_survey_close(&s);
    dg_diag_close(&d);
}

/* Opens a folder as `data check` does: it must be of this form and have these splits. */
static dg_coco *open_set(place *p, const char *root, dg_form form, const char *splits, int which)
{
    dg_layout l;
    dg_coco *c = NULL;
    const char *names = "";

    if (dg_layout_find(&l, p->a, temporary(p, root), NULL, p->d) < 0 ||
        dg_layout_open(&c, &l, which, NULL, p->d) < 0)
        fail_msg("%s", dg_diag_text(p->d));
    for (int i = 0; i < l.splits.n; i++)
        names = dg_printf(p->a, "%s%s%s", names, i ? "," : "", l.splits.items[i].name);
    assert_int_equal(l.form, form);
    assert_string_equal(names, splits);
    survey(p, root, form);
    return c;
}

/* a: a nut and a bolt; b: nothing. */
static void check_set(place *p, dg_coco *c)
{
    dg_sample sm;

    assert_int_equal(dg_coco_n_images(c), 2);
    assert_int_equal(dg_coco_n_classes(c), 2);
    assert_int_equal(dg_coco_n_annotations(c), 2);
    check_box(c, 0, 0, "nut", 4, 6, 10, 20);
    check_box(c, 1, 0, "bolt", 20, 2, 10, 10);
    assert_int_equal(dg_coco_image_at(c, 0)->w, 40);
    assert_int_equal(dg_coco_image_at(c, 1)->n, 0);
    assert_int_equal(dg_coco_sample(&sm, p->s, c, 0, dg_coco_folder(c), p->d), 0);
    assert_int_equal(sm.n_objects, 2);
    assert_int_equal(dg_coco_sample(&sm, p->s, c, 1, dg_coco_folder(c), p->d), 0);
    dg_coco_close(&c);
}

static void quiet(place *p)
{
    if (dg_diag_n(p->d))
        fail_msg("%s", dg_diag_text(p->d));
}

#define SHAPES                                                                                 \
    "\"shapes\": [{\"label\": \"nut\", \"shape_type\": \"rectangle\", \"points\": [[14, 26], " \
    "[4, 6]]}, {\"label\": \"bolt\", \"shape_type\": \"polygon\", \"points\": [[20, 2], [30, " \
    "2], [25, 12]]}, {\"label\": \"tip\", \"shape_type\": \"point\", \"points\": [[1, 1]]}]"

static void test_labelme(void **state)
{
    place *p = *state;

    write_image(p, "lm/a.jpg", 40, 30);
    write_image(p, "lm/b.png", 8, 9);
    write_text(p, "lm/a.json",
               "{\"version\": \"5\", \"flags\": {}, " SHAPES
               ", \"imagePath\": \"..\\\\img\\\\other.jpg\", \"imageData\": "
               "\"aGVsbG8=\", \"imageHeight\": 30, \"imageWidth\": 40}");
    write_text(p, "lm/b.json", "{\"shapes\": [], \"imagePath\": \"b.png\", \"imageData\": null}");
    check_set(p, open_set(p, "lm", DG_FORM_LABELME, "all", 0));
    write_image(p, "lms/train/a.jpg", 40, 30);
    write_image(p, "lms/val/b.png", 8, 9);
    write_text(p, "lms/train/a.json", "{" SHAPES "}");
    write_text(p, "lms/val/b.json", "{\"shapes\": []}");
    dg_coco *c = open_set(p, "lms", DG_FORM_LABELME, "train,val", 0);

    check_box(c, 1, 0, "bolt", 20, 2, 10, 10);
    dg_coco_close(&c);
    quiet(p);
}

static void test_circle(void **state)
{
    place *p = *state;
    dg_marked_image m;
    static const char text[] = "{\"shapes\": [{\"label\": \"o\", \"shape_type\": \"circle\", "
                               "\"points\": [[10, 10], [13, 14]]}]}";

    assert_int_equal(dg_labelme_form.parse(&m, p->a, text, sizeof text - 1, "c.json", p->d), 0);
    assert_int_equal(m.objects.n, 1);
    assert_true(fabs(m.objects.items[0].x1 - 5) < 1e-9 && fabs(m.objects.items[0].y2 - 15) < 1e-9);
}

static void test_labelme_errors(void **state)
{
    static const struct {
        const char *text, *id;
    } bad[] = {
        { "{\"shapes\": 3}", "json-kind" },
        { "{\"shapes\": [{\"points\": []}]}", "json-key" },
        { "{\"shapes\": [{\"label\": \"a\", \"points\": [[1, 2]]}]}", "labelme-shape" },
        { "{\"shapes\": [{\"label\": \"a\", \"points\": [[1, 2], [1]]}]}", "labelme-shape" },
        { "{\"shapes\": [{\"label\": \"a\", \"points\": [[1, 2], 7]}]}", "labelme-shape" },
        { "{\"shapes\": [], \"imageWidth\": -4}", "labelme-shape" },
        { "{\"shapes\": [", "json-syntax" },
    };
    place *p = *state;
    dg_marked_image m;

    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        assert_true(
            dg_labelme_form.parse(&m, p->a, bad[i].text, strlen(bad[i].text), "x.json", p->d) < 0);
        check_only(p->d, bad[i].id);
    }
}

static size_t to_utf16(char *out, const char *text)
{
    size_t n = 0;

    out[n++] = '\xff';
    out[n++] = '\xfe';
    for (; *text; text++) {
        out[n++] = *text;
        out[n++] = '\0';
    }
    return n;
}

/* UTF-16 is read, without document types as in any other encoding. */
static void test_voc_encodings(void **state)
{
    static const char *const types[] = {
        "<!DOCTYPE a [<!ENTITY b \"cc\">]><annotation/>",
        "<!DOCTYPE a [<!ENTITY b \"ccccccccccccccccccccccccccccccccccccccccccc\">"
        "<!ENTITY d \"&b;&b;&b;&b;&b;&b;&b;&b;\"><!ENTITY e \"&d;&d;&d;&d;&d;&d;&d;&d;\">]>"
        "<annotation a=\"&e;&e;&e;&e;\"><object><name>&e;</name></object></annotation>",
        "<!DOCTYPE annotation SYSTEM \"a.dtd\"><annotation/>",
    };
    place *p = *state;
    dg_marked_image f;
    char bytes[1024];
    size_t n =
        to_utf16(bytes,
                 "<?xml version=\"1.0\"?><annotation><object><name>dog</name><bndbox><xmin>1</xmin>"
                 "<ymin>2</ymin><xmax>3</xmax><ymax>4</ymax></bndbox></object></annotation>");

    dg_voc_form.prepare();
    assert_int_equal(dg_voc_form.parse(&f, p->a, bytes, n, "x.xml", p->d), 0);
    assert_int_equal(f.objects.n, 1);
    assert_string_equal(f.objects.items[0].name, "dog");
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        n = to_utf16(bytes, types[i]);
        assert_int_equal(dg_voc_form.parse(&f, p->a, bytes, n, "x.xml", p->d), -DG_EINPUT);
        assert_non_null(strstr(dg_diag_at(p->d, 0)->text, "document types"));
        check_only(p->d, "voc-syntax");
    }
}

#define CVAT(inside) \
    "<?xml version=\"1.0\"?>\n<annotations>\n<version>1.1</version>" inside "</annotations>"
#define CVAT_A                                                                        \
    "<image id=\"0\" name=\"a.jpg\" width=\"40\" height=\"30\">\n<box label=\"nut\" " \
    "occluded=\"1\" xtl=\"4\" ytl=\"6\" xbr=\"14\" ybr=\"26\"/>"                      \
    "<polygon label=\"bolt\" points=\"20,2;30,2;25,12\"><attribute name=\"x\">1"      \
    "</attribute></polygon><points label=\"tip\" points=\"1,1\"/></image>"
#define CVAT_B "<image id=\"1\" name=\"sub/b.png\" width=\"8\" height=\"9\"/>"

static void test_cvat(void **state)
{
    place *p = *state;

    write_image(p, "cvat/images/a.jpg", 40, 30);
    write_image(p, "cvat/images/sub/b.png", 8, 9);
    write_text(p, "cvat/annotations.xml", CVAT(CVAT_A CVAT_B));
    check_set(p, open_set(p, "cvat", DG_FORM_CVAT, "all", 0));
    write_image(p, "cvats/images/train/a.jpg", 40, 30);
    write_image(p, "cvats/images/val/b.png", 8, 9);
    write_text(p, "cvats/train.xml", CVAT(CVAT_A));
    write_text(p, "cvats/val.xml", CVAT(CVAT_B));
    dg_coco *c = open_set(p, "cvats", DG_FORM_CVAT, "train,val", 0);

    assert_string_equal(dg_coco_image_at(c, 0)->file_name, "images/train/a.jpg");
    assert_true(dg_coco_annotation_at(c, 0)->truncated);
    dg_coco_close(&c);
    quiet(p);
}

static void test_rotation(void **state)
{
    place *p = *state;

    write_image(p, "turned/a.jpg", 40, 30);
    write_text(p, "turned/annotations.xml",
               CVAT("<image name=\"a.jpg\" width=\"40\" height=\"30\"><box label=\"nut\" "
                    "xtl=\"10\" ytl=\"10\" xbr=\"20\" ybr=\"14\" rotation=\"90\"/><ellipse "
                    "label=\"nut\" cx=\"20\" cy=\"15\" rx=\"8\" ry=\"2\" "
                    "rotation=\"45\"/></image>"));
    dg_coco *c = open_set(p, "turned", DG_FORM_CVAT, "all", 0);

    check_box(c, 0, 0, "nut", 13, 7, 4, 10);
    check_box(c, 1, 0, "nut", 20 - sqrt(34), 15 - sqrt(34), 2 * sqrt(34), 2 * sqrt(34));
    dg_coco_close(&c);
}

static void test_cvat_errors(void **state)
{
    static const struct {
        const char *text, *id;
    } bad[] = {
        { CVAT("<track id=\"0\" label=\"nut\"/>"), "cvat-syntax" },
        { CVAT("<image width=\"4\"/>"), "cvat-syntax" },
        { CVAT("<image name=\"a\" width=\"-4\"/>"), "cvat-syntax" },
        { CVAT("<image name=\"a\"><box label=\"b\" xtl=\"1\"/></image>"), "cvat-syntax" },
        { CVAT("<image name=\"a\"><box xtl=\"1\" ytl=\"1\" xbr=\"2\" ybr=\"2\"/></image>"),
          "cvat-syntax" },
        { CVAT("<image name=\"a\"><polygon label=\"b\" points=\"1,2\"/></image>"), "cvat-syntax" },
        { CVAT("<image name=\"a\"><polygon label=\"b\" points=\"1,2;x,3\"/></image>"),
          "cvat-syntax" },
        { CVAT("<image name=\"a\"><polygon label=\"b\" points=\"1;2,3\"/></image>"),
          "cvat-syntax" },
        { CVAT("<image name=\"a\"/><image name=\"a\"/>"), "mark-twice" },
        { "<annotations><image>", "cvat-syntax" },
    };
    place *p = *state;
    dg_coco *c = NULL;

    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        const char *root = temporary(p, "bad");
        const dg_data_source from = { .size = sizeof from, .root = root };

        write_text(p, "bad/annotations.xml", bad[i].text);
        assert_int_equal(dg_cvat_open(&c, &from, p->d), -DG_EINPUT);
        if (dg_diag_n(p->d) != 1 || strcmp(dg_diag_at(p->d, 0)->id, bad[i].id) != 0)
            fail_msg("case %d: %s", (int)i, dg_diag_text(p->d));
        dg_diag_clear(p->d);
    }
}

/* `data check` leaves out what is wrong, and reads on. */
static void test_cvat_faults(void **state)
{
    const dg_survey_options o = { 0 };
    place *p = *state;
    dg_survey *s = NULL;

    write_image(p, "faults/images/a.jpg", 40, 30);
    write_image(p, "faults/images/sub/b.png", 8, 9);
    write_text(
        p, "faults/annotations.xml",
        CVAT("<image name=\"a.jpg\" width=\"40\" height=\"30\"><box label=\"nut\" "
             "xtl=\"4\"/>\n<polygon label=\"nut\" points=\"1,2\"/><box label=\"nut\" xtl=\"1\" "
             "ytl=\"1\" xbr=\"9\" ybr=\"9\"/></image>\n<image width=\"3\"><box/></image>" CVAT_B));
    assert_int_equal(dg_survey_open(&s, temporary(p, "faults"), &o, p->d), 0);
    assert_int_equal(dg_faults_errors(&s->faults), 3);
    assert_int_equal(s->faults.of[DG_FAULT_ANNOTATION].n, 3);
    for (int i = 0; i < 3; i++) /* each with its line */
        assert_int_equal(s->faults.of[DG_FAULT_ANNOTATION].kept.items[i].at.line, 3 + i);
    assert_int_equal(s->n_images, 2);
    assert_int_equal(s->n_objects, 1);
    dg_survey_close(&s);
    quiet(p);
}

/* Lines are counted beyond 65535, and a file of many images may have more than 10 MB. */
static void test_cvat_long(void **state)
{
    place *p = *state;
    const dg_data_source from = { .size = sizeof from, .root = temporary(p, "long") };
    const dg_err *e;
    dg_str text = { 0 };
    dg_coco *c = NULL;

    dg_str_add(&text, "<annotations>\n"); /* line 1 */
    for (int i = 0; i < 80000; i++)
        dg_str_fmt(&text, "<image name=\"%0*d\" width=\"9\" height=\"9\"/>\n", 120, i);
    dg_str_add(&text, "<image name=\"a\" width=\"9\" height=\"9\">\n"
                      "<box label=\"b\"\n xtl=\"1\"/>\n</image></annotations>\n");
    assert_true(text.n > 11 * 1000 * 1000);
    write_text(p, "long/annotations.xml", text.s);
    dg_str_free(&text);
    assert_int_equal(dg_cvat_open(&c, &from, p->d), -DG_EINPUT);
    e = dg_diag_at(p->d, 0);
    assert_int_equal(e->at.line, 80003);
    check_only(p->d, "cvat-syntax");
}

static void test_csv(void **state)
{
    static const char *const same[] = {
        "filename,width,height,class,xmin,ymin,xmax,ymax\na.jpg,40,30,nut,4,6,14,26\n"
        "a.jpg,40,30,bolt,20,2,30,12\n,,,,,,,\nb.png,8,9,,,,,\n , ,,,,,,\n,,,\n",
        "\xef\xbb\xbfLabel;Image Path;X Center;Y Center;W;H\r\n\"nut\";a.jpg;9;16;10;20\r\n"
        "bolt; a.jpg ;25;7;10;10\r\n\r\n;b.png;;;;\r\n",
        "a.jpg,4,6,14,26,nut\na.jpg,20,2,30,12,bolt\nb.png,,,,,",
        "image\tbbox_x\tbbox_y\tbbox_width\tbbox_height\tcategory\n"
        "/home/me/a.jpg\t4\t6\t10\t20\tnut\n/home/me/a.jpg\t20\t2\t10\t10\tbolt\n"
        "C:\\my\\b.png\t\t\t\t\t\n",
        "x,y,w,h,name,file\n4,6,10,20,\"nut\",a.jpg\n20,2,10,10,bolt,\"a.jpg\"\n,,,,,b.png\n",
    };
    place *p = *state;

    for (size_t i = 0; i < sizeof same / sizeof *same; i++) {
        const char *root = dg_printf(p->a, "csv%d", (int)i);

        write_image(p, dg_printf(p->a, "%s/images/a.jpg", root), 40, 30);
        write_image(p, dg_printf(p->a, "%s/images/b.png", root), 8, 9);
        write_text(p, dg_printf(p->a, "%s/boxes.csv", root), same[i]);
        dg_coco *c = open_set(p, root, DG_FORM_CSV, "all", 0);

        if (i == 2 || i == 4)
            check_only(p->d, "csv-columns");
        if (i == 3) { /* ordered by name, C:... before b */
            dg_coco_close(&c);
            continue;
        }
        check_set(p, c);
        quiet(p);
    }
}

/* `data check` says what was guessed, of each split once, with the errors behind it. */
static void test_csv_guessed(void **state)
{
    static const char row[] = "%c.jpg,4,6,14,26,nut\n%c.jpg,4,6,x,26,nut\n";
    const dg_survey_options o = { 0 };
    place *p = *state;
    dg_survey *s = NULL;

    for (int i = 0; i < 2; i++) {
        const char c = (char)('a' + i);

        write_image(p, dg_printf(p->a, "guess/images/%c.jpg", c), 40 + i, 30);
        write_text(p, i ? "guess/val.csv" : "guess/train.csv", dg_printf(p->a, row, c, c));
    }
    assert_int_equal(dg_survey_open(&s, temporary(p, "guess"), &o, p->d), 0);
    assert_int_equal(s->faults.of[DG_FAULT_CSV_COLUMNS].n, 2);
    assert_int_equal(s->faults.of[DG_FAULT_ANNOTATION].n, 2);
    assert_int_equal(s->faults.of[DG_FAULT_CSV_COLUMNS].kept.items[1].split, 1);
    assert_non_null(strstr(s->faults.of[DG_FAULT_CSV_COLUMNS].kept.items[0].text, "x1, y1"));
    assert_int_equal(dg_faults_warnings(&s->faults), 2);
    dg_survey_close(&s);
    quiet(p);
}

/* Folders with a table each, as one of Roboflow's exports is. */
static void test_csv_splits(void **state)
{
    place *p = *state;

    write_text(p, "rf/mine.xml", "<pipeline version=\"1\"/>"); /* as init leaves it */
    write_image(p, "rf/train/a.jpg", 40, 30);
    write_image(p, "rf/valid/b.jpg", 30, 30);
    write_text(p, "rf/train/_annotations.csv",
               "filename,width,height,class,xmin,ymin,xmax,ymax\na.jpg,40,30,nut,4,6,14,26\n");
    write_text(p, "rf/valid/_annotations.csv",
               "filename,width,height,class,xmin,ymin,xmax,ymax\nb.jpg,30,30,ant,4,6,14,26\n");
    dg_coco *c = open_set(p, "rf", DG_FORM_CSV, "train,valid", 0);

    assert_int_equal(dg_coco_n_classes(c), 2); /* ant stands in valid alone, and counts */
    check_box(c, 0, 0, "nut", 4, 6, 10, 20);
    dg_coco_close(&c);
    quiet(p);
}

/* Names that lead to one file by their last part. */
static void test_csv_twice(void **state)
{
    const dg_survey_options o = { 0 };
    place *p = *state;
    const dg_data_source from = { .size = sizeof from, .root = temporary(p, "twice") };
    dg_coco *c = NULL;
    dg_survey *s = NULL;

    write_image(p, "twice/images/a.jpg", 40, 30);
    write_text(p, "twice/boxes.csv",
               "filename,class,xmin,ymin,xmax,ymax\nx/a.jpg,nut,4,6,14,26\ny/a.jpg,bolt,1,1,9,9\n");
    assert_int_equal(dg_csv_open(&c, &from, p->d), -DG_EINPUT);
    assert_int_equal(dg_diag_at(p->d, 0)->at.line, 3);
    check_only(p->d, "mark-twice");
    assert_int_equal(dg_survey_open(&s, from.root, &o, p->d), 0);
    assert_int_equal(s->faults.of[DG_FAULT_IMAGE_TWICE].n, 1);
    assert_int_equal(dg_faults_errors(&s->faults), 1);
    assert_int_equal(s->n_images, 1);
    dg_survey_close(&s);
    quiet(p);
}

#define HEADER "filename,class,xmin,ymin,xmax,ymax\n"

/* Other tables lie about; and an error in one split is not one of another. */
static void test_csv_others(void **state)
{
    static const char people[] = "name,street,town,zip,phone,age\nAnn,Hill 1,Ulm,1,2,3\n";
    place *p = *state;
    dg_data_source from = { .size = sizeof from, .root = temporary(p, "two"), .split = "val" };
    const dg_survey_options o = { 0 };
    dg_survey *s = NULL;
    dg_layout l;
    dg_coco *c = NULL;

    write_image(p, "two/images/a.jpg", 40, 30);
    write_image(p, "two/images/b.jpg", 30, 30);
    write_text(p, "two/train.csv", HEADER "a.jpg,nut,4,6,14,26\n");
    write_text(p, "two/val.csv", HEADER "b.jpg,bolt,4,6,14,26\n");
    write_text(p, "two/people.csv", people);
    c = open_set(p, "two", DG_FORM_CSV, "train,val", 0);
    dg_coco_close(&c);
    assert_int_equal(dg_survey_open(&s, from.root, &o, p->d), 0);
    assert_int_equal(s->faults.of[DG_FAULT_UNLISTED].n, 1);
    assert_non_null(strstr(s->faults.of[DG_FAULT_UNLISTED].kept.items[0].at.file, "people.csv"));
    dg_survey_close(&s);
    write_text(p, "two/train.csv", HEADER "a.jpg,nut,4,6,x,26\na.jpg,net,4,6,14,26\n");
    assert_int_equal(dg_csv_open(&c, &from, p->d), 0);
    assert_int_equal(dg_coco_n_classes(c), 2); /* net stands behind the error, and counts */
    dg_coco_close(&c);
    quiet(p);
    from.split = "train";
    assert_int_equal(dg_csv_open(&c, &from, p->d), -DG_EINPUT);
    check_only(p->d, "csv-value");

    write_image(p, "plain/a.jpg", 40, 30);
    write_text(p, "plain/people.csv", people);
    assert_int_equal(dg_layout_find(&l, p->a, temporary(p, "plain"), NULL, p->d), 0);
    assert_int_equal(l.form, DG_FORM_PLAIN);
    quiet(p);
}

static void test_csv_errors(void **state)
{
    static const struct {
        const char *text, *id;
        int line;
    } bad[] = {
        { "a,b,c,d,e\n1,2,3,4,5\n", "csv-header", 1 },
        { "image,x1,y1,x2,y2,class\na.jpg,1,2,x,4,nut\n", "csv-value", 2 },
        { "image,x1,y1,x2,y2,class\na.jpg,1,2,3,4,\n", "csv-value", 2 },
        { "image,x1,y1,x2,y2,class\n,1,2,3,4,nut\n", "csv-value", 2 },
        { "image,x1,y1,x2,y2,class\n", "mark-empty", 0 },
        { "image,x1,y1,x2,y2,class\na.jpg,1,2,3,4,B\xe4r\n", "class-encoding", 2 },
    };
    place *p = *state;
    dg_coco *c = NULL;

    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        const dg_data_source from = { .size = sizeof from, .root = temporary(p, "bad") };

        write_text(p, "bad/a.csv", bad[i].text);
        assert_int_equal(dg_csv_open(&c, &from, p->d), -DG_EINPUT);
        assert_int_equal(dg_diag_at(p->d, 0)->at.line, bad[i].line);
        check_only(p->d, bad[i].id);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_labelme, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_circle, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_labelme_errors, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_voc_encodings, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_cvat, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_rotation, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_cvat_errors, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_cvat_faults, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_cvat_long, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_csv, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_csv_guessed, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_csv_splits, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_csv_twice, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_csv_others, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_csv_errors, set_up, tear_down),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
