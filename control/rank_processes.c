/* rank_processes.c: see rank_processes.h. The environment of a rank:
 *    OMP_NUM_THREADS=n       oneDNN's primitives, made for n threads, never return with fewer
 *    OMP_WAIT_POLICY=passive spinning slows processes that share cores several times
 *    OMP_DYNAMIC=false, OMP_THREAD_LIMIT unset: the number of threads stays fixed
 *    DETRGRAPH_RANK=fd       its ticket, a memory file: identity, and keys of the control plane
 * Each rank gets separate cores if there are enough. The kernel kills a rank when its launcher dies
 * (PR_SET_PDEATHSIG); the rank also exits when the launcher's pipe closes. */
#include "control/rank_processes.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <spawn.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/pool.h"

const char dg_rank_processes_variable[] = "DETRGRAPH_RANK";

typedef struct process {
    pid_t pid; /* 0: none */
    int pidfd;
    int status; /* after it has ended */
    int recorder_fd;
    dg_recorder *recorder;
} process;

struct dg_rank_processes {
    dg_arena *arena;
    dg_rank_processes_conf conf;
    process *processes;
    int n, alive;
    /* a pipe that is never written to; it closes when the launcher dies */
    int alive_read, alive_write;
    sigset_t mask; /* signal mask of the processes */
};

/* ---- environment and cores ------------------------------------------------------------------- */

static bool is_replaced(const char *variable)
{
    static const char *const names[] = {
        "OMP_NUM_THREADS=", "OMP_WAIT_POLICY=",   "OMP_DYNAMIC=",   "OMP_THREAD_LIMIT=",
        "GOMP_SPINCOUNT=",  "GOMP_CPU_AFFINITY=", "OMP_PROC_BIND=", "DETRGRAPH_RANK="
    };

    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (strncmp(variable, names[i], strlen(names[i])) == 0)
            return true;
    return false;
}

static char **rank_environment(dg_arena *a, char *const *from, int threads, int ticket)
{
    DG_VEC(char *) env = { 0 };

    for (char *const *e = from; *e; e++)
        if (!is_replaced(*e))
            DG_PUSH(a, env, *e);
    DG_PUSH(a, env, dg_printf(a, "OMP_NUM_THREADS=%d", threads));
    DG_PUSH(a, env, dg_strdup(a, "OMP_WAIT_POLICY=passive"));
    DG_PUSH(a, env, dg_strdup(a, "OMP_DYNAMIC=false"));
    DG_PUSH(a, env, dg_printf(a, "%s=%d", dg_rank_processes_variable, ticket));
    DG_PUSH(a, env, NULL);
    return env.items;
}

/* Threads per process: its share of the cores, at least one. */
static int threads_of(const dg_rank_processes *c)
{
    int share = dg_threads_available() / c->n;

    return c->conf.threads > 0 ? c->conf.threads : share > 0 ? share : 1;
}

/* The cores of process i: the i-th part of those that this process may use; false: too few to
 * divide. */
static bool cores_of(const dg_rank_processes *c, int i, cpu_set_t *all, cpu_set_t *part)
{
    int n, each, k = 0;

    if (c->n < 2 || sched_getaffinity(0, sizeof *all, all) != 0)
        return false;
    /* a CPU quota is not a set of cores */
    n = dg_threads_available() < CPU_COUNT(all) ? 0 : CPU_COUNT(all);
    each = n / c->n;
    if (each < 1 || threads_of(c) > each)
        return false;
    CPU_ZERO(part);
    for (size_t cpu = 0; cpu < CPU_SETSIZE; cpu++)
        if (CPU_ISSET(cpu, all) && k++ / each == i)
            CPU_SET(cpu, part);
    return true;
}

