/* profile.h: where the time of steps goes, by node and by op; for bench, and for a run's own
 * records. */
#ifndef DG_REPORT_PROFILE_H
#define DG_REPORT_PROFILE_H

#include "base/arena.h"
#include "base/str.h"
#include "tensor/plan.h"

typedef struct dg_share { /* a share of all steps summed up */
    const char *name;
    double seconds, flops, bytes, ref_s; /* ref_s: seconds in reference kernels */
    double pieces;                       /* of work that the device was given */
} dg_share;
typedef DG_VEC(dg_share) dg_shares;

typedef struct dg_profile {
    dg_arena *arena;
    int64_t steps;
    dg_share all;
    dg_shares nodes, ops; /* names: node paths; ops */
} dg_profile;

dg_profile *dg_profile_open(void);
void dg_profile_close(dg_profile **p);
/* Adds what one instruction of a plan has taken; its program must outlive p. */
void dg_profile_add(dg_profile *p, const dg_plan *plan, int instr, double seconds, int64_t pieces);
void dg_profile_sort(dg_profile *p); /* slowest first */
/* "KEY":[{"name","seconds","gflops","gb","ref_seconds","pieces"},...], per step. */
void dg_profile_json(dg_str *s, const char *key, const dg_shares *list, int64_t steps);

#endif
