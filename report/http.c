/* http.c: see http.h; the only file that uses libmicrohttpd. In builds without it, asking for a
 * port is an error. */
#include "report/http.h"

#include <errno.h>
#include <string.h>

#ifdef DG_MICROHTTPD

#include <arpa/inet.h>
#include <microhttpd.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdlib.h>
#include <strings.h>
#include <sys/socket.h>
#include <time.h>

#include "base/arena.h"
#include "base/diag.h"
#include "base/log.h"

struct dg_http {
    dg_http_conf conf;
    bool loopback; /* bound to an address that only this machine has */
    struct MHD_Daemon *daemon;
    pthread_mutex_t lock; /* protects what follows */
    pthread_cond_t sent;  /* an answer is on its way, or its client is gone */
    int answering;        /* requests whose answers are not yet sent */
    size_t bytes;         /* of the bodies of all requests */
    struct {
        int fd; /* 0: none */
        double since;
    } open[DG_HTTP_CONNECTIONS];
};

typedef struct body { /* of a request, while it comes in */
    dg_http *server;
    struct MHD_PostProcessor *form; /* NULL: not a form */
    dg_arena *arena;
    DG_VEC(const char *) names; /* of the parts; their bytes are in `bytes` */
    DG_VEC(dg_str) bytes;
    size_t held;     /* counted in the server's `bytes` */
    size_t received; /* bytes that came, with a form's own */
    int refused;     /* the status, or 0 */
    bool whole;      /* counted in the server's `answering` */
} body;

enum { PART_BYTES = 64 }; /* what a part takes beside its name and bytes */
enum { PATIENCE = 4 };    /* a refused body is read up to so many times the limit */
enum { FORM_BUFFER = 1 << 16, STREAM_BLOCK = 1 << 13 };
enum { LAST_ANSWERS_S = 5 }; /* a client may not read */

/* Notes where a connection begins and ends; the library closes its descriptor after that. */
static void note(void *self, struct MHD_Connection *c, void **state,
                 enum MHD_ConnectionNotificationCode what)
{
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(c, MHD_CONNECTION_INFO_CONNECTION_FD);
    const bool begins = what == MHD_CONNECTION_NOTIFY_STARTED;
    dg_http *s = self;

    (void)state;
    pthread_mutex_lock(&s->lock);
    for (int i = 0; info && i < s->conf.connections; i++)
        if (s->open[i].fd == (begins ? 0 : info->connect_fd)) {
            s->open[i].fd = begins ? info->connect_fd : 0;
            s->open[i].since = dg_monotonic_s();
            break;
        }
    pthread_mutex_unlock(&s->lock);
}

void dg_http_end_older(dg_http *s, double seconds)
{
    const double now = dg_monotonic_s();

    pthread_mutex_lock(&s->lock);
    for (int i = 0; i < s->conf.connections; i++)
        if (s->open[i].fd && now - s->open[i].since > seconds)
            (void)shutdown(s->open[i].fd, SHUT_RDWR);
    pthread_mutex_unlock(&s->lock);
}

/* ---- bodies ---------------------------------------------------------------------------------- */

/* True if n more bytes may be held; else the request is refused, and what it sent is dropped. */
static bool take_room(body *b, size_t n)
{
    dg_http *s = b->server;

    if (b->held + n > s->conf.most_bytes)
        b->refused = MHD_HTTP_CONTENT_TOO_LARGE;
    if (b->refused)
        return false;
    pthread_mutex_lock(&s->lock);
    if (s->bytes + n > s->conf.most_bytes_in_all) {
        b->refused = MHD_HTTP_SERVICE_UNAVAILABLE;
    } else {
        s->bytes += n;
        b->held += n;
    }
    pthread_mutex_unlock(&s->lock);
    return !b->refused;
}

static void drop_parts(body *b)
{
    for (int i = 0; i < b->bytes.n; i++)
        dg_str_free(&b->bytes.items[i]);
    b->names.n = b->bytes.n = 0;
    pthread_mutex_lock(&b->server->lock);
    b->server->bytes -= b->held;
    pthread_mutex_unlock(&b->server->lock);
    b->held = 0;
}

static void add_part(body *b, const char *name)
{
    DG_PUSH(b->arena, b->names, dg_strdup(b->arena, name));
    DG_PUSH(b->arena, b->bytes, (dg_str){ 0 });
}

