/* forms: VOC and YOLO data sets: every arrangement that people have, what the lines mean, and what
 * is refused with which words. */
#include "tests/media/place.h"

#include <math.h>

#include "media/image.h"
#include "media/voc.h"
#include "media/yaml.h"
#include "media/yolo.h"

/* ---- making ---------------------------------------------------------------------------------- */

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

static dg_data_source from(place *p, const char *root, const char *split)
{
    return (dg_data_source){ .size = sizeof(dg_data_source),
                             .root = temporary(p, root),
                             .split = split };
}

static void check_box(const dg_coco *c, int64_t i, int image, int label, double x, double y,
                      double w, double h)
{
    const dg_coco_annotation *a = dg_coco_annotation_at(c, i);

    assert_int_equal(a->id, i + 1);
    assert_int_equal(a->image, image);
    assert_int_equal(a->label, label);
    assert_true(fabs(a->x - (x)) <= 1e-9);
    assert_true(fabs(a->y - (y)) <= 1e-9);
    assert_true(fabs(a->w - (w)) <= 1e-9);
    assert_true(fabs(a->h - (h)) <= 1e-9);
    assert_true(fabs(a->area - (w * h)) <= 1e-6);
}

/* ---- VOC ------------------------------------------------------------------------------------- */

#define OBJECT(name, more, x1, y1, x2, y2)                                        \
    "<object><name>" name "</name>" more "<bndbox><xmin>" #x1 "</xmin><ymin>" #y1 \
    "</ymin><xmax>" #x2 "</xmax><ymax>" #y2 "</ymax></bndbox></object>"
#define SIZE "<size><width>40</width><height>30</height><depth>3</depth></size>"
#define PART                                                                                    \
    "<part><name>head</name><bndbox><xmin>1</xmin><ymin>1</ymin><xmax>2</xmax><ymax>2</ymax></" \
    "bndbox></part>"

static void make_voc(place *p)
{
    write_text(p, "voc/Annotations/a.xml",
               "<?xml version=\"1.0\"?>\n<annotation><filename>other.jpg</filename>" SIZE
                   OBJECT("dog", PART, 5, 6, 15, 26)
                       OBJECT(" cat ", "<difficult>1</difficult><truncated>1</truncated>", 0.5, 0,
                              40, 30) "</annotation>");
    write_text(p, "voc/Annotations/b.xml",
               "<annotation><filename>b.png</filename>" OBJECT("ant", "", 1, 1, 2,
                                                               2) "</annotation>");
    write_text(p, "voc/Annotations/c.xml",
               "<annotation><filename>c.png</filename>" SIZE "</annotation>");
    write_text(p, "voc/ImageSets/Main/train.txt", "c\na 1\n\n");
    write_text(p, "voc/ImageSets/Main/val.txt", "b\r\n");
    write_text(p, "voc/ImageSets/Main/dog_train.txt", "a 1\nc -1\n");
    write_image(p, "voc/JPEGImages/a.jpg", 40, 30);
    write_image(p, "voc/JPEGImages/b.png", 8, 9);
    write_image(p, "voc/JPEGImages/c.png", 40, 30);
}

