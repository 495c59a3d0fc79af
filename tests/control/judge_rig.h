/* judge_rig.h: a judge fed by hand, for tests of its verdicts. Ranks run on host "host" with
 * process ids from 100 on. */
#ifndef TESTS_CONTROL_JUDGE_RIG_H
#define TESTS_CONTROL_JUDGE_RIG_H

#include "tests/check.h"

#include "control/judge.h"

typedef struct fixture {
    dg_env env;
    dg_str log;
    dg_judge *r;
    int ranks;
    dg_diag *d;
} fixture;

int roster_set_up(void **state);
int roster_tear_down(void **state);

dg_rows facts(const char *lr, const char *device);
void say(fixture *f, int rank, dg_message m, double now);
void begin(fixture *f, int ranks); /* joined, with equal facts, at time 0 */
void word(fixture *f, int rank, int64_t batch, uint64_t schedule, double now);
void beat(fixture *f, int rank, const char *node, bool waits, double since, double now);

const dg_state *state_of(const fixture *f);
/* Asserts that the run failed with this error, whose text contains a and b. */
void failed(const fixture *f, const char *id, const char *a, const char *b, bool lost);

#endif
