/* coco: the index of an annotation file, its report, samples, detections, and what is refused
 * with which words. */
#include "tests/media/place.h"

#include "media/coco.h"
#include "media/image.h"

static const char good[] =
    "{\"info\": {\"year\": [1, {\"deep\": []}]},\n"
    " \"annotations\": [\n"
    "  {\"id\": 5, \"image_id\": 30, \"category_id\": 7, \"bbox\": [1.5, 2, 10, 20], \"area\": "
    "150.25, \"iscrowd\": 0,\n"
    "   \"segmentation\": [[1, 2, 3, 4], [5]]},\n"
    "  {\"id\": 6, \"image_id\": 10, \"category_id\": 90, \"bbox\": [-5, 0, 10, 10], "
    "\"segmentation\": {\"size\": [1, 2]}},\n"
    "  {\"id\": 7, \"image_id\": 30, \"category_id\": 90, \"bbox\": [0, 0, 40, 30], \"iscrowd\": "
    "true},\n"
    "  {\"image_id\": 30, \"category_id\": 7, \"bbox\": [3, 3, 0, 5], \"area\": null},\n"
    "  {\"id\": 9, \"image_id\": 30, \"category_id\": 7, \"bbox\": [40, 3, 4, 5]},\n"
    "  {\"id\": 10, \"image_id\": 30, \"category_id\": 90, \"bbox\": [30.5, 20, 10, 10]}],\n"
    " \"images\": [\n"
    "  {\"id\": 30, \"file_name\": \"b.png\", \"width\": 40, \"height\": 30},\n"
    "  {\"id\": 20, \"file_name\": \"sub/c.png\", \"width\": 40.0, \"height\": 30, \"license\": "
    "null},\n"
    "  {\"id\": 10, \"file_name\": \"a.png\", \"width\": 40, \"height\": 30}],\n"
    " \"categories\": [{\"id\": 90, \"name\": \"toothbrush\"}, {\"id\": 7, \"name\": "
    "\"tr\\u00e4in\", \"supercategory\": \"x\"}]}\n";

static dg_coco *open_good(place *p)
{
    dg_coco *c;

    assert_int_equal(dg_coco_parse(&c, good, sizeof good - 1, "good.json", true, 0, p->d), 0);
    return c;
}

static void index_of_a_file(void **state)
{
    place *p = *state;
    dg_coco *c = open_good(p);
    const dg_coco_annotation *x;

    assert_string_equal(dg_coco_path(c), "good.json");
    assert_int_equal(dg_coco_n_images(c), 3);
    assert_int_equal(dg_coco_n_classes(c), 2);
    assert_int_equal(dg_coco_n_annotations(c), 6);
    assert_int_equal(dg_coco_image_at(c, 0)->id, 10);
    assert_int_equal(dg_coco_image_at(c, 1)->id, 20);
    assert_int_equal(dg_coco_image_at(c, 1)->n, 0);
    assert_string_equal(dg_coco_image_at(c, 2)->file_name, "b.png");
    assert_int_equal(dg_coco_image_at(c, 2)->n, 5);
    assert_int_equal(dg_coco_find_image(c, 30), 2);
    assert_int_equal(dg_coco_find_image(c, 31), -1);
    assert_int_equal(dg_coco_class_at(c, 0)->id, 7);
    assert_string_equal(dg_coco_class_at(c, 0)->name, "tr\xC3\xA4in");
    assert_int_equal(dg_coco_find_class(c, 90), 1);
    assert_int_equal(dg_coco_find_class(c, 0), -1);
    x = dg_coco_annotation_at(c, dg_coco_image_at(c, 2)->first);
    assert_true(x->id == 5 && x->image == 2 && x->label == 0 && x->x == 1.5 && x->h == 20 &&
                x->area == 150.25 && !x->crowd);
    assert_true(x[1].id == 7 && x[1].crowd && x[1].area == 1200);
    assert_true(x[2].id == 4 && x[2].area == 0); /* none was given: its place */
    assert_ptr_equal(dg_coco_annotations(c), x - 1);
    dg_coco_close(&c);
    assert_null(c);
    dg_coco_close(&c);
    no_diagnostics(p);
}

