/* control_file.c: writes the job's address and a client key as JSON, mode 0600. */
#include "control/control_file.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/diag.h"
#include "base/file.h"
#include "base/log.h"
#include "media/json.h"
#include "control/message.h"
#include "control/socket.h"

static const char name[] = "control";

int dg_control_file_write(const char *folder, const dg_control_file *e, dg_diag *d)
{
    dg_arena *a = dg_arena_open();
    const char *path = dg_path_join(a, folder, name),
               *part = dg_printf(a, "%s.tmp-%ld", path, (long)getpid());
    dg_str s = { 0 };
    ssize_t n = 0;
    int fd, rc = 0;

    dg_str_add(&s, "{\"endpoint\":");
    dg_str_json(&s, e->endpoint);
    dg_str_add(&s, ",\"server\":");
    dg_str_json(&s, e->server_public);
    dg_str_add(&s, ",\"public\":");
    dg_str_json(&s, e->own_public);
    dg_str_add(&s, ",\"secret\":");
    dg_str_json(&s, e->own_secret);
    dg_str_fmt(&s, ",\"process\":%lld}\n", (long long)e->process);
    unlink(part);
    fd = open(part, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0 || (n = write(fd, s.s, s.n)) != (ssize_t)s.n || rename(part, path) != 0)
        rc = dg_fail_os(d, n > 0 && n != (ssize_t)s.n ? ENOSPC : errno, path, "control-file",
                        "it cannot be written");
    if (fd >= 0)
        close(fd);
    if (rc < 0)
        unlink(part);
    explicit_bzero(s.s, s.n);
    dg_str_free(&s);
    dg_arena_close(&a);
    return rc;
}

static bool is_address(const char *s)
{
    return strncmp(s, "ipc://", 6) == 0 || strncmp(s, "tcp://", 6) == 0;
}

static bool is_key(const char *s)
{
    return strlen(s) == DG_KEY_TEXT - 1;
}

int dg_control_file_read(const char *folder, dg_control_file *e, dg_arena *a, dg_diag *d)
{
    const char *path = dg_path_join(a, folder, name);
    const dg_json *root, *endpoint, *server, *own, *secret, *process;
    int rc;

    if (!dg_exists(path)) {
        dg_fail(d, DG_EINPUT, (dg_where){ .file = folder }, "run-not-running",
                "no job is running in this folder: it has no file \"%s\"", name);
        if (dg_exists(dg_path_join(a, folder, "run.json")))
            dg_help(d, "one has been: detrgraph report %s --format text says how it ended",
                    dg_shell(a, folder));
        return -DG_EINPUT;
    }
    DG_TRY(dg_json_read(&root, a, path, d));
    DG_TRY(dg_json_need(&endpoint, root, "endpoint", DG_JSON_STRING, d));
    DG_TRY(dg_json_need(&server, root, "server", DG_JSON_STRING, d));
    DG_TRY(dg_json_need(&own, root, "public", DG_JSON_STRING, d));
    DG_TRY(dg_json_need(&secret, root, "secret", DG_JSON_STRING, d));
    DG_TRY(dg_json_need(&process, root, "process", DG_JSON_NUMBER, d));
    if (!is_address(endpoint->text) || !is_key(server->text) || !is_key(own->text) ||
        !is_key(secret->text) || !(process->number > 0 && process->number <= INT32_MAX)) {
        rc = dg_fail(d, DG_EINPUT, (dg_where){ .file = path }, "control-file",
                     "it is not as it was written: an address, three keys and a process stand "
                     "in it");
        goto out;
    }
    *e = (dg_control_file){ endpoint->text, server->text, own->text, secret->text,
                            (int64_t)process->number };
out:
    if (rc < 0)
        dg_help(d,
                "if a job runs in this folder, it goes on: Ctrl-C or kill saves and stops it, "
                "detrgraph report %s shows its numbers",
                dg_shell(a, folder));
    return rc;
}

bool dg_control_file_exists(const char *folder)
{
    dg_arena *a = dg_arena_open();
    bool is = dg_exists(dg_path_join(a, folder, name));

    dg_arena_close(&a);
    return is;
}

void dg_control_file_remove(const char *folder)
{
    dg_arena *a = dg_arena_open();

    unlink(dg_path_join(a, folder, name));
    dg_arena_close(&a);
}

static bool receive_answer(dg_socket *s, dg_str *frame, bool *done, dg_str *answer)
{
    dg_arena *a = dg_arena_open();
    dg_diag *ignored = dg_diag_open();
    dg_message m;
    bool got = dg_socket_receive(s, NULL, frame) &&
               dg_message_read(&m, a, frame->s, frame->n, ignored) == 0 && m.kind == DG_SAY_ANSWER;

    if (got) {
        *done = m.answer.done != 0;
        dg_str_add(answer, m.answer.text);
    }
    dg_diag_close(&ignored);
    dg_arena_close(&a);
    return got;
}

/* True if the job was on this machine and its process is not to be seen: it was killed, or runs in
 * a container. */
static bool seems_gone(const dg_control_file *e)
{
    bool here =
        strncmp(e->endpoint, "ipc:", 4) == 0 || strncmp(e->endpoint, "tcp://127.0.0.1:", 16) == 0;

    return here && e->process > 0 && kill((pid_t)e->process, 0) != 0 && errno == ESRCH;
}

int dg_control_file_ask(const dg_control_file *e, const char *verb, const char *text, double most_s,
                        bool *done, dg_str *answer, dg_diag *d)
{
    const bool gone = seems_gone(e);
    dg_message m = { .kind = DG_SAY_ASK };
    dg_str frame = { 0 };
    dg_hub *hub = NULL;
    dg_socket *s;
    dg_key_pair own = { { 0 }, { 0 } };
    double wait_s = gone ? fmin(most_s, 1) : most_s, end = dg_monotonic_s() + wait_s;
    int rc;
    bool got = false;

    strncpy(own.public_key, e->own_public, sizeof own.public_key - 1);
    strncpy(own.secret_key, e->own_secret, sizeof own.secret_key - 1);
    m.ask.verb = verb;
    m.ask.text = text;
    dg_message_write(&frame, &m);
    if (frame.n > DG_ASK_MAX) { /* it would be dropped without an answer */
        rc = dg_fail(d, DG_EINPUT, DG_NOWHERE, "ask-long",
                     "a question of %zu bytes; at most %d are answered", frame.n, DG_ASK_MAX);
        goto out;
    }
    DG_TRY(dg_hub_open(&hub, d));
    DG_TRY(dg_socket_open(&s, hub, DG_DEALER, e->endpoint, &own, e->server_public, d));
    (void)dg_socket_send(s, NULL, frame.s, frame.n);
    while (!got && dg_monotonic_s() < end) {
        dg_hub_wait(hub, NULL, 0, 100);
        got = receive_answer(s, &frame, done, answer);
    }
    if (!got) {
        rc = dg_fail(d, DG_EIO, DG_NOWHERE, "run-silent",
                     "the job (process %lld%s) does not answer within %g s", (long long)e->process,
                     gone ? ", which is gone" : "", wait_s);
        if (!gone)
            dg_help(d,
                    "a stopped process is silent: on its machine, ps %lld shows its state, and "
                    "kill -CONT %lld lets it go on",
                    (long long)e->process, (long long)e->process);
    }
out:
    dg_str_free(&frame);
    dg_hub_close(&hub);
    return rc;
}
