/* http.h: a small HTTP server, by default on 127.0.0.1, which only this machine reaches. Whole
 * requests go to one function; its replies go back whole, or go on as a stream. Threads of the
 * library call that function. */
#ifndef DG_REPORT_HTTP_H
#define DG_REPORT_HTTP_H

#include "base/str.h"

typedef struct dg_http dg_http;

typedef struct dg_http_part { /* a file of a form, or the whole body */
    const char *name;         /* the file's, or "" */
    const char *bytes;
    size_t n;
} dg_http_part;

typedef struct dg_http_request {
    const char *method, *path; /* without the query */
    int n_parts;               /* a body that is no form is one part; an empty one is none */
    const dg_http_part *parts;
    const void *connection; /* for dg_http_argument */
} dg_http_request;

/* The value of NAME=VALUE in the query; "" without a value; NULL: not there. */
const char *dg_http_argument(const dg_http_request *q, const char *name);

typedef struct dg_http_reply {
    int status;        /* 200 before the call */
    const char *type;  /* of the text; a constant; plain text before the call */
    const char *allow; /* with status 405: the methods; or NULL */
    dg_str text;       /* freed by the server */
    /* If it is not NULL, the reply goes on after the text, of servers that may wait: this is called
     * again and again, puts what follows into its empty `text`, and returns false at the end. It
     * waits for news, but at most DG_HTTP_STREAM_S seconds, and then says something all the same:
     * only that finds out that a client is gone. seen: the reply's own, zeroed first. */
    bool (*more)(void *ctx, uint64_t seen[2], dg_str *text);
} dg_http_reply;

typedef struct dg_http_conf {
    int port; /* 0: any free one; see dg_http_port */
    /* an IPv4 address of this machine, or 0.0.0.0, all of them; NULL: 127.0.0.1. On 127.x.y.z
     * requests for another host's name get the status 403: a page from elsewhere had its name point
     * here */
    const char *address;
    const char *option, *id;  /* for the error if nothing can listen there: "--port", "port" */
    int connections;          /* at a time, up to DG_HTTP_CONNECTIONS */
    bool waits;               /* answer may wait: each connection has a thread of its own */
    size_t most_bytes;        /* of a body; a larger one gets the status 413 */
    size_t most_bytes_in_all; /* of all bodies at a time; one more gets the status 503 */
    void (*answer)(void *ctx, const dg_http_request *q, dg_http_reply *r);
    /* fills a reply for the status 413 or 503; NULL: an empty one */
    void (*refuse)(void *ctx, dg_http_reply *r);
    void *ctx;
} dg_http_conf;

enum { DG_HTTP_CONNECTIONS = 256, DG_HTTP_STREAM_S = 4 };

int dg_http_open(dg_http **s, const dg_http_conf *conf, dg_diag *d) DG_MUST_USE;
/* Waits for answers that are being made; with `waits` also up to five seconds until they are sent.
 */
void dg_http_close(dg_http **s);
int dg_http_port(const dg_http *s);
/* Ends connections that have lasted longer, so that those that send a byte now and then do not keep
 * the others out. */
void dg_http_end_older(dg_http *s, double seconds);

#endif
