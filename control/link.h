/* link.h: a rank's side of the control plane: a thread that talks to the coordinator (DEALER, SUB),
 * beats ten times a second, and ends the rank's collectives when the run is over. The compute
 * thread calls the functions below; none of them touches ZeroMQ.
 *
 * Order of calls: open; meet, for each round of facts; folder; then for each batch begin and, after
 * a step, orders; fail or bye; close. */
#ifndef DG_CONTROL_LINK_H
#define DG_CONTROL_LINK_H

#include "base/diag.h"
#include "control/message.h"
#include "control/elastic.h"
#include "control/recorder.h"
#include "control/socket.h"

typedef struct dg_link dg_link;

/* Identity and peer. The recorder (NULL: none) is used until close. on_over (NULL: none) is called
 * once, by the link's thread, when the run is over: it should end the compute thread's waits. */
typedef struct dg_link_conf {
    const dg_ticket *ticket;
    uint32_t rank, attempt;
    /* launcher on another machine: receives state, reports dead processes */
    bool launcher;
    dg_recorder *recorder;
    void (*on_over)(void *ctx);
    void *ctx;
} dg_link_conf;
int dg_link_open(dg_link **l, const dg_link_conf *conf, dg_diag *d) DG_MUST_USE;
void dg_link_close(dg_link **l);

/* All functions below accept NULL for "no control plane" and then succeed without doing
 * anything. */
dg_recorder *dg_link_recorder(dg_link *l);
void dg_link_folder(dg_link *l, const char *path); /* called by rank 0 */

/* Sends this round's facts and waits until all ranks have sent theirs and agree; else -DG_ESTOP. */
int dg_link_meet(dg_link *l, const dg_rows *facts, dg_diag *d) DG_MUST_USE;
/* Sends the word of the batch that begins and waits until the previous batch is confirmed, usually
 * long ago. -DG_ESTOP: the run is over. */
int dg_link_begin(dg_link *l, const dg_word *w, dg_diag *d) DG_MUST_USE;

/* Sends digests of values that are declared equal on all ranks; the coordinator compares. */
void dg_link_see(dg_link *l, const dg_sight *s);

/* The coordinator's orders after the batch of the latest begin, equal on every rank. */
typedef struct dg_orders {
    bool save; /* true once per request */
    bool stop;
} dg_orders;
int dg_link_orders(dg_link *l, dg_orders *o, dg_diag *d) DG_MUST_USE;
/* for the batch of the latest begin; 0: none was set; negative: the schedule's */
double dg_link_lr(dg_link *l);
bool dg_link_over(dg_link *l); /* leave at once and write nothing */
/* The coordinator's latest state; false: none yet. reason: why the run ended, or "". */
bool dg_link_state(dg_link *l, dg_state *state, char *reason, size_t n);
/* For dg_run_train_options.stop: 2 if the run is over; 1 if asked to stop, which ranks learn at
 * different times and must agree on; else 0. */
int dg_link_stop(dg_link *l);

/* Reports that the errors in d end this rank; rc: the status to return. */
void dg_link_fail(dg_link *l, const dg_diag *d, int rc);
void dg_link_bye(dg_link *l);
void dg_link_ask(dg_link *l, const char *verb); /* after a signal to this process: "stop" */
/* For a launcher: joins the link's attempt with this machine; true once ranks are assigned to it.
 * Call repeatedly until then. */
bool dg_link_join(dg_link *l, int node, dg_seat *seat);
/* for a launcher: a rank's process has ended */
void dg_link_gone(dg_link *l, int rank, int64_t process, int status);

/* A store that all ranks share, for the data plane's rendezvous. get waits until the name has been
 * put; the text goes to the arena. */
int dg_link_put(dg_link *l, const char *name, const char *text, dg_diag *d) DG_MUST_USE;
int dg_link_get(dg_link *l, const char *name, const char **text, dg_arena *a, double most_s,
                dg_diag *d) DG_MUST_USE;

#endif
