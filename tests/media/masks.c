/* masks: polygons and run lengths become the official tools' masks, and scores of masks theirs;
 * masks follow their images. */
#include "tests/media/place.h"

#include <math.h>

#include "media/coco.h"
#include "media/image.h"
#include "media/json.h"
#include "media/rle.h"

static const dg_json *read_json(place *p, const char *name)
{
    const dg_json *root;

    assert_int_equal(dg_json_read(&root, p->a, data(p, name), p->d), 0);
    return root;
}

static dg_coco *open_truth(place *p, const char *name)
{
    dg_coco *c;

    if (dg_coco_open_masks(&c, data(p, name), p->d) < 0)
        no_diagnostics(p);
    return c;
}

/* Annotations have the order of the file: it is that of the images, too. */
static void check_runs(place *p, const dg_coco *c, const dg_json *runs)
{
    for (int i = 0; i < runs->n; i++) {
        dg_rle r;
        char *text;

        assert_int_equal(dg_coco_mask(&r, c, i, p->d), 0);
        text = dg_rle_text(&r);
        assert_string_equal(text, runs->items[i].text);
        assert_true(dg_rle_area(&r) == dg_coco_annotation_at(c, i)->area);
        dg_free(text);
        dg_rle_free(&r);
    }
    assert_int_equal(runs->n, dg_coco_n_annotations(c));
}

static void check_scores(place *p, const dg_coco *c, const char *file, const dg_json *want)
{
    int64_t n = dg_coco_n_annotations(c);
    dg_rle *truths = DG_NEW_N(p->a, n, dg_rle);
    dg_found found;
    dg_score *s;

    for (int64_t i = 0; i < n; i++)
        assert_int_equal(dg_coco_mask(&truths[i], c, i, p->d), 0);
    assert_int_equal(dg_detections_read_masks(&found, file, c, p->d), 0);
    assert_true(found.n > 0);
    assert_int_equal(dg_score_open_masks(&s, dg_coco_n_images(c), dg_coco_n_classes(c),
                                         dg_coco_annotations(c), truths, n, found.items,
                                         found.masks, found.n, p->d),
                     0);
    for (int i = 0; i < DG_N_SCORES; i++)
        if (!(fabs(dg_score_number(s, i) - want->items[i].number) <= 1e-9))
            fail_msg("%s is %.12f, not %.12f", dg_score_name(i), dg_score_number(s, i),
                     want->items[i].number);
    dg_score_close(&s);
    for (int64_t i = 0; i < n; i++)
        dg_rle_free(&truths[i]);
    dg_detections_free(&found);
}

static void official(void **state)
{
    place *p = *state;
    const dg_json *all = read_json(p, "masks.json");

    for (int i = 0; i < all->n; i++) {
        const char *name = dg_json_text(&all->items[i], "name");
        dg_coco *c = open_truth(p, dg_printf(p->a, "masks_%s.json", name));

        check_runs(p, c, dg_json_get(&all->items[i], "runs"));
        check_scores(p, c, data(p, dg_printf(p->a, "masks_%s_found.json", name)),
                     dg_json_get(&all->items[i], "numbers"));
        dg_coco_close(&c);
    }
    no_diagnostics(p);
}

/* ---- what is refused ------------------------------------------------------------------------- */

static void refuse(place *p, const char *segmentation, const char *id)
{
    const char
        *path = temporary(p, "bad.json"),
        *text = dg_printf(
            p->a,
            "{\"images\":[{\"id\":1,\"file_name\":\"a\",\"width\":4,\"height\":3}],"
            "\"annotations\":[{\"id\":5,\"image_id\":1,\"category_id\":1,\"bbox\":[0,0,2,2]%s}],"
            "\"categories\":[{\"id\":1,\"name\":\"a\"}]}",
            segmentation);
    dg_coco *c;
    int rc;

    assert_int_equal(dg_file_write(path, text, strlen(text), p->d), 0);
    rc = dg_coco_open_masks(&c, path, p->d);
    if (rc == 0) {
        dg_rle r;

        rc = dg_coco_mask(&r, c, 0, p->d);
        dg_coco_close(&c);
    }
    assert_true(rc < 0);
    assert_int_equal(dg_diag_at(p->d, 0)->at.line, 1);
    check_says(p, id, "annotation 5");
    dg_diag_clear(p->d);
}

static void refused(void **state)
{
    place *p = *state;

    refuse(p, "", "mask-missing");
    refuse(p, ",\"segmentation\":null", "mask-missing");
    refuse(p, ",\"segmentation\":[ ]", "mask-missing");
    refuse(p, ",\"segmentation\":[[0,0,1,1]]", "mask-form");
    refuse(p, ",\"segmentation\":[[0,0,1,1,2]]", "mask-form");
    refuse(p, ",\"segmentation\":[[0,0,1,1,1e9,2]]", "mask-form");
    refuse(p, ",\"segmentation\":[[0,0,1,1,\"x\",2]]", "mask-form");
    refuse(p, ",\"segmentation\":[1,2,3]", "mask-form");
    refuse(p, ",\"segmentation\":{\"size\":[3,4]}", "mask-form");
    refuse(p, ",\"segmentation\":{\"size\":[4,3],\"counts\":[12]}", "mask-form");
    refuse(p, ",\"segmentation\":{\"size\":[3,4],\"counts\":[2,3]}", "mask-form");
    refuse(p, ",\"segmentation\":{\"size\":[3,4],\"counts\":[2,-3,13]}", "mask-form");
    refuse(p, ",\"segmentation\":{\"size\":[3,4],\"counts\":[2.5,9.5]}", "mask-form");
    refuse(p, ",\"segmentation\":{\"size\":[3,4],\"counts\":\"\"}", "mask-form");
    refuse(p, ",\"segmentation\":{\"size\":[3,4],\"counts\":\"hhhhhhhhhhhh\"}", "mask-form");
    refuse(p, ",\"segmentation\":{\"size\":[3,4],\"counts\":\" \"}", "mask-form");
}

