/* coordinator.c: sockets and a clock around the roster. ZeroMQ belongs to the thread; the launcher's calls take the lock,
 * change the roster and wake the thread. */
#include "runtime/coordinator.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/map.h"

static const double BEACON_S = 0.1, LATE_S = 0.3;

struct dg_coordinator {
    dg_arena           *arena;
    dg_coordinator_conf conf;
    dg_admitted         admitted[2];
    dg_hub             *hub;
    dg_socket          *commands, *events;
    pthread_t           thread;
    bool                running;
    int                 wake_fd, news_fd;

    pthread_mutex_t lock; /* of all below */
    dg_roster      *roster;
    dg_map         *values;   /* what ranks put, in the attempt's arena */
    dg_arena       *attempt_arena;
    dg_peer        *peers;    /* where each rank spoke from last, in the same */
    uint32_t        attempt;
    int             n_ranks;
    dg_muster       muster;
    uint64_t        published; /* the state's changes that are out */
    int             n_unread;
    bool            closing, told;
    int             refused;
};

static void poke(int fd)
{
    uint64_t one = 1;
    ssize_t  ignored = write(fd, &one, sizeof one);

    (void)ignored;
}

static void drain(int fd)
{
    uint64_t n;
    ssize_t  ignored = read(fd, &n, sizeof n);

    (void)ignored;
}

/* ---- the thread -------------------------------------------------------------------------------------------------- */

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
    uint64_t   same;

    m.state = *dg_roster_state(c->roster, &same);
    send_to(c, NULL, &m);
    if (changed != c->published)
        poke(c->news_fd);
    c->published = changed;
}

static void answer(dg_coordinator *c, const dg_peer *to, const dg_message *m, double now)
{
    dg_message reply = { .kind = DG_SAY_ANSWER, .attempt = c->attempt };
    dg_str     text = { 0 };

    if (c->roster)
        reply.answer.done = dg_roster_ask(c->roster, m->ask.verb, m->ask.text, &text, now);
    reply.answer.text = text.s ? text.s : "";
    send_to(c, to, &reply);
    dg_str_free(&text);
}

static void give(dg_coordinator *c, const dg_peer *to, const dg_message *m)
{
    const char *kept = dg_map_get(c->values, m->put.name);
    dg_message  reply = { .kind = DG_SAY_VALUE, .attempt = c->attempt, .rank = m->rank };

    if (!kept)
        return; /* it will ask again */
    reply.put.name = m->put.name;
    reply.put.text = kept;
    send_to(c, to, &reply);
}

/* A launcher is here; once the places are given out, it is told its own. It says so until then. */
static void seat(dg_coordinator *c, const dg_peer *to, const dg_message *m)
{
    dg_message reply = { .kind = DG_SAY_JOIN, .attempt = m->attempt };
    dg_seat    s;

    if (m->attempt != c->muster.attempt)
        return;
    dg_muster_come(&c->muster, m->join.node);
    poke(c->news_fd);
    if (!c->muster.seated)
        return;
    s = dg_muster_seat(&c->muster, m->join.node);
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
    dg_roster_take(c->roster, m, now);
}

static void take(dg_coordinator *c, const dg_peer *from, const dg_message *m, double now)
{
    bool rank = strcmp(from->who, "rank") == 0;

    if (m->kind == DG_SAY_ASK) {
        answer(c, from, m, now);
        return;
    }
    if (rank && m->kind == DG_SAY_JOIN) {
        seat(c, from, m);
        return;
    }
    if (!rank || !c->roster || m->attempt != c->attempt)
        return;
    if (m->kind == DG_SAY_PUT)
        dg_map_set(c->values, m->put.name, dg_strdup(c->attempt_arena, m->put.text));
    else if (m->kind == DG_SAY_GET)
        give(c, from, m);
    else if (m->kind == DG_SAY_GONE)
        dg_roster_gone(c->roster, (int)m->rank, (int)m->gone.status, now);
    else
        take_word(c, from, m, now);
    if (m->kind == DG_SAY_BYE || m->kind == DG_SAY_FOLDER)
        poke(c->news_fd);
}

