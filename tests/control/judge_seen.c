/* judge_seen.c: what the coordinator concludes from the ranks' monitor digests: which rank broke a
 * contract; and what its messages say of checkpoints. */
#include "tests/control/judge_rig.h"

/* The rank reports these digests of the three monitors in batch 4 of <train>. */
static void see(fixture *f, int rank, uint64_t a, uint64_t b, uint64_t c, double now)
{
    const uint64_t v[] = { a, b, c };

    say(f, rank,
        (dg_message){ .kind = DG_SAY_SEEN, .seen = { .step = 4, .batch = 4, .digests = { 3, v } } },
        now);
}

static void test_seen(void **state)
{
    fixture *f = *state;
    const uint64_t fewer[] = { 1, 2 };

    begin(f, 4);
    for (int i = 0; i < 4; i++)
        see(f, i, 7, 0, 0, 0);
    see(f, 0, 7, 8, 0, 0); /* in parts; a monitor that a rank has not reported is not compared */
    see(f, 1, 7, 0, 9, 0);
    see(f, 2, 7, 8, 9, 0);
    /* a batch ahead */
    say(f, 3,
        (dg_message){
            .kind = DG_SAY_SEEN,
            .seen = { .step = 4, .batch = 5, .digests = { 3, (uint64_t[]){ 8, 8, 8 } } } },
        0);
    see(f, 3, 7, 8, 9, 0);
    say(f, 3,
        (dg_message){ .kind = DG_SAY_SEEN,
                      .seen = { .step = 4, .batch = 5, .digests = { 2, fewer } } },
        0);
    say(f, 2,
        (dg_message){ .kind = DG_SAY_SEEN,
                      .seen = { .scope = 1,
                                .step = 4,
                                .batch = 4,
                                .digests = { 3, (uint64_t[]){ 1, 1, 1 } } } },
        0);
    dg_judge_tick(f->r, 0.2);
    assert_int_equal(state_of(f)->over, DG_OVER_NO);
}

/* One rank of four differs; the differences that follow from it do not count. */
static void test_seen_differs(void **state)
{
    fixture *f = *state;
    const dg_err *e;

    begin(f, 4);
    for (int i = 0; i < 4; i++)
        beat(f, i, i == 2 ? "train/e" : "train/sync", i != 2, 0, 0);
    see(f, 2, 7, 8, 0, 0);
    see(f, 0, 7, 9, 0, 0);
    say(f, 0,
        (dg_message){ .kind = DG_SAY_FAIL,
                      .fail = { .code = DG_EINTERNAL,
                                .id = "collective-failed",
                                .text = "other collectives",
                                .node = "",
                                .file = "" } },
        0);
    see(f, 1, 7, 9, 0, 0.01);
    see(f, 3, 7, 9, 0, 0.01);
    dg_judge_tick(f->r, 0.02);
    assert_int_equal(state_of(f)->over, DG_OVER_NO);
    dg_judge_tick(f->r, 0.1);
    failed(
        f, "contract-differs",
        "rank 2 (host, process 102) broke a contract at step 5: firing of node \"train/e\" is not "
        "what it is on rank 0, "
        "proved to be on all ranks or on none of dp (4 ranks); nothing was written after step 50",
        "", false);
    e = dg_diag_at(dg_judge_verdict(f->r), 0);
    assert_int_equal(e->at.line, 33);
    assert_int_equal(e->at.column, 5);
    assert_string_equal(e->at.file, "p.xml");
    assert_string_equal(e->at.node, "train/e");
    assert_string_equal(
        e->remarks[0].text,
        "stopped: ranks 0-1 at step 57 in node \"train/sync\", waiting for other ranks, rank 2 at "
        "step 57 in node "
        "\"train/e\", rank 3 at step 57 in node \"train/sync\", waiting for other ranks");
}

/* Rank 0 finishes what it writes beside the run, after the message. */
static void test_saving(void **state)
{
    fixture *f = *state;

    begin(f, 2);
    say(f, 0,
        (dg_message){ .kind = DG_SAY_BEAT,
                      .beat = { .node = "", .file = "", .step = 64, .saved = 50, .saving = 60 } },
        0);
    beat(f, 1, "train/backbone", false, 0, 0);
    beat(f, 1, "train/backbone", false, 0, 0.1);
    dg_judge_tick(f->r, 2.15);
    failed(f, "rank-lost", "; nothing was written after step 50, step 60 was being saved",
           "it counts as lost", true);
}

/* Ranks that advance to later batches before the verdict do not carry their digests along. */
static void test_seen_and_gone_on(void **state)
{
    fixture *f = *state;

    begin(f, 4);
    see(f, 0, 7, 9, 0, 0);
    see(f, 3, 7, 8, 0, 0);
    for (int64_t batch = 0; batch < 3; batch++)
        for (int i = 0; i < 4; i += 3)
            say(f, i,
                (dg_message){ .kind = DG_SAY_SEEN,
                              .seen = { .scope = 1,
                                        .step = 4,
                                        .batch = batch,
                                        .digests = { 3, (uint64_t[]){ 1, 1, 1 } } } },
                0.01);
    see(f, 1, 7, 9, 0, 0.02);
    dg_judge_tick(f->r, 0.1);
    failed(f, "contract-differs",
           "rank 3 (host, process 103) broke a contract at step 5: firing of node \"train/e\" is "
           "not what it is on rank 0",
           "", false);
}

/* With two ranks, neither is the odd one. Digests of host values come with the batch message. */
static void test_seen_in_words(void **state)
{
    fixture *f = *state;
    const uint64_t a[] = { 1, 0, 3 }, b[] = { 2, 0, 4 };

    begin(f, 2);
    say(f, 0,
        (dg_message){
            .kind = DG_SAY_WORD,
            .word = { .step = 4, .batch = 4, .n_in_epoch = 9, .saved = -1, .seen = { 3, a } } },
        0);
    say(f, 1,
        (dg_message){
            .kind = DG_SAY_WORD,
            .word = { .step = 4, .batch = 4, .n_in_epoch = 8, .saved = -1, .seen = { 3, b } } },
        0);
    dg_judge_tick(f->r, 0.1);
    failed(f, "contract-differs",
           "rank 1 (host, process 101) or rank 0 (host, process 100) broke a contract at step 5: "
           "value of node \"train/flag\" port "
           "\"out\" differs between them, declared the same",
           "", false);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_seen, roster_set_up, roster_tear_down),
        cmocka_unit_test_setup_teardown(test_seen_differs, roster_set_up, roster_tear_down),
        cmocka_unit_test_setup_teardown(test_saving, roster_set_up, roster_tear_down),
        cmocka_unit_test_setup_teardown(test_seen_and_gone_on, roster_set_up, roster_tear_down),
        cmocka_unit_test_setup_teardown(test_seen_in_words, roster_set_up, roster_tear_down),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
