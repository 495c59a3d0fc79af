/* control.c: the control plane over real sockets: a coordinator and the links of several ranks, all
 * threads of this program. */
#include "tests/check.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <poll.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/log.h"
#include "control/coordinator.h"
#include "control/doctor.h"
#include "control/control_file.h"
#include "control/link.h"

/* PATIENCE: looks, a hundred a second, before something is missed; a busy machine is slow */
enum { RANKS = 3, PATIENCE = 12000 };

typedef struct fixture {
    dg_arena *a;
    dg_diag *d;
    pthread_mutex_t lock; /* guards log */
    dg_str log;
    dg_env env;
    dg_key_pair server, rank_key, ctl_key;
    dg_coordinator *c;
    dg_ticket ticket;
    char folder[64];
} fixture;

static void take_line(void *ctx, dg_level level, const char *line)
{
    fixture *f = ctx;

    (void)level;
    pthread_mutex_lock(&f->lock);
    dg_str_fmt(&f->log, "%s\n", line);
    pthread_mutex_unlock(&f->lock);
}

static bool logged(fixture *f, const char *text)
{
    bool found = false;

    for (int i = 0; i < PATIENCE && !found; i++) {
        pthread_mutex_lock(&f->lock);
        found = f->log.s && strstr(f->log.s, text);
        pthread_mutex_unlock(&f->lock);
        if (!found)
            usleep(10000);
    }
    return found;
}

static int set_up(void **state)
{
    fixture *f = calloc(1, sizeof *f);
    dg_coordinator_conf conf;

    f->a = dg_arena_open();
    f->d = dg_diag_open();
    pthread_mutex_init(&f->lock, NULL);
    f->env = (dg_env){ .log = take_line, .log_ctx = f, .now_s = dg_monotonic_s, .threads = 1 };
    snprintf(f->folder, sizeof f->folder, "/tmp/detrgraph-control-XXXXXX");
    if (!mkdtemp(f->folder) || dg_key_make(&f->server, f->d) < 0 ||
        dg_key_make(&f->rank_key, f->d) < 0 || dg_key_make(&f->ctl_key, f->d) < 0)
        return -1;
    conf = (dg_coordinator_conf){ .commands = "tcp://127.0.0.1:*",
                                  .asks = "tcp://127.0.0.1:*",
                                  .events = dg_printf(f->a, "ipc://@dg-test-%ld", (long)getpid()),
                                  .server = &f->server,
                                  .rank_key = f->rank_key.public_key,
                                  .ctl_key = f->ctl_key.public_key,
                                  .lost_after_s = 20,
                                  .nodes = 2,
                                  .ranks = 1,
                                  .env = &f->env };
    if (dg_coordinator_open(&f->c, &conf, f->d) < 0)
        return -1;
    dg_coordinator_begin(f->c, RANKS, 0);
    f->ticket = (dg_ticket){ .ranks = RANKS,
                             .alive_fd = -1,
                             .lost_after_s = 20,
                             .commands = dg_coordinator_commands(f->c),
                             .events = dg_coordinator_events(f->c),
                             .server_public = f->server.public_key,
                             .own_public = f->rank_key.public_key,
                             .own_secret = f->rank_key.secret_key };
    *state = f;
    return 0;
}

static int tear_down(void **state)
{
    fixture *f = *state;

    dg_coordinator_close(&f->c);
    dg_control_file_remove(f->folder);
    rmdir(f->folder);
    pthread_mutex_destroy(&f->lock);
    dg_str_free(&f->log);
    dg_diag_close(&f->d);
    dg_arena_close(&f->a);
    free(f);
    return 0;
}

/* ---- ranks as threads ------------------------------------------------------------------------ */

typedef struct actor {
    fixture *f;
    int rank, steps, stopped_at, saved_at;
    int fail_at; /* reports an error before this batch; 0: never */
    int odd_at;  /* reports a different digest at this batch */
    const char *precision;
    double lr; /* in the last batch */
    int rc;
    double over_s; /* when it received the run's end, in seconds */
    atomic_int told, saves;
} actor;

static void on_over(void *ctx)
{
    actor *x = ctx;

    x->over_s = dg_monotonic_s();
    atomic_fetch_add(&x->told, 1);
}

