/* crew.h: ranks as threads of one test: each opens the communicator for itself. */
#ifndef DG_TESTS_RANKS_CREW_H
#define DG_TESTS_RANKS_CREW_H

#include "tests/check.h"

#include "runtime/comm_shm.h"

enum { CREW_MOST = 8 };

/* What a rank does; NULL, or what went wrong. */
typedef const char *crew_fn(dg_comm *c, void *ctx);

/* Runs fn as every rank, each on a thread of its own, and asserts that nothing went wrong. */
void crew_run(int ranks, crew_fn *fn, void *ctx);

#define WRONG_UNLESS(x)         \
    do {                        \
        if (!(x))               \
            return #x;          \
    } while (0)

#endif
