/* socket.h: sockets of the control plane: ZeroMQ with CURVE on every one, behind a few calls. A hub and its sockets
 * belong to one thread; they may be opened in another before it begins. */
#ifndef DG_RUNTIME_SOCKET_H
#define DG_RUNTIME_SOCKET_H

#include "base/str.h"

enum { DG_KEY_TEXT = 41 }; /* a CURVE key as text, with its NUL */

typedef struct dg_key_pair {
    char public_key[DG_KEY_TEXT], secret_key[DG_KEY_TEXT];
} dg_key_pair;
int dg_key_make(dg_key_pair *k, dg_diag *d) DG_MUST_USE;
int dg_key_derive(dg_key_pair *k, dg_diag *d) DG_MUST_USE; /* the public half of secret_key */

typedef struct dg_hub    dg_hub;
typedef struct dg_socket dg_socket;

dg_hub *dg_hub_open(void);
void    dg_hub_close(dg_hub **h); /* closes its sockets; gives what was sent up to 1 s to leave */

/* Whoever connects to this hub's sockets must have one of these public keys; who ("rank", "ctl") is told with each
 * message. Names and keys are kept by pointer. */
typedef struct dg_admitted {
    const char *public_key, *who;
} dg_admitted;
int  dg_hub_admit(dg_hub *h, const dg_admitted *list, int n, dg_diag *d) DG_MUST_USE;
int  dg_hub_n_refused(const dg_hub *h); /* peers with other keys, so far */

typedef enum dg_socket_kind { DG_ROUTER, DG_DEALER, DG_PUBLISHER, DG_SUBSCRIBER } dg_socket_kind;

/* Binds with the pair as the server's, or (server not NULL) connects to the server of that public key. */
int dg_socket_open(dg_socket **s, dg_hub *h, dg_socket_kind kind, const char *endpoint, const dg_key_pair *own,
                   const char *server, dg_diag *d) DG_MUST_USE;
const char *dg_socket_endpoint(const dg_socket *s); /* as bound: with the port that "tcp://127.0.0.1:*" got */

typedef struct dg_peer { /* who sent; where an answer of a router goes */
    unsigned char n, id[255];
    char          who[8]; /* as admitted; "" elsewhere */
} dg_peer;
/* Never waits. False: no peer there or no room, and the frame is gone. to: for a router. */
bool dg_socket_send(dg_socket *s, const dg_peer *to, const void *frame, size_t n);
/* Has this peer of a router closed its connection, or its system for it? It is sent the probe, to find out. */
bool dg_socket_is_closed(dg_socket *s, const dg_peer *to, const void *probe, size_t n);
/* The next frame, into a zeroed or used string; false: there is none. from: of a router, may be NULL elsewhere. */
bool dg_socket_receive(dg_socket *s, dg_peer *from, dg_str *frame);

/* Waits until a socket or one of the descriptors has something, at most ms. */
void dg_hub_wait(dg_hub *h, const int *fds, int n, int ms);

#endif
