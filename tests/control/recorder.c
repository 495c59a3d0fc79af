/* recorder.c: the flight recorder, and what the doctor concludes from it. */
#include "tests/check.h"

#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "control/comm_recorded.h"
#include "control/doctor.h"

enum { RANKS = 3 };

typedef struct fixture {
    dg_arena *a;
    dg_diag *d;
    dg_recorder *r[RANKS];
    char folder[64];
    const char *flight;
} fixture;

static int set_up(void **state)
{
    fixture *f = calloc(1, sizeof *f);

    snprintf(f->folder, sizeof f->folder, "/tmp/detrgraph-flight-XXXXXX");
    if (!mkdtemp(f->folder)) {
        free(f);
        return -1;
    }
    f->a = dg_arena_open();
    f->d = dg_diag_open();
    f->flight = dg_path_join(f->a, f->folder, "flight");
    for (int i = 0; i < RANKS; i++) {
        int fd;

        if (dg_recorder_create(&fd, f->d) < 0 || dg_recorder_open(&f->r[i], fd, f->d) < 0)
            return -1;
        close(fd);
    }
    *state = f;
    return 0;
}

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *at)
{
    (void)st, (void)type, (void)at;
    return remove(path);
}

static int tear_down(void **state)
{
    fixture *f = *state;

    nftw(f->folder, remove_one, 16, FTW_DEPTH | FTW_PHYS);
    for (int i = 0; i < RANKS; i++)
        dg_recorder_close(&f->r[i]);
    dg_diag_close(&f->d);
    dg_arena_close(&f->a);
    free(f);
    return 0;
}

static uint32_t at(dg_recorder *r, const char *node, int line)
{
    uint32_t place = dg_recorder_place(r, &(dg_where){ "p.xml", line, 5, node });

    dg_recorder_at(r, place);
    return place;
}

/* Digests of a monitor that may be absent may differ between ranks; they do not mark the
 * divergence. */
static void step(dg_recorder *r, int64_t n)
{
    static uint64_t digest;

    digest++;
    dg_recorder_seen(r, &(dg_digests){ 1, &digest });
    dg_recorder_word(r, &(dg_word){ .step = n, .batch = n, .schedule = 0xabc });
}

static void collective(dg_recorder *r, const char *node, int line, int64_t elements, bool ends)
{
    uint64_t number;

    at(r, node, line);
    number = dg_recorder_begin(r, 0, "sum", "f32", elements);
    dg_recorder_enter(r);
    if (ends) {
        dg_recorder_leave(r);
        dg_recorder_end(r, number);
    }
}

static void test_look(void **state)
{
    fixture *f = *state;
    dg_beat b;
    uint64_t before, after;
    uint32_t place = at(f->r[0], "train/loss", 12);

    assert_int_equal(at(f->r[0], "train/sync", 13), place + 1);
    assert_int_equal(at(f->r[0], "train/loss", 12), place);
    dg_recorder_look(f->r[0], f->a, &b, &before);
    assert_string_equal(b.node, "train/loss");
    assert_string_equal(b.file, "p.xml");
    assert_int_equal(b.line, 12);
    assert_int_equal(b.step, -1);
    assert_int_equal(b.saved, -1);
    assert_false(b.waits);
    step(f->r[0], 7);
    dg_recorder_saved(f->r[0], 5);
    dg_recorder_saving(f->r[0], 6);
    collective(f->r[0], "train/sync", 13, 10, false);
    dg_recorder_look(f->r[0], f->a, &b, &after);
    assert_true(after > before);
    assert_true(b.waits);
    assert_int_equal(b.step, 7);
    assert_int_equal(b.saved, 5);
    assert_int_equal(b.saving, 6);
    dg_recorder_look(NULL, f->a, &b, &after);
    assert_string_equal(b.node, "");
}

static void test_long_names(void **state)
{
    fixture *f = *state;
    char name[400];
    dg_beat b;
    uint64_t n;

    memset(name, 'a', sizeof name);
    strcpy(name + sizeof name - 5, "/end");
    at(f->r[0], name, 1);
    dg_recorder_look(f->r[0], f->a, &b, &n);
    assert_int_equal(strlen(b.node), 111);
    assert_string_equal(b.node + strlen(b.node) - 4, "/end");
    /* names beyond the table's capacity count as outside all nodes */
    for (int i = 0; i < DG_PLACES + 10; i++) {
        snprintf(name, sizeof name, "n%d", i);
        at(f->r[0], name, 1);
    }
    dg_recorder_look(f->r[0], f->a, &b, &n);
    assert_string_equal(b.node, "");
}