static void voc_sets(void **state)
{
    place *p = *state;
    dg_data_source train = from(p, "voc", "train"), val = from(p, "voc", "val"),
                   all = from(p, "voc", NULL);
    dg_coco *c = NULL;
    dg_sample sm;

    make_voc(p);
    assert_int_equal(dg_voc_open(&c, &train, p->d), 0);
    assert_int_equal(dg_coco_n_images(c), 2);
    assert_string_equal(dg_coco_image_at(c, 0)->file_name,
                        "JPEGImages/a.jpg"); /* by the file's own name */
    assert_string_equal(dg_coco_image_at(c, 1)->file_name, "JPEGImages/c.png");
    assert_int_equal(dg_coco_image_at(c, 1)->n, 0);
    assert_int_equal(dg_coco_n_classes(c), 3); /* ant stands in val alone, and counts */
    assert_string_equal(dg_coco_class_at(c, 0)->name, "ant");
    assert_string_equal(dg_coco_class_at(c, 2)->name, "dog");
    assert_int_equal(dg_coco_n_annotations(c), 2);
    check_box(c, 0, 0, 2, 5, 6, 10, 20);
    check_box(c, 1, 0, 1, 0.5, 0, 39.5, 30);
    assert_true(dg_coco_annotation_at(c, 1)->crowd && dg_coco_annotation_at(c, 1)->truncated);
    assert_int_equal(dg_coco_sample(&sm, p->s, c, 0, dg_coco_folder(c), p->d), 0);
    assert_int_equal(sm.n_objects, 1);
    dg_coco_close(&c);

    assert_int_equal(dg_voc_open(&c, &val, p->d), 0);
    assert_string_equal(dg_coco_class_at(c, 0)->name, "ant");
    assert_int_equal(dg_coco_image_at(c, 0)->w, 8); /* its header knows */
    dg_coco_close(&c);

    all.classes = "dog, cat,ant";
    all.difficult = all.from_one = true;
    assert_int_equal(dg_voc_open(&c, &all, p->d), 0);
    assert_int_equal(dg_coco_n_images(c), 3);
    check_box(c, 0, 0, 0, 4, 5, 11, 21);
    assert_false(dg_coco_annotation_at(c, 1)->crowd);
    dg_coco_close(&c);
    no_diagnostics(p);
}

/* What other tools write: words for marks, no size, boxes in any order, byte order marks, splits
 * whose names have an underscore. */
static void voc_dialects(void **state)
{
    place *p = *state;
    dg_data_source train = from(p, "voc", "train_2");
    dg_listing splits;
    dg_coco *c = NULL;

    make_voc(p);
    write_text(p, "voc/ImageSets/Main/train_2.txt",
               "\xEF\xBB\xBF"
               "a\r\nb\r\n");
    write_text(p, "voc/ImageSets/Main/blank.txt", "c d \r\nb 1\n");
    write_text(p, "voc/Annotations/c d.xml", "<annotation>" SIZE "</annotation>");
    write_text(p, "voc/ImageSets/Main/my_val.txt", "b\n");
    write_text(p, "voc/Annotations/a.xml",
               "\xEF\xBB\xBF<annotation><object><difficult>Unspecified</"
               "difficult><bndbox><ymax>26</ymax><xmax> 15.5 </xmax>"
               "<ymin>6</ymin><xmin>5</xmin></bndbox><name>a &amp; "
               "b</name><truncated>True</truncated></object></annotation>");
    assert_true(dg_marks_files_splits(&splits, p->a, &dg_voc_form, temporary(p, "voc")));
    assert_int_equal(splits.n, 5); /* dog_train is of one class */
    assert_string_equal(splits.v[1], "my_val");
    assert_string_equal(splits.v[3], "train_2");
    assert_int_equal(dg_voc_open(&c, &train, p->d), 0);
    assert_int_equal(dg_coco_n_images(c), 2);
    assert_int_equal(dg_coco_image_at(c, 0)->w, 40);
    assert_string_equal(dg_coco_class_at(c, 0)->name, "a & b");
    check_box(c, 0, 0, 0, 5, 6, 10.5, 20);
    assert_true(!dg_coco_annotation_at(c, 0)->crowd && dg_coco_annotation_at(c, 0)->truncated);
    dg_coco_close(&c);
    train.split = "blank";
    assert_int_equal(dg_voc_open(&c, &train, p->d), 0);
    assert_string_equal(dg_coco_image_at(c, 1)->file_name, "JPEGImages/c d.jpg");
    dg_coco_close(&c);
    write_text(p, "voc/classes.txt", "a & b\nb\xE4r\n");
    assert_int_equal(dg_voc_open(&c, &train, p->d), -DG_EINPUT);
    check_says(p, "class-encoding", "not in UTF-8");
    no_diagnostics(p);
}