static int act(actor *x, dg_link *l, dg_diag *d)
{
    const dg_row rows[] = { { DG_ROW_SAME, "precision", x->precision ? x->precision : "f32" } };
    const dg_rows facts = { 1, rows };
    int rc;

    x->stopped_at = x->saved_at = -1;
    DG_TRY(dg_link_meet(l, &facts, d));
    for (int b = 0; b < x->steps; b++) {
        dg_word w = { .step = b,
                      .batch = b,
                      .n_in_epoch = x->steps,
                      .schedule = b == x->odd_at && b ? 7 : 1,
                      .saved = -1 };
        dg_orders o;

        if (x->fail_at && b == x->fail_at)
            return dg_fail(d, DG_EINPUT, (dg_where){ "p.xml", 31, 5, "train/crop" }, "image-read",
                           "it cannot be read");
        DG_TRY(dg_link_begin(l, &w, d));
        x->lr = dg_link_lr(l);
        DG_TRY(dg_link_orders(l, &o, d));
        if (o.save) {
            x->saved_at = b;
            atomic_fetch_add(&x->saves, 1);
        }
        if (o.stop) {
            x->stopped_at = b;
            break;
        }
        if (x->steps > 1000)
            usleep(500);
    }
out:
    return rc;
}

static void *run_actor(void *ctx)
{
    actor *x = ctx;
    dg_diag *d = dg_diag_open();
    dg_link *l;

    x->rc = dg_link_open(&l,
                         &(dg_link_conf){ .ticket = &x->f->ticket,
                                          .rank = (uint32_t)x->rank,
                                          .on_over = on_over,
                                          .ctx = x },
                         d);
    if (x->rc == 0) {
        if (x->rank == 0)
            dg_link_folder(l, x->f->folder);
        x->rc = act(x, l, d);
        if (x->rc < 0 && x->rc != -DG_ESTOP)
            dg_link_fail(l, d, x->rc);
        dg_link_bye(l, x->rc);
    }
    dg_link_close(&l);
    dg_diag_close(&d);
    return NULL;
}

static void start(pthread_t *threads, actor *x, fixture *f, int steps)
{
    for (int i = 0; i < RANKS; i++) {
        x[i].f = f;
        x[i].rank = i;
        x[i].steps = steps;
        pthread_create(&threads[i], NULL, run_actor, &x[i]);
    }
}

static void join(pthread_t *threads)
{
    for (int i = 0; i < RANKS; i++)
        pthread_join(threads[i], NULL);
}

static dg_view look(fixture *f)
{
    dg_view v;

    dg_coordinator_look(f->c, &v, f->d);
    return v;
}

static void test_whole_run(void **state)
{
    fixture *f = *state;
    actor x[RANKS] = { 0 };
    pthread_t t[RANKS];

    start(t, x, f, 200);
    join(t);
    for (int i = 0; i < RANKS; i++)
        assert_int_equal(x[i].rc, 0);
    for (int i = 0; i < PATIENCE && look(f).left < RANKS; i++)
        usleep(10000);
    assert_int_equal(look(f).left, RANKS);
    assert_int_equal(look(f).over, DG_OVER_NO);
    assert_string_equal(look(f).folder, f->folder);
}

/* All ranks take an order after the same batch. */
static void test_orders(void **state)
{
    fixture *f = *state;
    actor x[RANKS] = { 0 };
    pthread_t t[RANKS];

    start(t, x, f, 100000);
    for (int i = 0; i < PATIENCE && !*look(f).folder; i++)
        usleep(10000);
    dg_coordinator_ask(f->c, "set", "lr=0.5");
    dg_coordinator_ask(f->c, "save", "");
    for (int i = 0; i < RANKS; i++)
        for (int k = 0; k < PATIENCE && !atomic_load(&x[i].saves); k++)
            usleep(10000);
    dg_coordinator_ask(f->c, "stop", "");
    join(t);
    for (int i = 0; i < RANKS; i++) {
        assert_int_equal(x[i].rc, 0);
        assert_true(x[i].stopped_at > x[i].saved_at && x[i].saved_at >= 0);
        assert_int_equal(x[i].stopped_at, x[0].stopped_at);
        assert_int_equal(x[i].saved_at, x[0].saved_at);
        assert_true(x[i].lr == 0.5);
    }
}

/* The next attempt repeats, at the original rate, the batches before the learning rate was set. */
static void test_rate_next_attempt(void **state)
{
    fixture *f = *state;
    dg_link *l;
    dg_state s = { 0 };
    char reason[64];

    f->ticket.ranks = 1;
    dg_coordinator_begin(f->c, 1, 1);
    dg_coordinator_ask(f->c, "set", "lr=0.5");
    dg_coordinator_begin(f->c, 1, 2);
    assert_int_equal(dg_link_open(&l, &(dg_link_conf){ .ticket = &f->ticket, .attempt = 2 }, f->d),
                     0);
    for (int i = 0; i < PATIENCE && !dg_link_state(l, &s, reason, sizeof reason); i++)
        usleep(10000);
    assert_int_equal(s.rates.n, 1);
    assert_true(dg_rates_at(&s.rates, 1) == 0.5);
    assert_true(dg_rates_at(&s.rates, 0) == 0);
    dg_link_close(&l);
}