/* A piece of a form's field; at: its place in the field. */
static enum MHD_Result take_field(void *self, enum MHD_ValueKind kind, const char *key,
                                  const char *file, const char *type, const char *coding,
                                  const char *bytes, uint64_t at, size_t n)
{
    body *b = self;

    (void)kind, (void)key, (void)type, (void)coding;
    if (!file || !take_room(b, n + (at == 0 ? strlen(file) + PART_BYTES : 0)))
        return MHD_YES; /* a field that is no file is not read */
    if (at == 0)
        add_part(b, file);
    if (b->bytes.n)
        dg_str_add_n(&b->bytes.items[b->bytes.n - 1], bytes, n);
    return MHD_YES;
}

static void take_bytes(body *b, const char *bytes, size_t n)
{
    b->received += n;
    if (b->refused)
        return;
    if (b->received > b->server->conf.most_bytes) { /* without a length that said so */
        b->refused = MHD_HTTP_CONTENT_TOO_LARGE;
    } else if (b->form) {
        (void)MHD_post_process(b->form, bytes, n);
    } else if (take_room(b, n)) {
        if (b->bytes.n == 0)
            add_part(b, "");
        dg_str_add_n(&b->bytes.items[0], bytes, n);
    }
    if (b->refused)
        drop_parts(b);
}

static body *body_open(dg_http *s, struct MHD_Connection *c)
{
    static const char form[] = "multipart/form-data";
    const char *type = MHD_lookup_connection_value(c, MHD_HEADER_KIND, "Content-Type"),
               *length = MHD_lookup_connection_value(c, MHD_HEADER_KIND, "Content-Length");
    dg_arena *a = dg_arena_open();
    body *b = DG_NEW(a, body);
    int64_t n;

    b->arena = a;
    b->server = s;
    if (length && dg_parse_i64(length, &n) && n > 0 && (uint64_t)n > s->conf.most_bytes)
        b->refused = MHD_HTTP_CONTENT_TOO_LARGE;
    if (type && strncasecmp(type, form, sizeof form - 1) == 0)
        b->form = MHD_create_post_processor(c, FORM_BUFFER, take_field, b);
    return b;
}

static void body_close(void *self, struct MHD_Connection *c, void **state,
                       enum MHD_RequestTerminationCode why)
{
    body *b = *state;
    dg_arena *a;

    (void)self, (void)c, (void)why;
    if (!b)
        return;
    if (b->form)
        MHD_destroy_post_processor(b->form);
    drop_parts(b);
    if (b->whole) {
        pthread_mutex_lock(&b->server->lock);
        b->server->answering--;
        pthread_cond_signal(&b->server->sent);
        pthread_mutex_unlock(&b->server->lock);
    }
    a = b->arena;
    dg_arena_close(&a);
    *state = NULL;
}

/* ---- answers --------------------------------------------------------------------------------- */

typedef struct stream { /* a reply that goes on */
    bool (*more)(void *ctx, uint64_t seen[2], dg_str *text);
    void *ctx;
    uint64_t seen[2];
    dg_str text; /* its part from `at` on is not sent yet */
    size_t at;
} stream;

static ssize_t read_stream(void *self, uint64_t at, char *to, size_t room)
{
    stream *s = self;
    size_t n;

    (void)at;
    if (s->at == s->text.n) {
        s->text.n = s->at = 0;
        if (!s->more(s->ctx, s->seen, &s->text))
            return MHD_CONTENT_READER_END_OF_STREAM;
    }
    n = s->text.n - s->at < room ? s->text.n - s->at : room;
    if (n)
        memcpy(to, s->text.s + s->at, n);
    s->at += n;
    return (ssize_t)n;
}

static void end_stream(void *self)
{
    stream *s = self;

    dg_str_free(&s->text);
    free(s);
}

static struct MHD_Response *response_of(const dg_http *server, dg_http_reply *reply)
{
    stream *s;

    if (!reply->more)
        return MHD_create_response_from_buffer(reply->text.n,
                                               reply->text.s ? reply->text.s : (char[]){ 0 },
                                               MHD_RESPMEM_MUST_COPY);
    s = calloc(1, sizeof *s);
    if (!s)
        return NULL;
    *s = (stream){ .more = reply->more, .ctx = server->conf.ctx, .text = reply->text };
    reply->text = (dg_str){ 0 };
    return MHD_create_response_from_callback(MHD_SIZE_UNKNOWN, STREAM_BLOCK, read_stream, s,
                                             end_stream);
}

