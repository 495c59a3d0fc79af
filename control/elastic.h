/* elastic.h: decides which machines take part in an attempt of an elastic run, and which ranks each
 * gets. After a loss the launchers of the remaining machines join; machines that do not join in
 * time are left out, and the ranks are renumbered machine by machine. Bookkeeping only: the caller
 * reports joins and losses. */
#ifndef DG_CONTROL_ELASTIC_H
#define DG_CONTROL_ELASTIC_H

#include "control/judge.h"

typedef struct dg_seat {
    /* this machine's first rank and number of ranks; 0 ranks: left out */
    int first, ranks;
    int all, machines; /* totals of the attempt */
} dg_seat;

typedef struct dg_elastic {
    uint32_t attempt; /* the attempt being assembled, or running */
    int nodes;
    bool closed; /* assembled: machines that are not present are left out */
    struct dg_elastic_machine {
        int first, ranks;
        bool present;
    } *machines;
} dg_elastic;

/* The first attempt: all machines, with `ranks` ranks each. */
void dg_elastic_open(dg_elastic *m, dg_arena *a, int nodes, int ranks);
/* Starts assembling another attempt after `over`: lost ranks are not replaced. The first machine
 * keeps at least one rank, because it has the run's folder. */
void dg_elastic_reopen(dg_elastic *m, uint32_t attempt, const dg_judge *over);
void dg_elastic_join(dg_elastic *m, int64_t node);
bool dg_elastic_complete(const dg_elastic *m); /* all expected machines have joined */
void dg_elastic_close(dg_elastic *m);
dg_seat dg_elastic_seat(const dg_elastic *m, int64_t node);

#endif
