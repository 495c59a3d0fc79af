/* muster.h: which machines take part in an attempt of an elastic run, and which ranks are whose. When a rank or a machine
 * was lost, the launchers of all that are still there gather; who has not come in time is left out, and the ranks of the
 * others are numbered anew, machine by machine. Bookkeeping alone: who came and who was lost is told. */
#ifndef DG_RUNTIME_MUSTER_H
#define DG_RUNTIME_MUSTER_H

#include "runtime/roster.h"

typedef struct dg_seat {
    int first, ranks;  /* of this machine: the number of its first rank, and how many; 0: it is left out */
    int all, machines; /* of the attempt */
} dg_seat;

typedef struct dg_muster {
    uint32_t attempt; /* that they gather for, or have */
    int      nodes;
    bool     seated;  /* who is not here now is left out */
    struct dg_mustered {
        int  first, ranks;
        bool here;
    } *machines;
} dg_muster;

/* The first attempt: every machine has as many ranks. */
void dg_muster_open(dg_muster *m, dg_arena *a, int nodes, int ranks);
/* Another one, after this that is over: lost ranks are not started again. The first machine keeps one whatever happens: it
 * has the run's folder. */
void dg_muster_call(dg_muster *m, uint32_t attempt, const dg_roster *over);
void dg_muster_come(dg_muster *m, int64_t node);
bool dg_muster_complete(const dg_muster *m); /* nobody else can be expected */
void dg_muster_close(dg_muster *m);
dg_seat dg_muster_seat(const dg_muster *m, int64_t node);

#endif
