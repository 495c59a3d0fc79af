/* launch.h: runs ranks as processes: starts this command once per rank, with a control plane
 * between them, and restarts from the latest checkpoint after losing a rank, as often as allowed.
 * Whatever happens to the launcher, no process is left behind. With several machines each has a
 * launcher; the first one has the coordinator. */
#ifndef DG_CONTROL_LAUNCH_H
#define DG_CONTROL_LAUNCH_H

#include "base/diag.h"
#include "base/log.h"

/* exit codes of ranks, and of the launcher */
enum { DG_LEFT_DONE = 0, DG_LEFT_FAILED = 1, DG_LEFT_STOPPED = 130 };

typedef struct dg_launch_conf {
    char *const *args, *const *environment; /* of this command; NULL-terminated */
    int ranks;                              /* per machine */
    int threads;                            /* per rank; 0: an equal share of the cores */
    bool control;                           /* false: a single process without control plane */
    int nodes, node;                        /* number of machines; this one's index */
    /* several machines: "HOST:PORT" of the first one; the next port is used too */
    const char *coordinator;
    const char *key; /* several machines: a file from dg_key_file_make, the same on all */
    double lost_after_s;
    int max_restarts;
    int output;        /* a descriptor: when its reader ends, the run saves and stops; 0: none */
    bool elastic;      /* restart with fewer ranks instead of replacing lost ones */
    const dg_env *env; /* log: the launcher's messages, from any thread */
    void (*failed)(void *ctx, const dg_diag *why); /* called as soon as a failure is known */
    void *ctx;
} dg_launch_conf;

/* Returns when all is over; *code is the exit code. Fails only if the run could not start. */
int dg_launch_run(const dg_launch_conf *c, int *code, dg_diag *d) DG_MUST_USE;

#endif
