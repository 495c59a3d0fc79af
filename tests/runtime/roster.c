/* What the coordinator concludes from messages and the time: no process, no socket, no clock. */
#include "tests/check.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "media/json.h"
#include "runtime/facts.h"
#include "runtime/muster.h"

typedef struct fixture {
    dg_env     env;
    dg_str     log;
    dg_roster *r;
    int        ranks;
    dg_diag   *d;
} fixture;

static void take_line(void *ctx, dg_level level, const char *line)
{
    (void)level;
    dg_str_fmt(&((fixture *)ctx)->log, "%s\n", line);
}

static int set_up(void **state)
{
    fixture *f = calloc(1, sizeof *f);

    f->env = (dg_env){ .log = take_line, .log_ctx = f, .threads = 1 };
    dg_str_add(&f->log, "");
    f->d = dg_diag_open();
    *state = f;
    return 0;
}

static int tear_down(void **state)
{
    fixture *f = *state;

    dg_roster_close(&f->r);
    dg_str_free(&f->log);
    dg_diag_close(&f->d);
    free(f);
    return 0;
}

static void say(fixture *f, int rank, dg_message m, double now)
{
    m.rank = (uint32_t)rank;
    m.attempt = 5;
    dg_roster_take(f->r, &m, now);
}

static dg_rows facts(const char *lr, const char *device)
{
    static dg_row rows[DG_MAX_RANKS][3];
    static int    next;
    dg_row       *v = rows[next++ % DG_MAX_RANKS];

    v[0] = (dg_row){ DG_ROW_SAME, "precision", "f32" };
    v[1] = (dg_row){ DG_ROW_SAME, "node train/opt", lr };
    v[2] = (dg_row){ DG_ROW_DISTINCT, "device", device };
    return (dg_rows){ 3, v };
}

/* What they tell first: facts, and three monitors. */
static dg_rows facts_and_watches(const char *device)
{
    static const dg_row watches[] = {
        { DG_ROW_WATCH, "value of node \"train/flag\" port \"out\"", "declared the same on all ranks of dp (4 ranks)\np.xml:31:5" },
        { DG_ROW_WATCH, "firing of node \"train/e\"", "proved to be on all ranks or on none of dp (4 ranks)\np.xml:33:5" },
        { DG_ROW_WATCH, "count of node \"train/pick\" port \"out\"", "declared equal on all ranks of dp (4 ranks)\np.xml:12:5" },
    };
    static dg_row rows[DG_MAX_RANKS][6];
    static int    next;
    dg_row       *v = rows[next++ % DG_MAX_RANKS];

    memcpy(v, facts("lr=1", device).v, 3 * sizeof *v);
    memcpy(v + 3, watches, sizeof watches);
    return (dg_rows){ 6, v };
}

/* Ranks that have come and agree, at time 0. */
static void begin(fixture *f, int ranks)
{
    static const char *const devices[] = { "a", "b", "c", "d" };

    f->ranks = ranks;
    f->r = dg_roster_open(&(dg_roster_conf){ .ranks = ranks, .attempt = 5, .lost_after_s = 2, .env = &f->env }, 0);
    for (int i = 0; i < ranks; i++)
        say(f, i, (dg_message){ .kind = DG_SAY_HELLO, .hello = { "host", 100 + i } }, 0);
    for (int i = 0; i < ranks; i++)
        say(f, i, (dg_message){ .kind = DG_SAY_MEET, .meet = { 1, facts_and_watches(devices[i]) } }, 0);
}

static const dg_state *state_of(const fixture *f)
{
    uint64_t changed;

    return dg_roster_state(f->r, &changed);
}

static void word(fixture *f, int rank, int64_t batch, uint64_t schedule, double now)
{
    say(f, rank, (dg_message){ .kind = DG_SAY_WORD, .word = { .step = batch, .batch = batch, .n_in_epoch = 9, .schedule = schedule, .saved = -1 } }, now);
}

static void beat(fixture *f, int rank, const char *node, bool waits, double since, double now)
{
    say(f, rank, (dg_message){ .kind = DG_SAY_BEAT, .beat = { .node = node, .file = "p.xml", .line = 7, .column = 3, .waits = waits, .step = 56,
                                                              .saved = 50, .since_s = since } }, now);
}

