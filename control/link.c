/* link.c: see link.h. The compute thread puts finished frames in an outbox and reads a copy of the
 * latest state, both under one lock that is never held during a wait; a descriptor wakes the link's
 * thread. */
#include "control/link.h"

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include "base/log.h"

enum { REFUSED = 3 }; /* failed handshakes in a row that no restart of the other side explains */
static const double BEAT_S = 0.1, LATE_S = 0.3, START_S = 60;

typedef struct frame {
    struct frame *next;
    size_t n;
    char bytes[];
} frame;

struct dg_link {
    dg_link_conf conf;
    int64_t ranks;
    double lost_after_s;
    int alive_fd, wake_fd;
    dg_hub *hub;
    dg_socket *commands, *events;
    pthread_t thread;
    bool running;

    pthread_mutex_t lock; /* protects everything below */
    pthread_cond_t news;
    frame *out, **out_end;
    dg_state state; /* its reason is in `reason` */
    char reason[1024];
    bool closing, told_over, heard, seated;
    dg_seat seat;
    int64_t round; /* of the latest meet */
    /* batches: of the first and the latest begin; of the latest save order */
    int64_t first, batch, saved_asked;
    char *value_name, *value; /* the name that get waits for, and the answer */
};

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

/* ---- the thread ------------------------------------------------------------------------------ */

static void send_all(dg_link *l)
{
    frame *f;

    pthread_mutex_lock(&l->lock);
    f = l->out;
    l->out = NULL;
    l->out_end = &l->out;
    pthread_mutex_unlock(&l->lock);
    for (frame *next; f; f = next) {
        next = f->next;
        (void)dg_socket_send(l->commands, NULL, f->bytes, f->n);
        dg_free(f);
    }
}

typedef struct pulse { /* times by the thread's clock */
    double beat_s, heard_s, since_s;
    uint64_t changes;
    bool heard;
} pulse;

static void send_beat(dg_link *l, pulse *p, double now)
{
    dg_arena *a = dg_arena_open();
    dg_message m = { .kind = DG_SAY_BEAT, .attempt = l->conf.attempt, .rank = l->conf.rank };
    dg_str text = { 0 };
    uint64_t changes;

    dg_recorder_look(l->conf.recorder, a, &m.beat, &changes);
    if (changes != p->changes)
        p->since_s = now;
    p->changes = changes;
    m.beat.since_s = now - p->since_s;
    dg_message_write(&text, &m);
    (void)dg_socket_send(l->commands, NULL, text.s, text.n);
    dg_str_free(&text);
    dg_arena_close(&a);
    p->beat_s = now;
}

static void set_over(dg_link *l, const char *reason)
{
    bool first;

    pthread_mutex_lock(&l->lock);
    first = !l->told_over;
    l->told_over = true;
    if (!l->state.over)
        l->state.over = DG_OVER_FAILED;
    if (!*l->reason)
        snprintf(l->reason, sizeof l->reason, "%s", reason);
    pthread_cond_broadcast(&l->news);
    pthread_mutex_unlock(&l->lock);
    if (first && l->conf.on_over)
        l->conf.on_over(l->conf.ctx);
}

static void take_state(dg_link *l, const dg_state *s)
{
    pthread_mutex_lock(&l->lock);
    l->state = *s;
    l->state.reason = NULL;
    if (s->over && !*l->reason)
        snprintf(l->reason, sizeof l->reason, "%s", s->reason);
    l->heard = true;
    pthread_cond_broadcast(&l->news);
    pthread_mutex_unlock(&l->lock);
    if (s->over)
        set_over(l, s->reason);
}

static void take_value(dg_link *l, const dg_message *m)
{
    pthread_mutex_lock(&l->lock);
    if (l->value_name && strcmp(l->value_name, m->put.name) == 0 && !l->value) {
        l->value = dg_try_alloc(strlen(m->put.text) + 1);
        if (l->value)
            memcpy(l->value, m->put.text, strlen(m->put.text) + 1);
        pthread_cond_broadcast(&l->news);
    }
    pthread_mutex_unlock(&l->lock);
}