static void voc_folders(void **state)
{
    place *p = *state;
    dg_data_source train = from(p, "robo", "train"), flat = from(p, "robo/valid", NULL),
                   none = from(p, "robo", NULL);
    dg_coco *c = NULL;

    write_text(p, "robo/train/a.xml",
               "<annotation>" SIZE OBJECT("z", "", 1, 2, 3, 4) "</annotation>");
    write_text(p, "robo/valid/b.xml",
               "<annotation>" SIZE OBJECT("y", "", 1, 2, 3, 4) "</annotation>");
    write_image(p, "robo/train/a.jpg", 40, 30);
    write_image(p, "robo/valid/b.jpg", 40, 30);
    assert_int_equal(dg_voc_open(&c, &train, p->d), 0);
    assert_string_equal(dg_coco_image_at(c, 0)->file_name, "train/a.jpg");
    assert_int_equal(dg_coco_n_classes(c), 2);
    check_box(c, 0, 0, 1, 1, 2, 2, 2);
    dg_coco_close(&c);
    assert_int_equal(dg_voc_open(&c, &flat, p->d), 0);
    assert_string_equal(dg_coco_image_at(c, 0)->file_name, "b.jpg");
    dg_coco_close(&c);
    assert_int_equal(dg_voc_open(&c, &none, p->d), -DG_EINPUT);
    check_says(p, "data-split", "a folder for each split");

    /* classes.txt gives the order */
    write_text(p, "robo/classes.txt", "z\ny\n");
    assert_int_equal(dg_voc_open(&c, &train, p->d), 0);
    check_box(c, 0, 0, 0, 1, 2, 2, 2);
    dg_coco_close(&c);
    no_diagnostics(p);
}

static const struct {
    const char *text, *id, *says;
    int line;
} bad_xml[] = {
    { "", "voc-syntax", "empty", 0 },
    { "<annotation>\n<object>\n</annotation>", "voc-syntax", "mismatch", 3 },
    { "<pipeline/>", "voc-syntax", "expected an <annotation>", 1 },
    { "<!DOCTYPE a [<!ENTITY b \"c\">]><annotation/>", "voc-syntax", "document types", 0 },
    { "<annotation>\n<object><bndbox><xmin>1</xmin><ymin>1</ymin><xmax>2</xmax><ymax>2</ymax></"
      "bndbox></object></annotation>",
      "voc-object", "has no <name>", 2 },
    { "<annotation><object><name>a</name><bndbox>\n<xmin>1</xmin><xmin>2</xmin></bndbox></object>"
      "</annotation>",
      "voc-object", "<xmin> stands twice in this <object>", 2 },
    { "<annotation><object>\n<name>a</name></object></annotation>", "voc-object",
      "(a) has no <bndbox>", 1 },
    { "<annotation><object><name>a</name><bndbox><xmin>1</xmin></bndbox></object></annotation>",
      "voc-object", "no <bndbox>", 1 },
    { "<annotation>\n<object><name>a</name>\n<bndbox><xmin>l</xmin></bndbox></object></annotation>",
      "voc-value", "<xmin> is \"l\", expected a number", 3 },
    { "<annotation><size>\n<width>4.5</width></size></annotation>", "voc-value", "whole pixels",
      2 },
};

static void voc_errors(void **state)
{
    place *p = *state;
    dg_marked_image f;

    dg_voc_prepare();
    for (size_t i = 0; i < sizeof bad_xml / sizeof *bad_xml; i++) {
        assert_int_equal(dg_voc_parse(&f, p->a, bad_xml[i].text, strlen(bad_xml[i].text), "x.xml",
                                      p->d),
                         -DG_EINPUT);
        assert_string_equal(dg_diag_at(p->d, 0)->at.file, "x.xml");
        assert_int_equal(dg_diag_at(p->d, 0)->at.line, bad_xml[i].line);
        check_says(p, bad_xml[i].id, bad_xml[i].says);
    }
}

