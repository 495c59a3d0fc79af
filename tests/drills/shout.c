/* shout.c: connects with the key of a run's control file and sends N frames that are none: random bytes, and headers of
 * messages with lengths that lie.
 *     shout FILE N SEED */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zmq.h>

static void value(const char *text, const char *key, char *out, size_t n)
{
    const char *p = strstr(text, key);
    size_t      k = 0;

    for (p = p ? p + strlen(key) : ""; *p && *p != '"' && k + 1 < n; p++) {
        if (*p == '\\' && p[1])
            p++;
        out[k++] = *p;
    }
    out[k] = '\0';
}

int main(int argc, char **argv)
{
    char   text[4096] = "", endpoint[256], server[64], own[64], secret[64];
    FILE  *f = argc > 3 ? fopen(argv[1], "r") : NULL;
    void  *context = zmq_ctx_new(), *s = zmq_socket(context, ZMQ_DEALER);
    int    linger = 1000;
    size_t n;

    if (!f || (n = fread(text, 1, sizeof text - 1, f)) == 0)
        return 1;
    fclose(f);
    value(text, "\"endpoint\":\"", endpoint, sizeof endpoint);
    value(text, "\"server\":\"", server, sizeof server);
    value(text, "\"public\":\"", own, sizeof own);
    value(text, "\"secret\":\"", secret, sizeof secret);
    zmq_setsockopt(s, ZMQ_LINGER, &linger, sizeof linger);
    zmq_setsockopt(s, ZMQ_CURVE_PUBLICKEY, own, strlen(own));
    zmq_setsockopt(s, ZMQ_CURVE_SECRETKEY, secret, strlen(secret));
    zmq_setsockopt(s, ZMQ_CURVE_SERVERKEY, server, strlen(server));
    if (zmq_connect(s, endpoint) != 0)
        return 1;
    srand((unsigned)atoi(argv[3]));
    for (int i = 0; i < atoi(argv[2]); i++) {
        unsigned char frame[300];
        size_t        size = (size_t)(rand() % (int)sizeof frame);

        for (size_t k = 0; k < size; k++)
            frame[k] = (unsigned char)rand();
        if (i % 2 && size > 20)
            memcpy(frame, "DGCP\1\0", 6), frame[6] = (unsigned char)(rand() % 20), frame[7] = 0, memset(frame + 8, 0, 8);
        zmq_send(s, frame, size, 0);
    }
    zmq_close(s);
    zmq_ctx_term(context);
    return 0;
}