static void training_rule(void **state)
{
    place *p = *state;
    dg_coco *c = open_good(p);
    const dg_data_report *r = dg_coco_report(c);
    dg_object o[5];

    assert_int_equal(dg_coco_objects(o, c, 0), 1);
    assert_true(o[0].box.x1 == 0 && o[0].box.y1 == 0 && o[0].box.x2 == 5 && o[0].box.y2 == 10 &&
                o[0].label == 1);
    assert_int_equal(dg_coco_objects(o, c, 1), 0);
    assert_int_equal(dg_coco_objects(o, c, 2), 2);
    assert_true(o[1].box.x1 == 30.5 && o[1].box.x2 == 40 && o[1].box.y2 == 30);

    assert_int_equal(r->n_images, 3);
    assert_int_equal(r->n_empty, 1);
    assert_int_equal(r->n_objects, 3);
    assert_int_equal(r->n_crowd, 1);
    assert_int_equal(r->n_degenerate, 1);
    assert_int_equal(r->n_outside, 1);
    assert_int_equal(r->n_cut, 1); /* half a pixel beyond the edge is rounding, not a fault */
    assert_int_equal(r->n_named, 3);
    assert_int_equal(r->most_objects, 2);
    assert_int_equal(r->most_objects_image, 2);
    assert_int_equal(r->per_class[0], 1);
    assert_int_equal(r->per_class[1], 2);

    /* by image, in the file's order */
    assert_int_equal(r->named[0].fault, DG_BOX_CUT);
    assert_int_equal(dg_coco_annotation_at(c, r->named[0].annotation)->id, 6);
    assert_int_equal(r->named[1].fault, DG_BOX_EMPTY);
    assert_int_equal(dg_coco_annotation_at(c, r->named[1].annotation)->id, 4);
    assert_int_equal(r->named[2].fault, DG_BOX_OUTSIDE);
    assert_int_equal(dg_coco_annotation_at(c, r->named[2].annotation)->id, 9);
    dg_coco_close(&c);
}

/* ---- bad files ------------------------------------------------------------------------------- */

#define IMAGES "{\"images\": [{\"id\": 1, \"file_name\": \"a\", \"width\": 4, \"height\": 3}],\n"
#define CLASSES "\"categories\": [{\"id\": 1, \"name\": \"x\"}],\n"
#define ONE(fields) IMAGES CLASSES "\"annotations\": [\n{" fields "}]}"
#define BOX(numbers) ONE("\"image_id\": 1, \"category_id\": 1, \"bbox\": " numbers)