/* A launcher that waits for a seat learns that the run was stopped, and keeps its former seat. */
static void test_no_seat(void **state)
{
    fixture *f = *state;
    dg_link *l;
    dg_state s = { 0 };
    dg_seat seat = { 1, 1, 2, 2 };
    char reason[64];

    dg_coordinator_reopen(f->c, 1);
    assert_int_equal(dg_link_open(&l,
                                  &(dg_link_conf){ .ticket = &f->ticket,
                                                   .rank = 1,
                                                   .attempt = 1,
                                                   .launcher = true },
                                  f->d),
                     0);
    for (int i = 0; i < PATIENCE && !dg_coordinator_gathered(f->c); i++) {
        assert_false(dg_link_join(l, 1, &seat));
        usleep(10000);
    }
    assert_true(dg_coordinator_gathered(f->c));
    dg_coordinator_begin(f->c, 1, 1);
    dg_coordinator_end(f->c, "it was asked to stop at once");
    for (int i = 0; i < PATIENCE && !s.over; i++) {
        (void)dg_link_state(l, &s, reason, sizeof reason);
        usleep(10000);
    }
    assert_int_equal(s.over, DG_OVER_AT_ONCE);
    assert_string_equal(reason, "it was asked to stop at once");
    assert_false(dg_link_join(l, 1, &seat));
    assert_int_equal(seat.first, 1);
    assert_int_equal(seat.ranks, 1);
    assert_int_equal(seat.all, 2);
    dg_link_close(&l);
}

static void failed_with(fixture *f, const char *id, const char *text)
{
    for (int i = 0; i < PATIENCE && dg_diag_n(f->d) == 0; i++) {
        (void)look(f);
        usleep(10000);
    }
    assert_int_equal(dg_diag_n(f->d), 1);
    if (!strstr(dg_diag_at(f->d, 0)->text, text))
        fail_msg("%s", dg_diag_at(f->d, 0)->text);
    check_only(f->d, id);
}

static void test_error(void **state)
{
    fixture *f = *state;
    actor x[RANKS] = { { .fail_at = 0 }, { .fail_at = 40 } };
    pthread_t t[RANKS];

    start(t, x, f, 100000);
    join(t);
    failed_with(f, "image-read", "rank 1 of 3: it cannot be read");
    assert_int_equal(x[0].rc, -DG_ESTOP);
    assert_int_equal(x[2].rc, -DG_ESTOP);
    assert_int_equal(atomic_load(&x[0].told), 1);
}

static void test_odd_word(void **state)
{
    fixture *f = *state;
    actor x[RANKS] = { { .odd_at = 0 }, { .odd_at = 0 }, { .odd_at = 60 } };
    pthread_t t[RANKS];

    start(t, x, f, 100000);
    join(t);
    failed_with(f, "words-differ", "rank 2 (");
}

static void test_digest(void **state)
{
    fixture *f = *state;
    actor x[RANKS] = { { .precision = "f32" }, { .precision = "bf16" }, { .precision = "f32" } };
    pthread_t t[RANKS];

    start(t, x, f, 10);
    join(t);
    failed_with(f, "DG-DIGEST", "precision: rank 1 (");
    assert_int_equal(x[2].rc, -DG_ESTOP);
}

/* A silent rank is lost; a rank that never joins is only waited for, and the run is ended by
 * hand. */
static void test_end(void **state)
{
    fixture *f = *state;
    actor x[RANKS] = { 0 };
    pthread_t t[RANKS];
    double asked;

    start(t, x, f, 100000);
    usleep(300000);
    asked = dg_monotonic_s();
    dg_coordinator_end(f->c, "asked twice to stop");
    join(t);
    for (int i = 0; i < RANKS; i++) {
        assert_int_equal(x[i].rc, -DG_ESTOP);
        assert_true(x[i].over_s >= asked);
    }
}

/* ---- others ---------------------------------------------------------------------------------- */

static bool asks(fixture *f, const dg_control_file *e, const char *verb, const char *text,
                 double most_s, const char *answer)
{
    dg_str s = { 0 };
    bool done = false;
    int rc = dg_control_file_ask(e, verb, text, most_s, &done, &s, f->d);

    if (rc == 0 && !strstr(s.s ? s.s : "", answer))
        fail_msg("%s", s.s);
    dg_str_free(&s);
    return rc == 0 && done;
}