static void voc_refused(void **state)
{
    place *p = *state;
    dg_data_source train = from(p, "voc", "train"), other = from(p, "voc", "minival"),
                   none = from(p, "nothing", NULL);
    dg_data_source empty = from(p, "empty", NULL), val = from(p, "voc", "val");
    dg_coco *c = NULL;

    make_voc(p);
    assert_int_equal(dg_voc_open(&c, &other, p->d), -DG_EINPUT);
    assert_int_equal(dg_diag_at(p->d, 0)->n_remarks, 1);
    assert_non_null(strstr(dg_diag_at(p->d, 0)->remarks[0].text, "\"train\", \"val\""));
    check_says(p, "data-split", "no ImageSets/Main/minival.txt");
    assert_int_equal(dg_voc_open(&c, &none, p->d), -DG_EIO);
    check_says(p, "data-missing", "no such folder");
    write_text(p, "empty/notes.txt", "");
    assert_int_equal(dg_voc_open(&c, &empty, p->d), -DG_EINPUT);
    check_says(p, "data-split", "no .xml file");
    train.classes = "dog,dog";
    assert_int_equal(dg_voc_open(&c, &train, p->d), -DG_EINPUT);
    check_says(p, "class-twice", "dog");
    train.classes = " , ";
    assert_int_equal(dg_voc_open(&c, &train, p->d), -DG_EINPUT);
    check_says(p, "class-none", "no class");
    train.classes = "dog";
    assert_int_equal(dg_voc_open(&c, &train, p->d), -DG_EINPUT);
    assert_int_equal(dg_diag_at(p->d, 0)->at.line, 2);
    check_says(p, "mark-class", "\"cat\" is not among the 1");
    train.classes = NULL;
    write_text(p, "voc/JPEGImages/b.png", "no image");
    assert_int_equal(dg_voc_open(&c, &val, p->d), -DG_EINPUT);
    check_says(p, "image-unknown", "not a JPEG, PNG, BMP, WebP or TIFF");
    write_text(p, "voc/ImageSets/Main/train.txt", "c\na\nc\n");
    assert_int_equal(dg_voc_open(&c, &train, p->d), -DG_EINPUT);
    assert_int_equal(dg_diag_at(p->d, 0)->at.line, 3);
    check_says(p, "voc-twice", "c is listed twice");
    write_text(p, "voc/ImageSets/Main/train.txt", "c\nd\n");
    assert_int_equal(dg_voc_open(&c, &train, p->d), -DG_EINPUT);
    check_says(p, "voc-missing", "no Annotations/d.xml");
    write_text(p, "voc/ImageSets/Main/train.txt", "\n");
    assert_int_equal(dg_voc_open(&c, &train, p->d), -DG_EINPUT);
    check_says(p, "mark-empty", "no image");
    write_text(p, "voc/ImageSets/Main/train.txt", "a\n");
    write_text(p, "voc/Annotations/a.xml", "<annotation>");
    assert_int_equal(dg_voc_open(&c, &train, p->d), -DG_EINPUT);
    check_only(p->d, "voc-syntax");
}

/* ---- YOLO ------------------------------------------------------------------------------------ */

static void make_yolo(place *p)
{
    write_image(p, "yolo/images/train/a.png", 40, 20);
    write_image(p, "yolo/images/train/b.jpg", 10, 10);
    write_image(p, "yolo/images/train/c.jpg", 10, 10);
    write_image(p, "yolo/images/val/d.jpg", 10, 10);
    write_text(p, "yolo/labels/train/a.txt",
               "1 0.5 0.5 0.25 0.5\n\n  0 0.1 0.1\t0.3 0.2 0.2 0.6  \r\n");
    write_text(p, "yolo/labels/train/b.txt",
               ""); /* and c has no file at all: images without objects both */
    write_text(p, "yolo/labels/val/d.txt", "0 0.5 0.5 1 1");
}

