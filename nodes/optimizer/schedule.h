/* schedule.h: how the learning rate changes over a run. */
#ifndef DG_NODES_OPTIMIZER_SCHEDULE_H
#define DG_NODES_OPTIMIZER_SCHEDULE_H

#include <detrgraph/node.h>

typedef struct dg_schedule_conf {
    int64_t decay, first;
    double to, gamma;
    dg_when warmup, hold;
    dg_ints milestones;
} dg_schedule_conf;

extern const dg_attr dg_schedule_attrs[];

/* Reports settings that would have no effect. */
void dg_schedule_check(dg_check *k, const dg_schedule_conf *s);
/* The factor on the learning rate at the clock's step; s NULL: 1. */
double dg_schedule_factor(const dg_schedule_conf *s, const dg_clock *clock);

#endif
