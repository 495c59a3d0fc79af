/* judge.c: what the coordinator concludes from messages and time, without processes, sockets or a
 * clock. */
#include "tests/control/judge_rig.h"

#include <string.h>
#include <sys/resource.h>

#include "media/json.h"
#include "control/facts.h"

static void test_words(void **state)
{
    fixture *f = *state;

    begin(f, 2);
    assert_int_equal(state_of(f)->met, 1);
    assert_int_equal(state_of(f)->confirmed, -1);
    /* resumed: the first batch is arbitrary, but equal on all ranks */
    for (int64_t batch = 4; batch < 8; batch++) {
        word(f, batch % 2 == 0, batch, 1, 0);
        assert_int_equal(state_of(f)->confirmed, batch > 4 ? batch - 1 : -1);
        word(f, batch % 2 != 0, batch, 1, 0);
        assert_int_equal(state_of(f)->confirmed, batch);
    }
    dg_judge_tick(f->r, 0.1);
    assert_int_equal(state_of(f)->over, DG_OVER_NO);
}

/* The ranks' status as JSON. */
static void test_status_json(void **state)
{
    fixture *f = *state;
    dg_arena *a = dg_arena_open();
    dg_str said = { 0 };
    const dg_json *o, *ranks;

    begin(f, 2);
    beat(f, 1, "train/\"loss\"", true, 0.25, 1);
    assert_true(dg_judge_ask(f->r, "status", "json", &said, 1.5));
    assert_int_equal(dg_json_parse(&o, a, said.s, said.n, "status", f->d), 0);
    assert_string_equal(dg_json_get(o, "state")->text, "training");
    ranks = dg_json_get(o, "rank");
    assert_int_equal(ranks->n, 2);
    assert_string_equal(dg_json_get(&ranks->items[1], "node")->text, "train/\"loss\"");
    assert_true(dg_json_get(&ranks->items[1], "waits")->truth);
    assert_true(dg_json_get(&ranks->items[1], "process")->number == 101);
    assert_true(dg_json_get(&ranks->items[1], "step")->number == 57);
    dg_str_free(&said);
    dg_arena_close(&a);
}

static void test_odd_word(void **state)
{
    fixture *f = *state;

    begin(f, 4);
    beat(f, 2, "train/loss", false, 0, 0);
    word(f, 0, 0, 1, 0);
    word(f, 2, 0, 2, 0);
    word(f, 1, 0, 1, 0);
    dg_judge_tick(f->r, 0.01);
    assert_int_equal(state_of(f)->over, DG_OVER_NO);
    word(f, 3, 0, 1, 0.01);
    dg_judge_tick(f->r, 0.2);
    failed(f, "words-differ", "rank 2 (host, process 102) left the common schedule", "rank 0",
           false);
    assert_int_equal(dg_diag_at(dg_judge_verdict(f->r), 0)->at.line, 7);
}

static void test_other_step(void **state)
{
    fixture *f = *state;

    begin(f, 2);
    word(f, 0, 4, 1, 0);
    word(f, 1, 3, 1, 0);
    dg_judge_tick(f->r, 0.2);
    failed(f, "words-differ", "step 5", "step 4", false);
}

static void test_digest(void **state)
{
    fixture *f = *state;

    f->r = dg_judge_open(&(dg_judge_conf){ .ranks = 2,
                                           .attempt = 5,
                                           .lost_after_s = 2,
                                           .env = &f->env },
                         0);
    say(f, 1, (dg_message){ .kind = DG_SAY_HELLO, .hello = { "b", 1, 2 } }, 0);
    say(f, 1,
        (dg_message){ .kind = DG_SAY_MEET,
                      .meet = { 1, facts("<adamw lr=\"2\">\nb.xml:20:5", "x") } },
        0);
    assert_int_equal(state_of(f)->met, 0);
    say(f, 0,
        (dg_message){ .kind = DG_SAY_MEET,
                      .meet = { 1, facts("<adamw lr=\"1\">\na.xml:17:5", "y") } },
        0);
    failed(f, "DG-DIGEST", "node train/opt: rank 1 (b) has <adamw lr=\"2\"> (b.xml:20:5)",
           "rank 0 () has <adamw lr=\"1\"> (a.xml:17:5)", false);
}

