/* link.c: see link.h. The compute thread puts finished frames in an outbox and reads a copy of the
 * latest state, both under one lock that is never held during a wait; a descriptor wakes the link's
 * thread. */
#include "control/link_internal.h"

#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include "base/log.h"

static void wake_thread(dg_link *l)
{
    uint64_t one = 1;
    ssize_t ignored = write(l->wake_fd, &one, sizeof one);

    (void)ignored;
}

static void post_as(dg_link *l, dg_message *m, uint32_t rank)
{
    dg_str text = { 0 };
    frame *f;

    m->attempt = l->conf.attempt;
    m->rank = rank;
    dg_message_write(&text, m);
    f = dg_try_alloc(sizeof *f + text.n);
    if (!f)
        dg_oom(text.n);
    f->next = NULL;
    f->n = text.n;
    memcpy(f->bytes, text.s, text.n);
    dg_str_free(&text);
    pthread_mutex_lock(&l->lock);
    *l->out_end = f;
    l->out_end = &f->next;
    pthread_mutex_unlock(&l->lock);
    wake_thread(l);
}

static void post_message(dg_link *l, dg_message *m)
{
    post_as(l, m, l->conf.rank);
}

/* ---- open and close -------------------------------------------------------------------------- */

int dg_link_open(dg_link **out, const dg_link_conf *conf, dg_diag *d)
{
    const dg_ticket *t = conf->ticket;
    dg_link *l = dg_try_alloc(sizeof *l);
    dg_message hello = { .kind = DG_SAY_HELLO };
    char host[256] = "";
    dg_key_pair own = { { 0 }, { 0 } };
    int rc;

    if (!l)
        dg_oom(sizeof *l);
    *out = l;
    l->conf = *conf;
    l->conf.ticket = NULL;
    l->ranks = t->ranks;
    l->lost_after_s = t->lost_after_s;
    l->alive_fd = (int)t->alive_fd;
    l->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    l->out_end = &l->out;
    l->state = (dg_state){ .confirmed = -1, .stop_after = -1, .save_after = -1 };
    l->first = l->batch = l->saved_asked = -1;
    pthread_mutex_init(&l->lock, NULL);
    pthread_cond_init(&l->news, NULL);
    DG_TRY(dg_hub_open(&l->hub, d));
    strncpy(own.public_key, t->own_public, sizeof own.public_key - 1);
    strncpy(own.secret_key, t->own_secret, sizeof own.secret_key - 1);
    DG_TRY(dg_socket_open(&l->commands, l->hub, DG_DEALER, t->commands, &own, t->server_public, d));
    DG_TRY(dg_socket_open(&l->events, l->hub, DG_SUBSCRIBER, t->events, &own, t->server_public, d));
    if (pthread_create(&l->thread, NULL, dg_link_serve, l) != 0)
        dg_oom(0);
    l->running = true;
    (void)gethostname(host, sizeof host - 1);
    hello.hello.host = host;
    hello.hello.process = getpid();
    hello.hello.ranks = t->ranks;
    if (!conf->launcher)
        post_message(l, &hello);
out:
    explicit_bzero(&own, sizeof own);
    if (rc < 0)
        dg_link_close(out);
    return rc;
}

void dg_link_close(dg_link **out)
{
    dg_link *l = *out;

    if (!l)
        return;
    if (l->running) {
        pthread_mutex_lock(&l->lock);
        l->closing = true;
        pthread_mutex_unlock(&l->lock);
        wake_thread(l);
        pthread_join(l->thread, NULL);
    }
    dg_hub_close(&l->hub);
    for (frame *f = l->out, *next; f; f = next) {
        next = f->next;
        dg_free(f);
    }
    pthread_mutex_destroy(&l->lock);
    pthread_cond_destroy(&l->news);
    close(l->wake_fd);
    dg_free(l);
    *out = NULL;
}

dg_recorder *dg_link_recorder(dg_link *l)
{
    return l ? l->conf.recorder : NULL;
}

/* ---- the compute thread's calls -------------------------------------------------------------- */

void dg_link_folder(dg_link *l, const char *path)
{
    dg_message m = { .kind = DG_SAY_FOLDER };

    if (!l)
        return;
    m.folder.path = path;
    post_message(l, &m);
}