/* As labelImg leaves it: labels and classes.txt beside the images, in one folder or in several. */
static void yolo_beside(void **state)
{
    place *p = *state;
    dg_data_source all = from(p, "li", NULL), train = from(p, "lis", "train");
    dg_listing splits;
    dg_coco *c = NULL;

    write_image(p, "li/a.png", 40, 20);
    write_image(p, "li/b.png", 40, 20);
    write_text(p, "li/a.txt", "1 0.5 0.5 0.25 0.5\n");
    write_text(p, "li/classes.txt", "dog\nperson\n");
    assert_true(dg_yolo_splits(&splits, p->a, temporary(p, "li")));
    assert_int_equal(splits.n, 0);
    assert_int_equal(dg_yolo_open(&c, &all, p->d), 0);
    assert_int_equal(dg_coco_n_images(c), 2);
    assert_int_equal(dg_coco_n_classes(c), 2);
    check_box(c, 0, 0, 1, 15, 5, 10, 10);
    dg_coco_close(&c);
    write_image(p, "lis/train/a.png", 40, 20);
    write_text(p, "lis/train/a.txt", "1 0.5 0.5 0.25 0.5\n");
    write_text(p, "lis/train/classes.txt", "dog\nperson\n");
    write_image(p, "lis/val/b.png", 40, 20);
    write_text(p, "lis/val/b.txt", "0 0.5 0.5 0.25 0.5\n");
    write_text(p, "lis/val/classes.txt", "dog\nperson\n");
    assert_true(dg_yolo_splits(&splits, p->a, temporary(p, "lis")));
    assert_int_equal(splits.n, 2);
    assert_int_equal(dg_yolo_open(&c, &train, p->d), 0);
    check_box(c, 0, 0, 1, 15, 5, 10, 10);
    dg_coco_close(&c);
    no_diagnostics(p);
}

/* Opens with this data.yaml and looks at what must come out of train. */
static void check_yolo(place *p, const char *yaml, const char *root, const char *classes)
{
    dg_data_source train = from(p, root, "train");
    dg_coco *c = NULL;
    int rc;

    train.classes = classes;
    if (yaml)
        write_text(p, "yolo/data.yaml", yaml);
    rc = dg_yolo_open(&c, &train, p->d);
    if (rc)
        fail_msg("%s: %s", yaml, dg_diag_text(p->d));
    assert_int_equal(dg_coco_n_images(c), 3);
    assert_string_equal(dg_path_name(dg_coco_image_at(c, 0)->file_name), "a.png");
    assert_int_equal(dg_coco_image_at(c, 0)->w, 40);
    assert_int_equal(dg_coco_n_classes(c), 2);
    assert_string_equal(dg_coco_class_at(c, 0)->name, "nut");
    assert_string_equal(dg_coco_class_at(c, 1)->name, "bolt");
    assert_int_equal(dg_coco_n_annotations(c), 2);
    check_box(c, 0, 0, 1, 15, 5, 10, 10);
    check_box(c, 1, 0, 0, 4, 2, 8, 10); /* a polygon's box */
    assert_int_equal(dg_coco_probe(c, 2, dg_coco_folder(c), p->d), 0);
    dg_coco_close(&c);
}

