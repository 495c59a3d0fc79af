/* rank_processes.h: starts, watches and ends the processes of one machine's ranks. launch.c decides
 * what they are told and when they restart. */
#ifndef DG_CONTROL_RANK_PROCESSES_H
#define DG_CONTROL_RANK_PROCESSES_H

#include <signal.h>

#include "base/diag.h"
#include "control/message.h"
#include "control/recorder.h"

typedef struct dg_rank_processes dg_rank_processes;

typedef struct dg_rank_processes_conf {
    char *const *args, *const *environment; /* of this command; NULL-terminated */
    int most;                               /* most processes at a time */
    int threads;                            /* per process; 0: an equal share of the cores */
    bool recorders;                         /* give each a flight recorder */
    bool ignore_signals; /* block signals in the processes: the control plane tells them to stop */
} dg_rank_processes_conf;

/* Processes inherit the current signal mask, unless `ignore_signals`. */
int dg_rank_processes_open(dg_rank_processes **c, const dg_rank_processes_conf *conf, dg_diag *d)
    DG_MUST_USE;
void dg_rank_processes_close(dg_rank_processes **c); /* all processes must have ended */

/* Starts n <= `most` processes. ticket holds the common part; local_rank, rank (from `first` on),
 * threads and descriptors are filled in. shared_fd (or -1) is passed to each. On failure some may
 * be running: kill them. */
int dg_rank_processes_start(dg_rank_processes *c, int n, const dg_message *ticket, uint32_t first,
                            int shared_fd, dg_diag *d) DG_MUST_USE;
void dg_rank_processes_kill(const dg_rank_processes *c, int sig); /* signals those that run */
int dg_rank_processes_alive(const dg_rank_processes *c);

/* A descriptor that becomes readable when process i ends, for poll; -1: it has ended. */
int dg_rank_processes_fd(const dg_rank_processes *c, int i);
/* Collects ended processes; calls `ended` (may be NULL) for each, with the status from wait. */
void dg_rank_processes_reap(dg_rank_processes *c,
                            void (*ended)(void *ctx, int i, int64_t process, int status),
                            void *ctx);
int dg_rank_processes_status(const dg_rank_processes *c, int i); /* after it has ended */
const dg_recorder *dg_rank_processes_recorder(const dg_rank_processes *c, int i);

/* In a rank's process: reads its ticket; number is the value of the environment variable
 * dg_rank_processes_variable. Texts go to the arena. From then on the process dies with its
 * launcher. */
extern const char dg_rank_processes_variable[];
int dg_rank_processes_ticket(dg_message *ticket, const char *number, dg_arena *a, dg_diag *d)
    DG_MUST_USE;

#endif