static void test_facts(void **state)
{
    fixture *f = *state;
    const char *hosts[] = { "a", "b", "c" };
    dg_rows all[] = { facts("<x>\na.xml:1:1", "1"), facts("<x>\nb.xml:2:2", "2"),
                      facts("<x>", "3") };

    /* positions are reported, not compared */
    assert_int_equal(dg_facts_compare(all, 3, hosts, f->d), 0);
    all[2] = facts("<x>", "1");
    assert_true(dg_facts_compare(all, 3, hosts, f->d) < 0);
    assert_string_equal(dg_diag_at(f->d, 0)->text, "ranks 0 (a) and 2 (c) have the same device: 1");
    check_only(f->d, "DG-DEVICE");
    all[2] = (dg_rows){ 1, all[2].v };
    assert_true(dg_facts_compare(all, 3, hosts, f->d) < 0);
    assert_string_equal(dg_diag_at(f->d, 0)->text,
                        "rank 2 (c) has nothing where rank 0 (a) has node train/opt (a.xml:1:1)");
    check_only(f->d, "DG-DIGEST");
}

static void test_silence(void **state)
{
    fixture *f = *state;

    begin(f, 2);
    beat(f, 1, "train/backbone", false, 0, 0.1);
    for (double t = 0; t < 2.05; t += 0.1) {
        beat(f, 0, "train/sync", true, t, t);
        dg_judge_tick(f->r, t);
        assert_int_equal(state_of(f)->over, DG_OVER_NO);
    }
    assert_non_null(strstr(f->log.s, "rank 1 (host, process 101) has been silent for 1.1 s at step "
                                     "57 in node \"train/backbone\"; after 2 s it counts as lost"));
    beat(f, 0, "train/sync", true, 2, 2.15);
    dg_judge_tick(f->r, 2.15);
    failed(f, "rank-lost",
           "rank 1 (host, process 101) has been silent for 2.0 s at step 57 in node "
           "\"train/backbone\"",
           "nothing was written after step 50", true);
}

/* The rank's launcher was killed with it, so only the closed connection shows the loss. */
static void test_closed(void **state)
{
    fixture *f = *state;

    begin(f, 2);
    beat(f, 1, "train/sync", true, 0, 1);
    beat(f, 0, "train/sync", true, 0, 1.1);
    assert_false(dg_judge_missed(f->r, 1, 1.15));
    assert_true(dg_judge_missed(f->r, 1, 1.25));
    dg_judge_closed(f->r, 1);
    dg_judge_tick(f->r, 1.3);
    assert_int_equal(state_of(f)->over, DG_OVER_NO); /* it may connect again */
    beat(f, 1, "train/sync", true, 0, 1.35);
    beat(f, 0, "train/sync", true, 0, 1.45);
    dg_judge_tick(f->r, 1.76);
    assert_int_equal(state_of(f)->over, DG_OVER_NO); /* it did */
    dg_judge_closed(f->r, 1);
    dg_judge_tick(f->r, 1.76);
    failed(f, "rank-lost",
           "rank 1 (host, process 101) has been silent for 0.4 s at step 57 in node "
           "\"train/sync\", waiting for other ranks, and its connection is closed",
           "it counts as lost", true);
    assert_false(dg_judge_lost_rank(f->r, 0));
}

static void test_heard_again(void **state)
{
    fixture *f = *state;

    begin(f, 2);
    dg_judge_tick(f->r, 1.5);
    beat(f, 0, "", false, 0, 1.6);
    beat(f, 1, "", false, 0, 1.6);
    dg_judge_tick(f->r, 3);
    assert_int_equal(state_of(f)->over, DG_OVER_NO);
    assert_non_null(strstr(f->log.s, "rank 0 is heard again"));
}

static void test_slow(void **state)
{
    fixture *f = *state;

    begin(f, 2);
    for (double t = 0; t < 25; t += 0.5) {
        beat(f, 0, "train/sync", true, 1, t);
        beat(f, 1, "train/data", false, t, t);
        dg_judge_tick(f->r, t);
    }
    /* a rank that is alive but long in one place is not lost */
    assert_int_equal(state_of(f)->over, DG_OVER_NO);
    assert_non_null(
        strstr(f->log.s, "has been in node \"train/data\" (p.xml:7:3) for 10 s: slow, or stuck"));
    assert_non_null(strstr(f->log.s, "for 20 s"));
    assert_null(strstr(f->log.s, "for 15 s"));
}