/* In batch 4 of <train> a rank has seen this of the three. */
static void see(fixture *f, int rank, uint64_t a, uint64_t b, uint64_t c, double now)
{
    const uint64_t v[] = { a, b, c };

    say(f, rank, (dg_message){ .kind = DG_SAY_SEEN, .seen = { .step = 4, .batch = 4, .digests = { 3, v } } }, now);
}

/* The run failed with this error, whose text holds all of these. */
static void failed(const fixture *f, const char *id, const char *a, const char *b, bool lost)
{
    const dg_diag *v = dg_roster_verdict(f->r);

    assert_int_equal(state_of(f)->over, DG_OVER_FAILED);
    assert_true(dg_diag_n(v) >= 1);
    assert_string_equal(dg_diag_at(v, 0)->id, id);
    if (!strstr(dg_diag_at(v, 0)->text, a) || !strstr(dg_diag_at(v, 0)->text, b))
        fail_msg("%s", dg_diag_at(v, 0)->text);
    assert_int_equal(dg_roster_lost(f->r), lost);
}

static void test_words(void **state)
{
    fixture *f = *state;

    begin(f, 2);
    assert_int_equal(state_of(f)->met, 1);
    assert_int_equal(state_of(f)->confirmed, -1);
    for (int64_t batch = 4; batch < 8; batch++) { /* resumed: words begin anywhere, but alike */
        word(f, batch % 2 == 0, batch, 1, 0);
        assert_int_equal(state_of(f)->confirmed, batch > 4 ? batch - 1 : -1);
        word(f, batch % 2 != 0, batch, 1, 0);
        assert_int_equal(state_of(f)->confirmed, batch);
    }
    dg_roster_tick(f->r, 0.1);
    assert_int_equal(state_of(f)->over, DG_OVER_NO);
}

/* What programs are told of the ranks. */
static void test_status_json(void **state)
{
    fixture       *f = *state;
    dg_arena      *a = dg_arena_open();
    dg_str         said = { 0 };
    const dg_json *o, *ranks;

    begin(f, 2);
    beat(f, 1, "train/\"loss\"", true, 0.25, 1);
    assert_true(dg_roster_ask(f->r, "status", "json", &said, 1.5));
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
    dg_roster_tick(f->r, 0.01);
    assert_int_equal(state_of(f)->over, DG_OVER_NO);
    word(f, 3, 0, 1, 0.01);
    dg_roster_tick(f->r, 0.2);
    failed(f, "words-differ", "rank 2 (host, process 102) left the common schedule", "rank 0", false);
    assert_int_equal(dg_diag_at(dg_roster_verdict(f->r), 0)->at.line, 7);
}

static void test_other_step(void **state)
{
    fixture *f = *state;

    begin(f, 2);
    word(f, 0, 4, 1, 0);
    word(f, 1, 3, 1, 0);
    dg_roster_tick(f->r, 0.2);
    failed(f, "words-differ", "step 5", "step 4", false);
}

static void test_seen(void **state)
{
    fixture       *f = *state;
    const uint64_t fewer[] = { 1, 2 };

    begin(f, 4);
    for (int i = 0; i < 4; i++)
        see(f, i, 7, 0, 0, 0);
    see(f, 0, 7, 8, 0, 0); /* in parts; what a rank has not seen is not compared */
    see(f, 1, 7, 0, 9, 0);
    see(f, 2, 7, 8, 9, 0);
    say(f, 3, (dg_message){ .kind = DG_SAY_SEEN, .seen = { .step = 4, .batch = 5, .digests = { 3, (uint64_t[]){ 8, 8, 8 } } } }, 0); /* ahead */
    see(f, 3, 7, 8, 9, 0);
    say(f, 3, (dg_message){ .kind = DG_SAY_SEEN, .seen = { .step = 4, .batch = 5, .digests = { 2, fewer } } }, 0);
    say(f, 2, (dg_message){ .kind = DG_SAY_SEEN, .seen = { .scope = 1, .step = 4, .batch = 4, .digests = { 3, (uint64_t[]){ 1, 1, 1 } } } }, 0);
    dg_roster_tick(f->r, 0.2);
    assert_int_equal(state_of(f)->over, DG_OVER_NO);
}

