/* launch.c: which key files and environments a launcher refuses, and which tickets a process
 * refuses. tests/drills covers whole launches. */
#include "tests/check.h"

#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "control/rank_processes.h"
#include "control/keyfile.h"
#include "control/launch.h"

typedef struct fixture {
    dg_arena *a;
    dg_diag *d;
    dg_env env;
    char folder[64];
} fixture;

static void ignore(void *ctx, dg_level level, const char *line)
{
    (void)ctx, (void)level, (void)line;
}

static int set_up(void **state)
{
    fixture *f = calloc(1, sizeof *f);

    f->a = dg_arena_open();
    f->d = dg_diag_open();
    f->env = (dg_env){ .log = ignore, .now_s = dg_monotonic_s, .threads = 1 };
    snprintf(f->folder, sizeof f->folder, "/tmp/detrgraph-launch-XXXXXX");
    *state = f;
    return mkdtemp(f->folder) ? 0 : -1;
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
    dg_diag_close(&f->d);
    dg_arena_close(&f->a);
    free(f);
    return 0;
}

static void test_key(void **state)
{
    fixture *f = *state;
    const char *path = dg_path_join(f->a, f->folder, "key");
    struct stat st;

    assert_int_equal(dg_key_file_make(path, f->d), 0);
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0600);
    assert_int_equal(st.st_size, 82);
    /* an existing key file is not overwritten */
    assert_int_equal(dg_key_file_make(path, f->d), -DG_EIO);
    check_only(f->d, "key-file");
}

/* The disk fills up halfway. */
static void test_key_cut_short(void **state)
{
    fixture *f = *state;
    const char *path = dg_path_join(f->a, f->folder, "key");
    struct rlimit before, less;
    struct stat st;
    int rc;

    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    less = (struct rlimit){ 40, before.rlim_max };
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &less), 0);
    rc = dg_key_file_make(path, f->d);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
    assert_int_equal(rc, -DG_EIO);
    assert_string_equal(dg_diag_at(f->d, 0)->text,
                        "the key cannot be written: No space left on device");
    check_only(f->d, "key-file");
    assert_int_equal(stat(path, &st), -1); /* no partial file is left */
}

static int launch(fixture *f, const char *coordinator, const char *key, char *const *environment)
{
    char name[] = "detrgraph", *args[] = { name, NULL }, *nothing[] = { NULL };
    const dg_launch_conf c = { .args = args,
                               .environment = environment ? environment : nothing,
                               .ranks = 1,
                               .control = coordinator != NULL,
                               .nodes = coordinator ? 2 : 1,
                               .coordinator = coordinator,
                               .key = key,
                               .lost_after_s = 1,
                               .env = &f->env };
    int code = 0;

    return dg_launch_run(&c, &code, f->d);
}

static void test_machines(void **state)
{
    fixture *f = *state;
    const char *key = dg_path_join(f->a, f->folder, "key"),
               *bad = dg_path_join(f->a, f->folder, "bad");

    assert_int_equal(dg_key_file_make(key, f->d), 0);
    assert_int_equal(dg_file_write(bad, "secret", 6, f->d), 0);
    assert_int_equal(chmod(bad, 0600), 0);
    assert_int_equal(launch(f, "host", key, NULL), -DG_EINPUT);
    check_only(f->d, "coordinator-form");
    assert_int_equal(launch(f, ":80", key, NULL), -DG_EINPUT);
    check_only(f->d, "coordinator-form");
    assert_int_equal(launch(f, "host:65535", key, NULL), -DG_EINPUT);
    check_only(f->d, "coordinator-form");
    assert_int_equal(launch(f, "host:80000000000000000000", key, NULL), -DG_EINPUT);
    check_only(f->d, "coordinator-form");
    assert_int_equal(launch(f, "nowhere.invalid:29500", key, NULL), -DG_EIO);
    check_only(f->d, "coordinator-unknown");
    assert_int_equal(launch(f, "localhost:29500", bad, NULL), -DG_EINPUT);
    assert_string_equal(dg_diag_at(f->d, 0)->text, "it is no key of a run on several machines");
    check_only(f->d, "key-file");
    assert_int_equal(chmod(key, 0640), 0);
    assert_int_equal(launch(f, "localhost:29500", key, NULL), -DG_EINPUT);
    assert_string_equal(dg_diag_at(f->d, 0)->text,
                        "others may read or write it (mode 640): a key is its owner's alone");
    check_only(f->d, "key-file");
}

/* An environment too large for any process. */
static void test_cannot_start(void **state)
{
    fixture *f = *state;
    size_t n = 8 << 20;
    char *text = malloc(n), *environment[] = { text, NULL };

    memset(text, 'a', n);
    text[n - 1] = '\0';
    assert_int_equal(launch(f, NULL, NULL, environment), -DG_EIO);
    check_only(f->d, "launch");
    free(text);
}

/* ---- tickets --------------------------------------------------------------------------------- */

static int take(fixture *f, const void *bytes, size_t n, dg_message *out)
{
    int fd = memfd_create("ticket", 0);

    if (fd < 0 || write(fd, bytes, n) != (ssize_t)n)
        return -DG_EIO;
    return dg_rank_processes_ticket(out, dg_printf(f->a, "%d", fd), f->a, f->d);
}

static void test_tickets(void **state)
{
    fixture *f = *state;
    dg_message m = { .kind = DG_SAY_TICKET, .rank = 3 }, out;
    dg_str frame = { 0 };
    int ends[2];

    m.ticket.alive_fd = -1;
    m.ticket.ranks = 4;
    dg_message_write(&frame, &m);
    assert_int_equal(take(f, frame.s, frame.n, &out), 0);
    assert_int_equal(out.rank, 3);
    assert_int_equal(out.ticket.ranks, 4);
    assert_int_equal(take(f, frame.s, frame.n - 1, &out), -DG_EINPUT);
    check_only(f->d, "message-malformed");
    assert_int_equal(dg_rank_processes_ticket(&out, "7x", f->a, f->d), -DG_EINPUT);
    check_only(f->d, "ticket");
    assert_int_equal(dg_rank_processes_ticket(&out, "1", f->a, f->d), -DG_EINPUT);
    check_only(f->d, "ticket");
    assert_int_equal(dg_rank_processes_ticket(&out, "4000", f->a, f->d), -DG_EINPUT);
    check_only(f->d, "ticket");

    assert_int_equal(pipe(ends), 0);
    m.ticket.alive_fd = ends[0];
    frame.n = 0;
    dg_message_write(&frame, &m);
    assert_int_equal(take(f, frame.s, frame.n, &out), 0);
    close(ends[1]); /* end of file: the launcher is gone */
    assert_int_equal(take(f, frame.s, frame.n, &out), -DG_ESTOP);
    check_only(f->d, "launcher-gone");
    close(ends[0]);

    m = (dg_message){ .kind = DG_SAY_BYE };
    frame.n = 0;
    dg_message_write(&frame, &m);
    assert_int_equal(take(f, frame.s, frame.n, &out), -DG_EINPUT);
    check_only(f->d, "ticket");
    dg_str_free(&frame);
    prctl(PR_SET_PDEATHSIG, 0); /* this program's parent is no launcher */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_key, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_key_cut_short, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_machines, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_cannot_start, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_tickets, set_up, tear_down),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