static void test_apart(void **state)
{
    fixture *f = *state;

    begin(f, 2);
    for (double t = 0; t < 4.9; t += 0.1) {
        beat(f, 0, "train/sync", true, t, t);
        beat(f, 1, "train/log", true, t, t);
        dg_judge_tick(f->r, t);
    }
    assert_int_equal(state_of(f)->over, DG_OVER_NO);
    beat(f, 0, "train/sync", true, 5.1, 5.1);
    beat(f, 1, "train/log", true, 5.1, 5.1);
    dg_judge_tick(f->r, 5.1);
    failed(f, "ranks-apart", "rank 0 in \"train/sync\"", "rank 1 in \"train/log\"", false);
}

/* All ranks are alive and in one place, and nothing moves: for ten minutes, or two after a request
 * to stop. */
static void test_still(void **state)
{
    fixture *f = *state;

    begin(f, 2);
    /* before the first batch they may open data for an hour */
    for (int i = 0; i < 2; i++)
        beat(f, i, "train/data", i == 1, 3599, 0);
    dg_judge_tick(f->r, 0);
    assert_int_equal(state_of(f)->over, DG_OVER_NO);
    for (int i = 0; i < 2; i++)
        word(f, i, 0, 1, 0);
    for (int t = 0; t <= 599; t++) {
        for (int i = 0; i < 2; i++)
            beat(f, i, "train/data", i == 1, t, t);
        dg_judge_tick(f->r, t);
    }
    assert_int_equal(state_of(f)->over, DG_OVER_NO);
    for (int i = 0; i < 2; i++)
        beat(f, i, "train/data", i == 1, 600, 600);
    dg_judge_tick(f->r, 600);
    failed(f, "ranks-still", "none has moved for 600 s", "rank 1 at step 57 in node \"train/data\"",
           true);
}

static void test_still_and_asked(void **state)
{
    fixture *f = *state;
    dg_str answer = { 0 };

    begin(f, 1);
    assert_true(dg_judge_ask(f->r, "stop", "", &answer, 0));
    dg_str_free(&answer);
    beat(f, 0, "", false, 119, 119);
    dg_judge_tick(f->r, 119);
    assert_int_equal(state_of(f)->over, DG_OVER_NO);
    beat(f, 0, "", false, 120, 120);
    dg_judge_tick(f->r, 120);
    failed(f, "ranks-still", "none has moved for 120 s after a request to stop",
           "rank 0 before its first node", true);
}

/* A second introduction does not rename a rank, and a word from far ahead is none of its own. */
static void test_forged(void **state)
{
    fixture *f = *state;
    dg_str answer = { 0 };

    begin(f, 2);
    say(f, 1, (dg_message){ .kind = DG_SAY_HELLO, .hello = { "elsewhere", 666, 2 } }, 1);
    assert_true(dg_judge_ask(f->r, "status", "", &answer, 1));
    assert_null(strstr(answer.s, "elsewhere"));
    dg_str_free(&answer);
    word(f, 0, 0, 1, 1);
    word(f, 1, 0, 1, 1);
    word(f, 1, (int64_t)1 << 62, 1, 1);
    word(f, 0, 1, 1, 1);
    word(f, 1, 1, 1, 1);
    assert_int_equal(state_of(f)->confirmed, 1);
    assert_int_equal(state_of(f)->over, DG_OVER_NO);
}

static void test_killed(void **state)
{
    fixture *f = *state;

    begin(f, 2);
    beat(f, 1, "train/backbone", false, 0, 0);
    dg_judge_gone(f->r, 1, 9, 0.1);
    failed(f, "rank-died",
           "rank 1 (host, process 101) was ended by signal 9 (SIGKILL) at step 57 in node "
           "\"train/backbone\"",
           "nothing was written after step 50", true);
}

/* Libraries crash when they get no memory, and the kernel ends a process that had its time: a limit
 * is named, and a way out. */