static const struct {
    const char *text, *id, *says;
    int line;
} bad[] = {
    { IMAGES CLASSES "\"annotations\": [\n{\"image_id\": 1,", "json-syntax", "premature EOF", 4 },
    { "", "json-syntax", "premature EOF", 1 },
    { "[]", "record-kind", "the file holds an array, expected an object", 1 },
    { "17", "record-kind", "the file holds a number, expected an object", 1 },
    { IMAGES CLASSES "\"annotation\": []}", "record-section",
      "the file has no list \"annotations\"", 1 },
    { IMAGES "\"annotations\": []}", "record-section", "the file has no list \"categories\"", 1 },
    { IMAGES "\"images\": []}", "record-section", "\"images\" stands twice in this file", 2 },
    { "{\"images\": {}}", "record-kind", "\"images\" is an object, expected a list of objects", 1 },
    { "{\"images\": null}", "record-kind", "\"images\" is null, expected a list of objects", 1 },
    { "{\"images\": [7]}", "record-kind", "a number in the list of images, expected an object", 1 },
    { "{\"images\": [\n[]]}", "record-kind", "an array in the list of images, expected an object",
      2 },
    { "{\"images\": [\n{\"id\": 1}]}", "record-key", "this image has no \"file_name\"", 2 },
    { "{\"images\": [\n{\"id\": \"\"}]}", "record-kind",
      "\"id\" of this image is a string, expected a whole number or text", 2 },
    { "{\"images\": [\n{\"id\": 1.5}]}", "record-kind",
      "\"id\" of this image is a number that does not fit", 2 },
    { "{\"images\": [\n{\"id\": null}]}", "record-kind",
      "\"id\" of this image is null, expected a whole number or text", 2 },
    { "{\"images\": [\n{\"id\": [1]}]}", "record-kind",
      "\"id\" of this image is an array, expected a whole number or text", 2 },
    { "{\"images\": [\n{\"file_name\": 3}]}", "record-kind",
      "\"file_name\" of this image is a number", 2 },
    { "{\"images\": [\n{\"id\": 1, \"file_name\": \"a\", \"width\": 0, \"height\": 3}]}",
      "record-value", "image 1 is 0 x 3 by this file", 2 },
    { "{\"images\": [], " CLASSES "\"annotations\": []}", "coco-empty",
      "the list \"images\" is empty", 0 },
    { IMAGES "\"categories\": [], \"annotations\": []}", "coco-empty",
      "the list \"categories\" is empty", 0 },
    { ONE(""), "record-key", "this annotation has no \"image_id\"", 4 },
    { ONE("\"image_id\": 1, \"category_id\": 1"), "record-key", "this annotation has no \"bbox\"",
      4 },
    { BOX("[1, 2, 3, 4], \"bbox\": [1, 2, 3, 4]"), "record-key",
      "\"bbox\" stands twice in this annotation", 4 },
    { BOX("[1, 2, 3]"), "record-value", "\"bbox\" of this annotation has 3 numbers, expected 4",
      4 },
    { BOX("[1, 2, 3, 4, 5]"), "record-value", "\"bbox\" of this annotation has more than 4 numbers",
      4 },
    { BOX("\"1 2 3 4\""), "record-kind",
      "\"bbox\" of this annotation is a string, expected 4 numbers", 4 },
    { BOX("{}"), "record-kind", "\"bbox\" of this annotation is an object, expected 4 numbers", 4 },
    { BOX("[1, 2, null, 4]"), "record-kind",
      "\"bbox\" of this annotation is a list with null, expected 4 numbers", 4 },
    { BOX("[[1, 2, 3, 4]]"), "record-kind", "\"bbox\" of this annotation is a list with an array",
      4 },
    { BOX("[1, 1e999, 3, 4]"), "record-value", "has 1e999 for its top, which must be finite", 4 },
    { BOX("[1, 2, 3, 4], \"area\": 1e400"), "record-value",
      "\"area\" of this annotation is 1e400, which is not finite", 4 },
    { BOX("[1, 2, 3, 4], \"iscrowd\": 2"), "record-kind", "expected 0 or 1", 4 },
    { ONE("\"image_id\": 3, \"category_id\": 1, \"bbox\": [1, 2, 3, 4]"), "coco-unknown",
      "this annotation has image_id 3, but no image has that id", 4 },
    { ONE("\"image_id\": 1, \"category_id\": 0, \"bbox\": [1, 2, 3, 4]"), "coco-unknown",
      "this annotation has category_id 0, but no category has that id", 4 },
    { "{\"images\": [{\"id\": 1, \"file_name\": \"a\", \"width\": 4, \"height\": 3},\n"
      "{\"id\": 1, \"file_name\": \"b\", \"width\": 4, \"height\": 3}], " CLASSES
      "\"annotations\": []}",
      "coco-duplicate", "a second image with id 1", 2 },
    { IMAGES "\"categories\": [{\"id\": 2, \"name\": \"x\"},\n{\"id\": 2, \"name\": \"y\"}], "
             "\"annotations\": []}",
      "coco-duplicate", "a second category with id 2", 3 },
};

static void bad_files(void **state)
{
    place *p = *state;

    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        dg_coco *c = NULL;

        assert_int_equal(dg_coco_parse(&c, bad[i].text, strlen(bad[i].text), "bad.json", true, 0,
                                       p->d),
                         -DG_EINPUT);
        assert_null(c);
        assert_string_equal(dg_diag_at(p->d, 0)->at.file, "bad.json");
        if (dg_diag_at(p->d, 0)->at.line != bad[i].line)
            fail_msg("%s: line %d", bad[i].text, dg_diag_at(p->d, 0)->at.line);
        check_says(p, bad[i].id, bad[i].says);
    }
}

