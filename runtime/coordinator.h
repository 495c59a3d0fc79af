/* coordinator.h: the launcher's side of the control plane: a thread that hears the ranks and `detrgraph ctl` (ROUTER),
 * keeps the roster, and publishes the state that all go by (PUB), at once when it changes and ten times a second. */
#ifndef DG_RUNTIME_COORDINATOR_H
#define DG_RUNTIME_COORDINATOR_H

#include "runtime/muster.h"
#include "runtime/socket.h"

typedef struct dg_coordinator dg_coordinator;

typedef struct dg_coordinator_conf {
    const char *commands, *events;       /* where to listen, in ZeroMQ's words */
    const dg_key_pair *server;
    const char *rank_key, *ctl_key;      /* public keys that may come in */
    double      lost_after_s;
    int         nodes, ranks;            /* machines, and how many ranks each has at first */
    const dg_env *env;
    bool      (*look)(void *ctx, int rank, dg_arena *a, dg_beat *out); /* as dg_roster_conf has it; called in the thread */
    void       *ctx;
} dg_coordinator_conf;

int  dg_coordinator_open(dg_coordinator **c, const dg_coordinator_conf *conf, dg_diag *d) DG_MUST_USE;
void dg_coordinator_close(dg_coordinator **c);
const char *dg_coordinator_commands(const dg_coordinator *c); /* endpoints as bound */
const char *dg_coordinator_events(const dg_coordinator *c);

/* From the launcher's thread. begin starts an attempt with so many ranks and forgets the one before. */
void dg_coordinator_begin(dg_coordinator *c, int ranks, uint32_t attempt);
/* For another attempt on those machines that are still there: call, and once all have gathered or enough time has passed, seat,
 * which begins it. Each launcher that has come is told its seat. */
void dg_coordinator_call(dg_coordinator *c, uint32_t attempt);
bool dg_coordinator_gathered(dg_coordinator *c);
dg_seat dg_coordinator_seat(dg_coordinator *c); /* the first machine's own */
void dg_coordinator_gone(dg_coordinator *c, int rank, int status);
void dg_coordinator_ask(dg_coordinator *c, const char *verb, const char *text);
void dg_coordinator_end(dg_coordinator *c, const char *reason);

/* A descriptor that can be read when what look tells has changed; look empties it. */
int dg_coordinator_fd(const dg_coordinator *c);
typedef struct dg_view {
    dg_over     over;
    bool        lost;           /* dg_roster_lost */
    int64_t     met;            /* in so many rounds the ranks agreed: two before the first step */
    int         left;           /* ranks that said good-bye */
    bool        judging;        /* dg_roster_judging */
    int64_t     saved;
    char        folder[4096];   /* of the run, "" until known */
} dg_view;
/* The verdict's errors are appended to d, once. */
void dg_coordinator_look(dg_coordinator *c, dg_view *v, dg_diag *d);

#endif
