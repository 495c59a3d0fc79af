/* train: several ranks train as one does: the same losses, the same scores, the same bits every
 * time; they stop, resume and fail together. */
#include "tests/ranks/toy_rank.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"

static void as_one(void **state)
{
    toy *t = *state;
    outcome one = toy_ranks_well(t, (start){ .ranks = 1, .out = "one" });
    outcome single = toy_ranks_well(t, (start){ .ranks = 1, .out = "single", .precision = "f32" });

    assert_int_equal(one.n, 12);
    for (int ranks = 2; ranks <= 4; ranks += 2) {
        outcome many = toy_ranks_well(t, (start){ .ranks = ranks,
                                                  .out = dg_printf(t->arena, "many%d", ranks) });
        outcome less = toy_ranks_well(t, (start){ .ranks = ranks,
                                                  .out = dg_printf(t->arena, "less%d", ranks),
                                                  .precision = "f32" });

        toy_same_losses(&one, &many, 12, 1e-9);
        toy_same_losses(&single, &less, 1, 1e-5);
    }
}

static void accumulated(void **state)
{
    toy *t = *state;
    const char *text = toy_ranks_text(t->arena, "steps=\"6\" accumulate=\"3\"", NULL, NULL);
    outcome one = toy_ranks_well(t, (start){ .ranks = 1, .out = "one", .text = text });
    outcome two = toy_ranks_well(t, (start){ .ranks = 2, .out = "two", .text = text });

    toy_same_losses(&one, &two, 6, 1e-9);
}

static void twice_the_same(void **state)
{
    toy *t = *state;

    toy_ranks_well(t, (start){ .ranks = 2, .out = "a", .precision = "f32" });
    toy_ranks_well(t, (start){ .ranks = 2, .out = "b", .precision = "f32" });
    toy_same_run(t, "a", "b");
    toy_same_file(t, "a/evaluate/detections.json", "b/evaluate/detections.json");
}

/* With the same weights: every image once, whoever had it. */
static void scores_as_one(void **state)
{
    toy *t = *state;

    toy_ranks_well(t, (start){ .ranks = 1, .out = "one", .lr = "0" });
    for (int ranks = 2; ranks <= 4; ranks += 2) {
        char *out = dg_printf(t->arena, "many%d", ranks);

        toy_ranks_well(t, (start){ .ranks = ranks, .out = out, .lr = "0" });
        assert_string_equal(toy_scores(t, "one"), toy_scores(t, out));
        toy_same_file(t, "one/evaluate/detections.json",
                      dg_printf(t->arena, "%s/evaluate/detections.json", out));
    }
}

static void resumed(void **state)
{
    toy *t = *state;

    toy_ranks_well(t, (start){ .ranks = 2, .out = "whole" });
    for (int k = 3; k <= 6; k += 3) {
        char *out = dg_printf(t->arena, "cut%d", k);

        toy_ranks_well(t, (start){ .ranks = 2, .out = out, .steps = k });
        toy_ranks_well(t, (start){ .ranks = 2, .out = out, .resume = true });
        toy_same_run(t, "whole", out);
    }
    toy_ranks_well(t, (start){ .ranks = 4,
                               .out = "cut3",
                               .resume = true }); /* at its end: nothing is left to do */
}

/* The same global batch on fewer ranks: the same run but for rounding. */
static void resumed_by_others(void **state)
{
    toy *t = *state;
    outcome whole = toy_ranks_well(t, (start){ .ranks = 4, .out = "whole" }), rest;

    toy_ranks_well(t, (start){ .ranks = 4, .out = "cut", .steps = 5 });
    rest = toy_ranks_well(t, (start){ .ranks = 2, .out = "cut", .resume = true });
    assert_int_equal(rest.n, 7);
    for (int i = 0; i < 7; i++)
        assert_true(fabs(rest.loss[0][i] - whole.loss[0][5 + i]) <=
                    1e-9 * fabs(whole.loss[0][5 + i]));
}

/* One rank is asked to stop: all do, after the same step. */
static void stopped(void **state)
{
    toy *t = *state;

    toy_ranks_well(t, (start){ .ranks = 2, .out = "whole" });
    for (int k = 4; k <= 6; k += 2) { /* 6: in an evaluation */
        char *out = dg_printf(t->arena, "cut%d", k);
        outcome o = toy_ranks_run(t, (start){ .ranks = 2,
                                              .out = out,
                                              .odd = 1,
                                              .trick = dg_printf(t->arena, "stop %d", k) });

        assert_int_equal(o.status[0], -DG_ESTOP);
        assert_int_equal(o.status[1], -DG_ESTOP);
        assert_non_null(strstr(o.said[0], dg_printf(t->arena, "stopped after step %d", k)));
        assert_int_equal(o.n, k);
        toy_ranks_well(t, (start){ .ranks = 2, .out = out, .resume = true });
        toy_same_run(t, "whole", out);
    }
}

