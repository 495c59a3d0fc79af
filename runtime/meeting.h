/* meeting.h: how ranks that share memory wait for each other. Collectives are numbered; every rank enters the same ones in
 * the same order, with a word that says what it came to. Some have a second part, which ends when all have done theirs. */
#ifndef DG_RUNTIME_MEETING_H
#define DG_RUNTIME_MEETING_H

#include "kernels/comm.h"

enum {
    DG_MEETING_SLOTS = 64,     /* counters */
    DG_MEETING_UNDER_WAY = 24, /* a rank may have entered so many without waiting: less than half, so that no slot means
                                * two collectives at once, however far ranks are apart */
};

typedef enum dg_errand { DG_TO_REDUCE = 1, DG_TO_REDUCE_PIECES, DG_TO_BROADCAST, DG_TO_GATHER, DG_TO_MEET } dg_errand;

typedef struct dg_meeting {
    struct dg_place *place; /* shared */
    dg_comm         *comm;  /* who waits: its rank, why and cost */
    int              spins, failed; /* failed: status of everything from now on */
    uint64_t         next;  /* number of the collective that is entered next */
    uint32_t         done_target[DG_MEETING_SLOTS];
} dg_meeting;

size_t dg_meeting_bytes(int ranks); /* of zeroed shared memory */
void   dg_meeting_open(dg_meeting *m, void *memory, dg_comm *comm);
void   dg_meeting_leave(dg_meeting *m); /* the others do not wait for this rank any more */
void   dg_meeting_stop(dg_meeting *m);  /* ends all waits of all ranks; from any thread */

int    dg_meeting_status(dg_meeting *m) DG_MUST_USE; /* 0, or why not */

/* a: dg_reduce, or a root; b: dg_dtype or 0; n: elements or bytes. */
uint64_t dg_meeting_word(dg_errand to, int a, int b, size_t n);

/* Enters number m->next; what the others are to see has been written. two: it has a second part. */
uint64_t dg_meeting_enter(dg_meeting *m, uint64_t word, bool two);
bool     dg_meeting_complete(const dg_meeting *m, uint64_t k); /* are all in? */
int      dg_meeting_await(dg_meeting *m, uint64_t k) DG_MUST_USE;
void     dg_meeting_done(dg_meeting *m, uint64_t k); /* this rank has done its part */
int      dg_meeting_await_done(dg_meeting *m, uint64_t k) DG_MUST_USE;

#endif
