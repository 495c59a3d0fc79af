/* coordinator.c: sockets and a clock around the judge. ZeroMQ belongs to the thread; the launcher's
 * calls take the lock, update the judge and wake the thread. */
#include "control/coordinator.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/map.h"

enum { STRANGERS = 16 };        /* the latest are remembered */
enum { MAX_VALUES = 16 << 20 }; /* bytes of values that ranks put, per attempt */
static const double BEACON_S = 0.1, LATE_S = 0.3, SLEPT_S = 10;

/* A process with the run's key that is none of its ranks. */
typedef struct stranger {
    dg_peer peer;
    uint32_t rank; /* that it says to be */
    int64_t process;
    char why[512];
} stranger;

struct dg_coordinator {
    dg_arena *arena;
    dg_coordinator_conf conf;
    dg_admitted admitted[2];
    dg_hub *hub;
    dg_socket *commands, *events, *asks;
    pthread_t thread;
    bool running;
    int wake_fd, news_fd;

    pthread_mutex_t lock; /* protects everything below */
    dg_judge *judge;
    dg_map *values; /* values that ranks put, in attempt_arena */
    dg_arena *attempt_arena;
    size_t n_value_bytes;
    dg_peer *peers; /* address of each rank's latest message, in attempt_arena */
    uint32_t attempt;
    int n_ranks, n_strangers;
    stranger strangers[STRANGERS];
    dg_elastic elastic;
    uint64_t published; /* number of state changes already published */
    int n_invalid;
    bool closing, told;
    int refused;
};

static void wake_thread(int fd)
{
    uint64_t one = 1;
    ssize_t ignored = write(fd, &one, sizeof one);

    (void)ignored;
}

static void drain_wakeups(int fd)
{
    uint64_t n;
    ssize_t ignored = read(fd, &n, sizeof n);

    (void)ignored;
}

/* ---- the thread ------------------------------------------------------------------------------ */

static void send_to(dg_coordinator *c, const dg_peer *to, const dg_message *m)
{
    dg_str frame = { 0 };

    dg_message_write(&frame, m);
    (void)dg_socket_send(to ? c->commands : c->events, to, frame.s, frame.n);
    dg_str_free(&frame);
}

static void publish(dg_coordinator *c, uint64_t changed)
{
    dg_message m = { .kind = DG_SAY_STATE, .attempt = c->attempt };
    uint64_t same;

    m.state = *dg_judge_state(c->judge, &same);
    send_to(c, NULL, &m);
    if (changed != c->published)
        wake_thread(c->news_fd);
    c->published = changed;
}

static void answer_request(dg_coordinator *c, dg_socket *s, const dg_peer *to, const dg_message *m,
                           double now)
{
    dg_str frame = { 0 };
    dg_message reply = { .kind = DG_SAY_ANSWER, .attempt = c->attempt };
    dg_str text = { 0 };

    if (c->judge)
        reply.answer.done = dg_judge_ask(c->judge, m->ask.verb, m->ask.text, &text, now);
    reply.answer.text = text.s ? text.s : "";
    dg_message_write(&frame, &reply);
    (void)dg_socket_send(s, to, frame.s, frame.n);
    dg_str_free(&frame);
    dg_str_free(&text);
}

static void answer_get(dg_coordinator *c, const dg_peer *to, const dg_message *m)
{
    const char *kept = dg_map_get(c->values, m->put.name);
    dg_message reply = { .kind = DG_SAY_VALUE, .attempt = c->attempt, .rank = m->rank };

    if (!kept)
        return; /* it will ask again */
    reply.put.name = m->put.name;
    reply.put.text = kept;
    send_to(c, to, &reply);
}

/* A launcher has joined. Once ranks are assigned, tell it which are its own; it repeats the message
 * until then. */
static void answer_join(dg_coordinator *c, const dg_peer *to, const dg_message *m)
{
    dg_message reply = { .kind = DG_SAY_JOIN, .attempt = m->attempt };
    dg_seat s;

    if (m->attempt != c->elastic.attempt)
        return;
    dg_elastic_join(&c->elastic, m->join.node);
    wake_thread(c->news_fd);
    if (!c->elastic.closed)
        return;
    s = dg_elastic_seat(&c->elastic, m->join.node);
    reply.join.node = m->join.node;
    reply.join.first = s.first;
    reply.join.ranks = s.ranks;
    reply.join.all = s.all;
    reply.join.machines = s.machines;
    send_to(c, to, &reply);
}

static void take_word(dg_coordinator *c, const dg_peer *from, const dg_message *m, double now)
{
    if (m->rank < (uint32_t)c->n_ranks)
        c->peers[m->rank] = *from;
    dg_judge_take(c->judge, m, now);
}

