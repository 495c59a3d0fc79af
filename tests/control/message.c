/* message.c: frames of the control protocol: every kind is read back as written; malformed frames
 * are refused with the right reason. */
#include "tests/check.h"

#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "control/message.h"

typedef struct fixture {
    dg_arena *a;
    dg_diag *d;
    dg_str frame;
} fixture;

static int set_up(void **state)
{
    fixture *f = calloc(1, sizeof *f);

    f->a = dg_arena_open();
    f->d = dg_diag_open();
    *state = f;
    return 0;
}

static int tear_down(void **state)
{
    fixture *f = *state;

    dg_str_free(&f->frame);
    dg_diag_close(&f->d);
    dg_arena_close(&f->a);
    free(f);
    return 0;
}

/* One message of every kind, with numbers at the ends of their ranges. */
static dg_message sample(dg_message_kind kind)
{
    static const dg_row rows[] = { { DG_ROW_SAME, "precision", "bf16" },
                                   { DG_ROW_DISTINCT, "device", "Gerät 1" },
                                   { DG_ROW_HELP, "", "" } };
    static const uint64_t digests[] = { 0, UINT64_MAX, 1 };
    dg_message m = { .kind = kind, .attempt = 3, .rank = 7 };

    switch (kind) {
    case DG_SAY_TICKET:
        m.ticket = (dg_ticket){ .ranks = 8,
                                .node = 1,
                                .nodes = 2,
                                .local_rank = 3,
                                .local_ranks = 4,
                                .threads = 2,
                                .comm_fd = 5,
                                .recorder_fd = 6,
                                .alive_fd = -1,
                                .lost_after_s = 2.5,
                                .commands = "ipc://@x",
                                .events = "ipc://@y",
                                .server_public = "s",
                                .own_public = "p",
                                .own_secret = "q",
                                .coordinator = "h:1",
                                .out = "runs/a" };
        break;
    case DG_SAY_HELLO:
        m.hello.host = "b";
        m.hello.process = INT64_MAX;
        break;
    case DG_SAY_FOLDER:
        m.folder.path = "/tmp/x y";
        break;
    case DG_SAY_MEET:
        m.meet.round = 2;
        m.meet.facts = (dg_rows){ 3, rows };
        break;
    case DG_SAY_WORD:
        m.word = (dg_word){ .step = 57,
                            .batch = INT64_MIN,
                            .schedule = UINT64_MAX,
                            .saved = -1,
                            .seen = { 3, digests } };
        break;
    case DG_SAY_BEAT:
        m.beat = (dg_beat){
            .node = "train/loss", .file = "p.xml", .line = 3, .waits = 1, .since_s = 0.25
        };
        break;
    case DG_SAY_FAIL:
        m.fail = (dg_rank_fault){ .code = 1,
                                  .more = 2,
                                  .id = "image-read",
                                  .text = "a\nb\tc",
                                  .node = "n",
                                  .file = "f",
                                  .line = 1,
                                  .column = 2,
                                  .remarks = { 2, rows + 1 } };
        break;
    case DG_SAY_STATE:
        m.state = (dg_state){ .met = 1,
                              .confirmed = 9,
                              .stop_after = -1,
                              .rates = { 2, { { 7, 1e-4 }, { INT64_MAX, -1 } } },
                              .over = 1,
                              .reason = "r" };
        break;
    case DG_SAY_ASK:
        m.ask.verb = "set";
        m.ask.text = "lr=1e-4";
        break;
    case DG_SAY_ANSWER:
        m.answer.done = 1;
        m.answer.text = "ok";
        break;
    case DG_SAY_JOIN:
        m.join.node = 1;
        m.join.first = 2;
        m.join.ranks = 2;
        m.join.all = 4;
        m.join.machines = 2;
        break;
    case DG_SAY_GONE:
        m.gone.process = 12;
        m.gone.status = 9;
        break;
    case DG_SAY_SEEN:
        m.seen = (dg_sight){ .scope = 1, .step = 4, .batch = INT64_MAX, .digests = { 2, digests } };
        break;
    default:
        m.put.name = "gloo/0";
        m.put.text = "10.0.0.1";
        break;
    }
    return m;
}

static void test_round_trip(void **state)
{
    fixture *f = *state;

    for (int kind = DG_SAY_TICKET; kind < DG_SAY_END; kind++) {
        dg_message m = sample((dg_message_kind)kind), back;
        dg_str again = { 0 };

        f->frame.n = 0;
        dg_message_write(&f->frame, &m);
        assert_int_equal(dg_message_read(&back, f->a, f->frame.s, f->frame.n, f->d), 0);
        assert_int_equal(back.kind, kind);
        assert_int_equal(back.rank, 7);
        assert_int_equal(back.attempt, 3);
        dg_message_write(&again, &back);
        assert_int_equal(again.n, f->frame.n);
        assert_memory_equal(again.s, f->frame.s, f->frame.n);
        dg_str_free(&again);
    }
}

/* The fuzzer's corpus has a readable frame of every kind. WRITE=yes rewrites it after a change of
 * the protocol. */
