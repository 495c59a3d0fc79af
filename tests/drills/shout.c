/* shout.c: connects to a run's coordinator with a key of the run and sends N malformed frames:
 * empty ones, random bytes, headers with false lengths, a message in two parts and, last, one over
 * the limit.
 *     shout CONTROL N SEED           with ctl's key, from the run's control file
 *     shout KEY ENDPOINT N SEED      with the ranks' key, from the run's key file */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zmq.h>

#include "control/message.h"

enum { KEY = 41, TOO_LONG = 17 << 20 };

typedef struct entrance {
    char endpoint[256], server[64], own[64], secret[64];
} entrance;

static void value(const char *text, const char *key, char *out, size_t n)
{
    const char *p = strstr(text, key);
    size_t k = 0;

    for (p = p ? p + strlen(key) : ""; *p && *p != '"' && k + 1 < n; p++) {
        if (*p == '\\' && p[1])
            p++;
        out[k++] = *p;
    }
    out[k] = '\0';
}

static int read_entrance(entrance *e, const char *path, const char *endpoint)
{
    char text[4096] = "", secret[KEY];
    FILE *f = fopen(path, "r");
    size_t n = f ? fread(text, 1, sizeof text - 1, f) : 0;

    if (f)
        fclose(f);
    if (!endpoint) {
        value(text, "\"endpoint\":\"", e->endpoint, sizeof e->endpoint);
        value(text, "\"server\":\"", e->server, sizeof e->server);
        value(text, "\"public\":\"", e->own, sizeof e->own);
        value(text, "\"secret\":\"", e->secret, sizeof e->secret);
        return n > 0;
    }
    if (n != 2 * KEY) /* the coordinator's secret and the ranks', one per line */
        return 0;
    snprintf(e->endpoint, sizeof e->endpoint, "%s", endpoint);
    snprintf(secret, sizeof secret, "%.*s", KEY - 1, text);
    snprintf(e->secret, sizeof e->secret, "%.*s", KEY - 1, text + KEY);
    return zmq_curve_public(e->server, secret) == 0 && zmq_curve_public(e->own, e->secret) == 0;
}

static void shout(void *s, int i)
{
    unsigned char frame[300];
    size_t size = i ? (size_t)(rand() % (int)sizeof frame) : 0;

    for (size_t k = 0; k < size; k++)
        frame[k] = (unsigned char)rand();
    if (i % 2 && size > 20) {
        memcpy(frame, "DGCP", 4);
        frame[4] = DG_FRAME_VERSION;
        frame[5] = 0;
        frame[6] = (unsigned char)(rand() % 20);
        memset(frame + 7, 0, 9);
    }
    zmq_send(s, frame, size, i % 16 == 3 ? ZMQ_SNDMORE : 0);
}

int main(int argc, char **argv)
{
    void *context = zmq_ctx_new(), *s = zmq_socket(context, ZMQ_DEALER),
         *too_long = calloc(1, TOO_LONG);
    int linger = 1000;
    entrance e = { 0 };

    if (argc < 4 || !too_long || !read_entrance(&e, argv[1], argc > 4 ? argv[2] : NULL))
        return 1;
    zmq_setsockopt(s, ZMQ_LINGER, &linger, sizeof linger);
    zmq_setsockopt(s, ZMQ_CURVE_PUBLICKEY, e.own, strlen(e.own));
    zmq_setsockopt(s, ZMQ_CURVE_SECRETKEY, e.secret, strlen(e.secret));
    zmq_setsockopt(s, ZMQ_CURVE_SERVERKEY, e.server, strlen(e.server));
    if (zmq_connect(s, e.endpoint) != 0)
        return 1;
    srand((unsigned)atoi(argv[argc - 1]));
    for (int i = 0; i < atoi(argv[argc - 2]); i++)
        shout(s, i);
    zmq_send(s, "", 0, 0); /* ends a message in parts */
    zmq_send(s, too_long, TOO_LONG, 0);
    free(too_long);
    zmq_close(s);
    zmq_ctx_term(context);
    return 0;
}