/* Somebody with a key speaks, and not our language: said once, and left out. */
static void unreadable(dg_coordinator *c, const dg_peer *from, const dg_diag *d)
{
    if (c->n_unread++ == 0)
        dg_log_line(c->conf.env, DG_WARN, "%s (from a peer with the key of a %s); it is left out, and so are more of its kind",
                    dg_diag_at(d, 0)->text, from->who);
}

static void receive_all(dg_coordinator *c, double now)
{
    dg_str   frame = { 0 };
    dg_diag *d = dg_diag_open();
    dg_peer  from;

    for (int i = 0; i < 256 && dg_socket_receive(c->commands, &from, &frame); i++) {
        dg_arena  *a = dg_arena_open();
        dg_message m;

        if (dg_message_read(&m, a, frame.s, frame.n, d) == 0) {
            take(c, &from, &m, now);
        } else {
            unreadable(c, &from, d);
            dg_diag_clear(d);
        }
        dg_arena_close(&a);
    }
    dg_diag_close(&d);
    dg_str_free(&frame);
}

/* Silence is no evidence, and a closed connection is: of whom nothing is heard, is his there? */
static void probe(dg_coordinator *c, double now)
{
    const dg_message m = { .kind = DG_SAY_PROBE, .attempt = c->attempt };
    dg_str           frame = { 0 };

    dg_message_write(&frame, &m);
    for (int i = 0; i < c->n_ranks; i++)
        if (dg_roster_missed(c->roster, i, now) && dg_socket_is_closed(c->commands, &c->peers[i], frame.s, frame.n))
            dg_roster_closed(c->roster, i);
    dg_str_free(&frame);
}

static void turn_away(dg_coordinator *c)
{
    int n = dg_hub_n_refused(c->hub);

    if (n > 0 && c->refused == 0)
        dg_log_line(c->conf.env, DG_WARN, "somebody without a key of this run tried to join it, and was turned away");
    c->refused = n;
}