/* One of four is the odd one, and what it brings about is not the verdict. */
static void test_seen_differs(void **state)
{
    fixture      *f = *state;
    const dg_err *e;

    begin(f, 4);
    for (int i = 0; i < 4; i++)
        beat(f, i, i == 2 ? "train/e" : "train/sync", i != 2, 0, 0);
    see(f, 2, 7, 8, 0, 0);
    see(f, 0, 7, 9, 0, 0);
    say(f, 0, (dg_message){ .kind = DG_SAY_FAIL, .fail = { .code = DG_EINTERNAL, .id = "collective-failed", .text = "other collectives", .node = "", .file = "" } }, 0);
    see(f, 1, 7, 9, 0, 0.01);
    see(f, 3, 7, 9, 0, 0.01);
    dg_roster_tick(f->r, 0.02);
    assert_int_equal(state_of(f)->over, DG_OVER_NO);
    dg_roster_tick(f->r, 0.1);
    failed(f, "contract-differs", "rank 2 (host, process 102) broke a contract at step 5: firing of node \"train/e\" is not what it is on rank 0, "
           "proved to be on all ranks or on none of dp (4 ranks); nothing was written after step 50", "", false);
    e = dg_diag_at(dg_roster_verdict(f->r), 0);
    assert_int_equal(e->at.line, 33);
    assert_int_equal(e->at.column, 5);
    assert_string_equal(e->at.file, "p.xml");
    assert_string_equal(e->at.node, "train/e");
    assert_string_equal(e->remarks[0].text, "stopped: ranks 0-1 at step 57 in node \"train/sync\", waiting for other ranks, rank 2 at step 57 in node "
                                            "\"train/e\", rank 3 at step 57 in node \"train/sync\", waiting for other ranks");
}

/* Ranks that go on to other batches before the verdict do not take with them what they have seen. */
static void test_seen_and_gone_on(void **state)
{
    fixture *f = *state;

    begin(f, 4);
    see(f, 0, 7, 9, 0, 0);
    see(f, 3, 7, 8, 0, 0);
    for (int64_t batch = 0; batch < 3; batch++)
        for (int i = 0; i < 4; i += 3)
            say(f, i, (dg_message){ .kind = DG_SAY_SEEN, .seen = { .scope = 1, .step = 4, .batch = batch, .digests = { 3, (uint64_t[]){ 1, 1, 1 } } } }, 0.01);
    see(f, 1, 7, 9, 0, 0.02);
    dg_roster_tick(f->r, 0.1);
    failed(f, "contract-differs", "rank 3 (host, process 103) broke a contract at step 5: firing of node \"train/e\" is not what it is on rank 0", "", false);
}

/* Of two ranks none is the odd one. What the host makes comes with the word. */
static void test_seen_in_words(void **state)
{
    fixture       *f = *state;
    const uint64_t a[] = { 1, 0, 3 }, b[] = { 2, 0, 4 };

    begin(f, 2);
    say(f, 0, (dg_message){ .kind = DG_SAY_WORD, .word = { .step = 4, .batch = 4, .n_in_epoch = 9, .saved = -1, .seen = { 3, a } } }, 0);
    say(f, 1, (dg_message){ .kind = DG_SAY_WORD, .word = { .step = 4, .batch = 4, .n_in_epoch = 8, .saved = -1, .seen = { 3, b } } }, 0);
    dg_roster_tick(f->r, 0.1);
    failed(f, "contract-differs", "rank 1 (host, process 101) or rank 0 (host, process 100) broke a contract at step 5: value of node \"train/flag\" port "
           "\"out\" differs between them, declared the same", "", false);
}

static void test_digest(void **state)
{
    fixture *f = *state;

    f->r = dg_roster_open(&(dg_roster_conf){ .ranks = 2, .attempt = 5, .lost_after_s = 2, .env = &f->env }, 0);
    say(f, 1, (dg_message){ .kind = DG_SAY_HELLO, .hello = { "b", 1 } }, 0);
    say(f, 1, (dg_message){ .kind = DG_SAY_MEET, .meet = { 1, facts("<adamw lr=\"2\">\nb.xml:20:5", "x") } }, 0);
    assert_int_equal(state_of(f)->met, 0);
    say(f, 0, (dg_message){ .kind = DG_SAY_MEET, .meet = { 1, facts("<adamw lr=\"1\">\na.xml:17:5", "y") } }, 0);
    failed(f, "DG-DIGEST", "node train/opt: rank 1 (b) has <adamw lr=\"2\"> (b.xml:20:5)", "rank 0 () has <adamw lr=\"1\"> (a.xml:17:5)", false);
}

