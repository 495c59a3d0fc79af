/* launch.h: a run from the outside: this command once more for every rank, a control plane between them, and again from
 * the last checkpoint when a rank is lost, as often as it may. Nothing that it started stays behind, whatever happens to
 * it. With several machines every one has a launcher; the first has the coordinator. */
#ifndef DG_RUNTIME_LAUNCH_H
#define DG_RUNTIME_LAUNCH_H

#include "base/diag.h"
#include "base/log.h"

enum { DG_LEFT_DONE = 0, DG_LEFT_FAILED = 1, DG_LEFT_STOPPED = 130 }; /* exit codes of ranks, and of the launcher */

typedef struct dg_launch_conf {
    char *const *args, *const *environment; /* of this command; NULL ends each */
    int          ranks;                     /* of this machine; every machine has as many */
    int          threads;                   /* of each rank; 0: its share of the cores */
    bool         control;                   /* false: one process, and no control plane */
    int          nodes, node;               /* machines; which one this is */
    const char  *coordinator;               /* several machines: "HOST:PORT" of the first; the next port is used too */
    const char  *key;                       /* several machines: the file of dg_key_file_make, the same on all */
    double       lost_after_s;
    int          max_restarts;
    bool         elastic;                   /* start again with fewer ranks rather than with a new one */
    const dg_env *env;                      /* log: what the launcher says, from any thread */
    void       (*failed)(void *ctx, const dg_diag *why); /* said as soon as it is known */
    void        *ctx;
} dg_launch_conf;

/* Runs until all is over; *code: the exit code. An error: it could not even begin. */
int dg_launch_run(const dg_launch_conf *c, int *code, dg_diag *d) DG_MUST_USE;

#endif
