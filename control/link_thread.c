/* link_thread.c: the thread of a link: sends what the compute thread left in the outbox and a beat
 * ten times a second, keeps the latest state, and notices when launcher or coordinator are gone. */
#include "control/link_internal.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"

enum { REFUSED = 3 }; /* failed handshakes in a row that no restart of the other side explains */
static const double BEAT_S = 0.1, LATE_S = 0.3, START_S = 60;

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

void *dg_link_serve(void *ctx)
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
        /* this thread was suspended: do not count that time as silence, nor as time in a node */
        if (now - before > LATE_S) {
            p.heard_s += now - before;
            p.since_s += now - before;
        }
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