static void yolo_shapes(void **state)
{
    place *p = *state;

    make_yolo(p);
    check_yolo(p, NULL, "yolo", "nut,bolt"); /* folders alone */
    write_text(p, "yolo/labels/classes.txt", "nut\nbolt\n");
    check_yolo(p, NULL, "yolo", NULL);
    unlink(temporary(p, "yolo/labels/classes.txt"));
    check_yolo(p, "train: images/train\nval: images/val\nnames: [nut, bolt]\n", "yolo", NULL);
    check_yolo(p, "path: .\ntrain: images/train\nnames:\n  0: nut\n  1: bolt\n", "yolo/data.yaml",
               NULL);
    check_yolo(p,
               "# as some tools write it\npath: ../somewhere/else\ntrain: ../images/train\nnc: "
               "2\nnames:\n- 'nut'\n- "
               "\"bolt\"\n",
               "yolo", NULL);
    check_yolo(p, "train: [images/train/]\nnames: {1: bolt, 0: nut}\n", "yolo", NULL);
    check_yolo(p,
               dg_printf(p->a, "path: %s\ntrain: images/train\nnames: [nut, bolt]\n",
                         temporary(p, "yolo")),
               "yolo", NULL);
    write_text(p, "yolo/train.txt",
               "./images/train/a.png\nimages/train/b.jpg\r\n\nimages/train/c.jpg");
    check_yolo(p, "train: train.txt\nnames: [nut, bolt]\n", "yolo", NULL);
    check_yolo(p, "train: [train.txt]\nval:\nnames: [x, y]\n", "yolo", "nut,bolt");

    /* as Windows writes it: with a byte order mark and two characters at a line's end */
    write_text(p, "yolo/train.txt",
               "\xEF\xBB\xBF./images/train/a.png\r\nimages/train/b.jpg\r\nimages/train/c.jpg\r\n");
    write_text(p, "yolo/labels/train/a.txt",
               "\xEF\xBB\xBF"
               "1 0.5 0.5 0.25 0.5\r\n0 0.1 0.1 0.3 0.2 0.2 0.6\r\n");
    check_yolo(p, "\xEF\xBB\xBFtrain: train.txt\r\nnames:\r\n  0: nut\r\n  1: bolt\r\n", "yolo",
               NULL);
    unlink(temporary(p, "yolo/data.yaml"));
    write_text(p, "yolo/classes.txt", "\xEF\xBB\xBFnut\r\nbolt\r\n");
    check_yolo(p, NULL, "yolo", NULL);

    /* keypoints behind the boxes, which a polygon would have too */
    write_text(p, "yolo/labels/train/a.txt",
               "1 0.5 0.5 0.25 0.5 0.5 0.5 2 0 0 0\n0 0.2 0.35 0.2 0.5 0.9 0.9 1 0.9 0.9 1\n");
    check_yolo(p, "train: images/train\nnames: [nut, bolt]\nkpt_shape: [2, 3]\n", "yolo", NULL);
    no_diagnostics(p);
}

static void yolo_folders(void **state)
{
    place *p = *state;
    dg_data_source inside = from(p, "in", "valid"), all = from(p, "all", NULL),
                   plain = from(p, "beside/data.yaml", "train");
    dg_coco *c = NULL;

    write_image(p, "in/valid/images/a.jpg", 10, 10);
    write_text(p, "in/valid/labels/a.txt", "0 0.5 0.5 0.5 0.5");
    write_text(p, "in/classes.txt", "x");
    assert_int_equal(dg_yolo_open(&c, &inside, p->d), 0);
    assert_string_equal(dg_coco_image_at(c, 0)->file_name, "valid/images/a.jpg");
    check_box(c, 0, 0, 0, 2.5, 2.5, 5, 5);
    dg_coco_close(&c);

    write_image(p, "all/images/a.jpg", 10, 10);
    write_text(p, "all/labels/a.txt", "0 0.5 0.5 0.5 0.5");
    all.classes = "x";
    assert_int_equal(dg_yolo_open(&c, &all, p->d), 0);
    assert_int_equal(dg_coco_n_annotations(c), 1);
    dg_coco_close(&c);

    write_image(p, "beside/pictures/a.jpg", 10,
                10); /* no folder called images: labels stand beside */
    write_text(p, "beside/pictures/a.txt", "2 0.5 0.5 0.5 0.5");
    write_text(p, "beside/data.yaml", "train: pictures\nnc: 3\n");
    assert_int_equal(dg_yolo_open(&c, &plain, p->d), 0);
    check_box(c, 0, 0, 2, 2.5, 2.5, 5, 5);
    assert_string_equal(dg_coco_class_at(c, 2)->name, "class 2");
    dg_coco_close(&c);
    no_diagnostics(p);
}

