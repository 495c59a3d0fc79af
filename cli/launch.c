/* launch.c: the command line for the launcher, and its messages to people. */
#include "cli/launch.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/log.h"
#include "cli/cli.h"
#include "cli/progress.h"
#include "control/launch.h"
#include "control/rank_processes.h"

extern char **environ;

/* This process's argv, read from the kernel: the command line as it was given. */
static char **own_arguments(dg_arena *a)
{
    DG_VEC(char *) args = { 0 };
    int fd = open("/proc/self/cmdline", O_RDONLY | O_CLOEXEC);
    size_t n = 0, cap = 1 << 16;
    char *text = dg_alloc(a, cap + 1);
    ssize_t k;

    while (fd >= 0 && (k = read(fd, text + n, cap - n)) > 0) {
        n += (size_t)k;
        if (n < cap)
            continue;
        /* zeroed, so that the last argument is terminated */
        char *larger = dg_alloc(a, 2 * cap + 1);

        memcpy(larger, text, n);
        text = larger;
        cap *= 2;
    }
    if (fd >= 0)
        close(fd);
    for (size_t i = 0; i < n; i += strlen(text + i) + 1)
        DG_PUSH(a, args, text + i);
    DG_PUSH(a, args, NULL);
    return args.items;
}

/* Prints warnings and launcher messages; a rank's bar may be in the terminal's last line. */
static void log_launcher(void *ctx, dg_level level, const char *line)
{
    (void)ctx;
    if (level == DG_DEBUG)
        return;
    if (dg_rewrites(STDERR_FILENO) && isatty(STDOUT_FILENO))
        dg_line_clear(STDERR_FILENO);
    dg_say_error("%s%s\n", level == DG_WARN ? "warning: " : "", line);
}

static void print_failure(void *ctx, const dg_diag *why)
{
    (void)ctx;
    if (isatty(STDOUT_FILENO) && dg_rewrites(STDERR_FILENO))
        dg_line_clear(STDERR_FILENO);
    dg_print_diag_files(why);
}

static bool run_launcher(dg_launch_conf *c, int *code)
{
    static const dg_env env = { .log = log_launcher, .now_s = dg_monotonic_s, .threads = 1 };
    dg_arena *a;
    dg_diag *d;

    if (getenv(dg_rank_processes_variable))
        return false;
    a = dg_arena_open();
    d = dg_diag_open();
    c->args = own_arguments(a);
    c->environment = environ;
    c->env = &env;
    c->failed = print_failure;
    if (dg_launch_run(c, code, d) < 0) {
        dg_print_diag(d, NULL);
        *code = DG_EXIT_FAILED;
    }
    dg_diag_close(&d);
    dg_arena_close(&a);
    return true;
}

bool dg_launch_alone(int threads, int *code)
{
    dg_launch_conf c = { .ranks = 1, .nodes = 1, .threads = threads };
    dg_message ticket;
    dg_arena *a;
    dg_diag *d;
    const char *number;

    if (run_launcher(&c, code))
        return true;
    number = getenv(dg_rank_processes_variable);
    a = dg_arena_open();
    d = dg_diag_open();
    *code = dg_rank_processes_ticket(&ticket, number, a, d) < 0 ? DG_EXIT_FAILED : DG_EXIT_OK;
    unsetenv(dg_rank_processes_variable); /* processes started by this one are not ranks */
    if (*code)
        dg_print_diag(d, NULL);
    dg_diag_close(&d);
    dg_arena_close(&a);
    return *code != DG_EXIT_OK;
}

bool dg_launch_ranks(const dg_launch_options *o, int *code)
{
    dg_launch_conf c = {
        .ranks = (int)o->ranks,
        .threads = (int)o->threads,
        .control = true,
        .node = (int)o->node,
        .nodes = (int)o->nodes,
        .coordinator = o->coordinator,
        .key = o->key,
        .lost_after_s = o->lost_after_s,
        .max_restarts = (int)o->max_restarts,
        .elastic = o->elastic,
        .output = STDOUT_FILENO,
    };

    return run_launcher(&c, code);
}
