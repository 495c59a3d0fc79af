/* ring.h: a bounded queue of pointers between threads that keeps the order of item numbers; it can
 * end and be stopped. */
#ifndef DG_BASE_RING_H
#define DG_BASE_RING_H

#include <detrgraph/core.h>

typedef struct dg_ring dg_ring;

/* Producers put item k under its number, in any order; the consumer takes 0, 1, 2, ... put(k)
 * blocks while k >= taken + capacity. */
dg_ring *dg_ring_open(int capacity);
void dg_ring_close(dg_ring **r);                     /* no thread may be waiting in it */
int dg_ring_put(dg_ring *r, uint64_t k, void *item); /* 0, or -DG_ESTOP after dg_ring_stop */
int dg_ring_take(dg_ring *r, void **item); /* next in order; -DG_ESTOP after stop or past the end */
void *dg_ring_peek(const dg_ring *r);      /* what take would give without waiting, or NULL */
void dg_ring_end(dg_ring *r, uint64_t n);  /* n items in total: taking item n returns -DG_ESTOP */
void dg_ring_stop(dg_ring *r);             /* wakes all waiting threads */
int dg_ring_ready(const dg_ring *r);       /* items that can be taken without waiting; for tests */

#endif
