/* launch.c: see launch.h. Two kinds of launcher share this code: the first machine's, with the
 * coordinator in it, and those of further machines, which only follow the coordinator (a link) and
 * report ended processes. */
#include "control/launch.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/file.h"
#include "comm/shm.h"
#include "control/rank_processes.h"
#include "control/control_file.h"
#include "control/doctor.h"
#include "control/limits.h"
#include "control/plane.h"

static const double GRACE_S = 2, SETTLE_S = 1, COME_BACK_S = 60, GATHER_S = 5, SAME_SIGNAL_S = 0.5;

typedef struct launcher {
    const dg_launch_conf *c;
    dg_arena *arena;
    dg_plane plane; /* neither coordinator nor link: no control plane */
    dg_rank_processes *processes;
    struct pollfd *fds;
    dg_seat seat; /* of this attempt: this machine's ranks, and the total */
    uint32_t attempt;
    int signal_fd;
    int n_signals, last_signal;
    double signal_s; /* when that came */
    bool asked;      /* to stop: by a signal, or since the reader of its output ended */
    sigset_t before;
    dg_view view;
    bool reported, has_control_file;
    double over_s; /* when the run was found to be over; 0: it is not */
} launcher;

static bool controlled(const launcher *l)
{
    return l->plane.coordinator || l->plane.link;
}

/* Reads the position of a rank of this machine from its flight recorder. */
static bool look_at_rank(void *ctx, int rank, dg_arena *a, dg_beat *out)
{
    const launcher *l = ctx;
    int i = rank - l->seat.first;
    uint64_t changes;

    if (i < 0 || i >= l->seat.ranks)
        return false;
    dg_recorder_look(dg_rank_processes_recorder(l->processes, i), a, out, &changes);
    return true;
}

/* ---- starting -------------------------------------------------------------------------------- */

static void begin_attempt(launcher *l)
{
    if (l->plane.coordinator)
        dg_coordinator_begin(l->plane.coordinator, l->seat.all, l->attempt);
}

static int silent(dg_diag *d)
{
    return dg_fail(d, DG_EIO, DG_NOWHERE, "run-silent",
                   "the first machine does not start the run again within %g s", COME_BACK_S);
}

/* On a further machine: waits until the coordinator begins the next attempt. */
static int await_coordinator(launcher *l, dg_diag *d)
{
    double end = l->c->env->now_s() + COME_BACK_S;
    dg_state state;
    char reason[64];

    while (!dg_link_state(l->plane.link, &state, reason, sizeof reason) && l->c->env->now_s() < end)
        (void)poll(NULL, 0, 20);
    return dg_link_state(l->plane.link, &state, reason, sizeof reason) && !state.over ? 0
                                                                                      : silent(d);
}

static int start_ranks(launcher *l, dg_diag *d)
{
    dg_message m = { .kind = DG_SAY_TICKET, .attempt = l->attempt };
    int shared_fd = -1, rc = 0;

    m.ticket = (dg_ticket){
        .first_ranks = (int64_t)l->c->ranks * l->c->nodes,
        .machine_ranks = l->c->ranks,
        .may_lose = l->c->elastic ? l->c->max_restarts : 0,
        .ranks = l->seat.all,
        .node = l->c->node,
        .nodes = l->seat.machines,
        .local_ranks = l->seat.ranks,
        .lost_after_s = l->c->lost_after_s,
        .commands = l->plane.commands,
        .events = l->plane.events,
        .server_public = l->plane.server.public_key,
        .own_public = l->plane.rank_key.public_key,
        .own_secret = l->plane.rank_key.secret_key,
        .coordinator = l->c->coordinator,
        .out = l->view.folder,
    };
    l->over_s = 0;
    l->reported = false;
    l->view.over = DG_OVER_NO;
    if (l->seat.ranks > 1 && l->seat.machines == 1)
        DG_TRY(dg_comm_shm_make(&shared_fd, d));
    if (l->plane.link && l->attempt > 0)
        DG_TRY(await_coordinator(l, d));
    DG_TRY(dg_rank_processes_start(l->processes, l->seat.ranks, &m, (uint32_t)l->seat.first,
                                   shared_fd, d));
out:
    if (shared_fd >= 0)
        close(shared_fd);
    return rc;
}

/* ---- supervising ----------------------------------------------------------------------------- */