static void take_seat(dg_link *l, const dg_message *m)
{
    pthread_mutex_lock(&l->lock);
    l->seat = (dg_seat){ (int)m->join.first, (int)m->join.ranks, (int)m->join.all,
                         (int)m->join.machines };
    l->seated = true;
    pthread_mutex_unlock(&l->lock);
}

static void receive_from(dg_link *l, dg_socket *s, pulse *p, double now)
{
    dg_str text = { 0 };
    dg_diag *d = dg_diag_open();

    while (dg_socket_receive(s, NULL, &text)) {
        dg_arena *a = dg_arena_open();
        dg_message m;

        if (dg_message_read(&m, a, text.s, text.n, d) == 0 && m.attempt == l->conf.attempt) {
            p->heard_s = now;
            p->heard = true;
            if (m.kind == DG_SAY_STATE)
                take_state(l, &m.state);
            else if (m.kind == DG_SAY_VALUE)
                take_value(l, &m);
            else if (m.kind == DG_SAY_JOIN)
                take_seat(l, &m);
        }
        dg_diag_clear(d);
        dg_arena_close(&a);
    }
    dg_diag_close(&d);
    dg_str_free(&text);
}

/* The launcher holds the other end of the pipe and never writes: end of file means that it has
 * died, and this process must not stay behind. */
static void check_launcher(dg_link *l)
{
    char byte;

    if (l->alive_fd >= 0 && read(l->alive_fd, &byte, 1) == 0)
        kill(getpid(), SIGKILL);
}

static void *serve_thread(void *ctx)
{
    dg_link *l = ctx;
    double now = dg_monotonic_s(), before = now;
    pulse p = { .heard_s = now, .since_s = now };
    bool closing = false;

    while (!closing) {
        const int fds[] = { l->wake_fd, l->alive_fd };
        uint64_t n;
        ssize_t ignored;

        dg_hub_wait(l->hub, fds, 2, 50);
        ignored = read(l->wake_fd, &n, sizeof n);
        (void)ignored;
        check_launcher(l);
        now = dg_monotonic_s();
        /* this thread was suspended: do not count that time as silence */
        if (now - before > LATE_S)
            p.heard_s += now - before;
        before = now;
        pthread_mutex_lock(&l->lock);
        closing = l->closing;
        pthread_mutex_unlock(&l->lock);
        send_all(l);
        receive_from(l, l->events, &p, now);
        receive_from(l, l->commands, &p, now);
        if (!l->conf.launcher && now - p.beat_s >= BEAT_S)
            send_beat(l, &p, now);
        if (!p.heard && dg_hub_n_refused(l->hub) >= REFUSED)
            set_over(l, "the coordinator turns this machine's key away: --key must name the same "
                        "file on all machines");
        if (now - p.heard_s > (p.heard || l->lost_after_s > START_S ? l->lost_after_s : START_S))
            set_over(l, "the coordinator is silent");
    }
    return NULL;
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
    if (pthread_create(&l->thread, NULL, serve_thread, l) != 0)
        dg_oom(0);
    l->running = true;
    (void)gethostname(host, sizeof host - 1);
    hello.hello.host = host;
    hello.hello.process = getpid();
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

void dg_link_bye(dg_link *l, int rc)
{
    dg_message m = { .kind = DG_SAY_BYE };

    if (!l)
        return;
    m.bye.code = -rc;
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
        clock_gettime(CLOCK_REALTIME, &until);
        until.tv_nsec += 50000000;
        until.tv_sec += until.tv_nsec / 1000000000;
        until.tv_nsec %= 1000000000;
        pthread_mutex_lock(&l->lock);
        if (!l->value && !l->state.over)
            pthread_cond_timedwait(&l->news, &l->lock, &until);
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