static const char *examine(fixture *f)
{
    dg_str s = { 0 };
    const char *text;

    for (int i = 0; i < RANKS; i++)
        assert_int_equal(dg_recorder_dump(f->r[i],
                                          dg_printf(f->a, "%s/rank-%d.jsonl", f->flight, i), i,
                                          "host", f->d),
                         0);
    assert_int_equal(dg_doctor_examine(&s, f->folder, f->d), 0);
    text = dg_strdup(f->a, s.s);
    s.n = 0;
    assert_int_equal(dg_doctor_compare(&s, f->folder, f->d), 0);
    if (strstr(text, "The ranks parted")) /* its last line */
        assert_string_equal(s.s, text + strlen(text) - s.n);
    dg_str_free(&s);
    return text;
}

static void has(const char *text, const char *part)
{
    if (!strstr(text, part))
        fail_msg("\"%s\" is not in:\n%s", part, text);
}

/* One rank reduces a different tensor. */
static void test_parted(void **state)
{
    fixture *f = *state;
    const char *text;

    assert_int_equal(dg_mkdirs(f->flight, f->d), 0);
    for (int i = 0; i < RANKS; i++) {
        step(f->r[i], 0);
        collective(f->r[i], "train/sync", 92, 4096, true);
        step(f->r[i], 1);
        collective(f->r[i], "train/sync", 92, i == 2 ? 4095 : 4096, false);
    }
    text = examine(f);
    has(text, "No verdict was written.");
    has(text, "The ranks parted at their record 6: rank 0 began sum of 4096 f32 in node "
              "\"train/sync\" (p.xml:92:5), rank 2 began sum of 4095 f32");
    has(text, "Rank 2 (host) was at step 2 in node \"train/sync\" (p.xml:92:5), waiting for other "
              "ranks.");
}

/* One rank falls behind; the ring overflows. */
static void test_behind(void **state)
{
    fixture *f = *state;
    const char *text, verdict[] = "[{\"severity\":\"error\",\"id\":\"rank-lost\",\"message\":"
                                  "\"rank 1 is silent\",\"file\":\"p.xml\",\"line\":9,\"column\":3,"
                                  "\"node\":\"train/b\",\"notes\":[],\"help\":[\"start again\"]}]";

    assert_int_equal(dg_mkdirs(f->flight, f->d), 0);
    assert_int_equal(dg_file_write(dg_path_join(f->a, f->flight, "verdict.json"), verdict,
                                   sizeof verdict - 1, f->d),
                     0);
    for (int k = 0; k < 5000; k++)
        for (int i = 0; i < RANKS; i++)
            if (k < 4990 || i != 1)
                collective(f->r[i], "train/sync", 92, k, true);
    at(f->r[1], "train/backbone", 9);
    text = examine(f);
    has(text, "The run ended because of rank-lost: rank 1 is silent (p.xml:9:3).");
    has(text, "What to do: start again.");
    has(text, "Rank 1 (host) was at step 0 in node \"train/backbone\" (p.xml:9:5).");
    has(text,
        "rank 1 then came no further, while rank 0 began sum of 4999 f32 in node \"train/sync\"");
}

static void test_nothing(void **state)
{
    fixture *f = *state;
    dg_str s = { 0 };

    assert_int_equal(dg_doctor_examine(&s, f->folder, f->d), -DG_EINPUT);
    check_only(f->d, "doctor-nothing");
    assert_int_equal(dg_mkdirs(f->flight, f->d), 0);
    assert_int_equal(dg_file_write(dg_path_join(f->a, f->flight, "rank-0.jsonl"),
                                   "{\"rank\":0}\n{]\n", 14, f->d),
                     0);
    assert_int_equal(dg_doctor_examine(&s, f->folder, f->d), 0);
    has(s.s, "rank-0.jsonl cannot be read: not valid JSON");
    has(s.s, "No verdict was written.");
    dg_str_free(&s);
}