static int make_ticket(dg_rank_processes *c, int i, const dg_message *of_all, uint32_t first,
                       int shared_fd, int *fd, dg_diag *d)
{
    dg_message m = *of_all;
    dg_str text = { 0 };
    int rc = 0;

    m.rank = first + (uint32_t)i;
    m.ticket.local_rank = i;
    m.ticket.threads = threads_of(c);
    m.ticket.comm_fd = shared_fd;
    m.ticket.recorder_fd = c->processes[i].recorder_fd;
    m.ticket.alive_fd = c->alive_read;
    dg_message_write(&text, &m);
    *fd = memfd_create("detrgraph ticket", MFD_CLOEXEC);
    if (*fd < 0 || write(*fd, text.s, text.n) != (ssize_t)text.n)
        rc = dg_fail_os(d, errno, NULL, "launch", "no memory file for a rank's ticket");
    explicit_bzero(text.s, text.n);
    dg_str_free(&text);
    return rc;
}

/* ---- starting -------------------------------------------------------------------------------- */

/* Uses posix_spawn instead of fork, because there are threads. Only the listed descriptors are
 * inherited. */
static int spawn_process(dg_rank_processes *c, int i, int ticket, int shared_fd, dg_diag *d)
{
    process *p = &c->processes[i];
    const int handed[] = { ticket, shared_fd, p->recorder_fd, c->alive_read };
    dg_arena *a = dg_arena_open();
    char **env = rank_environment(a, c->conf.environment, threads_of(c), ticket);
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attr;
    cpu_set_t all, part;
    bool bound = cores_of(c, i, &all, &part);
    int error;

    posix_spawnattr_init(&attr);
    posix_spawnattr_setflags(&attr, POSIX_SPAWN_SETSIGMASK);
    posix_spawnattr_setsigmask(&attr, &c->mask);
    posix_spawn_file_actions_init(&actions);
    /* duplicating onto itself clears close-on-exec */
    for (size_t k = 0; k < sizeof handed / sizeof handed[0]; k++)
        if (handed[k] >= 0)
            posix_spawn_file_actions_adddup2(&actions, handed[k], handed[k]);
    if (i > 0)
        posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    if (bound)
        sched_setaffinity(0, sizeof part, &part);
    error = posix_spawn(&p->pid, "/proc/self/exe", &actions, &attr, c->conf.args, env);
    if (bound)
        sched_setaffinity(0, sizeof all, &all);
    posix_spawn_file_actions_destroy(&actions);
    posix_spawnattr_destroy(&attr);
    dg_arena_close(&a);
    if (error) {
        p->pid = 0;
        errno = error;
        return dg_fail_os(d, errno, NULL, "launch", "cannot start a rank");
    }
    c->alive++;
    p->pidfd = (int)syscall(SYS_pidfd_open, p->pid, 0);
    return p->pidfd < 0 ? dg_fail_os(d, errno, NULL, "launch", "cannot watch a rank") : 0;
}

int dg_rank_processes_start(dg_rank_processes *c, int n, const dg_message *of_all, uint32_t first,
                            int shared_fd, dg_diag *d)
{
    int rc = 0;

    c->n = n;
    for (int i = 0; i < n && rc == 0; i++) {
        process *p = &c->processes[i];
        int ticket = -1;

        p->status = 0;
        if (p->recorder)
            dg_recorder_reset(p->recorder);
        rc = make_ticket(c, i, of_all, first, shared_fd, &ticket, d);
        if (rc == 0)
            rc = spawn_process(c, i, ticket, shared_fd, d);
        if (ticket >= 0)
            close(ticket);
    }
    return rc;
}

/* ---- watching -------------------------------------------------------------------------------- */

void dg_rank_processes_kill(const dg_rank_processes *c, int sig)
{
    for (int i = 0; i < c->n; i++)
        if (c->processes[i].pid)
            kill(c->processes[i].pid, sig);
}

int dg_rank_processes_alive(const dg_rank_processes *c)
{
    return c->alive;
}

int dg_rank_processes_fd(const dg_rank_processes *c, int i)
{
    return c->processes[i].pidfd;
}

void dg_rank_processes_reap(dg_rank_processes *c,
                            void (*ended)(void *ctx, int i, int64_t process, int status), void *ctx)
{
    for (int i = 0; i < c->n; i++) {
        process *p = &c->processes[i];
        const pid_t pid = p->pid;

        if (!p->pid || waitpid(p->pid, &p->status, WNOHANG) != p->pid)
            continue;
        if (p->pidfd >= 0)
            close(p->pidfd);
        p->pidfd = -1;
        p->pid = 0;
        c->alive--;
        if (ended)
            ended(ctx, i, pid, p->status);
    }
}