static void test_ctl(void **state)
{
    fixture *f = *state;
    dg_control_file e = { dg_coordinator_asks(f->c), f->server.public_key, f->ctl_key.public_key,
                          f->ctl_key.secret_key, 1 },
                    back;
    struct stat st;

    assert_int_equal(dg_control_file_read(f->folder, &back, f->a, f->d), -DG_EINPUT);
    check_only(f->d, "run-not-running");
    assert_int_equal(dg_control_file_write(f->folder, &e, f->d), 0);
    assert_int_equal(stat(dg_path_join(f->a, f->folder, "control"), &st), 0);
    assert_int_equal(st.st_mode & 0777, 0600);
    assert_int_equal(dg_control_file_read(f->folder, &back, f->a, f->d), 0);
    assert_true(asks(f, &back, "status", "", 5, "3 ranks, starting"));
    assert_true(asks(f, &back, "stop", "", 5, "saving and stopping"));
    assert_false(asks(f, &back, "dance", "", 5, "there is no \"dance\""));
    assert_int_equal(dg_control_file_write("/nowhere", &e, f->d), -DG_EIO);
    check_only(f->d, "control-file");
}

/* A client without a key of this run is rejected, whatever it sends, and the run goes on
 * undisturbed. */
static void test_stranger(void **state)
{
    fixture *f = *state;
    dg_key_pair own;
    dg_control_file e;

    assert_int_equal(dg_key_make(&own, f->d), 0);
    e = (dg_control_file){ dg_coordinator_asks(f->c), f->server.public_key, own.public_key,
                           own.secret_key, 1 };
    assert_false(asks(f, &e, "stop", "", 0.5, ""));
    check_only(f->d, "run-silent");
    assert_true(logged(f, "without a key of this run"));
    e.server_public = own.public_key; /* also a client that does not know the server's key */
    e.own_public = f->rank_key.public_key;
    e.own_secret = f->rank_key.secret_key;
    assert_false(asks(f, &e, "stop", "", 0.3, ""));
    check_only(f->d, "run-silent");
    assert_int_equal(look(f).over, DG_OVER_NO);
}

/* Malformed messages from a client with a key are ignored; a client with ctl's key cannot speak for
 * a rank. */
static void test_nonsense(void **state)
{
    fixture *f = *state;
    dg_hub *hub;
    dg_socket *rank, *ctl;
    dg_str frame = { 0 };
    dg_message m = { .kind = DG_SAY_FAIL, .rank = 1 };
    dg_control_file e = { dg_coordinator_asks(f->c), f->server.public_key, f->ctl_key.public_key,
                          f->ctl_key.secret_key, 1 };

    assert_int_equal(dg_hub_open(&hub, f->d), 0);
    assert_int_equal(dg_socket_open(&rank, hub, DG_DEALER, dg_coordinator_commands(f->c),
                                    &f->rank_key, f->server.public_key, f->d),
                     0);
    assert_int_equal(dg_socket_open(&ctl, hub, DG_DEALER, e.endpoint, &f->ctl_key,
                                    f->server.public_key, f->d),
                     0);
    for (int i = 0; i < 100; i++)
        dg_socket_send(rank, NULL, "garbage garbage garbage garbage", (size_t)i % 31);
    m.fail.id = m.fail.text = "x";
    dg_message_write(&frame, &m);
    dg_socket_send(ctl, NULL, frame.s, frame.n);
    dg_hub_wait(hub, NULL, 0, 500);
    assert_true(logged(f, "a control message of"));
    assert_true(asks(f, &e, "status", "", 5, "3 ranks, starting"));
    assert_int_equal(look(f).over, DG_OVER_NO);
    dg_str_free(&frame);
    dg_hub_close(&hub);
}

/* Questions are short, and come through a door of their own: one that is not ends its connection
 * before anything is kept, and ctl's key does not open the ranks' door. */
