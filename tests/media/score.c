/* score: the official evaluator's numbers, on published and on random truths and detections. */
#include "tests/media/place.h"

#include <math.h>

#include <detrgraph/node.h>

#include "media/coco.h"
#include "media/json.h"
#include "media/score.h"

static dg_score *score(place *p, const dg_coco *truth, const dg_found *x)
{
    dg_score *s;

    assert_int_equal(dg_score_open(&s, dg_coco_n_images(truth), dg_coco_n_classes(truth),
                                   dg_coco_annotations(truth), dg_coco_n_annotations(truth),
                                   x->items, x->n, p->d),
                     0);
    return s;
}

static void published(void **state)
{
    static const char *const names[] = { "coco_sampled_bboxarea_100", "coco_crowd_ignore" };
    place *p = *state;
    const dg_json *all;

    assert_int_equal(dg_json_read(&all, p->a, data(p, "evaluator/expected.json"), p->d), 0);
    for (int k = 0; k < 2; k++) {
        const dg_json *want = dg_json_get(all, names[k]);
        dg_coco *truth;
        dg_found x;
        dg_score *s;

        assert_int_equal(dg_coco_open_as(&truth,
                                         data(p, dg_printf(p->a, "evaluator/%s/gt.json", names[k])),
                                         false, 0, p->d),
                         0);
        assert_int_equal(dg_detections_read(&x,
                                            data(p, dg_printf(p->a, "evaluator/%s/dets.json",
                                                              names[k])),
                                            truth, p->d),
                         0);
        s = score(p, truth, &x);
        for (int i = 0; i < DG_N_SCORES; i++)
            if (!(fabs(dg_score_number(s, i) - dg_json_get(want, dg_score_name(i))->number) <=
                  dg_json_get(want, "tol")->number))
                fail_msg("%s: %s is %.9f", names[k], dg_score_name(i), dg_score_number(s, i));
        dg_score_close(&s);
        dg_detections_free(&x);
        dg_coco_close(&truth);
    }
    no_diagnostics(p);
}

static double number(const dg_json *o, const char *key)
{
    return dg_json_get(o, key)->number;
}

/* A case of scores.json as arrays; ids become places by ascending order, as in an index. */
static int place_of(const dg_json *list, double id)
{
    int k = 0;

    for (int i = 0; i < list->n; i++)
        k += number(&list->items[i], "id") < id;
    return k;
}

static void check_case(place *p, const dg_json *c)
{
    const dg_json *truth = dg_json_get(c, "truth"), *images = dg_json_get(truth, "images");
    const dg_json *cats = dg_json_get(truth, "categories"),
                  *list = dg_json_get(truth, "annotations");
    const dg_json *found = dg_json_get(c, "detections"), *want = dg_json_get(c, "numbers");
    dg_coco_annotation *t = DG_NEW_N(p->a, list->n + 1, dg_coco_annotation);
    dg_detection *d = DG_NEW_N(p->a, found->n + 1, dg_detection);
    dg_score *s;

    for (int i = 0; i < list->n; i++) {
        const dg_json *o = &list->items[i], *b = dg_json_get(o, "bbox");

        t[i] = (dg_coco_annotation){ .image = place_of(images, number(o, "image_id")),
                                     .label = place_of(cats, number(o, "category_id")),
                                     .x = b->items[0].number,
                                     .y = b->items[1].number,
                                     .w = b->items[2].number,
                                     .h = b->items[3].number,
                                     .area = number(o, "area"),
                                     .crowd = number(o, "iscrowd") != 0 };
    }
    for (int i = 0; i < found->n; i++) {
        const dg_json *o = &found->items[i], *b = dg_json_get(o, "bbox");

        d[i] = (dg_detection){ place_of(images, number(o, "image_id")),
                               place_of(cats, number(o, "category_id")),
                               b->items[0].number,
                               b->items[1].number,
                               b->items[2].number,
                               b->items[3].number,
                               number(o, "score") };
    }
    assert_int_equal(dg_score_open(&s, images->n, cats->n, t, list->n, d, found->n, p->d), 0);
    for (int i = 0; i < DG_N_SCORES; i++)
        if (!(fabs(dg_score_number(s, i) - want->items[i].number) <= 1e-9))
            fail_msg("%s is %.12f, not %.12f", dg_score_name(i), dg_score_number(s, i),
                     want->items[i].number);
    for (int k = 0; k < cats->n; k++)
        assert_true(fabs(dg_score_class_ap(s, k) - dg_json_get(c, "classes")->items[k].number) <=
                    1e-9);
    dg_score_close(&s);
}

