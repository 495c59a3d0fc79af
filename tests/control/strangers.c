/* strangers.c: what is not a rank of the run and comes over its sockets: people's questions, other
 * keys, nonsense; and the file that says where the sockets are. */
#include "tests/control/control_rig.h"

#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "control/doctor.h"

enum { ANSWER_S = 600 }; /* for what must come; a busy machine is slow */

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
    assert_true(asks(f, &back, "status", "", ANSWER_S, "3 ranks, starting"));
    assert_true(asks(f, &back, "stop", "", ANSWER_S, "saving and stopping"));
    assert_false(asks(f, &back, "dance", "", ANSWER_S, "there is no \"dance\""));
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

/* Stands between a client and the coordinator, and keeps what the client sends. */
typedef struct relay {
    int door, to;
    dg_str said;
} relay;

static int dial(const char *endpoint)
{
    const int port = atoi(strrchr(endpoint, ':') + 1), s = socket(AF_INET, SOCK_STREAM, 0);
    const struct sockaddr_in at = { .sin_family = AF_INET,
                                    .sin_port = htons((uint16_t)port),
                                    .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };

    assert_int_equal(connect(s, (const struct sockaddr *)&at, sizeof at), 0);
    return s;
}

static void *pass_on(void *ctx)
{
    relay *r = ctx;
    const int from = accept(r->door, NULL, NULL), ends[] = { from, r->to };
    struct pollfd both[] = { { .fd = from, .events = POLLIN }, { .fd = r->to, .events = POLLIN } };
    char bytes[4096];

    while (poll(both, 2, -1) > 0)
        for (int i = 0; i < 2; i++) {
            const ssize_t n = both[i].revents ? read(ends[i], bytes, sizeof bytes) : 0;

            if (!both[i].revents)
                continue;
            if (n <= 0 || write(ends[!i], bytes, (size_t)n) != n) {
                close(from);
                close(r->to);
                return NULL;
            }
            if (i == 0)
                dg_str_add_n(&r->said, bytes, (size_t)n);
        }
    return NULL;
}