static const char *row(const dg_mask *m, int y)
{
    static char text[64];

    for (int x = 0; x < m->w; x++)
        text[x] = m->on[y * m->w + x] ? '#' : '.';
    text[m->w] = '\0';
    return text;
}

/* ---- YOLO ------------------------------------------------------------------------------------ */

static void put(place *p, const char *name, const char *text)
{
    assert_int_equal(dg_file_write(temporary(p, name), text, strlen(text), p->d), 0);
}

static void yolo_polygons(void **state)
{
    place *p = *state;
    const dg_data_source from = {
        .size = sizeof from, .root = p->folder, .classes = "nut", .masks = true
    };
    dg_image im;
    dg_coco *c;
    dg_sample sm;

    assert_int_equal(dg_mkdirs(temporary(p, "images"), p->d), 0);
    assert_int_equal(dg_mkdirs(temporary(p, "labels"), p->d), 0);
    assert_int_equal(dg_image_new(&im, p->s, 8, 4, p->d), 0);
    assert_int_equal(dg_image_write(temporary(p, "images/a.png"), &im, p->d), 0);
    assert_int_equal(dg_image_write(temporary(p, "images/b.png"), &im, p->d), 0);
    put(p, "labels/b.txt", "0 0.25 0.25 0.75 0.25 0.75 0.75 0.25 0.75\n0 0 0 0.5 0 0.5 1 0 1\n");
    assert_int_equal(dg_yolo_open(&c, &from, p->d), 0);
    assert_int_equal(dg_coco_sample(&sm, p->s, c, 1, dg_coco_folder(c), p->d), 0);
    assert_int_equal(sm.n_objects, 2);
    assert_string_equal(row(&sm.masks[0], 0), "........");
    assert_string_equal(row(&sm.masks[0], 1), "..####..");
    assert_string_equal(row(&sm.masks[0], 2), "..####..");
    assert_string_equal(row(&sm.masks[1], 3), "####....");
    dg_coco_close(&c);
    no_diagnostics(p);

    put(p, "labels/b.txt", "0 0 0 0.5 0 0.5 1 0 1\n0 0.5 0.5 0.5 0.5\n");
    assert_true(dg_yolo_open(&c, &from, p->d) < 0);
    assert_int_equal(dg_diag_at(p->d, 0)->at.line, 2);
    check_says(p, "mask-missing", "without a mask");
}

/* ---- geometry -------------------------------------------------------------------------------- */

static dg_sample sample_of(dg_scratch *s, dg_diag *d)
{
    static const uint8_t on[2][12] = { { 1, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0 },
                                       { 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 1, 1 } };
    dg_sample sm = { .size = sizeof sm, .scratch = s, .n_objects = 2 };

    assert_int_equal(dg_image_new(&sm.image, s, 4, 3, d), 0);
    sm.objects = dg_scratch_alloc(s, 2 * sizeof *sm.objects);
    sm.masks = dg_scratch_alloc(s, 2 * sizeof *sm.masks);
    sm.objects[0] = (dg_object){ .box = { 0, 0, 2, 2 } };
    sm.objects[1] = (dg_object){ .box = { 2, 1, 4, 3 }, .label = 1 };
    for (int i = 0; i < 2; i++) {
        sm.masks[i] = (dg_mask){ 4, 3, dg_scratch_alloc(s, 12) };
        memcpy(sm.masks[i].on, on[i], 12);
    }
    return sm;
}

static void follow_images(void **state)
{
    static const uint8_t black[3] = { 0 };
    place *p = *state;
    dg_scratch *s = dg_scratch_open(0);
    dg_sample sm = sample_of(s, p->d);

    dg_sample_flip(&sm);
    assert_string_equal(row(&sm.masks[0], 0), "..##");
    assert_string_equal(row(&sm.masks[1], 2), "##..");
    assert_int_equal(dg_sample_paste(&sm, 6, 4, 1, 1, black, p->d), 0);
    assert_string_equal(row(&sm.masks[0], 1), "...##.");
    assert_string_equal(row(&sm.masks[0], 0), "......");
    assert_int_equal(dg_sample_crop(&sm, 3, 1, 3, 2, p->d), 0);
    assert_string_equal(row(&sm.masks[0], 0), "##.");
    assert_int_equal(dg_sample_sanitize(&sm, 1), 1); /* the second one's centre is outside */
    assert_string_equal(row(&sm.masks[0], 1), ".#.");
    assert_int_equal(dg_sample_resize(&sm, 6, 4, p->d), 0);
    assert_string_equal(row(&sm.masks[0], 3), "..##..");
    assert_int_equal(sm.masks[0].h, 4);

    sm = sample_of(s, p->d);
    sm.objects[0].box.x2 = 0;
    assert_int_equal(dg_sample_sanitize(&sm, 1), 1);
    assert_int_equal(sm.objects[0].label, 1);
    assert_string_equal(row(&sm.masks[0], 2), "..##");
    dg_scratch_close(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(official, set_up, tear_down),
        cmocka_unit_test_setup_teardown(refused, set_up, tear_down),
        cmocka_unit_test_setup_teardown(yolo_polygons, set_up, tear_down),
        cmocka_unit_test_setup_teardown(follow_images, set_up, tear_down),
    };

    return cmocka_run_group_tests_name("masks", tests, NULL, NULL);
}
