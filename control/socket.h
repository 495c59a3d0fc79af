/* socket.h: sockets of the control plane: ZeroMQ with CURVE, behind a few calls. A hub and its
 * sockets belong to one thread, which may start after they are opened. */
#ifndef DG_CONTROL_SOCKET_H
#define DG_CONTROL_SOCKET_H

#include "base/str.h"

enum { DG_KEY_TEXT = 41 }; /* a CURVE key as text, with its NUL */

typedef struct dg_key_pair {
    char public_key[DG_KEY_TEXT], secret_key[DG_KEY_TEXT];
} dg_key_pair;
int dg_key_make(dg_key_pair *k, dg_diag *d) DG_MUST_USE;
int dg_key_derive(dg_key_pair *k, dg_diag *d) DG_MUST_USE; /* computes public_key from secret_key */

typedef struct dg_hub dg_hub;
typedef struct dg_socket dg_socket;

int dg_hub_open(dg_hub **h, dg_diag *d) DG_MUST_USE;
void dg_hub_close(dg_hub **h); /* closes its sockets; pending messages get up to 1 s to be sent */

/* Only peers with one of these public keys may connect to the hub's sockets: "ctl" to DG_ASKS, the
 * others to the others; `who` ("rank", "ctl") comes with each of their messages. Names and keys are
 * kept by pointer. */
typedef struct dg_admitted {
    const char *public_key, *who;
} dg_admitted;
int dg_hub_admit(dg_hub *h, const dg_admitted *list, int n, dg_diag *d) DG_MUST_USE;
/* Failed handshakes. For a server: those with peers whose keys it does not know. For a socket that
 * connects: those since the last success; its own key, or the server's, is wrong. */
int dg_hub_n_refused(const dg_hub *h);

/* DG_ASKS: a router for short questions; a peer that sends more than DG_ASK_MAX bytes at once is
 * disconnected, and only a few questions wait. */
enum { DG_ASK_MAX = 64 << 10 };
typedef enum dg_socket_kind {
    DG_ROUTER,
    DG_DEALER,
    DG_PUBLISHER,
    DG_SUBSCRIBER,
    DG_ASKS,
} dg_socket_kind;

/* Binds as a server with key pair `own`, or, if server is not NULL, connects to the server with
 * that public key. */
int dg_socket_open(dg_socket **s, dg_hub *h, dg_socket_kind kind, const char *endpoint,
                   const dg_key_pair *own, const char *server, dg_diag *d) DG_MUST_USE;
/* Binds to one address more. */
int dg_socket_bind(dg_socket *s, const char *endpoint, dg_diag *d) DG_MUST_USE;
/* as bound first, with the port that "tcp://127.0.0.1:*" got */
const char *dg_socket_endpoint(const dg_socket *s);

typedef struct dg_peer { /* a sender, and a router's address for the answer */
    unsigned char n, id[255];
    char who[8]; /* its name in dg_admitted; "" for other sockets */
} dg_peer;
/* Never blocks. False: no such peer or no room; the frame is dropped. to: only for routers. */
bool dg_socket_send(dg_socket *s, const dg_peer *to, const void *frame, size_t n);
/* True if this peer of a router has closed its connection, or its system has. Sends the probe to
 * find out. */
bool dg_socket_is_closed(dg_socket *s, const dg_peer *to, const void *probe, size_t n);
/* Receives the next frame into a zeroed or used string; false: none. from: sender, for routers;
 * otherwise may be NULL. */
bool dg_socket_receive(dg_socket *s, dg_peer *from, dg_str *frame);

/* Waits up to ms until a socket or one of the descriptors is readable. */
void dg_hub_wait(dg_hub *h, const int *fds, int n, int ms);

#endif
