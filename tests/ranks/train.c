/* train: several ranks train as one does: the same losses, the same scores, the same bits every time; they stop, resume and
 * fail together. */
#include "tests/ranks/toy_rank.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"

static outcome run_well(toy *t, start s)
{
    outcome o = toy_ranks_run(t, s);

    for (int r = 0; r < s.ranks; r++)
        if (o.status[r] != 0)
            fail_msg("rank %d of %d: status %d: %s", r, s.ranks, o.status[r], o.said[r]);
    for (int r = 1; r < s.ranks; r++)
        assert_memory_equal(o.loss[r], o.loss[0], sizeof o.loss[0]);
    return o;
}

static void same_file(toy *t, const char *a, const char *b)
{
    char  *x, *y;
    size_t n, m;

    assert_int_equal(dg_file_read(&x, &n, toy_path(t, a), 0, t->d), 0);
    assert_int_equal(dg_file_read(&y, &m, toy_path(t, b), 0, t->d), 0);
    assert_int_equal(n, m);
    assert_memory_equal(x, y, n);
    dg_free(x);
    dg_free(y);
}

static void same_run(toy *t, const char *a, const char *b)
{
    static const char *const files[] = { "model.safetensors", "ema.safetensors", "checkpoints/last/optimizer.safetensors" };

    for (int i = 0; i < 3; i++)
        same_file(t, dg_printf(t->arena, "%s/%s", a, files[i]), dg_printf(t->arena, "%s/%s", b, files[i]));
}

/* The line of the last evaluation in metrics.jsonl, without times. */
static char *scores(toy *t, const char *out)
{
    char  *text, *at, *found = NULL;
    size_t n;

    assert_int_equal(dg_file_read(&text, &n, toy_path(t, dg_printf(t->arena, "%s/metrics.jsonl", out)), 0, t->d), 0);
    for (at = text; (at = strstr(at, "\"AP\":")); at++)
        found = at;
    assert_non_null(found);
    found = dg_strndup(t->arena, found, strcspn(found, "\n"));
    at = strstr(found, "\"seconds\":");
    assert_non_null(at);
    *at = '\0';
    dg_free(text);
    return found;
}

static void check_losses(const outcome *one, const outcome *many, int n, double tolerance)
{
    assert_int_equal(one->n, many->n);
    for (int i = 0; i < n; i++)
        if (!(fabs(one->loss[0][i] - many->loss[0][i]) <= tolerance * fabs(one->loss[0][i])))
            fail_msg("step %d: %.17g on one rank, %.17g on many", i + 1, one->loss[0][i], many->loss[0][i]);
}

static void as_one(void **state)
{
    toy    *t = *state;
    outcome one = run_well(t, (start){ .ranks = 1, .out = "one" });
    outcome single = run_well(t, (start){ .ranks = 1, .out = "single", .precision = "f32" });

    assert_int_equal(one.n, 12);
    for (int ranks = 2; ranks <= 4; ranks += 2) {
        outcome many = run_well(t, (start){ .ranks = ranks, .out = dg_printf(t->arena, "many%d", ranks) });
        outcome less = run_well(t, (start){ .ranks = ranks, .out = dg_printf(t->arena, "less%d", ranks), .precision = "f32" });

        check_losses(&one, &many, 12, 1e-9);
        check_losses(&single, &less, 1, 1e-5);
    }
}

static void accumulated(void **state)
{
    toy        *t = *state;
    const char *text = toy_ranks_text(t->arena, "steps=\"6\" accumulate=\"3\"", NULL, NULL);
    outcome     one = run_well(t, (start){ .ranks = 1, .out = "one", .text = text });
    outcome     two = run_well(t, (start){ .ranks = 2, .out = "two", .text = text });

    check_losses(&one, &two, 6, 1e-9);
}

static void twice_the_same(void **state)
{
    toy *t = *state;

    run_well(t, (start){ .ranks = 2, .out = "a", .precision = "f32" });
    run_well(t, (start){ .ranks = 2, .out = "b", .precision = "f32" });
    same_run(t, "a", "b");
    same_file(t, "a/evaluate/detections.json", "b/evaluate/detections.json");
}

