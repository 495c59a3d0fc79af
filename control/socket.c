/* socket.c: the only file that uses libzmq. Every socket of the control plane has CURVE on; a hub
 * with admitted keys answers ZeroMQ's authentication requests (ZAP, https://rfc.zeromq.org/spec/27)
 * while it waits. */
#include "control/socket.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <zmq.h>

#include "base/arena.h"
#include "control/message.h"

enum { MAX_SOCKETS = 6, LINGER_MS = 1000, RAW_KEY = 32, MAX_ASKS = 64 };

struct dg_socket {
    void *zmq, *monitor; /* monitor: tells how handshakes end */
    bool connects, shaking;
    char endpoint[256];
};

struct dg_hub {
    void *context;
    void *zap; /* the ZAP socket, or NULL */
    const dg_admitted *admitted;
    int n_admitted, n_refused;
    int n;
    dg_socket sockets[MAX_SOCKETS];
};

static int refuse(dg_diag *d, const char *what, const char *which)
{
    dg_fail(d, DG_EIO, DG_NOWHERE, "control-socket", "control plane: cannot %s %s: %s", what, which,
            zmq_strerror(errno));
    if (errno == EADDRINUSE)
        dg_help(d, "another program, maybe another run, has this address: choose another port with "
                   "--coordinator");
    if (errno == EMFILE)
        dg_help(d, "allow more open files: ulimit -n 1024");
    return -DG_EIO;
}

int dg_key_make(dg_key_pair *k, dg_diag *d)
{
    return zmq_curve_keypair(k->public_key, k->secret_key) == 0 ? 0
                                                                : refuse(d, "make", "a key pair");
}

int dg_key_derive(dg_key_pair *k, dg_diag *d)
{
    return zmq_curve_public(k->public_key, k->secret_key) == 0 ? 0
                                                               : refuse(d, "use", "the secret key");
}

int dg_hub_open(dg_hub **out, dg_diag *d)
{
    dg_hub *h = dg_try_alloc(sizeof *h);

    *out = h;
    if (!h)
        dg_oom(sizeof *h);
    h->context = zmq_ctx_new();
    if (!h->context)
        return refuse(d, "begin", "its messages");
    zmq_ctx_set(h->context, ZMQ_MAX_SOCKETS, 64);
    return 0;
}

void dg_hub_close(dg_hub **h)
{
    if (!*h)
        return;
    for (int i = 0; i < (*h)->n; i++) {
        dg_socket *s = &(*h)->sockets[i];

        /* ZeroMQ leaks an event that it cannot deliver: none may come once the monitor is closed */
        if (s->monitor)
            (void)zmq_socket_monitor(s->zmq, NULL, 0);
        zmq_close(s->zmq);
        if (s->monitor)
            zmq_close(s->monitor);
    }
    if ((*h)->zap)
        zmq_close((*h)->zap);
    if ((*h)->context)
        zmq_ctx_term((*h)->context);
    dg_free(*h);
    *h = NULL;
}

int dg_hub_n_refused(const dg_hub *h)
{
    return h->n_refused;
}

int dg_hub_admit(dg_hub *h, const dg_admitted *list, int n, dg_diag *d)
{
    h->admitted = list;
    h->n_admitted = n;
    h->zap = zmq_socket(h->context, ZMQ_REP);
    if (!h->zap || zmq_bind(h->zap, "inproc://zeromq.zap.01") != 0)
        return refuse(d, "guard", "the door");
    return 0;
}

/* which keys a socket admits */
static const char ranks_domain[] = "detrgraph", asks_domain[] = "detrgraph-ctl";

static void set_int(void *s, int option, int value)
{
    (void)zmq_setsockopt(s, option, &value, sizeof value);
}

static int configure(void *s, dg_socket_kind kind, const dg_key_pair *own, const char *server)
{
    const int64_t most = kind == DG_ASKS ? DG_ASK_MAX : DG_FRAME_MAX;
    const char *domain = kind == DG_ASKS ? asks_domain : ranks_domain;

    set_int(s, ZMQ_LINGER, LINGER_MS);
    set_int(s, ZMQ_RECONNECT_IVL, 50);
    set_int(s, ZMQ_RECONNECT_IVL_MAX, 1000);
    set_int(s, ZMQ_SNDHWM, kind == DG_ASKS ? MAX_ASKS : 10000);
    set_int(s, ZMQ_RCVHWM, kind == DG_ASKS ? MAX_ASKS : 10000);
    set_int(s, ZMQ_CURVE_SERVER, server == NULL);
    /* sending to an unknown peer fails instead of being dropped */
    if (kind == DG_ROUTER || kind == DG_ASKS)
        set_int(s, ZMQ_ROUTER_MANDATORY, 1);
    if (zmq_setsockopt(s, ZMQ_MAXMSGSIZE, &most, sizeof most) != 0 ||
        zmq_setsockopt(s, ZMQ_CURVE_SECRETKEY, own->secret_key, strlen(own->secret_key)) != 0)
        return -1;
    if (!server)
        return zmq_setsockopt(s, ZMQ_ZAP_DOMAIN, domain, strlen(domain));
    if (kind == DG_SUBSCRIBER && zmq_setsockopt(s, ZMQ_SUBSCRIBE, "", 0) != 0)
        return -1;
    return zmq_setsockopt(s, ZMQ_CURVE_PUBLICKEY, own->public_key, strlen(own->public_key)) == 0
               ? zmq_setsockopt(s, ZMQ_CURVE_SERVERKEY, server, strlen(server))
               : -1;
}