/* Call with the lock held. */
static int over_error(const dg_link *l, dg_diag *d)
{
    return dg_fail(d, DG_ESTOP, DG_NOWHERE, "run-over", "the run is over: %s",
                   *l->reason ? l->reason : "it was asked to end");
}

int dg_link_meet(dg_link *l, const dg_rows *facts, dg_diag *d)
{
    dg_message m = { .kind = DG_SAY_MEET };
    int rc;

    if (!l)
        return 0;
    m.meet.facts = *facts;
    m.meet.round = ++l->round;
    post_message(l, &m);
    pthread_mutex_lock(&l->lock);
    while (l->state.met < l->round && !l->state.over)
        pthread_cond_wait(&l->news, &l->lock);
    rc = l->state.over ? over_error(l, d) : 0;
    pthread_mutex_unlock(&l->lock);
    return rc;
}

/* Waits until batch b is confirmed. A single rank confirms its own. */
static int wait_confirmed(dg_link *l, int64_t b, dg_diag *d)
{
    int rc;

    pthread_mutex_lock(&l->lock);
    while (l->ranks > 1 && l->state.confirmed < b && !l->state.over)
        pthread_cond_wait(&l->news, &l->lock);
    rc = l->state.over ? over_error(l, d) : 0;
    pthread_mutex_unlock(&l->lock);
    return rc;
}

int dg_link_begin(dg_link *l, const dg_word *w, dg_diag *d)
{
    dg_message m = { .kind = DG_SAY_WORD };
    int rc;

    if (!l)
        return 0;
    dg_recorder_word(l->conf.recorder, w);
    rc = l->first < 0 ? wait_confirmed(l, -1, d) : wait_confirmed(l, w->batch - 1, d);
    if (rc < 0)
        return rc;
    if (l->first < 0)
        l->first = w->batch;
    l->batch = w->batch;
    m.word = *w;
    post_message(l, &m);
    return 0;
}

void dg_link_see(dg_link *l, const dg_sight *s)
{
    dg_message m = { .kind = DG_SAY_SEEN };

    if (!l)
        return;
    /* not for evaluations, in which ranks may have different numbers of batches */
    if (s->scope == 0)
        dg_recorder_seen(l->conf.recorder, &s->digests);
    m.seen = *s;
    post_message(l, &m);
}

int dg_link_orders(dg_link *l, dg_orders *o, dg_diag *d)
{
    int rc;

    *o = (dg_orders){ 0 };
    if (!l || l->batch < 0)
        return 0;
    rc = wait_confirmed(l, l->batch, d);
    if (rc < 0)
        return rc;
    pthread_mutex_lock(&l->lock);
    /* a single rank does not wait for a batch that all know of */
    o->stop = l->state.stop_after >= 0 && (l->state.stop_after <= l->batch || l->ranks == 1);
    o->save = l->state.save_after > l->saved_asked && l->state.save_after <= l->batch;
    if (o->save)
        l->saved_asked = l->state.save_after;
    pthread_mutex_unlock(&l->lock);
    return 0;
}

double dg_link_lr(dg_link *l)
{
    double lr;

    if (!l)
        return 0;
    pthread_mutex_lock(&l->lock);
    lr = dg_rates_at(&l->state.rates, l->batch);
    pthread_mutex_unlock(&l->lock);
    return lr;
}

bool dg_link_over(dg_link *l)
{
    bool over;

    if (!l)
        return false;
    pthread_mutex_lock(&l->lock);
    over = l->state.over != DG_OVER_NO;
    pthread_mutex_unlock(&l->lock);
    return over;
}

int dg_link_stop(dg_link *l)
{
    int stop;

    if (!l)
        return 0;
    pthread_mutex_lock(&l->lock);
    stop = l->state.over ? 2 : l->state.stop_after >= 0;
    pthread_mutex_unlock(&l->lock);
    return stop;
}

bool dg_link_state(dg_link *l, dg_state *state, char *reason, size_t n)
{
    bool heard;

    pthread_mutex_lock(&l->lock);
    *state = l->state;
    snprintf(reason, n, "%s", l->reason);
    state->reason = reason;
    heard = l->heard || l->state.over;
    pthread_mutex_unlock(&l->lock);
    return heard;
}