static void ask_to_stop(launcher *l, const char *why)
{
    if (l->asked)
        return;
    l->asked = true;
    dg_log_line(l->c->env, DG_INFO, "%sstopping after this step; once more stops at once", why);
    if (l->plane.coordinator)
        dg_coordinator_ask(l->plane.coordinator, "stop", "");
    else
        dg_link_ask(l->plane.link, "stop");
}

/* timeout and schedulers signal a process and then its group: one wish comes twice. */
static bool is_echo(launcher *l, int signal_number)
{
    const double now = l->c->env->now_s(), before = l->signal_s;
    const bool same = signal_number == l->last_signal;

    l->last_signal = signal_number;
    l->signal_s = now;
    return same && now - before < SAME_SIGNAL_S;
}

/* The first signal asks the run to stop, the second ends it. */
static void take_signal(launcher *l)
{
    struct signalfd_siginfo info;

    if (read(l->signal_fd, &info, sizeof info) != (ssize_t)sizeof info)
        return;
    if (is_echo(l, (int)info.ssi_signo))
        return;
    l->n_signals++;
    if (!controlled(l)) {
        if (info.ssi_code != SI_KERNEL) /* the terminal has already sent its own to the child */
            dg_rank_processes_kill(l->processes, (int)info.ssi_signo);
    } else if (l->n_signals == 1) {
        ask_to_stop(l, "");
    } else {
        dg_log_line(l->c->env, DG_INFO, "stopped at once; what was saved is whole");
        if (l->plane.coordinator)
            dg_coordinator_end(l->plane.coordinator, "it was asked to stop at once");
        l->view.over = DG_OVER_AT_ONCE;
        dg_rank_processes_kill(l->processes, SIGKILL);
    }
}

static void ended(void *ctx, int i, int64_t process, int status)
{
    launcher *l = ctx;
    int rank = l->seat.first + i;

    if (l->plane.coordinator)
        dg_coordinator_gone(l->plane.coordinator, rank, status);
    else if (l->plane.link)
        dg_link_gone(l->plane.link, rank, process, status);
    else if (WIFSIGNALED(status) && WTERMSIG(status) != SIGPIPE) { /* `| head` has read enough */
        dg_str limit = { 0 };
        bool limited = dg_limits_reached(&limit, WTERMSIG(status));

        dg_log_line(l->c->env, DG_WARN, "the computing process was ended by signal %d (SIG%s)%s%s",
                    WTERMSIG(status), sigabbrev_np(WTERMSIG(status)), limited ? "; " : "",
                    limited ? limit.s : "");
        dg_str_free(&limit);
    }
}

/* Where ranks did not do the same, the line in which doctor names both nodes. */
static void say_where_they_parted(launcher *l, const dg_diag *why)
{
    dg_diag *ignored = dg_diag_open();
    dg_str text = { 0 };
    bool parted = false;

    for (int i = 0; i < dg_diag_n(why); i++)
        parted |= strcmp(dg_diag_at(why, i)->id, "ranks-differ") == 0 ||
                  strcmp(dg_diag_at(why, i)->id, "collective-failed") == 0;
    if (parted && l->seat.ranks > 1 && dg_doctor_compare(&text, l->view.folder, ignored) == 0 &&
        text.n)
        dg_log_line(l->c->env, DG_WARN, "%.*s", (int)text.n - 1, text.s);
    dg_str_free(&text);
    dg_diag_close(&ignored);
}

/* Writes the recorders of this machine's ranks, and why the run ended, to the run's folder. */
static void dump_recorders(launcher *l, const dg_diag *why)
{
    dg_diag *ignored = dg_diag_open(); /* people need to see the failure itself */
    const char *folder = dg_path_join(l->arena, l->view.folder, "flight");
    char host[256] = "";
    dg_str text = { 0 };
    int rc = *l->view.folder ? dg_mkdirs(folder, ignored) : -DG_EIO;

    (void)gethostname(host, sizeof host - 1);
    for (int i = 0; i < l->seat.ranks && rc == 0; i++)
        rc = dg_recorder_dump(dg_rank_processes_recorder(l->processes, i),
                              dg_printf(l->arena, "%s/rank-%d.jsonl", folder, l->seat.first + i),
                              l->seat.first + i, host, ignored);
    dg_diag_json(&text, why);
    if (rc == 0)
        rc = dg_file_write(dg_path_join(l->arena, folder, "verdict.json"), text.s, text.n, ignored);
    if (rc == 0)
        say_where_they_parted(l, why);
    if (rc == 0)
        dg_log_line(l->c->env, DG_INFO,
                    "the ranks' last steps stand in %s; detrgraph doctor %s reads them", folder,
                    dg_shell(l->arena, l->view.folder));
    dg_str_free(&text);
    dg_diag_close(&ignored);
}