static void test_crash_at_a_limit(void **state)
{
    static const struct {
        int what, signal;
        const char *told;
    } cases[] = { { RLIMIT_AS, 11,
                    "(ulimit -v), and libraries crash when they get none: "
                    "ulimit -v unlimited, or a smaller batch" },
                  { RLIMIT_DATA, 11, "(ulimit -d)" },
                  { RLIMIT_AS, 9, NULL },
                  { RLIMIT_CPU, 24, "(ulimit -t): ulimit -t unlimited lifts that limit" },
                  { RLIMIT_CPU, 9, "(ulimit -t)" },
                  { RLIMIT_CPU, 11, NULL } };
    fixture *f = *state;
    struct rlimit before, now;

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        dg_str text = { 0 };

        getrlimit((__rlimit_resource_t)cases[i].what, &before);
        now = (struct rlimit){ (rlim_t)1 << 46, before.rlim_max };
        assert_int_equal(setrlimit((__rlimit_resource_t)cases[i].what, &now), 0);
        if (i > 0) {
            roster_tear_down(state);
            roster_set_up(state);
            f = *state;
        }
        begin(f, 2);
        dg_judge_gone(f->r, 1, cases[i].signal, 0.1);
        setrlimit((__rlimit_resource_t)cases[i].what, &before);
        failed(f, "rank-died", "rank 1 (host, process 101) was ended by signal", "", true);
        dg_diag_print(&text, dg_judge_verdict(f->r), NULL, NULL, false);
        if (cases[i].told)
            assert_non_null(strstr(text.s, cases[i].told));
        else
            assert_null(strstr(text.s, "ulimit"));
        dg_str_free(&text);
    }
}

static void test_exit(void **state)
{
    fixture *f = *state;

    begin(f, 2);
    dg_judge_gone(f->r, 1, 3 << 8, 0.1);
    dg_judge_tick(f->r, 0.5); /* its last messages may still arrive */
    assert_int_equal(state_of(f)->over, DG_OVER_NO);
    dg_judge_tick(f->r, 0.7);
    failed(f, "rank-died", "rank 1 (host, process 101) ended with status 3 without a word", "",
           true);
}

static dg_message fault(dg_code code, const char *id, const char *text)
{
    static const dg_row help[] = { { DG_ROW_HELP, "", "look at it" },
                                   { DG_ROW_NOTE, "b.xml:1:2", "wired here" } };

    return (dg_message){ .kind = DG_SAY_FAIL,
                         .fail = { .code = code,
                                   .id = id,
                                   .text = text,
                                   .node = "train/crop",
                                   .file = "p.xml",
                                   .line = 31,
                                   .column = 5,
                                   .remarks = { 2, help } } };
}

/* What is said once more, also much later, changes nothing. */
static void test_said_twice(void **state)
{
    fixture *f = *state;
    const dg_message meet[] = {
        { .kind = DG_SAY_MEET, .meet = { 1, facts("lr=1", "a") } },
        { .kind = DG_SAY_MEET, .meet = { 2, facts("lr=1", "a") } },
        { .kind = DG_SAY_MEET, .meet = { 2, facts("lr=1", "b") } },
    };

    begin(f, 2);
    say(f, 0, meet[1], 0);
    say(f, 0, meet[0], 0);
    say(f, 1, meet[2], 0);
    assert_int_equal(state_of(f)->met, 2);
    say(f, 0, meet[0], 0);
    say(f, 1, meet[2], 0);
    assert_int_equal(state_of(f)->met, 2);
    for (int64_t batch = 0; batch < 4; batch++) {
        word(f, 0, batch, 1, 0);
        for (int64_t again = batch; again >= 0; again--)
            word(f, 0, again, 1, 0);
        word(f, 1, batch, 1, 0);
        assert_int_equal(state_of(f)->confirmed, batch);
    }
    dg_judge_tick(f->r, 0.2);
    assert_int_equal(state_of(f)->over, DG_OVER_NO);
    for (int i = 0; i < 2; i++)
        say(f, 0, fault(DG_EINPUT, "image-read", "it cannot be read"), 0.3);
    dg_judge_tick(f->r, 0.5);
    failed(f, "image-read", "rank 0 of 2: it cannot be read", "", false);
    assert_int_equal(dg_diag_n(dg_judge_verdict(f->r)), 1);
}

static void test_error(void **state)
{
    fixture *f = *state;
    const dg_err *e;

    begin(f, 4);
    say(f, 0, fault(DG_EIO, "collective-failed", "reduce_end: rank 3 (process 103) has left"), 0);
    say(f, 1, fault(DG_ESTOP, "kernel-failed", "stopped"), 0);
    say(f, 3, fault(DG_EINPUT, "image-read", "it cannot be read"), 0.02);
    say(f, 3, (dg_message){ .kind = DG_SAY_BYE }, 0.02);
    dg_judge_tick(f->r, 0.03);
    assert_int_equal(state_of(f)->over, DG_OVER_NO);
    dg_judge_tick(f->r, 0.1);
    failed(f, "image-read", "rank 3 of 4: it cannot be read", "", false);
    e = dg_diag_at(dg_judge_verdict(f->r), 0);
    assert_int_equal(dg_diag_n(dg_judge_verdict(f->r)), 1);
    assert_int_equal(e->at.line, 31);
    assert_string_equal(e->at.node, "train/crop");
    assert_int_equal(e->n_remarks, 2);
    assert_string_equal(e->remarks[1].text, "b.xml:1:2: wired here");
}

