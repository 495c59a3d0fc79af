/* profile.h: where the time of steps goes, by node and by op: what bench prints, and what a run keeps of itself. */
#ifndef DG_RUNTIME_PROFILE_H
#define DG_RUNTIME_PROFILE_H

#include "base/arena.h"
#include "base/str.h"
#include "tensor/plan.h"

typedef struct dg_share { /* of the time of all steps that were added up */
    const char *name;
    double      seconds, flops, bytes, ref_s; /* ref_s: in reference kernels */
} dg_share;
typedef DG_VEC(dg_share) dg_shares;

typedef struct dg_profile {
    dg_arena *arena;
    int64_t   steps;
    dg_share  all;
    dg_shares nodes, ops; /* names: of the nodes' paths, and of ops */
} dg_profile;

dg_profile *dg_profile_open(void);
void        dg_profile_close(dg_profile **p);
/* One instruction of a plan has taken so long; the program's names outlive p. */
void dg_profile_add(dg_profile *p, const dg_plan *plan, int instr, double seconds);
void dg_profile_sort(dg_profile *p); /* what takes longest comes first */
/* "KEY":[{"name","seconds","gflops","gb","ref_seconds"},...] of one step. */
void dg_profile_json(dg_str *s, const char *key, const dg_shares *list, int64_t steps);

#endif