static void open_entrance(launcher *l)
{
    const dg_control_file e = { l->plane.asks, l->plane.server.public_key,
                                l->plane.ctl_key.public_key, l->plane.ctl_key.secret_key,
                                getpid() };
    dg_diag *d = dg_diag_open();

    if (dg_control_file_write(l->view.folder, &e, d) < 0)
        dg_log_line(l->c->env, DG_DEBUG, "%s: %s; detrgraph ctl cannot reach this run",
                    l->view.folder, dg_diag_at(d, 0)->text);
    l->has_control_file = true;
    dg_diag_close(&d);
}

/* Takes the state that the coordinator on another machine has published. */
static void read_link(launcher *l)
{
    dg_state state;
    char reason[1024];
    uint64_t n;
    ssize_t ignored = read(l->plane.over_fd, &n, sizeof n);

    (void)ignored;
    (void)dg_link_state(l->plane.link, &state, reason, sizeof reason);
    if (!state.over || l->view.over)
        return;
    l->view.over = (dg_over)state.over;
    l->view.lost = state.lost != 0;
    dg_log_line(l->c->env, DG_WARN, "the run is over: %s", reason);
}

/* Takes the judge's latest findings. */
static void take_findings(launcher *l)
{
    dg_diag *why = dg_diag_open();

    if (l->plane.link)
        read_link(l);
    if (l->plane.coordinator)
        dg_coordinator_look(l->plane.coordinator, &l->view, why);
    if (l->plane.coordinator && *l->view.folder && l->view.met > 1 &&
        (!l->has_control_file || !dg_control_file_exists(l->view.folder)))
        open_entrance(l);
    if (l->view.over && l->over_s <= 0)
        l->over_s = l->c->env->now_s();
    if (l->plane.coordinator && l->view.over == DG_OVER_FAILED && !l->reported) {
        l->reported = true;
        l->c->failed(l->c->ctx, why);
        dump_recorders(l, why);
    }
    dg_diag_close(&why);
}

static void wait_for_something(launcher *l, int ms)
{
    int n = 0;

    l->fds[n++] = (struct pollfd){ .fd = l->signal_fd, .events = POLLIN };
    l->fds[n++] =
        (struct pollfd){ .fd = l->plane.coordinator ? dg_coordinator_fd(l->plane.coordinator)
                                                    : l->plane.over_fd,
                         .events = POLLIN };
    for (int i = 0; i < l->seat.ranks; i++)
        l->fds[n++] =
            (struct pollfd){ .fd = dg_rank_processes_fd(l->processes, i), .events = POLLIN };
    /* `| tee` ends by the same Ctrl-C, `| head` once it has read enough: no signal to count */
    l->fds[n] =
        (struct pollfd){ .fd = controlled(l) && !l->asked && l->c->output ? l->c->output : -1 };
    (void)poll(l->fds, (nfds_t)n + 1, ms);
    if (l->fds[0].revents)
        take_signal(l);
    if (l->fds[n].revents & POLLERR)
        ask_to_stop(l, "the reader of standard output has ended: ");
}

/* Supervises until every process has ended; kills those that outlive the run. */
static void supervise(launcher *l)
{
    bool killed = false;

    while (dg_rank_processes_alive(l->processes) > 0) {
        wait_for_something(l, l->over_s > 0 ? 50 : 1000);
        dg_rank_processes_reap(l->processes, ended, l);
        if (controlled(l))
            take_findings(l);
        if (l->over_s > 0 && !killed && l->c->env->now_s() - l->over_s > GRACE_S) {
            dg_rank_processes_kill(l->processes, SIGKILL);
            killed = true;
        }
    }
}

