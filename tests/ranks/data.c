/* data: what several ranks are given: shares, filtered and made equal before and behind the
 * sampler, rounds that never end, orders, draws and files of their own, batches that one cannot
 * read; and an evaluation of one rank alone. Each run is cut in the middle of an epoch and resumed:
 * the same bits. */
#include "tests/ranks/toy_rank.h"

#include <stdio.h>
#include <string.h>

#include "base/file.h"

#define LOADER                                                                              \
    "<loader.synthetic id=\"data\" images=\"40\" width=\"32\" height=\"32\" classes=\"2\" " \
    "max_objects=\"3\" seed=\"1\"/>"
#define SAMPLER                                                                             \
    "<sampler.bucket id=\"pick\" in=\"@data\" batch=\"$batch\" sizes=\"32\" tail=\"drop\" " \
    "axis=\"dp\"/>"
#define AUGMENT "<augment id=\"aug\" in=\"@pick\">"
#define EVALUATE "<evaluate every=\"6 steps\""
#define DEALT "shuffle=\"false\" tail=\"pad\" axis=\"dp\""
#define JOINED "<evaluate.coco id=\"coco\" in=\"@found\" axis=\"dp\"/>"

static const char *instead(toy *t, const char *text, const char *old, const char *new)
{
    const char *at = strstr(text, old);

    assert_non_null(at);
    return dg_printf(t->arena, "%.*s%s%s", (int)(at - text), text, new, at + strlen(old));
}

/* The toy with another sampler. */
static const char *with(toy *t, const char *train, const char *sampler)
{
    return instead(t, toy_ranks_text(t->arena, train, NULL, NULL), SAMPLER, sampler);
}

static bool log_says(toy *t, const char *out, const char *words)
{
    char *text;
    size_t n;
    bool found;

    assert_int_equal(dg_file_read(&text, &n, toy_path(t, dg_printf(t->arena, "%s/run.log", out)), 0,
                                  t->d),
                     0);
    found = strstr(text, words) != NULL;
    dg_free(text);
    return found;
}

/* On two ranks with two images each; cut after k steps and resumed it has the same bits. */
static outcome whole_and_cut_as(toy *t, const char *name, const char *text, int k)
{
    char *cut = dg_printf(t->arena, "%s-cut", name);
    outcome whole =
                toy_ranks_well(t, (start){ .ranks = 2, .out = name, .text = text, .global = 4 }),
            rest;

    assert_true(k < whole.n);
    toy_ranks_well(t, (start){ .ranks = 2, .out = cut, .text = text, .global = 4, .steps = k });
    rest =
        toy_ranks_well(t, (start){
                              .ranks = 2, .out = cut, .text = text, .global = 4, .resume = true });
    assert_int_equal(rest.n, whole.n - k);
    toy_same_run(t, name, cut);
    return whole;
}

static outcome whole_and_cut(toy *t, const char *text, int k)
{
    return whole_and_cut_as(t, "whole", text, k);
}

/* ---- what stays ------------------------------------------------------------------------------ */

/* Every rank chooses among its own items; how many are left is agreed at each epoch, and all epochs
 * are counted. */
static void chosen_items(void **state)
{
    toy *t = *state;
    outcome o = whole_and_cut(
        t,
        with(
            t, "epochs=\"4\"",
            "<partition id=\"own\" in=\"@data\" axis=\"dp\" shuffle=\"true\" seed=\"shared\"/>"
            "<filter id=\"good\" in=\"@own\" min_objects=\"2\"/><equalize id=\"same\" in=\"@good\" "
            "axis=\"dp\"/>"
            "<sampler.plain id=\"pick\" in=\"@same\" batch=\"$batch\" size=\"32\" tail=\"drop\"/>"),
        7);

    assert_in_range(o.n, 8, 39);
    assert_true(log_says(t, "whole", dg_printf(t->arena, "%d steps in all", o.n)));
    assert_true(log_says(t, "whole", "done: all steps are done"));
}

static void chosen_batches(void **state)
{
    toy *t = *state;
    outcome o = whole_and_cut(
        t,
        with(t, "epochs=\"4\"",
             "<partition id=\"own\" in=\"@data\" axis=\"dp\" shuffle=\"true\" seed=\"shared\"/>"
             "<sampler.bucket id=\"all\" in=\"@own\" batch=\"$batch\" sizes=\"32\" tail=\"drop\"/>"
             "<filter id=\"good\" in=\"@all\" min_objects=\"3\"/><equalize id=\"pick\" "
             "in=\"@good\" axis=\"dp\"/>"),
        7);

    assert_in_range(o.n, 8, 39);
    assert_true(
        log_says(t, "whole", " to ")); /* the number of batches differs from epoch to epoch */
    assert_true(log_says(t, "whole", dg_printf(t->arena, "%d steps in all", o.n)));
    assert_true(log_says(t, "whole", "done: all steps are done"));
}