/* Keeps what a rank puts, up to what addresses of all ranks need. */
static void keep_value(dg_coordinator *c, const dg_message *m)
{
    size_t n = strlen(m->put.name) + strlen(m->put.text);

    if (n > MAX_VALUES - c->n_value_bytes) {
        if (c->n_value_bytes < MAX_VALUES)
            dg_log_line(c->conf.env, DG_WARN, "rank %u puts more values than are kept", m->rank);
        c->n_value_bytes = MAX_VALUES;
        return;
    }
    c->n_value_bytes += n;
    dg_map_set(c->values, m->put.name, dg_strdup(c->attempt_arena, m->put.text));
}

/* Tells a peer that the run is over for it; for the others it goes on. */
static void send_away(dg_coordinator *c, const dg_peer *to, const stranger *x)
{
    dg_message m = { .kind = DG_SAY_STATE, .attempt = c->attempt };

    m.state = (dg_state){ .confirmed = -1,
                          .stop_after = -1,
                          .save_after = -1,
                          .over = DG_OVER_FAILED,
                          .reason = x->why };
    send_to(c, to, &m);
}

/* A machine that was started twice, or for another number of ranks, must not speak for a rank: what
 * it says later would end the run. False: it is sent away. */
static bool admit(dg_coordinator *c, const dg_peer *from, const dg_message *m)
{
    stranger *x = &c->strangers[c->n_strangers % STRANGERS];
    char taken[160];
    dg_str s = { 0 };

    dg_str_fmt(&s, "rank %u (%.64s, process %lld) ", m->rank, m->hello.host,
               (long long)m->hello.process);
    if (m->hello.ranks != c->n_ranks)
        dg_str_fmt(
            &s,
            "was started as one of %lld, and this run has %d ranks: --ranks and --nodes must "
            "be the same on every machine",
            (long long)m->hello.ranks, c->n_ranks);
    else if (dg_judge_is_taken(c->judge, m, taken, sizeof taken))
        dg_str_fmt(&s,
                   "is there already, as %s: was this machine started twice, or with the "
                   "--node-rank of another?",
                   taken);
    else
        goto out;
    *x = (stranger){ .peer = *from, .rank = m->rank, .process = m->hello.process };
    snprintf(x->why, sizeof x->why, "%s", s.s);
    c->n_strangers++;
    dg_log_line(c->conf.env, DG_WARN, "%s; it is sent away", x->why);
    send_away(c, from, x);
    dg_str_free(&s);
    return false;
out:
    dg_str_free(&s);
    return true;
}

/* True for a message of a stranger or of its launcher. Tells the launcher why the process ended. */
static bool is_of_stranger(dg_coordinator *c, const dg_peer *from, const dg_message *m)
{
    for (int i = 0; i < c->n_strangers && i < STRANGERS; i++) {
        const stranger *x = &c->strangers[i];

        if (m->kind == DG_SAY_GONE && m->rank == x->rank && m->gone.process == x->process) {
            send_away(c, from, x);
            return true;
        }
        if (x->peer.n == from->n && memcmp(x->peer.id, from->id, from->n) == 0)
            return true;
    }
    return false;
}

static void take_message(dg_coordinator *c, dg_socket *s, const dg_peer *from, const dg_message *m,
                         double now)
{
    bool rank = strcmp(from->who, "rank") == 0;

    if (m->kind == DG_SAY_ASK) {
        answer_request(c, s, from, m, now);
        return;
    }
    if (rank && m->kind == DG_SAY_JOIN) {
        answer_join(c, from, m);
        return;
    }
    if (!rank || !c->judge || m->attempt != c->attempt || is_of_stranger(c, from, m) ||
        (m->kind == DG_SAY_HELLO && !admit(c, from, m)))
        return;
    if (m->kind == DG_SAY_PUT)
        keep_value(c, m);
    else if (m->kind == DG_SAY_GET)
        answer_get(c, from, m);
    else if (m->kind == DG_SAY_GONE)
        dg_judge_gone(c->judge, (int)m->rank, (int)m->gone.status, now);
    else
        take_word(c, from, m, now);
    if (m->kind == DG_SAY_BYE || m->kind == DG_SAY_FOLDER)
        wake_thread(c->news_fd);
}

/* An authenticated peer sent an invalid message: log the first, ignore the rest. */
static void log_invalid(dg_coordinator *c, const dg_peer *from, const dg_diag *d)
{
    if (c->n_invalid++ == 0)
        dg_log_line(
            c->conf.env, DG_WARN,
            "%s (from a peer with the key of a %s); it is left out, and so are more of its kind",
            dg_diag_at(d, 0)->text, from->who);
}

