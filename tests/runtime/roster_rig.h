/* roster_rig.h: a roster that is fed by hand, for tests of what it concludes. Ranks come from host "host" with processes 100 ... */
#ifndef TESTS_RUNTIME_ROSTER_RIG_H
#define TESTS_RUNTIME_ROSTER_RIG_H

#include "tests/check.h"

#include "runtime/roster.h"

typedef struct fixture {
    dg_env     env;
    dg_str     log;
    dg_roster *r;
    int        ranks;
    dg_diag   *d;
} fixture;

int roster_set_up(void **state);
int roster_tear_down(void **state);

dg_rows facts(const char *lr, const char *device);
void    say(fixture *f, int rank, dg_message m, double now);
void    begin(fixture *f, int ranks); /* that have come and agree, at time 0 */
void    word(fixture *f, int rank, int64_t batch, uint64_t schedule, double now);
void    beat(fixture *f, int rank, const char *node, bool waits, double since, double now);

const dg_state *state_of(const fixture *f);
/* The run failed with this error, whose text holds both of these. */
void failed(const fixture *f, const char *id, const char *a, const char *b, bool lost);

#endif
