/* launch.h: how verbs become processes: every one that computes runs in a child, `run` in as many as it has ranks, because
 * libgomp reads its environment when it is loaded, and what it needs is not what people have set. */
#ifndef DG_CLI_LAUNCH_H
#define DG_CLI_LAUNCH_H

#include <detrgraph/run.h>

#include "runtime/link.h"
#include "runtime/world.h"

typedef struct dg_launch_options {
    int64_t     ranks, threads, max_restarts;
    int64_t     nodes, node;    /* machines; which one this is */
    const char *coordinator, *key;
    double      lost_after_s;
    bool        elastic;
} dg_launch_options;

/* In the process that a person started: runs this command again in processes of its own, waits, leaves the exit code in
 * *code and returns true. In such a process: false. */
bool dg_launch(int threads, int *code);                               /* one, without a control plane */
bool dg_launch_ranks(const dg_launch_options *o, int *code);          /* with one; then dg_rank_open */

/* What a process that dg_launch_ranks made is among the others. */
typedef struct dg_rank {
    dg_arena   *arena;
    dg_world    world; /* both planes, open */
    uint32_t    attempt;
    int         threads; /* of its kernels */
    const char *out;   /* of earlier attempts: the run's folder, or "" */
    dg_recorder *recorder;
    _Atomic(dg_comm *) open; /* world.comm, for the link's thread */
    struct dg_signals *signals;
} dg_rank;
int  dg_rank_open(dg_rank **r, dg_diag *d) DG_MUST_USE;
/* Says how it ended: rc and the errors in d. Errors of one rank alone are printed here, those of several by the
 * launcher, once. */
void dg_rank_tell(dg_rank *r, const dg_diag *d, int rc);
void dg_rank_close(dg_rank **r);

/* machines.c: the data plane between several machines. */
int dg_machines_comm(dg_comm **comm, dg_link *link, const char *coordinator, int rank, int ranks, dg_diag *d) DG_MUST_USE;

#endif