static void test_corpus(void **state)
{
    fixture *f = *state;
    const char *top = getenv("srcdir");

    for (int kind = DG_SAY_TICKET; kind < DG_SAY_END; kind++) {
        const char *path = dg_printf(f->a, "%s/tests/fuzz/corpus/message/%s", top ? top : ".",
                                     dg_message_name((dg_message_kind)kind));
        dg_message m = sample((dg_message_kind)kind);
        char *frame = NULL;
        size_t n = 0;

        f->frame.n = 0;
        dg_message_write(&f->frame, &m);
        if (getenv("WRITE"))
            assert_int_equal(dg_file_write(path, f->frame.s, f->frame.n, f->d), 0);
        if (dg_file_read(&frame, &n, path, 1 << 20, f->d) < 0 ||
            dg_message_read(&m, f->a, frame, n, f->d) < 0)
            fail_msg("%s: %s", path, dg_diag_at(f->d, 0)->text);
        assert_int_equal(m.kind, kind);
        dg_free(frame);
    }
}

static void test_values(void **state)
{
    fixture *f = *state;
    dg_message m = sample(DG_SAY_MEET), back;

    dg_message_write(&f->frame, &m);
    assert_int_equal(dg_message_read(&back, f->a, f->frame.s, f->frame.n, f->d), 0);
    assert_int_equal(back.meet.facts.n, 3);
    assert_int_equal(back.meet.facts.v[1].tag, DG_ROW_DISTINCT);
    assert_string_equal(back.meet.facts.v[1].value, "Gerät 1");
    f->frame.n = 0;
    m = sample(DG_SAY_WORD);
    dg_message_write(&f->frame, &m);
    assert_int_equal(dg_message_read(&back, f->a, f->frame.s, f->frame.n, f->d), 0);
    assert_true(back.word.batch == INT64_MIN);
    assert_true(back.word.schedule == UINT64_MAX);
    assert_int_equal(back.word.saved, -1);
    assert_int_equal(back.word.seen.n, 3);
    assert_true(back.word.seen.v[1] == UINT64_MAX && back.word.seen.v[2] == 1);
}

/* Every frame, truncated at every length and extended by a byte. */
static void test_lengths(void **state)
{
    fixture *f = *state;

    for (int kind = DG_SAY_TICKET; kind < DG_SAY_END; kind++) {
        dg_message m = sample((dg_message_kind)kind), back;

        f->frame.n = 0;
        dg_message_write(&f->frame, &m);
        dg_str_add_n(&f->frame, "", 1);
        for (size_t n = 0; n <= f->frame.n; n++) {
            char *exact = malloc(n ? n : 1);

            memcpy(exact, f->frame.s, n);
            assert_int_equal(dg_message_read(&back, f->a, exact, n, f->d),
                             n == f->frame.n - 1 ? 0 : -DG_EINPUT);
            dg_diag_clear(f->d);
            free(exact);
        }
    }
}

static void refused(fixture *f, size_t at, const char *bytes, size_t n, const char *reason)
{
    dg_message m = sample(DG_SAY_MEET), back;

    f->frame.n = 0;
    dg_message_write(&f->frame, &m);
    memcpy(f->frame.s + at, bytes, n);
    assert_int_equal(dg_message_read(&back, f->a, f->frame.s, f->frame.n, f->d), -DG_EINPUT);
    assert_non_null(strstr(dg_diag_at(f->d, 0)->text, reason));
    check_only(f->d, "message-malformed");
}

static void test_refusals(void **state)
{
    fixture *f = *state;

    refused(f, 0, "X", 1, "does not begin as a message does");
    refused(f, 4, "\1", 1, "another version");
    refused(f, 6, "\0", 1, "a kind that there is not");
    refused(f, 6, "\xff\xff", 2, "a kind that there is not");
    refused(f, 12, "\0\0\1", 3, "beyond all ranks");
    refused(f, 16, "\xff\xff\xff\xff", 4, "not the one that it states");
    refused(f, 28, "\xff\xff\xff\xff", 4, "more rows than it holds");
    refused(f, 28, "\4\0\0\0", 4, "ends in the middle");
    refused(f, 28, "\2\0\0\0", 4, "follows its last field");
    refused(f, 32, "\x7f", 1, "of a kind that there is not");
    refused(f, 33, "\xff\xff\xff\x7f", 4, "longer than the frame");
    refused(f, 37, "\xff", 1, "not clean UTF-8");
    refused(f, 37, "\x1b", 1, "not clean UTF-8");
    refused(f, 37, "\0", 1, "not clean UTF-8");
    refused(f, 37, "\xc0\x80", 2, "not clean UTF-8");
    refused(f, 37, "\xed\xa0\x80", 3, "not clean UTF-8");
}

/* Text from file names or libraries is cleaned, not refused. */
static void test_cleaning(void **state)
{
    fixture *f = *state;
    dg_message m = { .kind = DG_SAY_FOLDER }, back;

    m.folder.path = "a\x1b[31m\xff/\xc3\xa4\x80";
    dg_message_write(&f->frame, &m);
    assert_int_equal(dg_message_read(&back, f->a, f->frame.s, f->frame.n, f->d), 0);
    assert_string_equal(back.folder.path, "a?[31m?/\xc3\xa4?");
    m.folder.path = NULL;
    f->frame.n = 0;
    dg_message_write(&f->frame, &m);
    assert_int_equal(dg_message_read(&back, f->a, f->frame.s, f->frame.n, f->d), 0);
    assert_string_equal(back.folder.path, "");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_round_trip, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_corpus, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_values, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_lengths, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_refusals, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_cleaning, set_up, tear_down),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
