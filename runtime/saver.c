/* saver.c: see saver.h. The device is spoken to by the caller's thread alone: the writing one
 * begins when the copy is there, and sees memory of the host only. */
#include "runtime/saver.h"

#include <pthread.h>
#include <signal.h>
#include <stdlib.h>

struct dg_saver {
    const dg_store *store;
    dg_store *copy;
    dg_backend *host;
    dg_event *now, *copied;
    bool under_way, started; /* started: the thread runs, or has run */
    pthread_t thread;
    /* the thread's, from start to join: */
    dg_checkpoint_args args;
    dg_progress progress;
    dg_identity identity;
    dg_diag *d;
    int rc;
    bool done; /* read and written atomically */
};

dg_saver *dg_saver_open(const dg_store *s)
{
    dg_backend *b = s->backend;
    dg_diag *ignored = dg_diag_open();
    dg_saver *v = b->immediate ? NULL : calloc(1, sizeof *v);

    if (v && dg_backend_open(&v->host, "cpu", ignored) == 0) {
        v->store = s;
        v->d = dg_diag_open();
        v->copy = dg_store_open_copy(s, v->host);
        v->now = b->event_open(b);
        v->copied = b->event_open(b);
    }
    if (v && !(v->copy && v->now && v->copied))
        dg_saver_close(&v);
    dg_diag_close(&ignored);
    return v;
}

void dg_saver_close(dg_saver **out)
{
    dg_saver *v = *out;
    dg_backend *b = v && v->store ? v->store->backend : NULL;

    if (!v)
        return;
    if (b && v->now)
        b->event_close(b, &v->now);
    if (b && v->copied)
        b->event_close(b, &v->copied);
    dg_store_close(&v->copy);
    dg_backend_close(&v->host);
    dg_diag_close(&v->d);
    free(v);
    *out = NULL;
}

int dg_saver_begin(dg_saver *v, const dg_checkpoint_args *c, dg_diag *d)
{
    v->progress = *c->progress;
    v->identity = *c->identity;
    v->args = *c;
    v->args.store = v->copy;
    v->args.progress = &v->progress;
    v->args.identity = &v->identity;
    v->rc = dg_store_copy_out(v->store, v->copy, v->now, v->copied, d);
    v->under_way = v->rc == 0;
    v->started = v->done = false;
    return v->rc;
}

int64_t dg_saver_step(const dg_saver *v)
{
    return v && v->under_way ? v->progress.step : -1;
}

static void *write_files(void *self)
{
    dg_saver *v = self;

    v->rc = dg_checkpoint_write(&v->args, v->d);
    __atomic_store_n(&v->done, true, __ATOMIC_RELEASE);
    return NULL;
}

/* Signals are the others'. */
static bool start_thread(dg_saver *v)
{
    sigset_t all, before;
    bool started;

    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    started = pthread_create(&v->thread, NULL, write_files, v) == 0;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return started;
}

bool dg_saver_ready(dg_saver *v)
{
    dg_backend *b = v->store->backend;

    if (!v->under_way || v->started)
        return v->under_way && __atomic_load_n(&v->done, __ATOMIC_ACQUIRE);
    v->rc = b->event_wait(b, v->copied); /* has passed: what was waited for is behind it */
    if (v->rc < 0)
        return true;
    v->started = start_thread(v);
    return !v->started;
}

int dg_saver_finish(dg_saver *v, dg_diag *d)
{
    if (!v->started)
        (void)dg_saver_ready(v);
    if (v->started)
        pthread_join(v->thread, NULL);
    else if (v->rc == 0) /* there is no thread to be had */
        v->rc = dg_checkpoint_write(&v->args, v->d);
    else
        dg_fail(v->d, (dg_code)-v->rc, DG_NOWHERE, "device-copy",
                "the device failed before its parameters were copied");
    v->under_way = false;
    if (d != v->d)
        dg_diag_merge(d, v->d);
    dg_diag_clear(v->d);
    return v->rc;
}
