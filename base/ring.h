/* ring.h: a bounded queue of pointers between threads, with an end and an abort. */
#ifndef DG_BASE_RING_H
#define DG_BASE_RING_H

#include <detrgraph/core.h>

typedef struct dg_ring dg_ring;

/* Slots are numbered: a producer puts item k into its place and the consumer takes 0, 1, 2, ...
 * in order, however the producers finish. put(k) waits while k >= taken + capacity. */
dg_ring *dg_ring_open(int capacity);
void     dg_ring_close(dg_ring **r); /* no thread may wait in it any more */
int      dg_ring_put(dg_ring *r, uint64_t k, void *item); /* 0, or -DG_ESTOP after dg_ring_stop */
int      dg_ring_take(dg_ring *r, void **item); /* next in order; -DG_ESTOP after stop, at the end */
void     dg_ring_end(dg_ring *r, uint64_t n); /* there are n items: take number n: -DG_ESTOP */
void     dg_ring_stop(dg_ring *r);            /* wakes everyone */
void    *dg_ring_drain(dg_ring *r);           /* after stop: takes out any item left, or NULL */
int      dg_ring_ready(const dg_ring *r);     /* items waiting in order, for statistics */

#endif
