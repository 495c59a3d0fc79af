/* signals.c: a thread that waits for signals, so that nothing runs in a signal handler and no
 * globals are needed. */
#include "cli/signals.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>

struct dg_signals {
    pthread_t thread;
    sigset_t set;
    void (*came)(void *ctx);
    void *ctx;
    atomic_int closing;
};

static void *wait_for_signals(void *ctx)
{
    dg_signals *s = ctx;
    int sig;

    while (sigwait(&s->set, &sig) == 0 && !atomic_load(&s->closing))
        s->came(s->ctx);
    return NULL;
}

dg_signals *dg_signals_open(void (*came)(void *ctx), void *ctx)
{
    dg_signals *s = calloc(1, sizeof *s);

    if (!s)
        return NULL;
    s->came = came;
    s->ctx = ctx;
    sigemptyset(&s->set);
    sigaddset(&s->set, SIGINT);
    sigaddset(&s->set, SIGTERM);
    sigaddset(&s->set, SIGUSR1);
    sigaddset(&s->set, SIGHUP);
    pthread_sigmask(SIG_BLOCK, &s->set, NULL);
    if (pthread_create(&s->thread, NULL, wait_for_signals, s)) {
        pthread_sigmask(SIG_UNBLOCK, &s->set, NULL);
        free(s);
        return NULL;
    }
    return s;
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