/* Batches that are dealt behind the sampler, in its order, are those that one rank has. */
static void dealt_behind_the_sampler(void **state)
{
    toy *t = *state;
    outcome one = toy_ranks_well(
        t, (start){ .ranks = 1,
                    .out = "one",
                    .text = with(t, NULL,
                                 "<sampler.plain id=\"pick\" in=\"@data\" batch=\"$batch\" "
                                 "size=\"32\" shuffle=\"false\" tail=\"drop\" axis=\"dp\"/>") });

    for (int ranks = 2; ranks <= 4; ranks += 2) {
        outcome many = toy_ranks_well(
            t, (start){ .ranks = ranks,
                        .out = dg_printf(t->arena, "many%d", ranks),
                        .text = with(t, NULL,
                                     "<sampler.plain id=\"all\" in=\"@data\" batch=\"$batch\" "
                                     "size=\"32\" shuffle=\"false\" tail=\"drop\"/>"
                                     "<partition id=\"pick\" in=\"@all\" axis=\"dp\" "
                                     "equal=\"drop\" aligned=\"true\"/>") });

        toy_same_losses(&one, &many, 12, 1e-9);
    }
}

/* Without differences between ranks, equalize takes nothing away: the run of one rank, whose images
 * all have. */
static void equal_already(void **state)
{
    toy *t = *state;
    outcome one =
        toy_ranks_well(t, (start){ .ranks = 1,
                                   .out = "one",
                                   .global = 4,
                                   .text = with(t, NULL,
                                                "<sampler.bucket id=\"pick\" in=\"@data\" "
                                                "batch=\"$batch\" sizes=\"32\" tail=\"drop\"/>") });
    outcome two =
        toy_ranks_well(t,
                       (start){
                           .ranks = 2,
                           .out = "two",
                           .global = 8,
                           .text = instead(t,
                                           with(t, NULL,
                                                "<sampler.bucket id=\"pick\" in=\"@data\" "
                                                "batch=\"$batch\" sizes=\"32\" tail=\"drop\"/>"
                                                "<equalize id=\"same\" in=\"@pick\" axis=\"dp\"/>"),
                                           AUGMENT, "<augment id=\"aug\" in=\"@same\">") });

    toy_same_losses(&one, &two, 12, 1e-9);
}

static void nothing_left(void **state)
{
    toy *t = *state;
    outcome o = toy_ranks_run(
        t, (start){ .ranks = 2,
                    .out = "a",
                    .global = 4,
                    .text = with(t, NULL,
                                 "<sampler.bucket id=\"all\" in=\"@data\" batch=\"$batch\" "
                                 "sizes=\"32\" tail=\"drop\" axis=\"dp\"/>"
                                 "<filter id=\"good\" in=\"@all\" min_objects=\"50\"/><equalize "
                                 "id=\"pick\" in=\"@good\" axis=\"dp\"/>") });

    for (int r = 0; r < 2; r++) {
        assert_int_equal(o.status[r], -DG_EINPUT);
        assert_non_null(strstr(o.said[r], "no batch of 2 is left in epoch 1"));
        assert_non_null(strstr(o.said[r], "epoch-empty"));
    }
}

/* ---- rounds, orders, draws, files of their own ----------------------------------------------- */

/* 22 and 21 images: rounds of eleven batches on one rank and of ten on the other, an epoch of ten
 * on both. */
static void never_ends(void **state)
{
    toy *t = *state;
    const char *text = with(
        t, "steps=\"25\"",
        "<partition id=\"own\" in=\"@data\" axis=\"dp\"/>"
        "<sampler.plain id=\"pick\" in=\"@own\" batch=\"$batch\" size=\"32\" repeat=\"true\"/>");

    whole_and_cut(t, instead(t, text, "images=\"40\"", "images=\"43\""), 23);
    assert_true(log_says(t, "whole", "10 batches of 4 an epoch"));
    assert_true(log_says(t, "whole-cut", "resumed from") &&
                log_says(t, "whole-cut", "step 23, epoch 2"));
}

static void own_order(void **state)
{
    toy *t = *state;
    const char *own = with(t, NULL,
                           "<sampler.bucket id=\"pick\" in=\"@data\" batch=\"$batch\" sizes=\"32\" "
                           "tail=\"drop\" seed=\"rank\"/>");
    outcome o = whole_and_cut(t, own, 7), alike;

    alike =
        toy_ranks_well(t, (start){ .ranks = 2,
                                   .out = "alike",
                                   .global = 4,
                                   .text = instead(t, own, "seed=\"rank\"", "seed=\"shared\"") });
    assert_true(o.loss[0][0] < alike.loss[0][0] || o.loss[0][0] > alike.loss[0][0]);
}