static const struct {
    const char *text, *says;
    int line;
} bad_labels[] = {
    { "0 0.5 0.5 0.5", "3 numbers behind the class", 1 },
    { "\n0 0.5 0.5 0.5 0.5 0.9", "5 numbers", 2 },
    { "0", "0 numbers", 1 },
    { "nut 0.5 0.5 0.5 0.5", "\"nut\" is no number", 1 },
    { "-1 0.5 0.5 0.5 0.5", "the class is -1", 1 },
    { "0.5 0.5 0.5 0.5 0.5", "the class is 0.5", 1 },
    { "0 0.5 nan 0.5 0.5", "\"nan\" is no number", 1 },
    { "0 0.5 0.5 0.5 0.5\n0 120 80 40 30\n", "coordinate 120 is not a share", 2 },
};

static void yolo_labels(void **state)
{
    place *p = *state;
    dg_yolo_labels x;

    for (size_t i = 0; i < sizeof bad_labels / sizeof *bad_labels; i++) {
        assert_int_equal(dg_yolo_parse(&x, p->a, bad_labels[i].text, strlen(bad_labels[i].text), 0,
                                       "x.txt", p->d),
                         -DG_EINPUT);
        assert_int_equal(dg_diag_at(p->d, 0)->at.line, bad_labels[i].line);
        check_says(p, "yolo-label", bad_labels[i].says);
    }
}

static const struct {
    const char *text, *id, *says;
} bad_yaml[] = {
    { "train: [images/train\n", "yaml-syntax", "not valid YAML" },
    { "train: images/train\nnames: *x\n", "yaml-alias", "*x" },
    { "a: "
      "[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[x]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]\n",
      "yaml-depth", "nested" },
    { "", "yaml-syntax", "no value" },
    { "{[a]: b}\n", "yaml-syntax", "a key must be a single word" },
    { "train: images/train\nnames: [nut]\nnames: [bolt]\n", "yaml-twice",
      "names stands here twice" },
    { "val: images/val\nnames: [nut]\n", "data-split", "it has no \"train\"" },
    { "train: images/trian\nnames: [nut]\n", "yolo-source", "there is no" },
    { "train: {a: b}\nnames: [nut]\n", "yolo-source", "expected a folder" },
    { "train: images/train\n", "yolo-names", "expected `names`" },
    { "train: images/train\nnc: -3e9\n", "yolo-names", "expected `names`" },
    { "train: images/train\nnc: 1.5\n", "yolo-names", "expected `names`" },
    { "train: images/train\nnames: []\n", "yolo-names", "expected `names`" },
    { "train: images/train\nnames: [nut, [bolt]]\n", "yolo-names", "one word or text" },
    { "train: images/train\nnames: {0: nut, 2: bolt}\n", "yolo-names", "numbered from 0 to 1" },
    { "train: images/train\nnc: 3\nnames: [nut, bolt]\n", "yolo-names",
      "nc is 3, but `names` has 2" },
    { "train: images/train\nnames: [nut, nut]\n", "class-twice", "nut" },
    { "train: images/train\nnames: [nut]\n", "yolo-class",
      "class 1, but the last of 1 class is 0" },
    { "train: [images/train, images/train/]\nnames: [nut, bolt]\n", "yolo-twice",
      "a.png is listed twice" },
    { "train: none\nnames: [nut, bolt]\n", "yolo-empty", "no image" },
    { "train: ../images/trian\nnames: [nut]\n", "yolo-source", ", nor " },
    { "train: images/train\nnames: [nut, bolt]\nkpt_shape: [17, none]\n", "yolo-keypoints",
      "kpt_shape: [" },
    { "train: images/train\nnames: [nut, bolt]\nkpt_shape: [17, 3]\n", "yolo-label",
      "and 51 of keypoints" },
};

