/* coordinator.h: the launcher's side of the control plane: a thread that receives from ranks and
 * `detrgraph ctl` (ROUTER), feeds the judge, and publishes the state that all ranks follow (PUB),
 * at once when it changes and ten times a second. */
#ifndef DG_CONTROL_COORDINATOR_H
#define DG_CONTROL_COORDINATOR_H

#include "control/elastic.h"
#include "control/socket.h"

typedef struct dg_coordinator dg_coordinator;

typedef struct dg_coordinator_conf {
    const char *commands, *events; /* endpoints to bind, and of `detrgraph ctl` */
    const char *asks;
    const char *also_commands, *also_events; /* bound as well; or NULL */
    const dg_key_pair *server;
    const char *rank_key, *ctl_key; /* public keys that are admitted */
    double lost_after_s;
    int nodes, ranks; /* machines; ranks per machine at first */
    const dg_env *env;
    /* as in dg_judge_conf; called from the thread */
    bool (*look)(void *ctx, int rank, dg_arena *a, dg_beat *out);
    void *ctx;
} dg_coordinator_conf;

int dg_coordinator_open(dg_coordinator **c, const dg_coordinator_conf *conf, dg_diag *d)
    DG_MUST_USE;
void dg_coordinator_close(dg_coordinator **c);
const char *dg_coordinator_commands(const dg_coordinator *c); /* endpoints as bound */
const char *dg_coordinator_events(const dg_coordinator *c);
const char *dg_coordinator_asks(const dg_coordinator *c);

/* Called by the launcher's thread. begin starts an attempt with `ranks` ranks and discards the
 * previous one. */
void dg_coordinator_begin(dg_coordinator *c, int ranks, uint32_t attempt);
/* Starts another attempt on the machines that remain: call `call`, then, once all have gathered or
 * time is up, `seat`, which begins the attempt and tells each launcher its ranks. */
void dg_coordinator_reopen(dg_coordinator *c, uint32_t attempt);
bool dg_coordinator_gathered(dg_coordinator *c);
dg_seat dg_coordinator_seat(dg_coordinator *c); /* returns the first machine's seat */
void dg_coordinator_gone(dg_coordinator *c, int rank, int status);
void dg_coordinator_ask(dg_coordinator *c, const char *verb, const char *text);
void dg_coordinator_end(dg_coordinator *c, const char *reason);

/* A descriptor that becomes readable when dg_coordinator_look has news; look drains it. */
int dg_coordinator_fd(const dg_coordinator *c);
typedef struct dg_view {
    dg_over over;
    bool lost;    /* dg_judge_lost */
    int64_t met;  /* rounds of meet in which the ranks agreed: two before the first step */
    int left;     /* ranks that have said goodbye */
    bool judging; /* dg_judge_is_judging */
    int64_t saved;
    char folder[4096]; /* of the run; "" until known */
} dg_view;
/* Also appends the verdict's errors to d, once. */
void dg_coordinator_look(dg_coordinator *c, dg_view *v, dg_diag *d);

#endif