/* One image, whose flips are drawn: by the number of the sample, by each rank, by all alike. */
static void own_draws(void **state)
{
    static const char *const seeds[] = { "sample", "rank", "shared" };
    toy *t = *state;
    const char *text = toy_ranks_text(t->arena, "steps=\"9\"", NULL, NULL);
    outcome o[3];

    for (int i = 0; i < 3; i++) {
        char *aug = dg_printf(t->arena, "<augment id=\"aug\" in=\"@pick\" seed=\"%s\">", seeds[i]);

        o[i] = whole_and_cut_as(t, seeds[i], instead(t, text, AUGMENT, aug), 5);
        for (int k = 0; k < i; k++)
            assert_memory_not_equal(o[i].loss[0], o[k].loss[0], sizeof o[i].loss[0]);
    }
}

/* A size drawn for each batch, by all alike or by rank 0 for all: the same run on two ranks as on
 * one. */
static void drawn_sizes(void **state)
{
    static const char *const numbers[] = {
        "<source.random id=\"n\" seed=\"shared\" low=\"0\" high=\"3\"/>",
        ("<source.random id=\"own\" on=\"0\" low=\"0\" high=\"3\"/><broadcast id=\"n\" in=\"@own\" "
         "axis=\"dp\"/>"),
        "<source.step id=\"n\"/>",
    };
    toy *t = *state;

    for (int i = 0; i < 3; i++) {
        const char *text = toy_ranks_text(t->arena, NULL, NULL, NULL);
        char *name = dg_printf(t->arena, "sizes%d", i);
        outcome one, two;

        text = instead(t, text, AUGMENT, "<augment id=\"aug\" in=\"@sized\">");
        text = instead(
            t, text, SAMPLER,
            dg_printf(t->arena,
                      "%s%s<resize id=\"sized\" in=\"@pick\" size=\"@n\" sizes=\"32,64,96\"/>",
                      SAMPLER, numbers[i]));
        one = toy_ranks_well(t, (start){ .ranks = 1,
                                         .out = dg_printf(t->arena, "one%d", i),
                                         .text = text,
                                         .global = 4 });
        two = whole_and_cut_as(t, name, text, 7);
        toy_same_losses(&one, &two, 12, 1e-9);
    }
}

/* Scenes that only one rank sees: others than the rank beside it has. */
static void own_files(void **state)
{
    static const char sampler[] =
        "<equalize id=\"same\" in=\"@data\" axis=\"dp\"/>"
        "<sampler.plain id=\"pick\" in=\"@same\" batch=\"$batch\" size=\"32\" tail=\"drop\"/>";
    toy *t = *state;
    const char *same = with(t, NULL, sampler),
               *own = instead(t, same, "seed=\"1\"/>", "seed=\"1\" files=\"rank\"/>");
    outcome o = whole_and_cut(t, own, 7),
            alike =
                toy_ranks_well(t, (start){ .ranks = 2, .out = "alike", .global = 4, .text = same });

    assert_true(o.loss[0][0] < alike.loss[0][0] || o.loss[0][0] > alike.loss[0][0]);
}

/* ---- a batch that one rank cannot read ------------------------------------------------------- */

/* The last of 40 images is broken: of the one batch that has it in an epoch, no rank trains on its
 * part. */
static void left_out_by_all(void **state)
{
    toy *t = *state;
    const char *text =
        instead(t, toy_ranks_text(t->arena, "epochs=\"3\"", NULL, NULL), LOADER,
                "<toy.data id=\"data\" images=\"40\" broken=\"39\" on_fail=\"vote\"/>");
    outcome one = toy_ranks_well(t, (start){ .ranks = 1, .out = "one", .text = text, .global = 4 });
    outcome two = whole_and_cut(t, text, 15);

    assert_int_equal(one.n, 27); /* of 30 */
    toy_same_losses(&one, &two, 27, 1e-9);
    assert_true(
        log_says(t, "one", "item 39 is broken: all ranks leave this batch out [batch-left-out]"));
    assert_true(log_says(t, "whole", "done: the data of all epochs were seen"));
    text = instead(t, instead(t, text, AUGMENT, "<augment id=\"aug\" in=\"@sized\">"), SAMPLER,
                   SAMPLER "<source.step id=\"n\"/><resize id=\"sized\" in=\"@pick\" size=\"@n\" "
                           "sizes=\"32,64,96\"/>");
    whole_and_cut_as(t, "sized", text, 15); /* sizes by the step, behind a batch that was none */
}

