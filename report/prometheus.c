/* prometheus.c: see prometheus.h; the only file that uses libmicrohttpd. In builds without it,
 * asking for a port is an error. */
#include "report/prometheus.h"

#include <errno.h>
#include <string.h>

#ifdef DG_MICROHTTPD

#include <arpa/inet.h>
#include <microhttpd.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/socket.h>

#include "base/log.h"

/* A scrape takes milliseconds: a connection that lasts LASTS_S is ended, so that those that send a
 * byte now and then do not keep the others out. */
enum { CONNECTIONS = 64 };
static const double LASTS_S = 2;

struct dg_prometheus {
    struct MHD_Daemon *daemon;
    pthread_mutex_t lock; /* protects what follows */
    dg_str text;
    struct {
        int fd; /* 0: none */
        double since;
    } open[CONNECTIONS];
};

/* Notes where a connection begins and ends; the library closes its descriptor after that. */
static void note(void *self, struct MHD_Connection *c, void **state,
                 enum MHD_ConnectionNotificationCode what)
{
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(c, MHD_CONNECTION_INFO_CONNECTION_FD);
    const bool begins = what == MHD_CONNECTION_NOTIFY_STARTED;
    dg_prometheus *s = self;

    (void)state;
    pthread_mutex_lock(&s->lock);
    for (int i = 0; info && i < CONNECTIONS; i++)
        if (s->open[i].fd == (begins ? 0 : info->connect_fd)) {
            s->open[i].fd = begins ? info->connect_fd : 0;
            s->open[i].since = dg_monotonic_s();
            break;
        }
    pthread_mutex_unlock(&s->lock);
}

/* Call with the lock held. */
static void end_old_ones(dg_prometheus *s)
{
    const double now = dg_monotonic_s();

    for (int i = 0; i < CONNECTIONS; i++)
        if (s->open[i].fd && now - s->open[i].since > LASTS_S)
            (void)shutdown(s->open[i].fd, SHUT_RDWR);
}

static enum MHD_Result send_text(struct MHD_Connection *c, unsigned status, const char *type,
                                 const char *text, size_t n)
{
    struct MHD_Response *r =
        MHD_create_response_from_buffer(n, (void *)(uintptr_t)text, MHD_RESPMEM_MUST_COPY);
    enum MHD_Result done;

    if (!r)
        return MHD_NO;
    (void)MHD_add_response_header(r, MHD_HTTP_HEADER_CONTENT_TYPE, type);
    done = MHD_queue_response(c, status, r);
    MHD_destroy_response(r);
    return done;
}

static enum MHD_Result answer(void *self, struct MHD_Connection *c, const char *url,
                              const char *method, const char *version, const char *body, size_t *n,
                              void **state)
{
    static const char elsewhere[] = "The numbers are at /metrics.\n";
    dg_prometheus *s = self;
    enum MHD_Result done;

    (void)version, (void)body, (void)n, (void)state;
    if (strcmp(method, MHD_HTTP_METHOD_GET) != 0 && strcmp(method, MHD_HTTP_METHOD_HEAD) != 0)
        return send_text(c, MHD_HTTP_METHOD_NOT_ALLOWED, "text/plain", "", 0);
    if (strcmp(url, "/metrics") != 0)
        return send_text(c, MHD_HTTP_NOT_FOUND, "text/plain; charset=utf-8", elsewhere,
                         sizeof elsewhere - 1);
    pthread_mutex_lock(&s->lock);
    done = send_text(c, MHD_HTTP_OK, "text/plain; version=0.0.4; charset=utf-8",
                     s->text.s ? s->text.s : "", s->text.n);
    pthread_mutex_unlock(&s->lock);
    return done;
}

int dg_prometheus_open(dg_prometheus **out, int port, dg_diag *d)
{
    const struct sockaddr_in here = { .sin_family = AF_INET,
                                      .sin_port = htons((uint16_t)port),
                                      .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    dg_prometheus *s = calloc(1, sizeof *s);
    char buf[128];

    *out = s;
    if (!s)
        return dg_fail(d, DG_EMEMORY, DG_NOWHERE, "out-of-memory",
                       "no memory for the metrics port");
    pthread_mutex_init(&s->lock, NULL);
    errno = 0;
    s->daemon =
        MHD_start_daemon(MHD_USE_INTERNAL_POLLING_THREAD, (uint16_t)port, NULL, NULL, answer, s,
                         MHD_OPTION_SOCK_ADDR, &here, MHD_OPTION_LISTENING_ADDRESS_REUSE, 1u,
                         MHD_OPTION_CONNECTION_LIMIT, (unsigned)CONNECTIONS,
                         MHD_OPTION_CONNECTION_TIMEOUT, 10u, MHD_OPTION_NOTIFY_CONNECTION, note, s,
                         MHD_OPTION_END);
    if (s->daemon)
        return 0;
    dg_prometheus_close(out);
    return dg_fail(d, DG_EIO, DG_NOWHERE, "metrics-port",
                   "--metrics-port %d: nothing can listen there: %s", port,
                   errno ? strerror_r(errno, buf, sizeof buf) : "the port is taken");
}

void dg_prometheus_close(dg_prometheus **s)
{
    if (!*s)
        return;
    if ((*s)->daemon)
        MHD_stop_daemon((*s)->daemon);
    pthread_mutex_destroy(&(*s)->lock);
    dg_str_free(&(*s)->text);
    free(*s);
    *s = NULL;
}

int dg_prometheus_port(const dg_prometheus *s)
{
    const union MHD_DaemonInfo *info = MHD_get_daemon_info(s->daemon, MHD_DAEMON_INFO_BIND_PORT);

    return info ? info->port : 0;
}

void dg_prometheus_put(dg_prometheus *s, dg_str *text)
{
    dg_str before;

    pthread_mutex_lock(&s->lock);
    before = s->text;
    s->text = *text;
    end_old_ones(s);
    pthread_mutex_unlock(&s->lock);
    *text = (dg_str){ 0 };
    dg_str_free(&before);
}

#else

int dg_prometheus_open(dg_prometheus **s, int port, dg_diag *d)
{
    *s = NULL;
    dg_fail(d, DG_EUNSUPPORTED, DG_NOWHERE, "metrics-port",
            "--metrics-port %d: this build has no libmicrohttpd", port);
    dg_help(d, "install libmicrohttpd-dev, then configure and build again");
    return -DG_EUNSUPPORTED;
}

void dg_prometheus_close(dg_prometheus **s)
{
    *s = NULL;
}

int dg_prometheus_port(const dg_prometheus *s)
{
    (void)s;
    return 0;
}

void dg_prometheus_put(dg_prometheus *s, dg_str *text)
{
    (void)s;
    dg_str_free(text);
}

#endif