/* Ranks of this machine have failed: waits for the coordinator's verdict. */
static void await_verdict(launcher *l)
{
    double end = l->c->env->now_s() + l->c->lost_after_s;
    bool failed = false;

    for (int i = 0; i < l->seat.ranks; i++) {
        int status = dg_rank_processes_status(l->processes, i);

        failed |= !WIFEXITED(status) ||
                  (WEXITSTATUS(status) != DG_LEFT_DONE && WEXITSTATUS(status) != DG_LEFT_STOPPED);
    }
    while (failed && !l->view.over && l->c->env->now_s() < end) {
        wait_for_something(l, 20);
        take_findings(l);
    }
}

/* Gives other machines time to learn that the run is over. */
static void linger(launcher *l)
{
    double end = l->c->env->now_s() + 0.3;

    while (l->c->nodes > 1 && l->view.over && l->c->env->now_s() < end)
        wait_for_something(l, 20);
}

/* Waits for the processes' last messages to reach the coordinator, and for other machines' ranks to
 * end. */
static void await_last_messages(launcher *l)
{
    double end = l->c->env->now_s() + (l->c->nodes > 1 ? l->c->lost_after_s : SETTLE_S);

    if (l->plane.link)
        await_verdict(l);
    if (!l->plane.coordinator)
        return;
    take_findings(l);
    while (!l->view.over && (l->view.judging || l->view.left < l->seat.all) &&
           l->c->env->now_s() < end) {
        wait_for_something(l, 20);
        take_findings(l);
    }
    linger(l);
}

static int code_of(const launcher *l)
{
    int code = DG_LEFT_DONE;

    if (l->view.over == DG_OVER_AT_ONCE)
        return DG_LEFT_STOPPED;
    if (l->seat.ranks == 1 && WIFSIGNALED(dg_rank_processes_status(l->processes, 0)))
        return 128 + WTERMSIG(dg_rank_processes_status(l->processes, 0));
    if (l->view.over == DG_OVER_FAILED)
        return DG_LEFT_FAILED;
    for (int i = 0; i < l->seat.ranks; i++) {
        int status = dg_rank_processes_status(l->processes, i),
            own = WIFEXITED(status) ? WEXITSTATUS(status) : DG_LEFT_FAILED;

        if (own != DG_LEFT_DONE && code != DG_LEFT_FAILED)
            code = own;
    }
    return code;
}

/* ---- all of it ------------------------------------------------------------------------------- */

static bool may_begin_again(const launcher *l)
{
    return l->view.over == DG_OVER_FAILED && l->view.lost && !l->asked &&
           (int)l->attempt < l->c->max_restarts;
}

/* Waits for the launchers of the remaining machines and assigns ranks to each. */
static void gather_machines(launcher *l)
{
    double end = l->c->env->now_s() + GATHER_S;

    dg_coordinator_reopen(l->plane.coordinator, l->attempt);
    while (!dg_coordinator_gathered(l->plane.coordinator) && l->c->env->now_s() < end &&
           l->n_signals < 2) {
        wait_for_something(l, 50);
        take_findings(l);
    }
    if (l->n_signals >= 2) { /* no assignment: waiting launchers learn that this attempt is over */
        dg_coordinator_begin(l->plane.coordinator, 1, l->attempt);
        dg_coordinator_end(l->plane.coordinator, "it was asked to stop at once");
        l->view.over = DG_OVER_AT_ONCE;
        linger(l);
        return;
    }
    l->seat = dg_coordinator_seat(l->plane.coordinator);
    if (l->asked) /* while no rank was running */
        dg_coordinator_ask(l->plane.coordinator, "stop", "");
}

/* True if the run was stopped before ranks were assigned. */
static bool stopped_instead(launcher *l)
{
    dg_state state;
    char reason[8];

    if (!dg_link_state(l->plane.link, &state, reason, sizeof reason) ||
        state.over != DG_OVER_AT_ONCE)
        return false;
    l->view.over = DG_OVER_NO; /* discard the previous attempt's */
    read_link(l);
    l->seat.ranks = 0;
    return true;
}

static int take_seat(launcher *l, dg_diag *d)
{
    double end = l->c->env->now_s() + COME_BACK_S;

    while (!dg_link_join(l->plane.link, l->c->node, &l->seat) && l->n_signals < 2) {
        if (l->c->env->now_s() > end)
            return silent(d);
        wait_for_something(l, 50);
        if (stopped_instead(l))
            return 0;
    }
    if (l->n_signals >= 2)
        return 0;
    if (!l->seat.ranks)
        dg_log_line(l->c->env, DG_WARN, "the run goes on without this machine");
    else if (l->asked)
        dg_link_ask(l->plane.link, "stop");
    return 0;
}