static void nothing_can_be_read(void **state)
{
    toy *t = *state;
    const char *text =
        instead(t, toy_ranks_text(t->arena, "epochs=\"3\" on_fail=\"vote\"", NULL, NULL), LOADER,
                "<toy.data id=\"data\" images=\"40\" broken=\"0\"/>");
    outcome o = toy_ranks_run(t, (start){ .ranks = 2, .out = "a", .text = text, .global = 4 });

    for (int r = 0; r < 2; r++) {
        assert_int_equal(o.status[r], -DG_EINPUT);
        assert_non_null(strstr(o.said[r], "17 batches in a row could not be made by all ranks"));
        assert_non_null(strstr(o.said[r], "batches-left-out"));
    }
}

/* ---- one rank evaluates ---------------------------------------------------------------------- */

static const char *alone(toy *t, int rank)
{
    const char *text =
        toy_ranks_text(t->arena, NULL, NULL,
                       "<checkpoint every=\"4 steps\" keep=\"1\" best=\"@coco.AP\"/>");

    text = instead(t, text, DEALT, "shuffle=\"false\"");
    text = instead(t, text, JOINED, "<evaluate.coco id=\"coco\" in=\"@found\"/>");
    return instead(t, text, EVALUATE,
                   dg_printf(t->arena, "<evaluate on=\"%d\" budget=\"10 min\" every=\"6 steps\"",
                             rank));
}

/* With the same weights: the scores of all images, known to all ranks. */
static void evaluates_alone(void **state)
{
    toy *t = *state;

    toy_ranks_well(t, (start){ .ranks = 1, .out = "one", .lr = "0" });
    for (int rank = 0; rank < 2; rank++) {
        char *out = dg_printf(t->arena, "alone%d", rank);

        toy_ranks_well(t, (start){ .ranks = 2, .out = out, .lr = "0", .text = alone(t, rank) });
        assert_string_equal(toy_scores(t, "one"), toy_scores(t, out));
        assert_true(dg_exists(
            toy_path(t, dg_printf(t->arena, "%s/checkpoints/best/model.safetensors", out))));
    }
    toy_same_file(t, "one/evaluate/detections.json", "alone0/evaluate/detections.json");
    assert_false(log_says(t, "alone0", "its budget is"));
    toy_ranks_well(t, (start){ .ranks = 2,
                               .out = "late",
                               .text = instead(t, alone(t, 0), "10 min", "0.0000001 min") });
    assert_true(log_says(t, "late",
                         "evaluate: rank 0 evaluates alone for 0.0 min now, its budget is 1e-07 "
                         "min: the other ranks wait"));
}

/* The one that evaluates is asked to stop in the middle: all do, after the same step. */
static void stopped_alone(void **state)
{
    toy *t = *state;
    outcome o;

    toy_ranks_well(t, (start){ .ranks = 2, .out = "whole", .text = alone(t, 1) });
    o = toy_ranks_run(
        t, (start){ .ranks = 2, .out = "cut", .text = alone(t, 1), .odd = 1, .trick = "stop 6" });
    for (int r = 0; r < 2; r++) {
        assert_int_equal(o.status[r], -DG_ESTOP);
        assert_non_null(strstr(o.said[r], "stopped after step 6"));
    }
    toy_ranks_well(t, (start){ .ranks = 2, .out = "cut", .text = alone(t, 1), .resume = true });
    toy_same_run(t, "whole", "cut");
}

static void nobody_to_evaluate(void **state)
{
    toy *t = *state;
    outcome o = toy_ranks_run(t, (start){ .ranks = 2, .out = "a", .text = alone(t, 2) });

    for (int r = 0; r < 2; r++) {
        assert_int_equal(o.status[r], -DG_EINPUT);
        assert_non_null(
            strstr(o.said[r], "on=\"2\": there is no such rank: 2 are started, counted from 0"));
        assert_non_null(strstr(o.said[r], "on-rank"));
    }
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, toy_set_up, toy_tear_down)

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        TEST(chosen_items),    TEST(chosen_batches),  TEST(dealt_behind_the_sampler),
        TEST(equal_already),   TEST(nothing_left),    TEST(never_ends),
        TEST(own_order),       TEST(own_draws),       TEST(drawn_sizes),
        TEST(own_files),       TEST(left_out_by_all), TEST(nothing_can_be_read),
        TEST(evaluates_alone), TEST(stopped_alone),   TEST(nobody_to_evaluate),
    };
    int status;

    return toy_rank_main(argc, argv, &status) ? status : cmocka_run_group_tests(tests, NULL, NULL);
}