/* A failed wait is the reason if no rank has a better one. */
static void test_second_hand(void **state)
{
    fixture *f = *state;

    begin(f, 2);
    say(f, 0, fault(DG_EIO, "collective-failed", "rank 1 (process 101) has left"), 0);
    dg_judge_tick(f->r, 0.4);
    assert_int_equal(state_of(f)->over, DG_OVER_NO);
    beat(f, 1, "train/sync", true, 0, 0.4);
    dg_judge_tick(f->r, 0.6);
    failed(f, "collective-failed", "rank 0 of 2", "has left", false);
}

/* How a rank ended says more than what others heard of it, whichever came first. */
static void test_second_hand_of_an_end(void **state)
{
    fixture *f = *state;

    begin(f, 2);
    say(f, 0, fault(DG_EIO, "collective-failed", "rank 1 (process 101) has ended"), 0);
    dg_judge_gone(f->r, 1, 3 << 8, 0.01);
    dg_judge_tick(f->r, 0.4);
    assert_int_equal(state_of(f)->over, DG_OVER_NO);
    dg_judge_tick(f->r, 0.505);
    failed(f, "rank-died", "rank 1 (host, process 101) ended with status 3 without a word", "",
           true);
}

/* Unless other ranks are silent since: their machine is lost. */
static void test_machine_lost(void **state)
{
    fixture *f = *state;

    begin(f, 4);
    beat(f, 1, "train/sync", true, 0, 1);
    say(f, 0, fault(DG_EIO, "collective-failed", "connection closed by peer"), 1);
    beat(f, 1, "train/sync", true, 0.4, 1.4);
    dg_judge_tick(f->r, 1.5);
    failed(f, "rank-lost", "rank 2 (host, process 102) has been silent for 1.5 s",
           "because rank 0 says: connection closed by peer", true);
    assert_false(dg_judge_lost_rank(f->r, 0));
    assert_false(dg_judge_lost_rank(f->r, 1));
    assert_true(dg_judge_lost_rank(f->r, 2));
    assert_true(dg_judge_lost_rank(f->r, 3));
    assert_false(dg_judge_lost_rank(f->r, 4));
}

/* Before the first collective, ranks find the same errors; each is reported once. */
static void test_same_errors(void **state)
{
    fixture *f = *state;

    f->r = dg_judge_open(&(dg_judge_conf){ .ranks = 3,
                                           .attempt = 5,
                                           .lost_after_s = 2,
                                           .env = &f->env },
                         0);
    for (int i = 0; i < 3; i++)
        say(f, i, fault(DG_EINPUT, "attr-unknown", "there is no attribute"), 0);
    dg_judge_tick(f->r, 0.25);
    failed(f, "attr-unknown", "there is no attribute", "", false);
    assert_int_equal(dg_diag_n(dg_judge_verdict(f->r)), 1);
    assert_string_equal(dg_diag_at(dg_judge_verdict(f->r), 0)->text, "there is no attribute");
    assert_int_equal(dg_diag_at(dg_judge_verdict(f->r), 0)->n_remarks, 2);
}

static void test_own_error(void **state)
{
    fixture *f = *state;

    f->r = dg_judge_open(&(dg_judge_conf){ .ranks = 3,
                                           .attempt = 5,
                                           .lost_after_s = 2,
                                           .env = &f->env },
                         0);
    say(f, 1, fault(DG_EINPUT, "file-open", "cannot open"), 0);
    dg_judge_tick(f->r, 0.25);
    failed(f, "file-open", "rank 1 of 3: cannot open", "", false);
}