static void random_cases(void **state)
{
    place *p = *state;
    const dg_json *all;

    assert_int_equal(dg_json_read(&all, p->a, data(p, "scores.json"), p->d), 0);
    assert_true(all->n >= 20);
    for (int i = 0; i < all->n; i++)
        check_case(p, &all->items[i]);
    no_diagnostics(p);
}

/* One class, one image, one truth, one detection: IoU 0.7755, as in the documentation of
 * torchmetrics. */
static void one_box(void **state)
{
    place *p = *state;
    const dg_coco_annotation t = { .x = 214, .y = 41, .w = 348, .h = 244, .area = 348.0 * 244 };
    const dg_detection d = { .x = 258, .y = 41, .w = 348, .h = 244, .score = 0.536 };
    const dg_coco_class classes[] = { { 12, "one \"x\"" }, { 13, "none" } };
    dg_score *s;
    dg_str text = { 0 };

    assert_int_equal(dg_score_open(&s, 1, 2, &t, 1, &d, 1, p->d), 0);
    dg_score_print_json(&text, s, classes, 2);
    assert_string_equal(
        text.s, "{\"AP\":0.6,\"AP50\":1,\"AP75\":1,\"APs\":-1,\"APm\":-1,\"APl\":0.6,\"AR1\":0.6,"
                "\"AR10\":0.6,"
                "\"AR100\":0.6,\"ARs\":-1,\"ARm\":-1,\"ARl\":0.6,\"classes\":[{\"id\":12,\"name\":"
                "\"one \\\"x\\\"\","
                "\"AP\":0.6,\"AP50\":1},{\"id\":13,\"name\":\"none\",\"AP\":-1,\"AP50\":-1}]}");
    text.n = 0;
    dg_score_print(&text, s, classes, 2);
    assert_non_null(strstr(text.s, "AP      0.6000   precision, mean over IoU 0.50:0.95\n"));
    assert_non_null(strstr(text.s, " 0.6000  1.0000   one \"x\"\n-1.0000 -1.0000   none\n"));
    dg_str_free(&text);
    assert_true(dg_score_curve(s, 0, 5, 0)[100] > 0.999999); /* IoU 0.75 */
    assert_true(dg_score_curve(s, 0, 6, 0)[0] == 0.0);
    assert_true(dg_score_curve(s, 1, 0, 0)[50] == -1.0);
    dg_score_close(&s);
    assert_null(s);
}

static void nothing_and_nonsense(void **state)
{
    place *p = *state;
    const dg_coco_annotation t = { .w = 10, .h = 10, .area = 100 };
    const dg_detection bad = { .w = 1, .h = 1, .score = NAN },
                       flat = { .w = 0, .h = 10, .score = 0.5 },
                       nowhere = { .x = NAN, .y = NAN, .w = NAN, .h = NAN, .score = 0.5 };
    dg_score *s;

    assert_int_equal(dg_score_open(&s, 3, 2, NULL, 0, NULL, 0, p->d), 0);
    for (int i = 0; i < DG_N_SCORES; i++)
        assert_true(dg_score_number(s, i) == -1.0);
    dg_score_close(&s);
    assert_int_equal(dg_score_open(&s, 1, 1, &t, 1, NULL, 0, p->d), 0);
    assert_true(dg_score_number(s, DG_AP) == 0.0 && dg_score_number(s, DG_AR100) == 0.0);
    dg_score_close(&s);
    assert_int_equal(dg_score_open(&s, 1, 1, &t, 1, &flat, 1, p->d), 0);
    assert_true(dg_score_number(s, DG_AP) == 0.0);
    dg_score_close(&s);
    assert_int_equal(dg_score_open(&s, 1, 1, &t, 1, &nowhere, 1, p->d), 0);
    assert_true(dg_score_number(s, DG_AP) == 0.0);
    dg_score_close(&s);
    assert_int_equal(dg_score_open(&s, 1, 1, &t, 1, &bad, 1, p->d), -DG_ENUMERIC);
    check_says(p, "score-value", "detection 0 has a score that is not finite");
    assert_int_equal(dg_score_open(&s, 1, 70000, &t, 1, &flat, 1, p->d), -DG_EMEMORY);
    check_only(p->d, "score-memory");
}

static void image_info(void *self, int item, dg_item_info *out)
{
    static const char *const names[] = { "a.jpg", "b.jpg", "c.jpg" };

    (void)self;
    *out = (dg_item_info){ .id = item + 1, .name = names[item], .w = 200, .h = 100 };
}