/* What somebody has overheard and sends again does not even get in. */
static void test_replayed(void **state)
{
    fixture *f = *state;
    relay r = { socket(AF_INET, SOCK_STREAM, 0), dial(dg_coordinator_asks(f->c)), { 0 } };
    struct sockaddr_in here = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    socklen_t size = sizeof here;
    dg_control_file e = { NULL, f->server.public_key, f->ctl_key.public_key, f->ctl_key.secret_key,
                          1 };
    char answer[4096];
    ssize_t n;
    pthread_t thread;
    int s;

    assert_int_equal(bind(r.door, (struct sockaddr *)&here, sizeof here), 0);
    assert_int_equal(listen(r.door, 1), 0);
    assert_int_equal(getsockname(r.door, (struct sockaddr *)&here, &size), 0);
    e.endpoint = dg_printf(f->a, "tcp://127.0.0.1:%d", ntohs(here.sin_port));
    assert_int_equal(pthread_create(&thread, NULL, pass_on, &r), 0);
    assert_true(asks(f, &e, "status", "", ANSWER_S, "3 ranks, starting"));
    pthread_join(thread, NULL);
    s = dial(dg_coordinator_asks(f->c));
    assert_int_equal(send(s, r.said.s, r.said.n, MSG_NOSIGNAL), r.said.n);
    do
        n = read(s, answer, sizeof answer);
    while (n > 0); /* the coordinator closes it */
    close(s);
    close(r.door);
    assert_true(logged(f, "without a key of this run"));
    e.endpoint = dg_coordinator_asks(f->c);
    assert_true(asks(f, &e, "status", "", ANSWER_S, "3 ranks, starting"));
    dg_str_free(&r.said);
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
    assert_true(asks(f, &e, "status", "", ANSWER_S, "3 ranks, starting"));
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
    assert_false(asks(f, &e, "set", text, ANSWER_S, "")); /* ctl does not even send it */
    check_only(f->d, "ask-long");
    assert_true(asks(f, &e, "status", "", ANSWER_S, "3 ranks, starting"));
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

/* A process says that it is this rank of so many, and later that it has failed; its launcher says
 * that it has ended. reason: what both get to know. NULL: they are let in. */
static void comes(fixture *f, uint32_t rank, int64_t process, int64_t ranks, const char *reason)
{
    const dg_message said[] = {
        { .kind = DG_SAY_HELLO, .rank = rank, .hello = { "b", process, ranks } },
        { .kind = DG_SAY_FAIL, .rank = rank, .fail = { .id = "x", .text = "x" } },
        { .kind = DG_SAY_GONE, .rank = rank, .gone = { process, 9 } },
    };
    dg_str frame = { 0 };
    dg_socket *s[2];
    dg_hub *hub;

    assert_int_equal(dg_hub_open(&hub, f->d), 0);
    for (int i = 0; i < 2; i++)
        assert_int_equal(dg_socket_open(&s[i], hub, DG_DEALER, dg_coordinator_commands(f->c),
                                        &f->rank_key, f->server.public_key, f->d),
                         0);
    for (int i = 0; i < (reason ? 3 : 1); i++) {
        bool told = !reason || i == 1;
        dg_message m;

        frame.n = 0;
        dg_message_write(&frame, &said[i]);
        assert_true(dg_socket_send(s[i == 2], NULL, frame.s, frame.n));
        for (int k = 0; k < PATIENCE && !told; k++) {
            dg_hub_wait(hub, NULL, 0, 10);
            told = dg_socket_receive(s[i == 2], NULL, &frame);
        }
        assert_true(told);
        if (!reason || i == 1)
            continue;
        assert_int_equal(dg_message_read(&m, f->a, frame.s, frame.n, f->d), 0);
        assert_int_equal(m.kind, DG_SAY_STATE);
        assert_int_equal(m.state.over, DG_OVER_FAILED);
        assert_non_null(strstr(m.state.reason, reason));
    }
    dg_str_free(&frame);
    dg_hub_close(&hub); /* sends what waits */
}

/* A machine that is started twice, with another's number, or for another number of ranks learns the
 * reason and ends. The run goes on. */
static void test_twice(void **state)
{
    fixture *f = *state;
    dg_control_file e = { dg_coordinator_asks(f->c), f->server.public_key, f->ctl_key.public_key,
                          f->ctl_key.secret_key, 1 };
    bool known = false;

    comes(f, 1, 100, RANKS, NULL);
    for (int i = 0; i < PATIENCE && !known; i++) {
        dg_str status = { 0 };
        bool done;

        assert_int_equal(dg_control_file_ask(&e, "status", "", ANSWER_S, &done, &status, f->d), 0);
        known = status.s && strstr(status.s, "(b, process 100)");
        dg_str_free(&status);
    }
    assert_true(known);
    comes(f, 1, 200, RANKS, "is there already, as rank 1 (b, process 100)");
    comes(f, 2, 300, RANKS + 1, "--ranks and --nodes must be the same on every machine");
    comes(f, RANKS, 300, RANKS + 1, "was started as one of 4, and this run has 3 ranks");
    assert_true(logged(f, "rank 3 (b, process 300)"));
    assert_int_equal(look(f).over, DG_OVER_NO);
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
    assert_int_equal(dg_link_get(l[1], "gloo/0", &text, f->a, ANSWER_S, f->d), 0);
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
        cmocka_unit_test_setup_teardown(test_ctl, control_set_up, control_tear_down),
        cmocka_unit_test_setup_teardown(test_stranger, control_set_up, control_tear_down),
        cmocka_unit_test_setup_teardown(test_replayed, control_set_up, control_tear_down),
        cmocka_unit_test_setup_teardown(test_nonsense, control_set_up, control_tear_down),
        cmocka_unit_test_setup_teardown(test_long_ask, control_set_up, control_tear_down),
        cmocka_unit_test_setup_teardown(test_other_key, control_set_up, control_tear_down),
        cmocka_unit_test_setup_teardown(test_no_reason, control_set_up, control_tear_down),
        cmocka_unit_test_setup_teardown(test_twice, control_set_up, control_tear_down),
        cmocka_unit_test_setup_teardown(test_store, control_set_up, control_tear_down),
        cmocka_unit_test_setup_teardown(test_address_in_use, control_set_up, control_tear_down),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