static void test_facts(void **state)
{
    fixture    *f = *state;
    const char *hosts[] = { "a", "b", "c" };
    dg_rows     all[] = { facts("<x>\na.xml:1:1", "1"), facts("<x>\nb.xml:2:2", "2"), facts("<x>", "3") };

    assert_int_equal(dg_facts_compare(all, 3, hosts, f->d), 0); /* positions are told, not compared */
    all[2] = facts("<x>", "1");
    assert_true(dg_facts_compare(all, 3, hosts, f->d) < 0);
    assert_string_equal(dg_diag_at(f->d, 0)->text, "ranks 0 (a) and 2 (c) have the same device: 1");
    check_only(f->d, "DG-DEVICE");
    all[2] = (dg_rows){ 1, all[2].v };
    assert_true(dg_facts_compare(all, 3, hosts, f->d) < 0);
    assert_string_equal(dg_diag_at(f->d, 0)->text, "rank 2 (c) has nothing where rank 0 (a) has node train/opt (a.xml:1:1)");
    check_only(f->d, "DG-DIGEST");
}

static void test_silence(void **state)
{
    fixture *f = *state;

    begin(f, 2);
    beat(f, 1, "train/backbone", false, 0, 0.1);
    for (double t = 0; t < 2.05; t += 0.1) {
        beat(f, 0, "train/sync", true, t, t);
        dg_roster_tick(f->r, t);
        assert_int_equal(state_of(f)->over, DG_OVER_NO);
    }
    assert_non_null(strstr(f->log.s, "rank 1 (host, process 101) has been silent for 0.5 s at step 57 in node \"train/backbone\"; after 2 s it counts as lost"));
    beat(f, 0, "train/sync", true, 2, 2.15);
    dg_roster_tick(f->r, 2.15);
    failed(f, "rank-lost", "rank 1 (host, process 101) has been silent for 2.0 s at step 57 in node \"train/backbone\"",
           "nothing was written after step 50", true);
}

static void test_heard_again(void **state)
{
    fixture *f = *state;

    begin(f, 1);
    dg_roster_tick(f->r, 1.5);
    beat(f, 0, "", false, 0, 1.6);
    dg_roster_tick(f->r, 3);
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
        dg_roster_tick(f->r, t);
    }
    assert_int_equal(state_of(f)->over, DG_OVER_NO); /* alive and long in one place is not lost */
    assert_non_null(strstr(f->log.s, "has been in node \"train/data\" (p.xml:7:3) for 10 s: slow, or stuck"));
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
        dg_roster_tick(f->r, t);
    }
    assert_int_equal(state_of(f)->over, DG_OVER_NO);
    beat(f, 0, "train/sync", true, 5.1, 5.1);
    beat(f, 1, "train/log", true, 5.1, 5.1);
    dg_roster_tick(f->r, 5.1);
    failed(f, "ranks-apart", "rank 0 in \"train/sync\"", "rank 1 in \"train/log\"", false);
}

static void test_killed(void **state)
{
    fixture *f = *state;

    begin(f, 2);
    beat(f, 1, "train/backbone", false, 0, 0);
    dg_roster_gone(f->r, 1, 9, 0.1);
    failed(f, "rank-died", "rank 1 (host, process 101) was ended by signal 9 (SIGKILL) at step 57 in node \"train/backbone\"",
           "nothing was written after step 50", true);
}

static void test_exit(void **state)
{
    fixture *f = *state;

    begin(f, 2);
    dg_roster_gone(f->r, 1, 3 << 8, 0.1);
    dg_roster_tick(f->r, 0.11); /* its last words may be on their way */
    assert_int_equal(state_of(f)->over, DG_OVER_NO);
    dg_roster_tick(f->r, 0.3);
    failed(f, "rank-died", "rank 1 (host, process 101) ended with status 3 without a word", "", true);
}