bool dg_link_join(dg_link *l, int node, dg_seat *seat)
{
    dg_message m = { .kind = DG_SAY_JOIN };
    bool seated;

    m.join.node = node;
    pthread_mutex_lock(&l->lock);
    seated = l->seated;
    if (seated)
        *seat = l->seat;
    pthread_mutex_unlock(&l->lock);
    if (!seated)
        post_message(l, &m);
    return seated;
}

void dg_link_gone(dg_link *l, int rank, int64_t process, int status)
{
    dg_message m = { .kind = DG_SAY_GONE };

    m.gone.process = process;
    m.gone.status = status;
    post_as(l, &m, (uint32_t)rank);
}

static void post_error(dg_link *l, const dg_err *e, int64_t more)
{
    dg_message m = { .kind = DG_SAY_FAIL };
    dg_arena *a = dg_arena_open();
    dg_row *rows = DG_NEW_N(a, e->n_remarks + 1, dg_row);

    for (int i = 0; i < e->n_remarks; i++) {
        const dg_remark *r = &e->remarks[i];

        rows[i] =
            (dg_row){ r->help ? DG_ROW_HELP : DG_ROW_NOTE,
                      r->at.file ? dg_printf(a, "%s:%d:%d", r->at.file, r->at.line, r->at.column)
                                 : "",
                      r->text };
    }
    m.fail = (dg_rank_fault){ .code = e->code,
                              .more = more,
                              .id = e->id,
                              .text = e->text,
                              .node = e->at.node,
                              .file = e->at.file,
                              .line = e->at.line,
                              .column = e->at.column,
                              .remarks = { e->n_remarks, rows } };
    post_message(l, &m);
    dg_arena_close(&a);
}

void dg_link_fail(dg_link *l, const dg_diag *d, int rc)
{
    int left = dg_diag_errors(d), n = dg_diag_n(d);

    if (!l)
        return;
    for (int i = 0; i < n; i++)
        if (dg_diag_at(d, i)->severity == DG_ERROR)
            post_error(l, dg_diag_at(d, i), --left);
    if (!dg_diag_errors(d))
        post_error(l,
                   &(dg_err){ .code = (dg_code)-rc,
                              .id = "no-reason",
                              .text = "it failed without a reason" },
                   0);
}

void dg_link_bye(dg_link *l)
{
    dg_message m = { .kind = DG_SAY_BYE };

    if (!l)
        return;
    post_message(l, &m);
}

void dg_link_ask(dg_link *l, const char *verb)
{
    dg_message m = { .kind = DG_SAY_ASK };

    if (!l)
        return;
    m.ask.verb = verb;
    post_message(l, &m);
}

int dg_link_put(dg_link *l, const char *name, const char *text, dg_diag *d)
{
    dg_message m = { .kind = DG_SAY_PUT };

    (void)d;
    if (!l)
        return 0;
    m.put.name = name;
    m.put.text = text;
    post_message(l, &m);
    return 0;
}

/* Asks every 50 ms, because the value may not have been put yet. */
int dg_link_get(dg_link *l, const char *name, const char **text, dg_arena *a, double most_s,
                dg_diag *d)
{
    dg_message m = { .kind = DG_SAY_GET };
    double end = dg_monotonic_s() + most_s;
    int rc = 0;

    *text = NULL;
    if (!l)
        return 0;
    m.put.name = name;
    pthread_mutex_lock(&l->lock);
    l->value_name = dg_strdup(a, name);
    while (!l->value && !l->state.over && dg_monotonic_s() < end) {
        struct timespec until;

        pthread_mutex_unlock(&l->lock);
        post_message(l, &m);
        clock_gettime(CLOCK_MONOTONIC, &until);
        until.tv_nsec += 50000000;
        until.tv_sec += until.tv_nsec / 1000000000;
        until.tv_nsec %= 1000000000;
        pthread_mutex_lock(&l->lock);
        if (!l->value && !l->state.over)
            pthread_cond_clockwait(&l->news, &l->lock, CLOCK_MONOTONIC, &until);
    }
    if (l->value)
        *text = dg_strdup(a, l->value);
    else
        rc = l->state.over ? over_error(l, d)
                           : dg_fail(d, DG_EIO, DG_NOWHERE, "rendezvous",
                                     "no rank has told \"%s\" within %g s", name, most_s);
    dg_free(l->value);
    l->value = l->value_name = NULL;
    pthread_mutex_unlock(&l->lock);
    return rc;
}