static void test_long_ask(void **state)
{
    fixture *f = *state;
    dg_hub *hub;
    dg_socket *ctl, *wrong;
    dg_message m = { .kind = DG_SAY_ASK };
    dg_control_file e = { dg_coordinator_asks(f->c), f->server.public_key, f->ctl_key.public_key,
                          f->ctl_key.secret_key, 1 };
    char *text = dg_alloc(f->a, 2 * DG_ASK_MAX);
    dg_str frame = { 0 };

    memset(text, 'x', 2 * DG_ASK_MAX - 1);
    m.ask.verb = "set";
    m.ask.text = text;
    dg_message_write(&frame, &m);
    assert_int_equal(dg_hub_open(&hub, f->d), 0);
    assert_int_equal(dg_socket_open(&ctl, hub, DG_DEALER, e.endpoint, &f->ctl_key,
                                    f->server.public_key, f->d),
                     0);
    for (int i = 0; i < 50; i++)
        (void)dg_socket_send(ctl, NULL, frame.s, frame.n);
    for (int i = 0; i < 5; i++) {
        dg_hub_wait(hub, NULL, 0, 50);
        assert_false(dg_socket_receive(ctl, NULL, &frame)); /* no answer */
    }
    assert_true(asks(f, &e, "status", "", 5, "3 ranks, starting"));
    assert_int_equal(dg_socket_open(&wrong, hub, DG_DEALER, dg_coordinator_commands(f->c),
                                    &f->ctl_key, f->server.public_key, f->d),
                     0);
    dg_hub_wait(hub, NULL, 0, 500);
    assert_true(logged(f, "without a key of this run"));
    dg_str_free(&frame);
    dg_hub_close(&hub);
}

/* Another key file on one of the machines: both sides say so at once. */
static void test_other_key(void **state)
{
    fixture *f = *state;
    dg_key_pair other;
    dg_ticket t = f->ticket;
    dg_state s = { 0 };
    char reason[256] = "";
    dg_link *l;

    assert_int_equal(dg_key_make(&other, f->d), 0);
    t.server_public = other.public_key;
    assert_int_equal(dg_link_open(&l, &(dg_link_conf){ .ticket = &t, .launcher = true }, f->d), 0);
    for (int i = 0; i < PATIENCE && !s.over; i++) {
        (void)poll(NULL, 0, 50);
        (void)dg_link_state(l, &s, reason, sizeof reason);
    }
    assert_int_equal(s.over, DG_OVER_FAILED);
    assert_non_null(strstr(reason, "--key must name the same file on all machines"));
    assert_true(logged(f, "without a key of this run"));
    dg_link_close(&l);
}

/* What a rank receives at the run's end, and a rank that fails without a reason. */
static void test_no_reason(void **state)
{
    fixture *f = *state;
    dg_link *l;
    const dg_rows none = { 0 };

    assert_int_equal(dg_link_open(&l, &(dg_link_conf){ .ticket = &f->ticket }, f->d), 0);
    dg_link_fail(l, f->d, -DG_EMEMORY);
    assert_int_equal(dg_link_meet(l, &none, f->d), -DG_ESTOP);
    assert_string_equal(dg_diag_at(f->d, 0)->text,
                        "the run is over: rank 0 of 3: it failed without a reason");
    check_only(f->d, "run-over");
    dg_link_close(&l);
    failed_with(f, "no-reason", "rank 0 of 3");
}

static void test_store(void **state)
{
    fixture *f = *state;
    dg_link *l[2];
    const char *text;

    for (uint32_t i = 0; i < 2; i++)
        assert_int_equal(dg_link_open(&l[i], &(dg_link_conf){ .ticket = &f->ticket, .rank = i },
                                      f->d),
                         0);
    assert_int_equal(dg_link_put(l[0], "gloo/0", "10.0.0.1:5555", f->d), 0);
    assert_int_equal(dg_link_get(l[1], "gloo/0", &text, f->a, 10, f->d), 0);
    assert_string_equal(text, "10.0.0.1:5555");
    assert_int_equal(dg_link_get(l[1], "gloo/1", &text, f->a, 0.2, f->d), -DG_EIO);
    check_only(f->d, "rendezvous");
    for (int i = 0; i < 2; i++)
        dg_link_close(&l[i]);
}

static void test_address_in_use(void **state)
{
    fixture *f = *state;
    dg_coordinator *c;
    dg_coordinator_conf conf = { .commands = dg_coordinator_commands(f->c),
                                 .events = "ipc://@dg-other",
                                 .asks = "ipc://@dg-other-asks",
                                 .server = &f->server,
                                 .rank_key = f->rank_key.public_key,
                                 .ctl_key = f->ctl_key.public_key,
                                 .lost_after_s = 2,
                                 .env = &f->env };

    assert_int_equal(dg_coordinator_open(&c, &conf, f->d), -DG_EIO);
    assert_null(c);
    check_only(f->d, "control-socket");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_whole_run, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_orders, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_rate_next_attempt, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_no_seat, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_error, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_odd_word, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_digest, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_end, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_ctl, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_stranger, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_nonsense, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_long_ask, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_other_key, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_no_reason, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_store, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_address_in_use, set_up, tear_down),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