static dg_message fault(dg_code code, const char *id, const char *text)
{
    static const dg_row help[] = { { DG_ROW_HELP, "", "look at it" }, { DG_ROW_NOTE, "b.xml:1:2", "wired here" } };

    return (dg_message){ .kind = DG_SAY_FAIL, .fail = { .code = code, .id = id, .text = text, .node = "train/crop", .file = "p.xml", .line = 31, .column = 5,
                                                        .remarks = { 2, help } } };
}

static void test_error(void **state)
{
    fixture      *f = *state;
    const dg_err *e;

    begin(f, 4);
    say(f, 0, fault(DG_EIO, "collective-failed", "reduce_end: rank 3 (process 103) has left"), 0);
    say(f, 1, fault(DG_ESTOP, "kernel-failed", "stopped"), 0);
    say(f, 3, fault(DG_EINPUT, "image-read", "it cannot be read"), 0.02);
    say(f, 3, (dg_message){ .kind = DG_SAY_BYE, .bye = { DG_EINPUT } }, 0.02);
    dg_roster_tick(f->r, 0.03);
    assert_int_equal(state_of(f)->over, DG_OVER_NO);
    dg_roster_tick(f->r, 0.1);
    failed(f, "image-read", "rank 3 of 4: it cannot be read", "", false);
    e = dg_diag_at(dg_roster_verdict(f->r), 0);
    assert_int_equal(dg_diag_n(dg_roster_verdict(f->r)), 1);
    assert_int_equal(e->at.line, 31);
    assert_string_equal(e->at.node, "train/crop");
    assert_int_equal(e->n_remarks, 2);
    assert_string_equal(e->remarks[1].text, "b.xml:1:2: wired here");
}

/* If nobody has a better reason, a failed wait is one. */
static void test_second_hand(void **state)
{
    fixture *f = *state;

    begin(f, 2);
    say(f, 0, fault(DG_EIO, "collective-failed", "rank 1 (process 101) has left"), 0);
    dg_roster_tick(f->r, 0.4);
    assert_int_equal(state_of(f)->over, DG_OVER_NO);
    beat(f, 1, "train/sync", true, 0, 0.4);
    dg_roster_tick(f->r, 0.6);
    failed(f, "collective-failed", "rank 0 of 2", "has left", false);
}

/* Unless others are silent since: their machine is lost. */
static void test_machine_lost(void **state)
{
    fixture *f = *state;

    begin(f, 4);
    beat(f, 1, "train/sync", true, 0, 1);
    say(f, 0, fault(DG_EIO, "collective-failed", "connection closed by peer"), 1);
    beat(f, 1, "train/sync", true, 0.4, 1.4);
    dg_roster_tick(f->r, 1.5);
    failed(f, "rank-lost", "rank 2 (host, process 102) has been silent for 1.5 s", "because rank 0 says: connection closed by peer", true);
    assert_false(dg_roster_lost_rank(f->r, 0));
    assert_false(dg_roster_lost_rank(f->r, 1));
    assert_true(dg_roster_lost_rank(f->r, 2));
    assert_true(dg_roster_lost_rank(f->r, 3));
    assert_false(dg_roster_lost_rank(f->r, 4));
}

static void has_seat(const dg_muster *m, int node, dg_seat want)
{
    dg_seat s = dg_muster_seat(m, node);

    assert_int_equal(s.first, want.first);
    assert_int_equal(s.ranks, want.ranks);
    assert_int_equal(s.all, want.all);
    assert_int_equal(s.machines, want.machines);
}

/* Two machines with two ranks each: the first loses one; then its other one, and the second does not come. */
static void test_muster(void **state)
{
    fixture  *f = *state;
    dg_arena *a = dg_arena_open();
    dg_muster m;

    dg_muster_open(&m, a, 2, 2);
    has_seat(&m, 1, (dg_seat){ 2, 2, 4, 2 });
    begin(f, 4);
    dg_roster_gone(f->r, 1, 9, 0.1);
    dg_muster_call(&m, 1, f->r);
    assert_false(dg_muster_complete(&m));
    dg_muster_come(&m, 1);
    dg_muster_come(&m, 7);
    assert_true(dg_muster_complete(&m));
    dg_muster_close(&m);
    has_seat(&m, 0, (dg_seat){ 0, 1, 3, 2 });
    has_seat(&m, 1, (dg_seat){ 1, 2, 3, 2 });
    dg_roster_close(&f->r);

    begin(f, 3);
    dg_roster_gone(f->r, 0, 9, 0.1); /* the first machine's last one: it keeps one */
    dg_muster_call(&m, 2, f->r);
    dg_muster_close(&m); /* the other one has not come, */
    dg_muster_come(&m, 1);
    has_seat(&m, 0, (dg_seat){ 0, 1, 1, 1 });
    has_seat(&m, 1, (dg_seat){ 1, 0, 1, 1 }); /* and it is too late */
    has_seat(&m, 2, (dg_seat){ 0 });
    dg_arena_close(&a);
}