static enum MHD_Result send_reply(const dg_http *server, struct MHD_Connection *c,
                                  dg_http_reply *reply)
{
    struct MHD_Response *r = response_of(server, reply);
    enum MHD_Result done = MHD_NO;

    if (r) {
        (void)MHD_add_response_header(r, MHD_HTTP_HEADER_CONTENT_TYPE, reply->type);
        (void)MHD_add_response_header(r, MHD_HTTP_HEADER_CACHE_CONTROL, "no-store");
        if (reply->allow)
            (void)MHD_add_response_header(r, MHD_HTTP_HEADER_ALLOW, reply->allow);
        if (reply->status == MHD_HTTP_SERVICE_UNAVAILABLE)
            (void)MHD_add_response_header(r, MHD_HTTP_HEADER_RETRY_AFTER, "1");
        done = MHD_queue_response(c, (unsigned)reply->status, r);
        MHD_destroy_response(r);
    }
    dg_str_free(&reply->text);
    return done;
}

static dg_http_reply blank(int status)
{
    return (dg_http_reply){ .status = status, .type = "text/plain; charset=utf-8" };
}

static enum MHD_Result refuse(const dg_http *s, struct MHD_Connection *c, int status)
{
    dg_http_reply r = blank(status);

    if (s->conf.refuse)
        s->conf.refuse(s->conf.ctx, &r);
    return send_reply(s, c, &r);
}

/* True if the request names this machine by a name that always means it, not by a host name. */
static bool is_for_loopback(const dg_http *s, struct MHD_Connection *c)
{
    const char *const names[] = { "localhost", "127.0.0.1", "[::1]",
                                  s->conf.address ? s->conf.address : "127.0.0.1" };
    const char *host = MHD_lookup_connection_value(c, MHD_HEADER_KIND, "Host");

    for (size_t i = 0; host && i < sizeof names / sizeof *names; i++) {
        const size_t n = strlen(names[i]);

        if (strncasecmp(host, names[i], n) == 0 && (host[n] == '\0' || host[n] == ':'))
            return true;
    }
    return !host;
}

static enum MHD_Result answer_whole(dg_http *s, struct MHD_Connection *c, const char *url,
                                    const char *method, body *b)
{
    dg_http_part *parts = DG_NEW_N(b->arena, b->bytes.n + 1, dg_http_part);
    const dg_http_request q = { method, url, b->bytes.n, parts, c };
    dg_http_reply r = blank(MHD_HTTP_OK);

    pthread_mutex_lock(&s->lock);
    s->answering++;
    b->whole = true;
    pthread_mutex_unlock(&s->lock);
    for (int i = 0; i < b->bytes.n; i++)
        parts[i] =
            (dg_http_part){ b->names.items[i], b->bytes.items[i].s ? b->bytes.items[i].s : "",
                            b->bytes.items[i].n };
    if (!s->loopback || is_for_loopback(s, c)) {
        s->conf.answer(s->conf.ctx, &q, &r);
    } else {
        r.status = MHD_HTTP_FORBIDDEN;
        dg_str_add(&r.text, "ask for 127.0.0.1 or localhost\n");
    }
    return send_reply(s, c, &r);
}

/* The library calls this once before a body, for each piece of it, and once after it. */
static enum MHD_Result take(void *self, struct MHD_Connection *c, const char *url,
                            const char *method, const char *version, const char *bytes, size_t *n,
                            void **state)
{
    dg_http *s = self;
    body *b = *state;

    (void)version;
    if (!b) {
        *state = b = body_open(s, c);
        return b->refused ? refuse(s, c, b->refused) : MHD_YES;
    }
    if (*n) {
        take_bytes(b, bytes, *n);
        *n = 0; /* a client that never ends is not waited for */
        return b->received / PATIENCE > s->conf.most_bytes ? MHD_NO : MHD_YES;
    }
    return b->refused ? refuse(s, c, b->refused) : answer_whole(s, c, url, method, b);
}

const char *dg_http_argument(const dg_http_request *q, const char *name)
{
    struct MHD_Connection *c = (struct MHD_Connection *)(uintptr_t)q->connection;
    const char *value = NULL;
    size_t n;

    if (MHD_lookup_connection_value_n(c, MHD_GET_ARGUMENT_KIND, name, strlen(name), &value, &n) !=
        MHD_YES)
        return NULL;
    return value ? value : "";
}