/* One annotation of many that is wrong does not refuse the file: it is dropped and named. */
static void negative_side(void **state)
{
    static const char text[] = BOX("[3, 2, -2, 1]");
    place *p = *state;
    dg_coco *c = NULL;
    dg_object o[1];

    assert_int_equal(dg_coco_parse(&c, text, sizeof text - 1, "side.json", true, 0, p->d), 0);
    assert_int_equal(dg_coco_objects(o, c, 0), 0);
    assert_int_equal(dg_coco_report(c)->n_degenerate, 1);
    assert_int_equal(dg_coco_report(c)->n_named, 1);
    assert_int_equal(dg_coco_report(c)->n_empty, 1);
    dg_coco_close(&c);
    no_diagnostics(p);
}

static void index_memory(void **state)
{
    place *p = *state;
    dg_coco *c = NULL;

    assert_int_equal(dg_coco_parse(&c, good, sizeof good - 1, "good.json", true, 30000, p->d),
                     -DG_EMEMORY);
    check_says(p, "coco-memory", "no memory for its index of");
    assert_int_equal(dg_coco_open(&c, temporary(p, "absent.json"), p->d), -DG_EIO);
    check_only(p->d, "file-open");
}

/* ---- samples --------------------------------------------------------------------------------- */

static dg_coco *one_image(place *p, const char *name, int w, int h)
{
    const char *text = dg_printf(
        p->a,
        "{\"images\": [{\"id\": 4, \"file_name\": \"%s\", \"width\": %d, \"height\": %d}], "
        "\"annotations\": [{\"image_id\": 4, \"category_id\": 3, \"bbox\": [1, 2, 3, 4]}], "
        "\"categories\": [{\"id\": 3, \"name\": \"x\"}]}",
        name, w, h);
    dg_coco *c;

    assert_int_equal(dg_coco_parse(&c, text, strlen(text), "x.json", true, 0, p->d), 0);
    return c;
}

static void samples(void **state)
{
    place *p = *state;
    dg_coco *upright = one_image(p, "turn6.jpg", 29, 37),
            *stored = one_image(p, "turn6.jpg", 37, 29);
    dg_coco *other = one_image(p, "turn6.jpg", 38, 29), *absent = one_image(p, "absent.jpg", 1, 1);
    dg_sample sm;
    dg_scratch *little = dg_scratch_open(600);

    assert_int_equal(dg_coco_sample(&sm, p->s, upright, 0, data(p, "."), p->d), 0);
    assert_int_equal(sm.image.w, 29);
    assert_int_equal(sm.image_id, 4);
    assert_int_equal(sm.orig_h, 37);
    assert_int_equal(sm.n_objects, 1);
    assert_true(sm.objects[0].box.x2 == 4);
    assert_string_equal(sm.path, data(p, "./turn6.jpg"));
    assert_int_equal(dg_coco_probe(upright, 0, data(p, "."), p->d), 0);

    /* These boxes were drawn on the stored pixels. */
    assert_int_equal(dg_coco_sample(&sm, p->s, stored, 0, data(p, "."), p->d), 0);
    assert_int_equal(sm.image.w, 37);

    assert_int_equal(dg_coco_sample(&sm, p->s, other, 0, data(p, "."), p->d), -DG_EINPUT);
    check_says(p, "image-differs",
               "the file is 29 x 37 pixels, the annotations say 38 x 29 (image id 4)");
    assert_int_equal(dg_coco_probe(other, 0, data(p, "."), p->d), -DG_EINPUT);
    check_only(p->d, "image-differs");
    assert_int_equal(dg_coco_probe(absent, 0, data(p, "."), p->d), -DG_EIO);
    check_only(p->d, "file-open");
    assert_int_equal(dg_coco_sample(&sm, little, upright, 0, data(p, "."), p->d), -DG_EMEMORY);
    check_only(p->d, "image-memory");
    dg_scratch_close(&little);
    dg_coco_close(&upright);
    dg_coco_close(&stored);
    dg_coco_close(&other);
    dg_coco_close(&absent);
}