static void receive_some(dg_coordinator *c, dg_socket *s, int most, double now)
{
    dg_str frame = { 0 };
    dg_diag *d = dg_diag_open();
    dg_peer from;

    for (int i = 0; i < most && dg_socket_receive(s, &from, &frame); i++) {
        dg_arena *a = dg_arena_open();
        dg_message m;

        if (dg_message_read(&m, a, frame.s, frame.n, d) == 0) {
            take_message(c, s, &from, &m, now);
        } else {
            log_invalid(c, &from, d);
            dg_diag_clear(d);
        }
        dg_arena_close(&a);
    }
    dg_diag_close(&d);
    dg_str_free(&frame);
}

/* Probes ranks that have been silent: silence proves nothing, but a closed connection does. */
static void probe_silent(dg_coordinator *c, double now)
{
    const dg_message m = { .kind = DG_SAY_PROBE, .attempt = c->attempt };
    dg_str frame = { 0 };

    dg_message_write(&frame, &m);
    for (int i = 0; i < c->n_ranks; i++)
        if (dg_judge_missed(c->judge, i, now) &&
            dg_socket_is_closed(c->commands, &c->peers[i], frame.s, frame.n))
            dg_judge_closed(c->judge, i);
    dg_str_free(&frame);
}

static void turn_away(dg_coordinator *c)
{
    int n = dg_hub_n_refused(c->hub);

    if (n > 0 && c->refused == 0)
        dg_log_line(c->conf.env, DG_WARN,
                    "somebody without a key of this run tried to join it, and was turned away");
    c->refused = n;
}

static void *serve_thread(void *ctx)
{
    dg_coordinator *c = ctx;
    double last = 0, probed = 0, before = c->conf.env->now_s(), late = 0;

    for (bool closing = false; !closing;) {
        uint64_t changed = 0;
        double now;

        dg_hub_wait(c->hub, &c->wake_fd, 1, 20);
        drain_wakeups(c->wake_fd);
        now = c->conf.env->now_s();
        /* this thread was suspended: do not count that time as the ranks' silence */
        if (now - before > LATE_S)
            late += now - before;
        if (now - before > SLEPT_S)
            dg_log_line(c->conf.env, DG_WARN,
                        "this machine or its launcher stood still for %.0f s: that does not count "
                        "as silence of ranks, and the run goes on",
                        now - before);
        before = now;
        now -= late;
        pthread_mutex_lock(&c->lock);
        receive_some(c, c->commands, 256, now);
        receive_some(c, c->asks, 16, now);
        turn_away(c);
        if (c->judge) {
            if (now - probed >= BEACON_S) {
                probe_silent(c, now);
                probed = now;
            }
            dg_judge_tick(c->judge, now);
            (void)dg_judge_state(c->judge, &changed);
            if (changed != c->published || now - last >= BEACON_S) {
                publish(c, changed);
                last = now;
            }
        }
        closing = c->closing;
        pthread_mutex_unlock(&c->lock);
    }
    return NULL;
}

/* ---- the launcher's calls -------------------------------------------------------------------- */

static void forget_attempt(dg_coordinator *c)
{
    dg_judge_close(&c->judge);
    dg_arena_close(&c->attempt_arena);
}

int dg_coordinator_open(dg_coordinator **out, const dg_coordinator_conf *conf, dg_diag *d)
{
    dg_arena *a = dg_arena_open();
    dg_coordinator *c = DG_NEW(a, dg_coordinator);
    int rc;

    *out = c;
    c->arena = a;
    c->conf = *conf;
    dg_elastic_open(&c->elastic, a, conf->nodes, conf->ranks);
    c->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    c->news_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    c->admitted[0] = (dg_admitted){ conf->rank_key, "rank" };
    c->admitted[1] = (dg_admitted){ conf->ctl_key, "ctl" };
    pthread_mutex_init(&c->lock, NULL);
    DG_TRY(dg_hub_open(&c->hub, d));
    DG_TRY(dg_hub_admit(c->hub, c->admitted, 2, d));
    DG_TRY(dg_socket_open(&c->commands, c->hub, DG_ROUTER, conf->commands, conf->server, NULL, d));
    DG_TRY(dg_socket_open(&c->events, c->hub, DG_PUBLISHER, conf->events, conf->server, NULL, d));
    DG_TRY(dg_socket_open(&c->asks, c->hub, DG_ASKS, conf->asks, conf->server, NULL, d));
    if (conf->also_commands)
        DG_TRY(dg_socket_bind(c->commands, conf->also_commands, d));
    if (conf->also_events)
        DG_TRY(dg_socket_bind(c->events, conf->also_events, d));
    if (pthread_create(&c->thread, NULL, serve_thread, c) != 0)
        dg_oom(0);
    c->running = true;
out:
    if (rc < 0)
        dg_coordinator_close(out);
    return rc;
}