/* Before the ranks have met they find the same errors, and these are said once. */
static void test_same_errors(void **state)
{
    fixture *f = *state;

    f->r = dg_roster_open(&(dg_roster_conf){ .ranks = 3, .attempt = 5, .lost_after_s = 2, .env = &f->env }, 0);
    for (int i = 0; i < 3; i++)
        say(f, i, fault(DG_EINPUT, "attr-unknown", "there is no attribute"), 0);
    dg_roster_tick(f->r, 0.25);
    failed(f, "attr-unknown", "there is no attribute", "", false);
    assert_int_equal(dg_diag_n(dg_roster_verdict(f->r)), 1);
    assert_string_equal(dg_diag_at(dg_roster_verdict(f->r), 0)->text, "there is no attribute");
    assert_int_equal(dg_diag_at(dg_roster_verdict(f->r), 0)->n_remarks, 2);
}

static void test_own_error(void **state)
{
    fixture *f = *state;

    f->r = dg_roster_open(&(dg_roster_conf){ .ranks = 3, .attempt = 5, .lost_after_s = 2, .env = &f->env }, 0);
    say(f, 1, fault(DG_EINPUT, "file-open", "cannot open"), 0);
    dg_roster_tick(f->r, 0.25);
    failed(f, "file-open", "rank 1 of 3: cannot open", "", false);
}

static void test_left(void **state)
{
    fixture *f = *state;

    begin(f, 2);
    word(f, 0, 0, 1, 0);
    word(f, 1, 0, 1, 0);
    say(f, 1, (dg_message){ .kind = DG_SAY_BYE }, 0);
    dg_roster_gone(f->r, 1, 0, 0);
    dg_roster_tick(f->r, 0.5);
    assert_int_equal(dg_roster_left(f->r), 1);
    assert_int_equal(state_of(f)->over, DG_OVER_NO);
    word(f, 0, 1, 1, 0.6);
    failed(f, "rank-left", "rank 1 (host, process 101) was done after step 1", "begins step 2", false);
}

static bool ask(fixture *f, const char *verb, const char *text, const char *answer)
{
    dg_str s = { 0 };
    bool   done = dg_roster_ask(f->r, verb, text, &s, 1);

    if (!strstr(s.s ? s.s : "", answer))
        fail_msg("%s: %s", verb, s.s ? s.s : "");
    dg_str_free(&s);
    return done;
}

static void test_orders(void **state)
{
    fixture *f = *state;

    begin(f, 2);
    word(f, 0, 0, 1, 0);
    word(f, 1, 0, 1, 0);
    word(f, 0, 1, 1, 0);
    assert_true(ask(f, "save", "", "saving after batch 2"));
    assert_int_equal(state_of(f)->save_after, 1); /* rank 1 may have ended batch 0, and knows of it before it ends batch 1 */
    assert_true(ask(f, "set", "lr=1e-3", "learning rate 0.001 from batch 3 on"));
    assert_int_equal(state_of(f)->lr_from, 2);
    assert_false(ask(f, "set", "lr=1e-4", "has not taken effect yet"));
    word(f, 1, 1, 1, 0);
    word(f, 0, 2, 1, 0);
    word(f, 1, 2, 1, 0);
    assert_true(ask(f, "set", "lr=1e-4", "from batch 5 on"));
    assert_true(state_of(f)->lr_before == 1e-3);
    assert_true(ask(f, "save", "", "saving after batch 4"));
    assert_true(ask(f, "save", "", "saving after batch 4")); /* the one that is on its way */
    assert_true(ask(f, "stop", "", "stopping after batch 4"));
    word(f, 0, 3, 1, 0);
    word(f, 1, 3, 1, 0);
    assert_true(ask(f, "stop", "", "stopping after batch 4")); /* once said it stays */
    assert_true(ask(f, "status", "", "2 ranks, stopping"));
    assert_false(ask(f, "set", "lr=-1", "a learning rate above 0"));
    assert_false(ask(f, "set", "lr=inf", "a learning rate above 0"));
    assert_false(ask(f, "dance", "", "there is no \"dance\""));
    dg_roster_end(f->r, "asked");
    assert_int_equal(state_of(f)->over, DG_OVER_AT_ONCE);
    assert_false(ask(f, "save", "", "the run is ending"));
}