int dg_rank_processes_status(const dg_rank_processes *c, int i)
{
    return c->processes[i].status;
}

const dg_recorder *dg_rank_processes_recorder(const dg_rank_processes *c, int i)
{
    return c->processes[i].recorder;
}

/* ---- open and close -------------------------------------------------------------------------- */

static int open_recorders(dg_rank_processes *c, dg_diag *d)
{
    int rc = 0;

    for (int i = 0; i < c->conf.most && rc == 0; i++) {
        rc = dg_recorder_create(&c->processes[i].recorder_fd, d);
        if (rc == 0)
            rc = dg_recorder_open(&c->processes[i].recorder, c->processes[i].recorder_fd, d);
    }
    return rc;
}

int dg_rank_processes_open(dg_rank_processes **out, const dg_rank_processes_conf *conf, dg_diag *d)
{
    dg_arena *a = dg_arena_open();
    dg_rank_processes *c = DG_NEW(a, dg_rank_processes);
    int ends[2] = { -1, -1 }, rc = 0;

    *out = c;
    c->arena = a;
    c->conf = *conf;
    c->processes = DG_NEW_N(a, conf->most, process);
    for (int i = 0; i < conf->most; i++)
        c->processes[i].pidfd = c->processes[i].recorder_fd = -1;
    sigprocmask(SIG_SETMASK, NULL, &c->mask);
    for (int i = 0; conf->ignore_signals && i < 4; i++)
        sigaddset(&c->mask, ((const int[]){ SIGINT, SIGTERM, SIGUSR1, SIGHUP })[i]);
    if (pipe2(ends, O_CLOEXEC | O_NONBLOCK) != 0)
        rc = dg_fail_os(d, errno, NULL, "launch", "cannot watch over ranks");
    c->alive_read = ends[0];
    c->alive_write = ends[1];
    if (rc == 0 && conf->recorders)
        rc = open_recorders(c, d);
    if (rc < 0)
        dg_rank_processes_close(out);
    return rc;
}

void dg_rank_processes_close(dg_rank_processes **out)
{
    dg_rank_processes *c = *out;
    dg_arena *a;

    if (!c)
        return;
    for (int i = 0; i < c->conf.most; i++) {
        dg_recorder_close(&c->processes[i].recorder);
        if (c->processes[i].recorder_fd >= 0)
            close(c->processes[i].recorder_fd);
    }
    if (c->alive_read >= 0) {
        close(c->alive_read);
        close(c->alive_write);
    }
    a = c->arena;
    dg_arena_close(&a);
    *out = NULL;
}

/* ---- in the rank's process ------------------------------------------------------------------- */

int dg_rank_processes_ticket(dg_message *ticket, const char *number, dg_arena *a, dg_diag *d)
{
    char text[8192];
    int64_t fd;
    ssize_t n = -1;
    struct pollfd alive = { .fd = -1 };
    int rc;

    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (dg_parse_i64(number, &fd) && fd > STDERR_FILENO && fd < INT32_MAX) {
        n = pread((int)fd, text, sizeof text, 0);
        close((int)fd);
    }
    if (n < 0)
        return dg_fail(d, DG_EINPUT, DG_NOWHERE, "ticket",
                       "%s=%s: the descriptor of a rank's ticket is expected; unset it",
                       dg_rank_processes_variable, number);
    rc = dg_message_read(ticket, a, text, (size_t)n, d);
    explicit_bzero(text, sizeof text);
    if (rc < 0)
        return rc;
    if (ticket->kind != DG_SAY_TICKET)
        return dg_fail(d, DG_EINPUT, DG_NOWHERE, "ticket", "%s: a rank's ticket is expected",
                       dg_rank_processes_variable);
    alive.fd = (int)ticket->ticket.alive_fd;
    /* the launcher died before PR_SET_PDEATHSIG took effect */
    if (alive.fd >= 0 && poll(&alive, 1, 0) == 1)
        return dg_fail(d, DG_ESTOP, DG_NOWHERE, "launcher-gone", "the launcher has ended");
    return 0;
}
