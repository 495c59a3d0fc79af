/* link.h: the control plane as a rank sees it: a thread that speaks with the coordinator (DEALER, SUB), beats ten times a
 * second, and ends the rank's collectives when the run is over. The compute thread calls what stands here; none of it
 * touches ZeroMQ.
 *
 * Order of calls: open; meet, as often as there is something to compare; folder; then for each batch begin and, after a
 * step, orders; fail or bye; close. */
#ifndef DG_RUNTIME_LINK_H
#define DG_RUNTIME_LINK_H

#include "base/diag.h"
#include "runtime/message.h"
#include "runtime/muster.h"
#include "runtime/recorder.h"
#include "runtime/socket.h"

typedef struct dg_link dg_link;

/* Who this is and whom to talk to. The recorder (NULL: none) is used until close. on_over (NULL: none) is called once
 * from the link's thread when the run is over: it ends what the compute thread may wait for. */
typedef struct dg_link_conf {
    const dg_ticket *ticket;
    uint32_t         rank, attempt;
    bool             launcher; /* of another machine: it hears, and speaks of processes that ended, but is no rank */
    dg_recorder     *recorder;
    void           (*on_over)(void *ctx);
    void            *ctx;
} dg_link_conf;
int  dg_link_open(dg_link **l, const dg_link_conf *conf, dg_diag *d) DG_MUST_USE;
void dg_link_close(dg_link **l);

/* Every call below takes NULL for "no control plane" and then does nothing, successfully. */
dg_recorder *dg_link_recorder(dg_link *l);
void dg_link_folder(dg_link *l, const char *path); /* of rank 0 */

/* Waits until all ranks have told theirs, of this round, and agree; else -DG_ESTOP. */
int dg_link_meet(dg_link *l, const dg_rows *facts, dg_diag *d) DG_MUST_USE;
/* Tells the word of the batch that begins and waits until the batch before was confirmed, which it long was. -DG_ESTOP:
 * the run is over. */
int dg_link_begin(dg_link *l, const dg_word *w, dg_diag *d) DG_MUST_USE;

/* What this rank has seen of values that are declared alike; the coordinator compares. */
void dg_link_see(dg_link *l, const dg_sight *s);

/* What the coordinator wants after the batch of the last begin: the same answer on every rank. */
typedef struct dg_orders {
    bool save; /* once for each time that it was asked for */
    bool stop;
} dg_orders;
int    dg_link_orders(dg_link *l, dg_orders *o, dg_diag *d) DG_MUST_USE;
double dg_link_lr(dg_link *l);   /* for the batch of the last begin; 0: nobody has set one; below 0: the schedule's */
bool   dg_link_over(dg_link *l); /* leave, write nothing */
/* What the coordinator said last; false: it has not said anything yet. reason: of the end, or "". */
bool   dg_link_state(dg_link *l, dg_state *state, char *reason, size_t n);
/* For dg_run_train_options.stop: 2 when the run is over; 1 when it was asked to stop, which ranks that hear of it at
 * different moments must agree on; else 0. */
int    dg_link_stop(dg_link *l);

/* The errors in d end this rank; rc as they were returned. */
void dg_link_fail(dg_link *l, const dg_diag *d, int rc);
void dg_link_bye(dg_link *l, int rc);
void dg_link_ask(dg_link *l, const char *verb); /* a signal came to this process: "stop" */
/* A launcher's: here is this machine, for the link's attempt; true: it has its seat now. To be asked again until then. */
bool dg_link_join(dg_link *l, int node, dg_seat *seat);
void dg_link_gone(dg_link *l, int rank, int64_t process, int status); /* a launcher's: a rank has ended */

/* A store that all ranks share, for rendezvous of a data plane. get waits until somebody has put the name; the text
 * goes to the arena. */
int dg_link_put(dg_link *l, const char *name, const char *text, dg_diag *d) DG_MUST_USE;
int dg_link_get(dg_link *l, const char *name, const char **text, dg_arena *a, double most_s, dg_diag *d) DG_MUST_USE;

#endif