/* Starts another attempt, with all ranks or with those that remain. */
static int begin_again(launcher *l, dg_diag *d)
{
    int rc = 0;

    l->attempt++;
    DG_TRY(l->c->control ? dg_plane_link(&l->plane, &l->seat, l->attempt, d) : 0);
    if (l->c->elastic && l->c->nodes == 1 && l->seat.ranks > 1)
        l->seat.all = --l->seat.ranks;
    if (!l->c->elastic || l->c->nodes == 1)
        begin_attempt(l);
    else if (l->plane.coordinator)
        gather_machines(l);
    else
        DG_TRY(take_seat(l, d));
    if (l->seat.ranks && l->n_signals < 2)
        dg_log_line(l->c->env, DG_INFO,
                    "starting again with %d rank%s from the last checkpoint (restart %u of %d)",
                    l->seat.all, l->seat.all > 1 ? "s" : "", l->attempt, l->c->max_restarts);
out:
    return rc;
}

static int run_attempts(launcher *l, int *code, dg_diag *d)
{
    int rc = 0;

    begin_attempt(l);
    while (l->seat.ranks && l->n_signals < 2) {
        rc = start_ranks(l, d);
        if (rc < 0)
            dg_rank_processes_kill(l->processes, SIGKILL);
        supervise(l);
        if (rc < 0)
            return rc;
        await_last_messages(l);
        if (l->over_s > 0)
            dg_log_line(l->c->env, DG_INFO, "all processes have ended after %.2f s",
                        l->c->env->now_s() - l->over_s);
        if (!may_begin_again(l))
            break;
        DG_TRY(begin_again(l, d));
    }
    *code = code_of(l);
out:
    return rc;
}

/* Routes signals to a descriptor; threads created from here on never receive them. */
static int open_signal_fd(launcher *l, dg_diag *d)
{
    sigset_t set;

    sigemptyset(&set);
    sigaddset(&set, SIGINT);
    sigaddset(&set, SIGTERM);
    sigaddset(&set, SIGUSR1);
    sigaddset(&set, SIGHUP);
    pthread_sigmask(SIG_BLOCK, &set, NULL);
    l->signal_fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
    return l->signal_fd < 0 ? dg_fail_os(d, errno, NULL, "launch", "cannot listen to signals") : 0;
}

int dg_launch_run(const dg_launch_conf *c, int *code, dg_diag *d)
{
    const dg_rank_processes_conf processes = { .args = c->args,
                                               .environment = c->environment,
                                               .most = c->ranks,
                                               .threads = c->threads,
                                               .recorders = c->control,
                                               .ignore_signals = c->control };
    dg_arena *a = dg_arena_open();
    launcher l = { .c = c,
                   .arena = a,
                   .signal_fd = -1,
                   .plane = { .over_fd = -1 },
                   .seat = { c->node * c->ranks, c->ranks, c->nodes * c->ranks, c->nodes } };
    const dg_plane_conf plane = { c, look_at_rank, &l };
    int rc;

    l.fds = DG_NEW_N(a, c->ranks + 3, struct pollfd);
    pthread_sigmask(SIG_SETMASK, NULL, &l.before);
    DG_TRY(dg_limits_raise(c->ranks, c->threads, d));
    DG_TRY(dg_rank_processes_open(&l.processes, &processes, d));
    DG_TRY(open_signal_fd(&l, d));
    if (c->control) {
        DG_TRY(dg_plane_open(&l.plane, &plane, a, d));
        DG_TRY(dg_plane_link(&l.plane, &l.seat, 0, d));
    }
    DG_TRY(run_attempts(&l, code, d));
out:
    if (l.has_control_file)
        dg_control_file_remove(l.view.folder);
    dg_plane_close(&l.plane);
    dg_rank_processes_close(&l.processes);
    if (l.signal_fd >= 0)
        close(l.signal_fd);
    pthread_sigmask(SIG_SETMASK, &l.before, NULL);
    dg_arena_close(&a);
    return rc;
}