int dg_http_open(dg_http **out, const dg_http_conf *conf, dg_diag *d)
{
    struct sockaddr_in here = { .sin_family = AF_INET,
                                .sin_port = htons((uint16_t)conf->port),
                                .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    const unsigned threads = conf->waits ? MHD_USE_THREAD_PER_CONNECTION : 0;
    dg_http *s = calloc(1, sizeof *s);
    int error;

    *out = s;
    if (!s)
        return dg_fail(d, DG_EMEMORY, DG_NOWHERE, "out-of-memory", "no memory for %s",
                       conf->option);
    if (conf->address && inet_pton(AF_INET, conf->address, &here.sin_addr) != 1) {
        free(s);
        *out = NULL;
        return dg_fail(d, DG_EINPUT, DG_NOWHERE, conf->id,
                       "\"%s\" is no IPv4 address, as 192.168.1.2 or 0.0.0.0", conf->address);
    }
    s->conf = *conf;
    s->loopback = ntohl(here.sin_addr.s_addr) >> 24 == IN_LOOPBACKNET;
    if (s->conf.connections > DG_HTTP_CONNECTIONS)
        s->conf.connections = DG_HTTP_CONNECTIONS;
    pthread_mutex_init(&s->lock, NULL);
    pthread_cond_init(&s->sent, NULL);
    errno = 0;
    s->daemon =
        MHD_start_daemon(MHD_USE_INTERNAL_POLLING_THREAD | threads, (uint16_t)conf->port, NULL,
                         NULL, take, s, MHD_OPTION_SOCK_ADDR, &here, MHD_OPTION_CONNECTION_LIMIT,
                         (unsigned)s->conf.connections, MHD_OPTION_CONNECTION_TIMEOUT, 10u,
                         MHD_OPTION_NOTIFY_CONNECTION, note, s, MHD_OPTION_NOTIFY_COMPLETED,
                         body_close, s, MHD_OPTION_END);
    if (s->daemon)
        return 0;
    error = errno ? errno : EADDRINUSE;
    dg_http_close(out);
    return dg_fail_os(d, error, NULL, conf->id, "%s %d: nothing can listen there", conf->option,
                      conf->port);
}

/* Stopping the library's daemon drops answers that are not sent. */
static void await_last_answers(dg_http *s)
{
    struct timespec end;
    int rc = 0;

    clock_gettime(CLOCK_MONOTONIC, &end);
    end.tv_sec += LAST_ANSWERS_S;
    pthread_mutex_lock(&s->lock);
    while (s->answering && rc == 0)
        rc = pthread_cond_clockwait(&s->sent, &s->lock, CLOCK_MONOTONIC, &end);
    pthread_mutex_unlock(&s->lock);
}

void dg_http_close(dg_http **s)
{
    if (!*s)
        return;
    if ((*s)->daemon) {
        if ((*s)->conf.waits)
            await_last_answers(*s);
        MHD_stop_daemon((*s)->daemon);
    }
    pthread_cond_destroy(&(*s)->sent);
    pthread_mutex_destroy(&(*s)->lock);
    free(*s);
    *s = NULL;
}

int dg_http_port(const dg_http *s)
{
    const union MHD_DaemonInfo *info = MHD_get_daemon_info(s->daemon, MHD_DAEMON_INFO_BIND_PORT);

    return info ? info->port : 0;
}

#else

int dg_http_open(dg_http **s, const dg_http_conf *conf, dg_diag *d)
{
    *s = NULL;
    dg_fail(d, DG_EUNSUPPORTED, DG_NOWHERE, conf->id, "%s %d: this build has no libmicrohttpd",
            conf->option, conf->port);
    dg_help(d, "install libmicrohttpd-dev, then configure and build again");
    return -DG_EUNSUPPORTED;
}

void dg_http_close(dg_http **s)
{
    *s = NULL;
}

int dg_http_port(const dg_http *s)
{
    (void)s;
    return 0;
}

void dg_http_end_older(dg_http *s, double seconds)
{
    (void)s, (void)seconds;
}

const char *dg_http_argument(const dg_http_request *q, const char *name)
{
    (void)q, (void)name;
    return NULL;
}

#endif
