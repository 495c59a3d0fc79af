/* prometheus.c: see prometheus.h. */
#include "report/prometheus.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "report/http.h"

enum { MOST_BYTES = 4096, CONNECTIONS = 64 };
static const double LASTS_S = 2; /* a scrape takes milliseconds */

struct dg_prometheus {
    dg_http *server;
    pthread_mutex_t lock; /* protects text */
    dg_str text;
};

static void answer(void *self, const dg_http_request *q, dg_http_reply *r)
{
    dg_prometheus *s = self;

    if (strcmp(q->method, "GET") != 0 && strcmp(q->method, "HEAD") != 0) {
        r->status = 405;
        r->allow = "GET, HEAD";
    } else if (strcmp(q->path, "/metrics") != 0) {
        r->status = 404;
        dg_str_add(&r->text, "The numbers are at /metrics.\n");
    } else {
        r->type = "text/plain; version=0.0.4; charset=utf-8";
        pthread_mutex_lock(&s->lock);
        dg_str_add_n(&r->text, s->text.s ? s->text.s : "", s->text.n);
        pthread_mutex_unlock(&s->lock);
    }
}

int dg_prometheus_open(dg_prometheus **out, int port, dg_diag *d)
{
    dg_prometheus *s = calloc(1, sizeof *s);
    const dg_http_conf conf = { .port = port,
                                .option = "--metrics-port",
                                .id = "metrics-port",
                                .connections = CONNECTIONS,
                                .most_bytes = MOST_BYTES,
                                .most_bytes_in_all = (size_t)CONNECTIONS * MOST_BYTES,
                                .answer = answer,
                                .ctx = s };
    int rc;

    *out = s;
    if (!s)
        return dg_fail(d, DG_EMEMORY, DG_NOWHERE, "out-of-memory",
                       "no memory for the metrics port");
    pthread_mutex_init(&s->lock, NULL);
    rc = dg_http_open(&s->server, &conf, d);
    if (rc < 0)
        dg_prometheus_close(out);
    return rc;
}

void dg_prometheus_close(dg_prometheus **s)
{
    if (!*s)
        return;
    dg_http_close(&(*s)->server);
    pthread_mutex_destroy(&(*s)->lock);
    dg_str_free(&(*s)->text);
    free(*s);
    *s = NULL;
}

int dg_prometheus_port(const dg_prometheus *s)
{
    return dg_http_port(s->server);
}

void dg_prometheus_put(dg_prometheus *s, dg_str *text)
{
    dg_str before;

    pthread_mutex_lock(&s->lock);
    before = s->text;
    s->text = *text;
    pthread_mutex_unlock(&s->lock);
    dg_http_end_older(s->server, LASTS_S);
    *text = (dg_str){ 0 };
    dg_str_free(&before);
}
