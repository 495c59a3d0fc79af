/* judge.h: what the coordinator knows about the ranks, and its conclusions: where each is, whose
 * word differs, who is silent, who failed first. Bookkeeping only: messages and times go in, a
 * state to publish and a verdict come out, so that every verdict can be tested without processes or
 * sockets.
 *
 * Words are numbered by batch. A rank begins batch b once batch b-1 is confirmed, i.e. every rank
 * has begun it with the same word. A command given while batch c is the latest confirmed one takes
 * effect after batch c+1, when every rank knows it, however late its messages are. */
#ifndef DG_CONTROL_JUDGE_H
#define DG_CONTROL_JUDGE_H

#include "base/diag.h"
#include "base/log.h"
#include "control/message.h"

typedef struct dg_judge dg_judge;

typedef struct dg_judge_conf {
    int ranks;
    uint32_t attempt;
    double lost_after_s; /* a rank silent for this long counts as lost */
    dg_rates rates;      /* set in earlier attempts */
    const dg_env *env;   /* its log gets warnings about slow and silent ranks */
    /* Reads a rank's current position without asking it, e.g. from its flight recorder; texts go to
     * the arena. NULL: not possible. */
    bool (*look)(void *ctx, int rank, dg_arena *a, dg_beat *out);
    void *ctx;
} dg_judge_conf;

dg_judge *dg_judge_open(const dg_judge_conf *c, double now);
void dg_judge_close(dg_judge **r);

/* Handles a rank's message; ignores those of other attempts and of unknown ranks. */
void dg_judge_take(dg_judge *r, const dg_message *m, double now);
/* True if another process than the sender of this hello is that rank; buf gets its name. */
bool dg_judge_is_taken(const dg_judge *r, const dg_message *hello, char *buf, size_t size);
/* the rank's process ended; status as from wait */
void dg_judge_gone(dg_judge *r, int rank, int status, double now);
/* missed: the rank has been silent for a moment, so its connection should be probed. closed: the
 * probe found it closed; the rank counts as lost soon. */
bool dg_judge_missed(const dg_judge *r, int rank, double now);
void dg_judge_closed(dg_judge *r, int rank);
void dg_judge_tick(dg_judge *r, double now); /* call about ten times a second */
/* Handles a request: status (text "json": as JSON), save, stop, set (text "lr=1e-4"). Appends the
 * answer. False: invalid request. */
bool dg_judge_ask(dg_judge *r, const char *verb, const char *text, dg_str *answer, double now);
/* Ends the run for a reason outside the ranks: "asked twice to stop". */
void dg_judge_end(dg_judge *r, const char *reason);

/* The state to publish; *changed counts its changes. */
const dg_state *dg_judge_state(const dg_judge *r, uint64_t *changed);
/* Why the run failed: errors, first cause first; empty if it has not. */
const dg_diag *dg_judge_verdict(const dg_judge *r);
/* failed because a rank died or went silent: a restart may help */
bool dg_judge_lost(const dg_judge *r);
bool dg_judge_lost_rank(const dg_judge *r, int rank); /* that rank is one of those */
const char *dg_judge_folder(const dg_judge *r);       /* of the run; "" until known */
int64_t dg_judge_saved(const dg_judge *r);            /* last step known to be on disk; -1: none */
int dg_judge_left(const dg_judge *r);                 /* ranks that have said goodbye */
/* evidence is there; the verdict follows within DG_SETTLE_S */
bool dg_judge_is_judging(const dg_judge *r);

#endif