void dg_coordinator_close(dg_coordinator **out)
{
    dg_coordinator *c = *out;
    dg_arena *a;

    if (!c)
        return;
    if (c->running) {
        pthread_mutex_lock(&c->lock);
        c->closing = true;
        pthread_mutex_unlock(&c->lock);
        wake_thread(c->wake_fd);
        pthread_join(c->thread, NULL);
    }
    dg_hub_close(&c->hub);
    forget_attempt(c);
    pthread_mutex_destroy(&c->lock);
    close(c->wake_fd);
    close(c->news_fd);
    a = c->arena;
    dg_arena_close(&a);
    *out = NULL;
}

const char *dg_coordinator_commands(const dg_coordinator *c)
{
    return dg_socket_endpoint(c->commands);
}

const char *dg_coordinator_asks(const dg_coordinator *c)
{
    return dg_socket_endpoint(c->asks);
}

const char *dg_coordinator_events(const dg_coordinator *c)
{
    return dg_socket_endpoint(c->events);
}

int dg_coordinator_fd(const dg_coordinator *c)
{
    return c->news_fd;
}

/* Call with the lock held. */
static void begin_attempt(dg_coordinator *c, int ranks, uint32_t attempt)
{
    dg_judge_conf conf = { .ranks = ranks,
                           .attempt = attempt,
                           .lost_after_s = c->conf.lost_after_s,
                           .env = c->conf.env,
                           .look = c->conf.look,
                           .ctx = c->conf.ctx };
    uint64_t changed;

    if (c->judge)
        conf.rates = dg_judge_state(c->judge, &changed)->rates;
    forget_attempt(c);
    c->attempt_arena = dg_arena_open();
    c->values = dg_map_new(c->attempt_arena);
    c->n_value_bytes = 0;
    c->peers = DG_NEW_N(c->attempt_arena, ranks, dg_peer);
    c->n_ranks = ranks;
    c->judge = dg_judge_open(&conf, c->conf.env->now_s());
    c->attempt = attempt;
    c->published = 0;
    c->told = false;
    wake_thread(c->wake_fd);
}

void dg_coordinator_begin(dg_coordinator *c, int ranks, uint32_t attempt)
{
    pthread_mutex_lock(&c->lock);
    begin_attempt(c, ranks, attempt);
    pthread_mutex_unlock(&c->lock);
}

void dg_coordinator_reopen(dg_coordinator *c, uint32_t attempt)
{
    pthread_mutex_lock(&c->lock);
    dg_elastic_reopen(&c->elastic, attempt, c->judge);
    pthread_mutex_unlock(&c->lock);
}

bool dg_coordinator_gathered(dg_coordinator *c)
{
    bool all;

    pthread_mutex_lock(&c->lock);
    all = dg_elastic_complete(&c->elastic);
    pthread_mutex_unlock(&c->lock);
    return all;
}

dg_seat dg_coordinator_seat(dg_coordinator *c)
{
    dg_seat own;

    pthread_mutex_lock(&c->lock);
    dg_elastic_close(&c->elastic);
    own = dg_elastic_seat(&c->elastic, 0);
    begin_attempt(c, own.all, c->elastic.attempt);
    pthread_mutex_unlock(&c->lock);
    return own;
}

void dg_coordinator_gone(dg_coordinator *c, int rank, int status)
{
    pthread_mutex_lock(&c->lock);
    dg_judge_gone(c->judge, rank, status, c->conf.env->now_s());
    pthread_mutex_unlock(&c->lock);
    wake_thread(c->wake_fd);
}

void dg_coordinator_ask(dg_coordinator *c, const char *verb, const char *text)
{
    dg_str ignored = { 0 };

    pthread_mutex_lock(&c->lock);
    (void)dg_judge_ask(c->judge, verb, text, &ignored, c->conf.env->now_s());
    pthread_mutex_unlock(&c->lock);
    dg_str_free(&ignored);
    wake_thread(c->wake_fd);
}

void dg_coordinator_end(dg_coordinator *c, const char *reason)
{
    pthread_mutex_lock(&c->lock);
    dg_judge_end(c->judge, reason);
    pthread_mutex_unlock(&c->lock);
    wake_thread(c->wake_fd);
}

void dg_coordinator_look(dg_coordinator *c, dg_view *v, dg_diag *d)
{
    uint64_t changed;

    drain_wakeups(c->news_fd);
    pthread_mutex_lock(&c->lock);
    *v = (dg_view){
        .over = (dg_over)dg_judge_state(c->judge, &changed)->over,
        .lost = dg_judge_lost(c->judge),
        .met = dg_judge_state(c->judge, &changed)->met,
        .left = dg_judge_left(c->judge),
        .judging = dg_judge_is_judging(c->judge),
        .saved = dg_judge_saved(c->judge),
    };
    snprintf(v->folder, sizeof v->folder, "%s", dg_judge_folder(c->judge));
    if (v->over && !c->told) {
        dg_diag_merge(d, dg_judge_verdict(c->judge));
        c->told = true;
    }
    pthread_mutex_unlock(&c->lock);
}
