/* crew.h: the processes of the ranks of one machine: started, watched, ended. What they are told and when they are started
 * again is launch.c's. */
#ifndef DG_RUNTIME_CREW_H
#define DG_RUNTIME_CREW_H

#include <signal.h>

#include "base/diag.h"
#include "runtime/message.h"
#include "runtime/recorder.h"

typedef struct dg_crew dg_crew;

typedef struct dg_crew_conf {
    char *const *args, *const *environment; /* of this command; NULL ends each */
    int          most;                      /* processes */
    int          threads;                   /* of each; 0: its share of the cores */
    bool         recorders;                 /* each has a flight recorder */
    bool         deaf;                      /* signals do not end them: they hear of them otherwise */
} dg_crew_conf;

/* The mask of signals that holds now is the processes' too, but for `deaf`. */
int  dg_crew_open(dg_crew **c, const dg_crew_conf *conf, dg_diag *d) DG_MUST_USE;
void dg_crew_close(dg_crew **c); /* nothing runs any more */

/* Starts n processes (at most `most`). ticket holds what is the same for all; local_rank, rank (from first on), threads and
 * descriptors are filled in. shared_fd (or -1) is handed to each. After an error some may run: kill them. */
int  dg_crew_start(dg_crew *c, int n, const dg_message *ticket, uint32_t first, int shared_fd, dg_diag *d) DG_MUST_USE;
void dg_crew_kill(const dg_crew *c, int sig); /* those that run */
int  dg_crew_alive(const dg_crew *c);

/* Descriptors that become readable when processes end: for poll; -1: it runs no more. */
int  dg_crew_fd(const dg_crew *c, int i);
/* Takes note of the end of processes; ended (may be NULL) is called for each, with wait's status. */
void dg_crew_reap(dg_crew *c, void (*ended)(void *ctx, int i, int status), void *ctx);
int  dg_crew_status(const dg_crew *c, int i); /* once it has ended */
const dg_recorder *dg_crew_recorder(const dg_crew *c, int i);

/* In a process that a crew started: its ticket, from the number in the environment variable dg_crew_variable. The texts go
 * to the arena. From now on the process dies with its launcher. */
extern const char dg_crew_variable[];
int dg_crew_ticket(dg_message *ticket, const char *number, dg_arena *a, dg_diag *d) DG_MUST_USE;

#endif