static void real_set(void **state)
{
    place *p = *state;
    const char *path = shared(p, "bccd/annotations/train.json");
    dg_coco *c;
    dg_sample sm;

    if (!path)
        skip();
    assert_int_equal(dg_coco_open(&c, path, p->d), 0);
    assert_int_equal(dg_coco_report(c)->n_images, 205);
    assert_int_equal(dg_coco_report(c)->n_objects, 2804);
    assert_int_equal(dg_coco_report(c)->n_degenerate + dg_coco_report(c)->n_outside, 0);
    for (int i = 0; i < 205; i++)
        assert_int_equal(dg_coco_probe(c, i, shared(p, "bccd/images"), p->d), 0);
    assert_int_equal(dg_coco_sample(&sm, p->s, c, 7, shared(p, "bccd/images"), p->d), 0);
    assert_int_equal(sm.image.w, 640);
    dg_coco_close(&c);
}

/* ---- detections ------------------------------------------------------------------------------ */

static int parse_detections(place *p, dg_found *out, const dg_coco *truth, const char *text)
{
    return dg_detections_parse(out, text, strlen(text), "d.json", truth, p->d);
}

static void detections(void **state)
{
    place *p = *state;
    dg_coco *c = open_good(p);
    dg_found x;

    assert_int_equal(
        parse_detections(p, &x, c,
                         "[{\"image_id\": 20, \"category_id\": 90, \"bbox\": [1, -2, 3, 4.5], "
                         "\"score\": 0.25, \"segmentation\": {}}]"),
        0);
    assert_int_equal(x.n, 1);
    assert_true(x.items[0].image == 1 && x.items[0].label == 1 && x.items[0].y == -2 &&
                x.items[0].h == 4.5 && x.items[0].score == 0.25);
    assert_int_equal(dg_results_write(temporary(p, "d.json"), x.items, 1,
                                      (const int64_t[]){ 10, 20, 30 }, dg_coco_class_at(c, 0),
                                      p->d),
                     0);
    dg_detections_free(&x);
    assert_int_equal(dg_detections_read(&x, temporary(p, "d.json"), c, p->d), 0);
    assert_true(x.n == 1 && x.items[0].image == 1 && x.items[0].label == 1 && x.items[0].h == 4.5);
    dg_detections_free(&x);
    assert_int_equal(parse_detections(p, &x, c, "[]"), 0);
    assert_int_equal(x.n, 0);
    no_diagnostics(p);

    assert_int_equal(
        parse_detections(
            p, &x, c,
            "[{\"image_id\": 20, \"category_id\": 1, \"bbox\": [1,2,3,4], \"score\": 1},"
            "{\"image_id\": 20, \"category_id\": 2, \"bbox\": [1,2,3,4], \"score\": 1}]"),
        0);
    assert_int_equal(x.n, 0);
    check_says(p, "detections-category",
               "2 detections left out: good.json has no category 1 (the first of them)");
    assert_int_equal(
        parse_detections(p, &x, c,
                         "[\n{\"image_id\": 21, \"category_id\": 7, \"bbox\": [1,2,3,4], "
                         "\"score\": 1}]"),
        -DG_EINPUT);
    assert_int_equal(dg_diag_at(p->d, 0)->at.line, 2);
    check_says(p, "detections-image",
               "this detection has image_id 21, but good.json has no such image");
    assert_int_equal(parse_detections(p, &x, c, "{\"annotations\": []}"), -DG_EINPUT);
    check_says(p, "record-kind", "the file holds an object, expected a list of objects");
    assert_int_equal(
        parse_detections(p, &x, c, "[{\"image_id\": 20, \"category_id\": 7, \"bbox\": [1,2,3,4]}]"),
        -DG_EINPUT);
    check_says(p, "record-key", "this detection has no \"score\"");
    dg_coco_close(&c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(index_of_a_file, set_up, tear_down),
        cmocka_unit_test_setup_teardown(training_rule, set_up, tear_down),
        cmocka_unit_test_setup_teardown(bad_files, set_up, tear_down),
        cmocka_unit_test_setup_teardown(negative_side, set_up, tear_down),
        cmocka_unit_test_setup_teardown(index_memory, set_up, tear_down),
        cmocka_unit_test_setup_teardown(samples, set_up, tear_down),
        cmocka_unit_test_setup_teardown(real_set, set_up, tear_down),
        cmocka_unit_test_setup_teardown(detections, set_up, tear_down),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