/* Best, patience: decided by what all have. */
static void decided_together(void **state)
{
    toy *t = *state;
    const char *text = toy_ranks_text(
        t->arena, "steps=\"400\" patience=\"12 steps\"", NULL,
        "<checkpoint every=\"1000 steps\" keep=\"1\" best=\"@coco.APl\"/>"); /* -1 for ever */
    outcome o = toy_ranks_well(t, (start){ .ranks = 2, .out = "a", .text = text });

    assert_int_equal(o.n, 18);
    assert_true(dg_exists(toy_path(t, "a/checkpoints/best/model.safetensors")));
}

/* ---- what goes wrong on one rank ------------------------------------------------------------- */

static void not_finite(void **state)
{
    toy *t = *state;
    const char *text = toy_ranks_text(t->arena, NULL, "breaks=\"2.5\"", NULL);
    outcome o = toy_ranks_run(t, (start){ .ranks = 4, .out = "a", .text = text, .global = 4 });
    int named = 0, told = 0;

    for (int r = 0; r < 4; r++) {
        assert_int_equal(o.status[r], -DG_ENUMERIC);
        named += strstr(o.said[r], "loss_box is") != NULL;
        told += strstr(o.said[r], ": the loss of rank ") != NULL;
    }
    assert_true(named > 0 && named < 4 && named + told == 4);
}

static void killed(void **state)
{
    toy *t = *state;
    outcome o =
        toy_ranks_run(t,
                      (start){ .ranks = 3, .global = 6, .out = "a", .odd = 1, .trick = "kill 4" });

    assert_int_equal(o.status[1], 128 + 9);
    for (int r = 0; r < 3; r += 2) {
        assert_in_range(-o.status[r], 1, 7);
        assert_non_null(strstr(o.said[r], "collective-failed"));
    }
    assert_true(strstr(o.said[0], "rank 1 (process ") || strstr(o.said[2], "rank 1 (process "));
    assert_int_equal(o.n, 4);
}

static void not_the_same_weights(void **state)
{
    toy *t = *state;
    outcome o = toy_ranks_run(t, (start){ .ranks = 2, .out = "a", .odd = 1, .trick = "weights" });

    for (int r = 0; r < 2; r++) {
        assert_int_equal(o.status[r], -DG_EINTERNAL);
        assert_non_null(
            strstr(o.said[r],
                   "before the first step the weights of rank 1 are not those of rank 0"));
        assert_non_null(strstr(o.said[r], "ranks-differ"));
    }
}

static void not_the_same_pipeline(void **state)
{
    toy *t = *state;
    outcome o = toy_ranks_run(t, (start){ .ranks = 2, .out = "a", .odd = 1, .trick = "text" });

    assert_int_equal(o.status[1], -DG_EINPUT);
    assert_int_equal(o.status[0], -DG_ESTOP);
    assert_non_null(strstr(o.said[0], "rank 1 could not go on while the ranks read the pipeline"));
    assert_non_null(strstr(o.said[0], "rank-failed"));
    /* nor do the ranks choose a batch with one that has none */
    o = toy_ranks_run(
        t, (start){ .ranks = 2, .out = "c", .odd = 1, .trick = "text", .batch = "batch=auto:4" });
    assert_int_equal(o.status[1], -DG_EINPUT);
    assert_int_equal(o.status[0], -DG_ESTOP);
    assert_non_null(strstr(o.said[0], "rank 1 could not go on while the ranks read the pipeline"));
    o = toy_ranks_run(t, (start){ .ranks = 2, .out = "b", .odd = 1, .trick = "width" });
    for (int r = 0; r < 2; r++) /* without the comparison at the start: seen all the same */
        assert_int_equal(o.status[r], -DG_EINTERNAL);
}

static void another_mesh(void **state)
{
    toy *t = *state;
    char *text = dg_strdup(t->arena, toy_ranks_text(t->arena, NULL, NULL, NULL)),
         *mesh = strstr(text, "<mesh dp=\"ranks\"/>");
    outcome o;

    memcpy(mesh, "<mesh dp=\"3\"/>    ", 18);
    o = toy_ranks_run(t, (start){ .ranks = 2, .out = "a", .text = text });
    assert_int_equal(o.status[0], -DG_EINPUT);
    assert_non_null(
        strstr(o.said[0], "<mesh dp=\"3\"/>: so many ranks are needed, and 2 are started"));
    memset(mesh, ' ', 18);
    o = toy_ranks_run(t, (start){ .ranks = 2, .out = "a", .text = text });
    assert_int_equal(o.status[1], -DG_EINPUT);
    assert_non_null(strstr(o.said[1], "ranks-mesh"));
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, toy_set_up, toy_tear_down)

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        TEST(as_one),
        TEST(accumulated),
        TEST(twice_the_same),
        TEST(scores_as_one),
        TEST(resumed),
        TEST(resumed_by_others),
        TEST(stopped),
        TEST(decided_together),
        TEST(not_finite),
        TEST(killed),
        TEST(not_the_same_weights),
        TEST(not_the_same_pipeline),
        TEST(another_mesh),
    };
    int status;

    return toy_rank_main(argc, argv, &status) ? status : cmocka_run_group_tests(tests, NULL, NULL);
}