/* A handshake with a wrong key of the server fails before anybody is asked about the client's. */
static bool watch_handshakes(dg_hub *h, dg_socket *s)
{
    enum {
        EVENTS = ZMQ_EVENT_CONNECTED | ZMQ_EVENT_DISCONNECTED | ZMQ_EVENT_HANDSHAKE_SUCCEEDED |
                 ZMQ_EVENT_HANDSHAKE_FAILED_NO_DETAIL | ZMQ_EVENT_HANDSHAKE_FAILED_PROTOCOL
    };
    char name[48];

    snprintf(name, sizeof name, "inproc://handshakes-%d", h->n);
    s->monitor =
        zmq_socket_monitor(s->zmq, name, EVENTS) == 0 ? zmq_socket(h->context, ZMQ_PAIR) : NULL;
    return s->monitor && zmq_connect(s->monitor, name) == 0;
}

/* Takes the events of handshakes; of each, the second part is an address. */
static void take_handshakes(dg_hub *h, dg_socket *s)
{
    unsigned char bytes[512];
    uint16_t event;

    while (zmq_recv(s->monitor, bytes, sizeof bytes, ZMQ_DONTWAIT) >= (int)sizeof event) {
        memcpy(&event, bytes, sizeof event);
        (void)zmq_recv(s->monitor, bytes, sizeof bytes, ZMQ_DONTWAIT);
        if (event == ZMQ_EVENT_HANDSHAKE_FAILED_PROTOCOL ||
            event == ZMQ_EVENT_HANDSHAKE_FAILED_NO_DETAIL ||
            (event == ZMQ_EVENT_DISCONNECTED && s->connects && s->shaking))
            h->n_refused++;
        else if (event == ZMQ_EVENT_HANDSHAKE_SUCCEEDED && s->connects)
            h->n_refused = 0;
        s->shaking = event == ZMQ_EVENT_CONNECTED;
    }
}

int dg_socket_bind(dg_socket *s, const char *endpoint, dg_diag *d)
{
    return zmq_bind(s->zmq, endpoint) == 0 ? 0 : refuse(d, "listen at", endpoint);
}

int dg_socket_open(dg_socket **out, dg_hub *h, dg_socket_kind kind, const char *endpoint,
                   const dg_key_pair *own, const char *server, dg_diag *d)
{
    static const int types[] = { ZMQ_ROUTER, ZMQ_DEALER, ZMQ_PUB, ZMQ_SUB, ZMQ_ROUTER };
    dg_socket *s;
    size_t n = sizeof s->endpoint;
    int rc;

    *out = NULL;
    assert(h->n < MAX_SOCKETS);
    s = &h->sockets[h->n];
    s->zmq = zmq_socket(h->context, types[kind]);
    if (!s->zmq)
        return refuse(d, "open", endpoint);
    h->n++;
    s->connects = server != NULL;
    if (!watch_handshakes(h, s))
        return refuse(d, "watch", endpoint);
    rc = configure(s->zmq, kind, own, server);
    if (rc == 0)
        rc = server ? zmq_connect(s->zmq, endpoint) : zmq_bind(s->zmq, endpoint);
    if (rc != 0)
        return refuse(d, server ? "connect to" : "listen at", endpoint);
    if (zmq_getsockopt(s->zmq, ZMQ_LAST_ENDPOINT, s->endpoint, &n) != 0)
        return refuse(d, "name", endpoint);
    *out = s;
    return 0;
}

const char *dg_socket_endpoint(const dg_socket *s)
{
    return s->endpoint;
}

bool dg_socket_send(dg_socket *s, const dg_peer *to, const void *frame, size_t n)
{
    if (to && zmq_send(s->zmq, to->id, to->n, ZMQ_DONTWAIT | ZMQ_SNDMORE) < 0)
        return false;
    return zmq_send(s->zmq, frame, n, ZMQ_DONTWAIT) >= 0;
}

bool dg_socket_is_closed(dg_socket *s, const dg_peer *to, const void *probe, size_t n)
{
    return !dg_socket_send(s, to, probe, n) && errno == EHOSTUNREACH;
}

