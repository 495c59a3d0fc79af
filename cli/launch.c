/* launch.c: this command once more, as a child with the environment that its threads need:
 *     OMP_NUM_THREADS=n       oneDNN's primitives are made for n threads and never return when they get fewer
 *     OMP_WAIT_POLICY=passive spinning makes processes that share cores several times slower
 *     OMP_DYNAMIC=false, OMP_THREAD_LIMIT unset: nobody takes threads away */
#include "cli/launch.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/file.h"
#include "base/pool.h"
#include "cli/cli.h"

extern char **environ;

static const char rank_variable[] = "DETRGRAPH_RANK";

/* This process's argv, from the kernel: the command line as it was given. */
static char **own_arguments(dg_arena *a)
{
    DG_VEC(char *) args = { 0 };
    int     fd = open("/proc/self/cmdline", O_RDONLY | O_CLOEXEC);
    size_t  n = 0, cap = 1 << 20;
    char   *text = dg_alloc(a, cap + 1);
    ssize_t k;

    while (fd >= 0 && n < cap && (k = read(fd, text + n, cap - n)) > 0)
        n += (size_t)k;
    if (fd >= 0)
        close(fd);
    for (size_t i = 0; i < n; i += strlen(text + i) + 1)
        DG_PUSH(a, args, text + i);
    if (!args.n)
        return NULL;
    DG_PUSH(a, args, NULL);
    return args.items;
}

static bool replaced(const char *variable)
{
    static const char *const names[] = { "OMP_NUM_THREADS=", "OMP_WAIT_POLICY=", "OMP_DYNAMIC=", "OMP_THREAD_LIMIT=",
                                         "GOMP_SPINCOUNT=", "DETRGRAPH_RANK=" };

    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (strncmp(variable, names[i], strlen(names[i])) == 0)
            return true;
    return false;
}

static char **rank_environment(dg_arena *a, int threads)
{
    DG_VEC(char *) env = { 0 };

    for (char **e = environ; *e; e++)
        if (!replaced(*e))
            DG_PUSH(a, env, *e);
    DG_PUSH(a, env, dg_printf(a, "OMP_NUM_THREADS=%d", threads));
    DG_PUSH(a, env, dg_strdup(a, "OMP_WAIT_POLICY=passive"));
    DG_PUSH(a, env, dg_strdup(a, "OMP_DYNAMIC=false"));
    DG_PUSH(a, env, dg_printf(a, "%s=0", rank_variable));
    DG_PUSH(a, env, NULL);
    return env.items;
}

/* What the launcher waits for. */
static void interesting(sigset_t *set)
{
    sigemptyset(set);
    sigaddset(set, SIGINT);
    sigaddset(set, SIGTERM);
    sigaddset(set, SIGUSR1);
    sigaddset(set, SIGHUP);
    sigaddset(set, SIGCHLD);
}

static int start(pid_t *child, char **args, char **env, const sigset_t *mask)
{
    posix_spawnattr_t attr;
    int               error;

    posix_spawnattr_init(&attr);
    posix_spawnattr_setflags(&attr, POSIX_SPAWN_SETSIGMASK);
    posix_spawnattr_setsigmask(&attr, mask);
    error = posix_spawn(child, "/proc/self/exe", NULL, &attr, args, env);
    posix_spawnattr_destroy(&attr);
    return error;
}

/* Hands signals on until the child ends. One that the terminal sent has reached the child already: the kernel
 * sends it to the whole group, and a second one would stop the rank at once. */
static int attend(pid_t child, const sigset_t *set)
{
    for (;;) {
        siginfo_t info;
        int       status, sig = sigwaitinfo(set, &info);

        if (sig > 0 && sig != SIGCHLD && info.si_code != SI_KERNEL)
            kill(child, sig);
        if (waitpid(child, &status, WNOHANG) != child)
            continue;
        if (WIFEXITED(status))
            return WEXITSTATUS(status);
        fprintf(stderr, "detrgraph: the rank was ended by signal %d (%s)\n", WTERMSIG(status), strsignal(WTERMSIG(status)));
        return 128 + WTERMSIG(status);
    }
}

bool dg_launch(int threads, int *code)
{
    dg_arena *a;
    char    **args;
    sigset_t  set, before;
    pid_t     child;
    int       error;

    if (getenv(rank_variable)) {
        unsetenv(rank_variable); /* whatever this rank starts is no rank */
        prctl(PR_SET_PDEATHSIG, SIGTERM);
        return false;
    }
    a = dg_arena_open();
    args = own_arguments(a);
    interesting(&set);
    sigprocmask(SIG_BLOCK, &set, &before);
    error = args ? start(&child, args, rank_environment(a, threads > 0 ? threads : dg_threads_available()), &before) : ENOENT;
    if (error == 0) {
        *code = attend(child, &set);
    } else {
        fprintf(stderr, "detrgraph: cannot start a rank: %s\n", strerror(error));
        *code = DG_EXIT_FAILED;
    }
    sigprocmask(SIG_SETMASK, &before, NULL);
    dg_arena_close(&a);
    return true;
}