static void yolo_refused(void **state)
{
    static const char nul[] = "0 0.5 0.5 0.1 0.1\n1 \0000.5 0.5 0.1 0.1\n";
    place *p = *state;
    dg_data_source train = from(p, "yolo/data.yaml", "train"), folder = from(p, "yolo", NULL),
                   missing = from(p, "nothing", "train");
    dg_str many = { 0 };
    const dg_json *tree;
    dg_coco *c = NULL;

    make_yolo(p);
    assert_int_equal(dg_mkdirs(temporary(p, "yolo/none"), p->d), 0);
    for (size_t i = 0; i < sizeof bad_yaml / sizeof *bad_yaml; i++) {
        write_text(p, "yolo/data.yaml", bad_yaml[i].text);
        if (dg_yolo_open(&c, &train, p->d) != -DG_EINPUT)
            fail_msg("%s", bad_yaml[i].text);
        check_says(p, bad_yaml[i].id, bad_yaml[i].says);
    }
    unlink(temporary(p, "yolo/data.yaml"));
    assert_int_equal(dg_yolo_open(&c, &folder, p->d), -DG_EINPUT);
    check_says(p, "data-split", "which split?");
    folder.split = "test";
    assert_int_equal(dg_yolo_open(&c, &folder, p->d), -DG_EINPUT);
    check_says(p, "data-split", "no images/test with labels/test");
    folder.split = "train";
    assert_int_equal(dg_yolo_open(&c, &folder, p->d), -DG_EINPUT);
    check_says(p, "yolo-names", "nothing names the classes");
    assert_int_equal(dg_yolo_open(&c, &missing, p->d), -DG_EIO);
    check_says(p, "data-missing", "no such folder");
    folder.classes = "nut,bolt";
    write_text(p, "yolo/labels/train/a.txt", "0 1 2\n");
    assert_int_equal(dg_yolo_open(&c, &folder, p->d), -DG_EINPUT);
    check_only(p->d, "yolo-label");
    /* the lines behind a NUL would be lost */
    assert_int_equal(dg_file_write(temporary(p, "yolo/labels/train/a.txt"), nul, sizeof nul - 1,
                                   p->d),
                     0);
    assert_int_equal(dg_yolo_open(&c, &folder, p->d), -DG_EINPUT);
    check_says(p, "text-nul", "byte 20 is NUL");

    /* an image that cannot be read: an error, or the probe's to say where others take its place */
    write_text(p, "yolo/labels/train/a.txt", "0 0.5 0.5 0.1 0.1\n");
    write_text(p, "yolo/images/train/a.png", "no image");
    assert_int_equal(dg_yolo_open(&c, &folder, p->d), -DG_EINPUT);
    check_says(p, "image-unknown", "not a JPEG, PNG, BMP, WebP or TIFF");
    folder.replace = true;
    assert_int_equal(dg_yolo_open(&c, &folder, p->d), 0);
    check_says(p, "data-unsized", "cannot be read: 1; objects");
    assert_int_equal(dg_coco_n_annotations(c), 0);
    assert_int_equal(dg_coco_probe(c, 0, dg_coco_folder(c), p->d), -DG_EINPUT);
    check_only(p->d, "image-unknown");
    dg_coco_close(&c);

    for (int i = 0; i < 140000; i++)
        dg_str_add(&many, "- a\n");
    assert_int_equal(dg_yaml_parse(&tree, p->a, many.s, many.n, "many.yaml", p->d), -DG_EINPUT);
    check_only(p->d, "yaml-size");
    dg_str_free(&many);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(voc_sets, set_up, tear_down),
        cmocka_unit_test_setup_teardown(voc_dialects, set_up, tear_down),
        cmocka_unit_test_setup_teardown(voc_folders, set_up, tear_down),
        cmocka_unit_test_setup_teardown(voc_errors, set_up, tear_down),
        cmocka_unit_test_setup_teardown(voc_refused, set_up, tear_down),
        cmocka_unit_test_setup_teardown(yolo_beside, set_up, tear_down),
        cmocka_unit_test_setup_teardown(yolo_shapes, set_up, tear_down),
        cmocka_unit_test_setup_teardown(yolo_folders, set_up, tear_down),
        cmocka_unit_test_setup_teardown(yolo_labels, set_up, tear_down),
        cmocka_unit_test_setup_teardown(yolo_refused, set_up, tear_down),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
