/* launch.h: how verbs become processes: verbs that compute run in a child, `run` in one child per
 * rank, because libgomp reads its environment when it is loaded, and needs other values than the
 * user's. */
#ifndef DG_CLI_LAUNCH_H
#define DG_CLI_LAUNCH_H

#include <detrgraph/run.h>

#include "cli/standby.h"
#include "comm/world.h"
#include "control/link.h"

typedef struct dg_launch_options {
    int64_t ranks, threads, max_restarts;
    int64_t nodes, node; /* number of machines; this one's index */
    const char *coordinator, *key;
    double lost_after_s;
    bool elastic;
    bool ranks_given;   /* by --ranks; a scheduler that starts each rank knows how many there are */
    dg_standby standby; /* name: NULL: this process stands for the whole machine */
} dg_launch_options;

/* In the process that a person started: runs this command again in child processes, waits, stores
 * the exit code in *code and returns true. In such a child: returns false. */
bool dg_launch_alone(int threads, int *code); /* one child, without control plane */
/* a child per rank, with control plane; then dg_rank_open */
bool dg_launch_ranks(const dg_launch_options *o, int *code);

/* A child of dg_launch_ranks as a rank. */
typedef struct dg_rank {
    dg_arena *arena;
    dg_world world; /* with both planes open */
    uint32_t attempt;
    int threads;     /* for its kernels */
    const char *out; /* from earlier attempts: the run's folder, or "" */
    dg_recorder *recorder;
    _Atomic(dg_comm *) open; /* world.comm, for the link's thread */
    struct dg_signals *signals;
} dg_rank;
int dg_rank_open(dg_rank **r, dg_diag *d) DG_MUST_USE;
/* Reports how the rank ended: rc and the errors in d. A single rank prints its errors here; with
 * several ranks the launcher prints them once. */
void dg_rank_tell(dg_rank *r, const dg_diag *d, int rc);
void dg_rank_close(dg_rank **r);

/* machines.c: opens the data plane between several machines. */
int dg_machines_comm(dg_comm **comm, dg_link *link, const char *coordinator, int rank, int ranks,
                     dg_diag *d) DG_MUST_USE;

#endif