/* Receives one part into id or frame. Returns -1 at the end, else whether more parts follow. */
static int receive_part(dg_socket *s, int part, bool routed, dg_peer *from, dg_str *frame)
{
    zmq_msg_t m;
    const char *who;
    int more;

    zmq_msg_init(&m);
    if (zmq_msg_recv(&m, s->zmq, ZMQ_DONTWAIT) < 0) {
        zmq_msg_close(&m);
        return -1;
    }
    more = zmq_msg_more(&m);
    if (routed && part == 0) {
        assert(from); /* a router says who sent it */
        from->n = (unsigned char)zmq_msg_size(&m);
        memcpy(from->id, zmq_msg_data(&m), from->n);
    } else if (part == routed) {
        dg_str_add_n(frame, zmq_msg_data(&m), zmq_msg_size(&m));
        who = zmq_msg_gets(&m, "User-Id");
        if (from && who)
            strncpy(from->who, who, sizeof from->who - 1);
    }
    zmq_msg_close(&m);
    return more;
}

bool dg_socket_receive(dg_socket *s, dg_peer *from, dg_str *frame)
{
    int type = 0, more = 1, part = 0;
    size_t n = sizeof type;

    (void)zmq_getsockopt(s->zmq, ZMQ_TYPE, &type, &n);
    frame->n = 0;
    if (from)
        *from = (dg_peer){ 0 };
    while (more > 0)
        more = receive_part(s, part++, type == ZMQ_ROUTER, from, frame);
    if (!frame->s)
        dg_str_add_n(frame, "", 0);
    return more == 0;
}

/* ---- authentication -------------------------------------------------------------------------- */

static const char *admitted_as(const dg_hub *h, const unsigned char *key, bool asks)
{
    char text[DG_KEY_TEXT];

    if (!zmq_z85_encode(text, key, RAW_KEY))
        return NULL;
    for (int i = 0; i < h->n_admitted; i++)
        if (strcmp(h->admitted[i].public_key, text) == 0 &&
            (strcmp(h->admitted[i].who, "ctl") == 0) == asks)
            return h->admitted[i].who;
    return NULL;
}

/* Answers one ZAP request: version, request, domain, address, identity, mechanism, key. */
static void answer_zap(dg_hub *h)
{
    unsigned char part[256], request[256], key[RAW_KEY] = { 0 };
    int n, n_request = 0, more = 1;
    size_t size = sizeof more;
    const char *who;
    bool asks = false;

    for (int i = 0; more; i++) {
        n = zmq_recv(h->zap, part, sizeof part, ZMQ_DONTWAIT);
        if (n < 0)
            return;
        n = n < (int)sizeof part ? n : (int)sizeof part;
        if (i == 1)
            memcpy(request, part, (size_t)(n_request = n));
        if (i == 2)
            asks = n == (int)strlen(asks_domain) && memcmp(part, asks_domain, (size_t)n) == 0;
        if (i == 6 && n == RAW_KEY)
            memcpy(key, part, RAW_KEY);
        zmq_getsockopt(h->zap, ZMQ_RCVMORE, &more, &size);
    }
    who = admitted_as(h, key, asks);
    h->n_refused += who == NULL;
    zmq_send(h->zap, "1.0", 3, ZMQ_SNDMORE);
    zmq_send(h->zap, request, (size_t)n_request, ZMQ_SNDMORE);
    zmq_send(h->zap, who ? "200" : "400", 3, ZMQ_SNDMORE);
    zmq_send(h->zap, who ? "known" : "unknown", who ? 5 : 7, ZMQ_SNDMORE);
    zmq_send(h->zap, who ? who : "", who ? strlen(who) : 0, ZMQ_SNDMORE);
    zmq_send(h->zap, "", 0, 0);
}

void dg_hub_wait(dg_hub *h, const int *fds, int n_fds, int ms)
{
    zmq_pollitem_t items[2 * MAX_SOCKETS + 8];
    int n = 0;

    for (int i = 0; i < h->n; i++)
        items[n++] = (zmq_pollitem_t){ .socket = h->sockets[i].zmq, .events = ZMQ_POLLIN };
    for (int i = 0; i < n_fds && i < 7; i++)
        if (fds[i] >= 0)
            items[n++] = (zmq_pollitem_t){ .fd = fds[i], .events = ZMQ_POLLIN };
    for (int i = 0; i < h->n; i++)
        items[n++] = (zmq_pollitem_t){ .socket = h->sockets[i].monitor, .events = ZMQ_POLLIN };
    if (h->zap)
        items[n++] = (zmq_pollitem_t){ .socket = h->zap, .events = ZMQ_POLLIN };
    if (zmq_poll(items, n, ms) <= 0)
        return;
    if (h->zap && (items[n - 1].revents & ZMQ_POLLIN))
        answer_zap(h);
    for (int i = 0; i < h->n; i++)
        take_handshakes(h, &h->sockets[i]);
}