static void *serve(void *ctx)
{
    dg_coordinator *c = ctx;
    double          last = 0, probed = 0, before = c->conf.env->now_s(), late = 0;

    for (bool closing = false; !closing;) {
        uint64_t changed = 0;
        double   now;

        dg_hub_wait(c->hub, &c->wake_fd, 1, 20);
        drain(c->wake_fd);
        now = c->conf.env->now_s();
        if (now - before > LATE_S) /* we were not there to hear: silence begins now */
            late += now - before;
        before = now;
        now -= late;
        pthread_mutex_lock(&c->lock);
        receive_all(c, now);
        turn_away(c);
        if (c->roster) {
            if (now - probed >= BEACON_S) {
                probe(c, now);
                probed = now;
            }
            dg_roster_tick(c->roster, now);
            (void)dg_roster_state(c->roster, &changed);
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

/* ---- the launcher's calls ------------------------------------------------------------------------------------------ */

static void forget_attempt(dg_coordinator *c)
{
    dg_roster_close(&c->roster);
    dg_arena_close(&c->attempt_arena);
}

int dg_coordinator_open(dg_coordinator **out, const dg_coordinator_conf *conf, dg_diag *d)
{
    dg_arena       *a = dg_arena_open();
    dg_coordinator *c = DG_NEW(a, dg_coordinator);
    int             rc;

    *out = c;
    c->arena = a;
    c->conf = *conf;
    dg_muster_open(&c->muster, a, conf->nodes, conf->ranks);
    c->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    c->news_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    c->admitted[0] = (dg_admitted){ conf->rank_key, "rank" };
    c->admitted[1] = (dg_admitted){ conf->ctl_key, "ctl" };
    pthread_mutex_init(&c->lock, NULL);
    c->hub = dg_hub_open();
    DG_TRY(dg_hub_admit(c->hub, c->admitted, 2, d));
    DG_TRY(dg_socket_open(&c->commands, c->hub, DG_ROUTER, conf->commands, conf->server, NULL, d));
    DG_TRY(dg_socket_open(&c->events, c->hub, DG_PUBLISHER, conf->events, conf->server, NULL, d));
    if (pthread_create(&c->thread, NULL, serve, c) != 0)
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
    dg_arena       *a;

    if (!c)
        return;
    if (c->running) {
        pthread_mutex_lock(&c->lock);
        c->closing = true;
        pthread_mutex_unlock(&c->lock);
        poke(c->wake_fd);
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

const char *dg_coordinator_events(const dg_coordinator *c)
{
    return dg_socket_endpoint(c->events);
}

int dg_coordinator_fd(const dg_coordinator *c)
{
    return c->news_fd;
}

/* The lock is held. */
static void begin(dg_coordinator *c, int ranks, uint32_t attempt)
{
    dg_roster_conf conf = { .ranks = ranks, .attempt = attempt, .lost_after_s = c->conf.lost_after_s, .env = c->conf.env,
                            .look = c->conf.look, .ctx = c->conf.ctx };
    uint64_t       changed;

    if (c->roster)
        conf.rates = dg_roster_state(c->roster, &changed)->rates;
    forget_attempt(c);
    c->attempt_arena = dg_arena_open();
    c->values = dg_map_new(c->attempt_arena);
    c->peers = DG_NEW_N(c->attempt_arena, ranks, dg_peer);
    c->n_ranks = ranks;
    c->roster = dg_roster_open(&conf, c->conf.env->now_s());
    c->attempt = attempt;
    c->published = 0;
    c->told = false;
    poke(c->wake_fd);
}

void dg_coordinator_begin(dg_coordinator *c, int ranks, uint32_t attempt)
{
    pthread_mutex_lock(&c->lock);
    begin(c, ranks, attempt);
    pthread_mutex_unlock(&c->lock);
}

void dg_coordinator_call(dg_coordinator *c, uint32_t attempt)
{
    pthread_mutex_lock(&c->lock);
    dg_muster_call(&c->muster, attempt, c->roster);
    pthread_mutex_unlock(&c->lock);
}

bool dg_coordinator_gathered(dg_coordinator *c)
{
    bool all;

    pthread_mutex_lock(&c->lock);
    all = dg_muster_complete(&c->muster);
    pthread_mutex_unlock(&c->lock);
    return all;
}

dg_seat dg_coordinator_seat(dg_coordinator *c)
{
    dg_seat own;

    pthread_mutex_lock(&c->lock);
    dg_muster_close(&c->muster);
    own = dg_muster_seat(&c->muster, 0);
    begin(c, own.all, c->muster.attempt);
    pthread_mutex_unlock(&c->lock);
    return own;
}

void dg_coordinator_gone(dg_coordinator *c, int rank, int status)
{
    pthread_mutex_lock(&c->lock);
    dg_roster_gone(c->roster, rank, status, c->conf.env->now_s());
    pthread_mutex_unlock(&c->lock);
    poke(c->wake_fd);
}

void dg_coordinator_ask(dg_coordinator *c, const char *verb, const char *text)
{
    dg_str ignored = { 0 };

    pthread_mutex_lock(&c->lock);
    (void)dg_roster_ask(c->roster, verb, text, &ignored, c->conf.env->now_s());
    pthread_mutex_unlock(&c->lock);
    dg_str_free(&ignored);
    poke(c->wake_fd);
}

void dg_coordinator_end(dg_coordinator *c, const char *reason)
{
    pthread_mutex_lock(&c->lock);
    dg_roster_end(c->roster, reason);
    pthread_mutex_unlock(&c->lock);
    poke(c->wake_fd);
}

void dg_coordinator_look(dg_coordinator *c, dg_view *v, dg_diag *d)
{
    uint64_t changed;

    drain(c->news_fd);
    pthread_mutex_lock(&c->lock);
    *v = (dg_view){
        .over = (dg_over)dg_roster_state(c->roster, &changed)->over,
        .lost = dg_roster_lost(c->roster),
        .met = dg_roster_state(c->roster, &changed)->met,
        .left = dg_roster_left(c->roster),
        .judging = dg_roster_judging(c->roster),
        .saved = dg_roster_saved(c->roster),
    };
    snprintf(v->folder, sizeof v->folder, "%s", dg_roster_folder(c->roster));
    if (v->over && !c->told) {
        dg_diag_merge(d, dg_roster_verdict(c->roster));
        c->told = true;
    }
    pthread_mutex_unlock(&c->lock);
}