static void test_left_in_the_same_step(void **state)
{
    fixture *f = *state;

    begin(f, 2);
    word(f, 1, 0, 1, 0);
    say(f, 1, (dg_message){ .kind = DG_SAY_BYE }, 0);
    word(f, 0, 0, 1, 0.1); /* of the step that the other has done */
    assert_int_equal(state_of(f)->over, DG_OVER_NO);
    dg_judge_tick(f->r, 0.5);
    assert_int_equal(state_of(f)->over, DG_OVER_NO);
}

static void test_left(void **state)
{
    fixture *f = *state;

    begin(f, 2);
    word(f, 0, 0, 1, 0);
    word(f, 1, 0, 1, 0);
    say(f, 1, (dg_message){ .kind = DG_SAY_BYE }, 0);
    dg_judge_gone(f->r, 1, 0, 0);
    dg_judge_tick(f->r, 0.5);
    assert_int_equal(dg_judge_left(f->r), 1);
    assert_int_equal(state_of(f)->over, DG_OVER_NO);
    word(f, 0, 1, 1, 0.6);
    failed(f, "rank-left", "rank 1 (host, process 101) was done after step 1", "begins step 2",
           false);
}

static void test_strangers(void **state)
{
    fixture *f = *state;

    begin(f, 2);
    dg_judge_take(f->r,
                  &(dg_message){ .kind = DG_SAY_FAIL,
                                 .rank = 0,
                                 .attempt = 4,
                                 .fail = { .code = 1, .id = "x", .text = "x" } },
                  0);
    dg_judge_take(f->r,
                  &(dg_message){ .kind = DG_SAY_FAIL,
                                 .rank = 9,
                                 .attempt = 5,
                                 .fail = { .code = 1, .id = "x", .text = "x" } },
                  0);
    dg_judge_tick(f->r, 0.4);
    assert_int_equal(state_of(f)->over, DG_OVER_NO);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_words, roster_set_up, roster_tear_down),
        cmocka_unit_test_setup_teardown(test_status_json, roster_set_up, roster_tear_down),
        cmocka_unit_test_setup_teardown(test_odd_word, roster_set_up, roster_tear_down),
        cmocka_unit_test_setup_teardown(test_other_step, roster_set_up, roster_tear_down),
        cmocka_unit_test_setup_teardown(test_digest, roster_set_up, roster_tear_down),
        cmocka_unit_test_setup_teardown(test_facts, roster_set_up, roster_tear_down),
        cmocka_unit_test_setup_teardown(test_silence, roster_set_up, roster_tear_down),
        cmocka_unit_test_setup_teardown(test_closed, roster_set_up, roster_tear_down),
        cmocka_unit_test_setup_teardown(test_heard_again, roster_set_up, roster_tear_down),
        cmocka_unit_test_setup_teardown(test_slow, roster_set_up, roster_tear_down),
        cmocka_unit_test_setup_teardown(test_apart, roster_set_up, roster_tear_down),
        cmocka_unit_test_setup_teardown(test_still, roster_set_up, roster_tear_down),
        cmocka_unit_test_setup_teardown(test_still_and_asked, roster_set_up, roster_tear_down),
        cmocka_unit_test_setup_teardown(test_forged, roster_set_up, roster_tear_down),
        cmocka_unit_test_setup_teardown(test_said_twice, roster_set_up, roster_tear_down),
        cmocka_unit_test_setup_teardown(test_killed, roster_set_up, roster_tear_down),
        cmocka_unit_test_setup_teardown(test_crash_at_a_limit, roster_set_up, roster_tear_down),
        cmocka_unit_test_setup_teardown(test_exit, roster_set_up, roster_tear_down),
        cmocka_unit_test_setup_teardown(test_error, roster_set_up, roster_tear_down),
        cmocka_unit_test_setup_teardown(test_second_hand, roster_set_up, roster_tear_down),
        cmocka_unit_test_setup_teardown(test_second_hand_of_an_end, roster_set_up,
                                        roster_tear_down),
        cmocka_unit_test_setup_teardown(test_machine_lost, roster_set_up, roster_tear_down),
        cmocka_unit_test_setup_teardown(test_same_errors, roster_set_up, roster_tear_down),
        cmocka_unit_test_setup_teardown(test_own_error, roster_set_up, roster_tear_down),
        cmocka_unit_test_setup_teardown(test_left_in_the_same_step, roster_set_up,
                                        roster_tear_down),
        cmocka_unit_test_setup_teardown(test_left, roster_set_up, roster_tear_down),
        cmocka_unit_test_setup_teardown(test_strangers, roster_set_up, roster_tear_down),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
