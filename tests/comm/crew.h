/* crew.h: runs ranks as threads of one test; each opens its own communicator. */
#ifndef DG_TESTS_COMM_CREW_H
#define DG_TESTS_COMM_CREW_H

#include "tests/check.h"

#include <semaphore.h>

#include "comm/shm.h"

enum { CREW_MOST = 8 };

/* The body of a rank: returns NULL, or what went wrong. */
typedef const char *crew_fn(dg_comm *c, void *ctx);

/* Runs fn as every rank, one thread each, and asserts that all return NULL. */
void crew_run(int ranks, crew_fn *fn, void *ctx);

/* Bodies: a communicator and its duplicate work at the same time, from two threads; and end
 * together. */
const char *crew_uses_duplicate(dg_comm *c, void *ctx);
const char *crew_stops_duplicate(dg_comm *c, void *ctx);
/* A body: ranks meet and move nothing; two that differ fail, and can be seen to have. */
const char *crew_meets(dg_comm *c, void *ctx);

typedef struct crew_stop {
    dg_comm *c;
    sem_t *done;
} crew_stop;

/* A thread: aborts c while its rank waits, and says when that is done. */
void *crew_stop_soon(void *self);

#define WRONG_UNLESS(x) \
    do {                \
        if (!(x))       \
            return #x;  \
    } while (0)

#endif
