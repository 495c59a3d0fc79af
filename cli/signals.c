/* signals.c: a thread that waits for signals, so that nothing runs in a signal handler and no global is needed.
 * The first asks the run to stop, the second ends the process. */
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/cli.h"
#include "cli/launch.h"

struct dg_signals {
    pthread_t  thread;
    sigset_t   set;
    atomic_int count;
    atomic_int closing;
};

static void say(const char *text)
{
    ssize_t ignored = write(STDERR_FILENO, text, strlen(text));

    (void)ignored;
}

static void *wait_for_signals(void *ctx)
{
    dg_signals *s = ctx;
    int         sig;

    while (sigwait(&s->set, &sig) == 0) {
        if (atomic_load(&s->closing))
            return NULL;
        if (atomic_fetch_add(&s->count, 1) > 0) {
            say("\nstopped at once; what was saved is whole\n");
            _exit(DG_EXIT_INTERRUPTED);
        }
        say("\nstopping after this step; once more stops at once\n");
    }
    return NULL;
}

dg_signals *dg_signals_open(void)
{
    dg_signals *s = calloc(1, sizeof *s);

    if (!s)
        return NULL;
    sigemptyset(&s->set);
    sigaddset(&s->set, SIGINT);
    sigaddset(&s->set, SIGTERM);
    sigaddset(&s->set, SIGUSR1);
    pthread_sigmask(SIG_BLOCK, &s->set, NULL);
    if (pthread_create(&s->thread, NULL, wait_for_signals, s)) {
        pthread_sigmask(SIG_UNBLOCK, &s->set, NULL);
        free(s);
        return NULL;
    }
    return s;
}

int dg_signals_count(const dg_signals *s)
{
    return s ? atomic_load(&s->count) : 0;
}

void dg_signals_close(dg_signals **s)
{
    if (!*s)
        return;
    atomic_store(&(*s)->closing, 1);
    pthread_kill((*s)->thread, SIGUSR1);
    pthread_join((*s)->thread, NULL);
    free(*s);
    *s = NULL;
}
