/* roster.h: what the coordinator knows of the ranks, and what it concludes: who is where, whose word differs, who is
 * silent, who failed first. Bookkeeping alone: messages and the time come in, a state to publish and a verdict come
 * out, so that every verdict can be tested without a process or a socket.
 *
 * Words are numbered by batch. A rank begins batch b once batch b-1 is confirmed: every rank had begun it, with the same
 * word. A command that is given while batch c is the last confirmed one holds after batch c+1, so every rank knows of
 * it by then, however late its messages are. */
#ifndef DG_RUNTIME_ROSTER_H
#define DG_RUNTIME_ROSTER_H

#include "base/diag.h"
#include "base/log.h"
#include "runtime/message.h"

typedef struct dg_roster dg_roster;

typedef struct dg_roster_conf {
    int           ranks;
    uint32_t      attempt;
    double        lost_after_s; /* silence that is a lost peer */
    dg_rates      rates;        /* that were set in earlier attempts */
    const dg_env *env;          /* warnings of slow and silent ranks go to its log */
    /* Where a rank is now, if that can be seen without asking it (NULL: never); texts go to the arena. */
    bool        (*look)(void *ctx, int rank, dg_arena *a, dg_beat *out);
    void         *ctx;
} dg_roster_conf;

dg_roster *dg_roster_open(const dg_roster_conf *c, double now);
void       dg_roster_close(dg_roster **r);

/* Messages of ranks; those of other attempts and of ranks that there are not are left out. */
void dg_roster_take(dg_roster *r, const dg_message *m, double now);
void dg_roster_gone(dg_roster *r, int rank, int status, double now); /* its process ended, with wait's status */
/* Nothing was heard of this rank for a moment: does its connection stand? Where it does not, it is soon lost. */
bool dg_roster_missed(const dg_roster *r, int rank, double now);
void dg_roster_closed(dg_roster *r, int rank);
void dg_roster_tick(dg_roster *r, double now);                       /* some ten times a second */
/* What a person asks: status (text "json": for programs), save, stop, set. text: "lr=1e-4". The answer is appended. False: it makes no sense. */
bool dg_roster_ask(dg_roster *r, const char *verb, const char *text, dg_str *answer, double now);
/* The run ends now, for a reason that is none of the ranks': "asked twice to stop". */
void dg_roster_end(dg_roster *r, const char *reason);

/* What the ranks go by; changed counts its changes. */
const dg_state *dg_roster_state(const dg_roster *r, uint64_t *changed);
/* Why it failed: errors, the first cause first; empty while it has not. */
const dg_diag  *dg_roster_verdict(const dg_roster *r);
bool            dg_roster_lost(const dg_roster *r);   /* it failed because a rank died or went silent: again may help */
bool            dg_roster_lost_rank(const dg_roster *r, int rank); /* it is one of those */
const char     *dg_roster_folder(const dg_roster *r); /* of the run, "" until known */
const char     *dg_roster_host(const dg_roster *r, int rank); /* "" until known */
int64_t         dg_roster_saved(const dg_roster *r);  /* last step on disk that is known of, -1 */
int             dg_roster_left(const dg_roster *r);   /* ranks that said good-bye */
bool            dg_roster_judging(const dg_roster *r); /* evidence is there, and a verdict a moment away */

#endif