/* Three images, two classes; one object is found as the other class, one not at all. */
static void review(void **state)
{
    place *p = *state;
    const dg_coco_class classes[] = { { 1, "nut" }, { 2, "bolt" } };
    const dg_coco_annotation truths[] = {
        { .image = 0, .label = 0, .x = 10, .y = 10, .w = 40, .h = 40, .area = 1600 },
        { .image = 1, .label = 0, .x = 10, .y = 10, .w = 40, .h = 40, .area = 1600 },
        { .image = 1, .label = 1, .x = 100, .y = 10, .w = 20, .h = 20, .area = 400 },
        { .image = 2, .label = 1, .x = 100, .y = 10, .w = 20, .h = 20, .area = 400 },
        { .image = 2, .label = 0, .x = 0, .y = 50, .w = 50, .h = 50, .area = 2500, .crowd = true },
    };
    const dg_detection found[] = {
        { .image = 0, .label = 0, .x = 12, .y = 10, .w = 40, .h = 40, .score = 0.9 },
        { .image = 1, .label = 0, .x = 10, .y = 12, .w = 40, .h = 40, .score = 0.8 },
        { .image = 1, .label = 0, .x = 100, .y = 10, .w = 20, .h = 20, .score = 0.7 }, /* a bolt */
        { .image = 2, .label = 0, .x = 5, .y = 55, .w = 20, .h = 20, .score = 0.75 },  /* a crowd */
        { .image = 0, .label = 1, .x = 150, .y = 50, .w = 20, .h = 20, .score = 0.2 }, /* nothing */
    };
    const dg_dataset data = { .size = sizeof data,
                              .n_items = 3,
                              .n_classes = 2,
                              .classes = classes,
                              .truths = truths,
                              .n_truths = 5,
                              .info = image_info };
    const char *path = temporary(p, "review.json");
    const dg_json *root, *cell, *worst;
    dg_review r;

    assert_int_equal(dg_review_of(&r, path, &data, found, 5, 7, p->d), 0);
    assert_true(r.n_images == 3 && r.n_truths == 4 && r.n_small == 2 && r.n_medium == 2 &&
                r.n_large == 0);
    /* two of two are right down to 0.75, and two of four are found: F1 = 2 * 2 / (2 + 4) */
    assert_true(fabs(r.f1 - 2.0 / 3) < 1e-12 && r.precision == 1 && r.recall == 0.5);
    assert_true(r.threshold > 0.7 && r.threshold < 0.8);
    /* the median boxes are the objects: nuts come before the image without one (AP 1), bolts after
     * theirs (2/3) */
    assert_true(fabs(r.constant_ap - 5.0 / 6) < 1e-9 && fabs(r.constant_ap50 - 5.0 / 6) < 1e-9);
    assert_int_equal(dg_json_read(&root, p->a, path, p->d), 0);
    cell = dg_json_get(root, "confusion");
    assert_true(cell->n == 3 && cell->items[0].items[0].number == 2 &&
                cell->items[1].items[2].number == 2 && cell->items[1].items[0].number == 0);
    cell = dg_json_get(root, "classes");
    assert_true(dg_json_number(&cell->items[0], "best_threshold") == 0.8);
    assert_true(isnan(dg_json_number(&cell->items[1], "best_threshold")));
    worst = dg_json_get(root, "worst");
    assert_true(worst->n == 2 && dg_json_number(&worst->items[0], "missed") == 1);
    assert_string_equal(dg_json_text(&worst->items[0], "image"), "b.jpg");
    assert_int_equal(dg_json_get(root, "F1_over_threshold")->n, 101);
    assert_true(dg_json_get(root, "recall")->items[85].number == 0.25);
    /* nothing found, and nothing to find */
    assert_int_equal(dg_review_of(&r, NULL, &data, found, 0, 7, p->d), 0);
    assert_true(r.f1 == 0 && r.constant_ap > 0.6);
    assert_int_equal(dg_review_of(&r, NULL,
                                  &(dg_dataset){ .n_items = 3,
                                                 .n_classes = 2,
                                                 .classes = classes,
                                                 .truths = truths,
                                                 .info = image_info },
                                  found, 5, 7, p->d),
                     0);
    assert_true(r.f1 == -1 && r.constant_ap == -1 && r.threshold == -1);
    no_diagnostics(p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(review, set_up, tear_down),
        cmocka_unit_test_setup_teardown(published, set_up, tear_down),
        cmocka_unit_test_setup_teardown(random_cases, set_up, tear_down),
        cmocka_unit_test_setup_teardown(one_box, set_up, tear_down),
        cmocka_unit_test_setup_teardown(nothing_and_nonsense, set_up, tear_down),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