/* What full disks and killed ranks leave: the doctor says what it cannot read, and goes on. */
static void test_damaged(void **state)
{
    static const char head[] = "{\"rank\":1,\"host\":\"h\",\"step\":3}\n";
    static const struct {
        const char *text, *said;
    } cases[] = {
        { "", "rank-1.jsonl cannot be read: it ends before the end of its first line" },
        { "{\"rank\":1}", "it ends before the end of its first line" },
        { "{\"rank\":1,\"ho", "it ends before the end of its first line" },
        { "{\"rank\":1}\n", "Rank 1 () was at step 0 outside all nodes" },
        { "3\n{}\n", "rank-1.jsonl cannot be read: its first line names no rank" },
        { "{\"rank\":1}\n{}\n", "rank-1.jsonl cannot be read: line 2 has no number of a record" },
        { "{\"rank\":-1}\n", "rank-1.jsonl cannot be read: its first line names no rank" },
        { "{\"rank\":1}\n{\"number\":7}\n{\"number\":2,\"op\":\"sum\"}\n{\"num", "Rank 1" },
    };
    fixture *f = *state;
    const char *path = dg_path_join(f->a, f->flight, "rank-1.jsonl"),
               *other = dg_path_join(f->a, f->flight, "rank-0.jsonl");
    /* the records of two ranks, with a gap before the one that differs */
    const char *gap = dg_printf(f->a,
                                "%s{\"number\":1,\"op\":\"sum\"}\n{\"number\":9,\"op\":\"max\"}\n",
                                head),
               *whole =
                   "{\"rank\":0}\n{\"number\":1,\"op\":\"sum\"}\n{\"number\":5,\"op\":\"sum\"}\n"
                   "{\"number\":9,\"op\":\"sum\"}\n";
    dg_str s = { 0 };

    assert_int_equal(dg_mkdirs(f->flight, f->d), 0);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        s.n = 0;
        assert_int_equal(dg_file_write(path, cases[i].text, strlen(cases[i].text), f->d), 0);
        assert_int_equal(dg_doctor_examine(&s, f->folder, f->d), 0);
        has(s.s, cases[i].said);
    }
    s.n = 0;
    assert_int_equal(dg_file_write(path, gap, strlen(gap), f->d), 0);
    assert_int_equal(dg_file_write(other, whole, strlen(whole), f->d), 0);
    assert_int_equal(dg_doctor_examine(&s, f->folder, f->d), 0);
    has(s.s,
        "The ranks parted at their record 9: rank 0 began sum outside all nodes, rank 1 began max");
    s.n = 0;
    assert_int_equal(dg_file_write(dg_path_join(f->a, f->flight, "verdict.json"), "[{", 2, f->d),
                     0);
    assert_int_equal(dg_doctor_examine(&s, f->folder, f->d), 0);
    has(s.s, "verdict.json cannot be read");
    s.n = 0;
    assert_int_equal(dg_file_write(dg_path_join(f->a, f->flight, "verdict.json"), "[{\"id\":5}]",
                                   10, f->d),
                     0);
    assert_int_equal(dg_doctor_examine(&s, f->folder, f->d), 0);
    has(s.s, "verdict.json cannot be read: it names no error.\nNo verdict was written.\n");
    dg_str_free(&s);
}

static void test_memory(void **state)
{
    fixture *f = *state;
    dg_recorder *r;

    assert_int_equal(dg_recorder_open(&r, -1, f->d), -DG_EIO);
    check_only(f->d, "recorder-memory");
}

/* ---- a communicator that is watched ---------------------------------------------------------- */

static int started(dg_comm *c, dg_tensor x, dg_reduce op, int64_t *ticket)
{
    (void)x, (void)op;
    *ticket = c->cost.n++;
    return 0;
}

static int waited(dg_comm *c, int64_t ticket)
{
    if (ticket < 2)
        return 0;
    strcpy(c->why, "rank 1 has left");
    return -DG_EIO;
}

static int passed(dg_comm *c)
{
    c->cost.n++;
    return 0;
}

static int met(dg_comm *c, dg_meeting_kind kind, int a, dg_dtype type, size_t n)
{
    (void)kind, (void)a, (void)type;
    c->cost.bytes += (int64_t)n;
    return 0;
}

static void closed(dg_comm **c)
{
    *c = NULL;
}

static void test_watched(void **state)
{
    fixture *f = *state;
    dg_comm inner = { .name = "toy",
                      .rank = 0,
                      .ranks = 2,
                      .start = started,
                      .wait = waited,
                      .barrier = passed,
                      .meet = met,
                      .close = closed };
    dg_comm *c = dg_comm_recorded(&inner, f->r[0]);
    dg_tensor x = { DG_F32, DG_SHAPE(12), NULL };
    int64_t tickets[3];
    const char *text;
    char *dump;
    size_t n;

    at(f->r[0], "train/sync", 4);
    for (int i = 0; i < 3; i++)
        assert_int_equal(c->start(c, x, DG_MAX, &tickets[i]), 0);
    assert_int_equal(c->wait(c, tickets[1]), 0);
    assert_int_equal(c->barrier(c), 0);
    for (int i = 0; i < 2; i++)
        assert_int_equal(c->meet(c, DG_MEET_GATHER, 0, DG_F32, 48), 0);
    assert_int_equal(c->cost.bytes, 2 * 48);
    assert_int_equal(c->wait(c, tickets[2]), -DG_EIO);
    assert_string_equal(c->why, "rank 1 has left");
    assert_int_equal(c->cost.n, 4);
    assert_null(c->memory);
    c->close(&c);
    assert_null(c);
    text = dg_path_join(f->a, f->folder, "dump");
    assert_int_equal(dg_recorder_dump(f->r[0], text, 0, "host", f->d), 0);
    assert_int_equal(dg_file_read(&dump, &n, text, 0, f->d), 0);
    has(dump, "\"op\":\"max\",\"type\":\"f32\",\"elements\":12");
    has(dump, "\"op\":\"barrier\"");
    has(dump, "\"end\":0,\"node\":\"train/sync\"");
    dg_free(dump);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_look, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_long_names, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_parted, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_behind, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_nothing, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_damaged, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_memory, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_watched, set_up, tear_down),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
