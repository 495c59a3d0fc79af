/* limits.c: see limits.h. Libraries do not survive a missing descriptor, stack or byte with a
 * message, so limits are looked at before anything is started. */
#include "control/limits.h"

#include <pthread.h>
#include <signal.h>
#include <sys/resource.h>

#include "base/pool.h"
#include "base/str.h"

/* descriptors of a launcher, and for each rank; bytes of a thread's stack */
enum { FILES = 64, FILES_PER_RANK = 8, STACK = 1 << 20, STACK_WISH = 8 << 20 };
/* threads of a launcher, and of each rank besides its kernels' and as many that load */
enum { THREADS = 4, THREADS_PER_RANK = 6, SMALL_STACK = 256 << 10 };

static int raise_one(int what, const char *name, const char *flag, rlim_t least, rlim_t wish,
                     rlim_t unit, dg_diag *d)
{
    struct rlimit now, more;

    if (getrlimit((__rlimit_resource_t)what, &now) != 0 || now.rlim_cur >= least)
        return 0;
    more = now;
    more.rlim_cur = now.rlim_max < wish ? now.rlim_max : wish;
    if (more.rlim_cur >= least && setrlimit((__rlimit_resource_t)what, &more) == 0)
        return 0;
    dg_fail(d, DG_EIO, DG_NOWHERE, "limit", "the limit of %s is %llu, and a run needs %llu", name,
            (unsigned long long)(now.rlim_max / unit), (unsigned long long)(least / unit));
    dg_help(d,
            "ulimit %s %llu in the shell before; where that is refused, the machine's "
            "administrator can raise the hard limit",
            flag, (unsigned long long)(wish / unit));
    return -DG_EIO;
}

static bool limits_memory(dg_str *out)
{
    static const struct {
        int what;
        char flag;
    } limits[] = { { RLIMIT_AS, 'v' }, { RLIMIT_DATA, 'd' } };
    struct rlimit now;
    char text[32];

    for (size_t i = 0; i < sizeof limits / sizeof *limits; i++) {
        if (getrlimit((__rlimit_resource_t)limits[i].what, &now) != 0 ||
            now.rlim_cur == RLIM_INFINITY)
            continue;
        dg_str_fmt(out,
                   "memory is limited to %s (ulimit -%c), and libraries crash when they get none: "
                   "ulimit -%c unlimited, or a smaller batch",
                   dg_human_bytes((double)now.rlim_cur, text, sizeof text), limits[i].flag,
                   limits[i].flag);
        return true;
    }
    return false;
}

static void *wait_at(void *gate)
{
    pthread_mutex_lock(gate);
    pthread_mutex_unlock(gate);
    return NULL;
}

/* Starts n threads that live at once; returns how many there were. Only a try tells: ulimit -u
 * counts all that a user runs, and containers have limits of their own. */
static int start_threads(int n)
{
    dg_arena *a = dg_arena_open();
    pthread_t *threads = DG_NEW_N(a, n, pthread_t);
    pthread_mutex_t gate = PTHREAD_MUTEX_INITIALIZER;
    pthread_attr_t small;
    int started = 0;

    pthread_attr_init(&small);
    pthread_attr_setstacksize(&small, SMALL_STACK);
    pthread_mutex_lock(&gate);
    while (started < n && pthread_create(&threads[started], &small, wait_at, &gate) == 0)
        started++;
    pthread_mutex_unlock(&gate);
    for (int i = 0; i < started; i++)
        pthread_join(threads[i], NULL);
    pthread_attr_destroy(&small);
    dg_arena_close(&a);
    return started;
}

/* Raises the soft limit (ulimit -u); false: it cannot be. */
static bool raise_threads(void)
{
    struct rlimit now;

    if (getrlimit(RLIMIT_NPROC, &now) != 0 || now.rlim_cur == now.rlim_max)
        return false;
    now.rlim_cur = now.rlim_max;
    return setrlimit(RLIMIT_NPROC, &now) == 0;
}

static int try_threads(int ranks, int threads, dg_diag *d)
{
    const int share = threads > 0 ? threads : dg_threads_available() / ranks,
              kernels = share < 1                 ? 1
                        : share > DG_THREADS_MOST ? DG_THREADS_MOST
                                                  : share,
              n = THREADS + ranks * (THREADS_PER_RANK + 2 * kernels);
    int started = start_threads(n);
    dg_str memory = { 0 };

    if (started < n && raise_threads())
        started = start_threads(n);
    if (started < n && !limits_memory(&memory)) { /* which stacks take, too */
        dg_fail(d, DG_EIO, DG_NOWHERE, "limit",
                "%d more processes and threads can be started, and a run needs %d", started, n);
        dg_help(d, "ulimit -u counts all that the user runs, and a container may have a limit of "
                   "its own: raise it, or take fewer --ranks or --threads");
        return -DG_EIO;
    }
    dg_str_free(&memory);
    return 0;
}

int dg_limits_raise(int ranks, int threads, dg_diag *d)
{
    const rlim_t files = FILES + (rlim_t)ranks * FILES_PER_RANK;
    int rc = raise_one(RLIMIT_NOFILE, "open files", "-n", files, 4 * files, 1, d);

    if (rc == 0)
        rc = raise_one(RLIMIT_STACK, "the stack in KiB", "-s", STACK, STACK_WISH, 1024, d);
    return rc < 0 ? rc : try_threads(ranks, threads, d);
}

bool dg_limits_reached(dg_str *out, int signal)
{
    struct rlimit now;

    if (signal != SIGXCPU && signal != SIGKILL)
        return limits_memory(out);
    if (getrlimit(RLIMIT_CPU, &now) != 0 || now.rlim_cur == RLIM_INFINITY)
        return false;
    dg_str_fmt(out,
               "a process is ended after %llu s of processor time (ulimit -t): "
               "ulimit -t unlimited lifts that limit",
               (unsigned long long)now.rlim_cur);
    return true;
}

void dg_limits_help(dg_diag *d, int signal)
{
    dg_str s = { 0 };

    if (dg_limits_reached(&s, signal))
        dg_help(d, "%s", s.s);
    dg_str_free(&s);
}
