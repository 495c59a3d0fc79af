/* control_rig.h: a coordinator over real sockets, for tests of the control plane. */
#ifndef TESTS_CONTROL_CONTROL_RIG_H
#define TESTS_CONTROL_CONTROL_RIG_H

#include "tests/check.h"

#include <pthread.h>

#include "base/log.h"
#include "control/coordinator.h"
#include "control/control_file.h"
#include "control/link.h"

/* PATIENCE: looks, a hundred a second, before something is missed; a busy machine is slow */
enum { RANKS = 3, PATIENCE = 12000 };

typedef struct fixture {
    dg_arena *a;
    dg_diag *d;
    pthread_mutex_t lock; /* guards log */
    dg_str log;
    dg_env env;
    dg_key_pair server, rank_key, ctl_key;
    dg_coordinator *c;
    dg_ticket ticket;
    char folder[64];
} fixture;

bool logged(fixture *f, const char *text); /* waits until the log has the text */
dg_view look(fixture *f);                  /* what the coordinator knows */
/* Waits for an error, which must be this one and the only one. */
void failed_with(fixture *f, const char *id, const char *text);
int control_set_up(void **state);
int control_tear_down(void **state);

#endif