/* With the same weights: every image once, whoever had it. */
static void scores_as_one(void **state)
{
    toy *t = *state;

    run_well(t, (start){ .ranks = 1, .out = "one", .lr = "0" });
    for (int ranks = 2; ranks <= 4; ranks += 2) {
        char *out = dg_printf(t->arena, "many%d", ranks);

        run_well(t, (start){ .ranks = ranks, .out = out, .lr = "0" });
        assert_string_equal(scores(t, "one"), scores(t, out));
        same_file(t, "one/evaluate/detections.json", dg_printf(t->arena, "%s/evaluate/detections.json", out));
    }
}

static void resumed(void **state)
{
    toy *t = *state;

    run_well(t, (start){ .ranks = 2, .out = "whole" });
    for (int k = 3; k <= 6; k += 3) {
        char *out = dg_printf(t->arena, "cut%d", k);

        run_well(t, (start){ .ranks = 2, .out = out, .steps = k });
        run_well(t, (start){ .ranks = 2, .out = out, .resume = true });
        same_run(t, "whole", out);
    }
    run_well(t, (start){ .ranks = 4, .out = "cut3", .resume = true }); /* at its end: nothing is left to do */
}

/* The same global batch on fewer ranks: the same run but for rounding. */
static void resumed_by_others(void **state)
{
    toy    *t = *state;
    outcome whole = run_well(t, (start){ .ranks = 4, .out = "whole" }), rest;

    run_well(t, (start){ .ranks = 4, .out = "cut", .steps = 5 });
    rest = run_well(t, (start){ .ranks = 2, .out = "cut", .resume = true });
    assert_int_equal(rest.n, 7);
    for (int i = 0; i < 7; i++)
        assert_true(fabs(rest.loss[0][i] - whole.loss[0][5 + i]) <= 1e-9 * fabs(whole.loss[0][5 + i]));
}

/* One rank is asked to stop: all do, after the same step. */
static void stopped(void **state)
{
    toy *t = *state;

    run_well(t, (start){ .ranks = 2, .out = "whole" });
    for (int k = 4; k <= 6; k += 2) { /* 6: in an evaluation */
        char   *out = dg_printf(t->arena, "cut%d", k);
        outcome o = toy_ranks_run(t, (start){ .ranks = 2, .out = out, .odd = 1, .trick = dg_printf(t->arena, "stop %d", k) });

        assert_int_equal(o.status[0], -DG_ESTOP);
        assert_int_equal(o.status[1], -DG_ESTOP);
        assert_non_null(strstr(o.said[0], dg_printf(t->arena, "stopped after step %d", k)));
        assert_int_equal(o.n, k);
        run_well(t, (start){ .ranks = 2, .out = out, .resume = true });
        same_run(t, "whole", out);
    }
}

/* Best, patience: decided by what all have. */
static void decided_together(void **state)
{
    toy        *t = *state;
    const char *text = toy_ranks_text(t->arena, "steps=\"400\" patience=\"12 steps\"", NULL,
                                      "<checkpoint every=\"1000 steps\" keep=\"1\" best=\"@coco.APl\"/>"); /* -1 for ever */
    outcome     o = run_well(t, (start){ .ranks = 2, .out = "a", .text = text });

    assert_int_equal(o.n, 18);
    assert_true(dg_exists(toy_path(t, "a/checkpoints/best/model.safetensors")));
}

/* Every rank chooses among its own items; how many are left is agreed at each epoch. */
static void chosen_items(void **state)
{
    static const char sampler[] = "<sampler.bucket id=\"pick\" in=\"@data\" batch=\"$batch\" sizes=\"32\" tail=\"drop\" axis=\"dp\"/>";
    static const char chain[] = "<partition id=\"own\" in=\"@data\" axis=\"dp\" shuffle=\"true\" seed=\"shared\"/>"
                                "<filter id=\"good\" in=\"@own\" min_objects=\"2\"/><equalize id=\"same\" in=\"@good\" axis=\"dp\"/>"
                                "<sampler.plain id=\"pick\" in=\"@same\" batch=\"$batch\" size=\"32\" tail=\"drop\"/>";
    toy        *t = *state;
    const char *text = toy_ranks_text(t->arena, "epochs=\"4\"", NULL, NULL), *at = strstr(text, sampler);
    outcome     whole, rest;

    assert_non_null(at);
    text = dg_printf(t->arena, "%.*s%s%s", (int)(at - text), text, chain, at + sizeof sampler - 1);
    whole = run_well(t, (start){ .ranks = 2, .out = "whole", .text = text, .global = 4 });
    assert_in_range(whole.n, 8, 39); /* of 10 each, those with two objects or three */
    run_well(t, (start){ .ranks = 2, .out = "cut", .text = text, .global = 4, .steps = whole.n / 2 });
    rest = run_well(t, (start){ .ranks = 2, .out = "cut", .text = text, .global = 4, .resume = true });
    assert_int_equal(rest.n, whole.n - whole.n / 2);
    same_run(t, "whole", "cut");
}