/* Set in an earlier attempt, it holds from the batch from which it held there, unless another is set before. */
static void test_rate_done_again(void **state)
{
    fixture *f = *state;

    f->r = dg_roster_open(&(dg_roster_conf){ .ranks = 1, .attempt = 5, .lost_after_s = 2, .lr = 0.5, .lr_before = 0.25, .lr_from = 101, .env = &f->env }, 0);
    assert_int_equal(state_of(f)->lr_from, 101);
    assert_true(state_of(f)->lr_before == 0.25);
    assert_false(ask(f, "set", "lr=0.125", "has not taken effect yet")); /* nobody knows yet with which batch it begins */
    word(f, 0, 80, 1, 0);
    assert_true(ask(f, "status", "", "learning rate 0.5 from batch 102 on, as it was set"));
    assert_true(ask(f, "set", "lr=0.125", "learning rate 0.125 from batch 83 on"));
    assert_true(state_of(f)->lr_before == 0.25);
    assert_false(ask(f, "set", "lr=1", "has not taken effect yet"));
}

/* A learning rate that somebody set holds over restarts. */
static void test_rate_kept(void **state)
{
    fixture *f = *state;

    f->r = dg_roster_open(&(dg_roster_conf){ .ranks = 1, .attempt = 5, .lost_after_s = 2, .lr = 0.5, .env = &f->env }, 0);
    assert_int_equal(state_of(f)->lr_from, 0);
    assert_true(state_of(f)->lr == 0.5);
    assert_true(ask(f, "status", "", "learning rate 0.5, as it was set"));
}

/* Until somebody wants the schedule's back; and what a run was resumed with is told too. */
static void test_rate_of_schedule(void **state)
{
    fixture      *f = *state;
    const dg_row  fact = { DG_ROW_SAME, dg_fact_rate, "0.25" };

    begin(f, 1);
    say(f, 0, (dg_message){ .kind = DG_SAY_MEET, .meet = { 2, { 1, &fact } } }, 0);
    assert_true(ask(f, "status", "", "learning rate 0.25, as it was set before the run was resumed"));
    assert_true(ask(f, "set", "lr=schedule", "learning rate of the schedule from batch 2 on"));
    assert_true(state_of(f)->lr < 0);
    assert_true(ask(f, "status", "", "learning rate of the schedule from batch 2 on, as it was set"));
    assert_false(ask(f, "set", "lr=scheduled", "or lr=schedule"));
}

static void test_strangers(void **state)
{
    fixture *f = *state;

    begin(f, 2);
    dg_roster_take(f->r, &(dg_message){ .kind = DG_SAY_FAIL, .rank = 0, .attempt = 4, .fail = { .code = 1, .id = "x", .text = "x" } }, 0);
    dg_roster_take(f->r, &(dg_message){ .kind = DG_SAY_FAIL, .rank = 9, .attempt = 5, .fail = { .code = 1, .id = "x", .text = "x" } }, 0);
    dg_roster_tick(f->r, 0.4);
    assert_int_equal(state_of(f)->over, DG_OVER_NO);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_words, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_status_json, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_odd_word, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_other_step, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_seen, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_seen_differs, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_seen_and_gone_on, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_seen_in_words, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_digest, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_facts, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_silence, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_heard_again, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_slow, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_apart, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_killed, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_exit, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_error, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_second_hand, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_machine_lost, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_muster, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_same_errors, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_own_error, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_left, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_orders, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_rate_done_again, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_rate_kept, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_rate_of_schedule, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_strangers, set_up, tear_down),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