/* ---- what goes wrong on one rank ------------------------------------------------------------------------------- */

static void not_finite(void **state)
{
    toy        *t = *state;
    const char *text = toy_ranks_text(t->arena, NULL, "breaks=\"2.5\"", NULL);
    outcome     o = toy_ranks_run(t, (start){ .ranks = 4, .out = "a", .text = text, .global = 4 });
    int         named = 0, told = 0;

    for (int r = 0; r < 4; r++) {
        assert_int_equal(o.status[r], -DG_ENUMERIC);
        named += strstr(o.said[r], "loss_box is") != NULL;
        told += strstr(o.said[r], ": the loss of rank ") != NULL;
    }
    assert_true(named > 0 && named < 4 && named + told == 4);
}

static void killed(void **state)
{
    toy    *t = *state;
    outcome o = toy_ranks_run(t, (start){ .ranks = 3, .global = 6, .out = "a", .odd = 1, .trick = "kill 4" });

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
    toy    *t = *state;
    outcome o = toy_ranks_run(t, (start){ .ranks = 2, .out = "a", .odd = 1, .trick = "weights" });

    for (int r = 0; r < 2; r++) {
        assert_int_equal(o.status[r], -DG_EINTERNAL);
        assert_non_null(strstr(o.said[r], "before the first step the weights of rank 1 are not those of rank 0"));
        assert_non_null(strstr(o.said[r], "ranks-differ"));
    }
}

static void not_the_same_pipeline(void **state)
{
    toy    *t = *state;
    outcome o = toy_ranks_run(t, (start){ .ranks = 2, .out = "a", .odd = 1, .trick = "text" });

    assert_int_equal(o.status[1], -DG_EINPUT);
    assert_int_equal(o.status[0], -DG_ESTOP);
    assert_non_null(strstr(o.said[0], "rank 1 could not go on while the ranks read the pipeline"));
    assert_non_null(strstr(o.said[0], "rank-failed"));
    o = toy_ranks_run(t, (start){ .ranks = 2, .out = "b", .odd = 1, .trick = "width" });
    for (int r = 0; r < 2; r++) /* without the comparison at the start: seen all the same */
        assert_int_equal(o.status[r], -DG_EINTERNAL);
}

static void another_mesh(void **state)
{
    toy        *t = *state;
    char       *text = dg_strdup(t->arena, toy_ranks_text(t->arena, NULL, NULL, NULL)), *mesh = strstr(text, "<mesh dp=\"ranks\"/>");
    outcome     o;

    memcpy(mesh, "<mesh dp=\"3\"/>    ", 18);
    o = toy_ranks_run(t, (start){ .ranks = 2, .out = "a", .text = text });
    assert_int_equal(o.status[0], -DG_EINPUT);
    assert_non_null(strstr(o.said[0], "<mesh dp=\"3\"/>: so many ranks are needed, and 2 are started"));
    memset(mesh, ' ', 18);
    o = toy_ranks_run(t, (start){ .ranks = 2, .out = "a", .text = text });
    assert_int_equal(o.status[1], -DG_EINPUT);
    assert_non_null(strstr(o.said[1], "ranks-mesh"));
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, toy_set_up, toy_tear_down)

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        TEST(as_one), TEST(accumulated), TEST(twice_the_same), TEST(scores_as_one), TEST(resumed), TEST(resumed_by_others),
        TEST(stopped), TEST(decided_together), TEST(chosen_items), TEST(not_finite), TEST(killed), TEST(not_the_same_weights),
        TEST(not_the_same_pipeline), TEST(another_mesh),
    };
    int status;

    return toy_rank_main(argc, argv, &status) ? status : cmocka_run_group_tests(tests, NULL, NULL);
}
