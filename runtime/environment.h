/* environment.h: what this machine gives a run: processor, memory, limits, libraries, GPUs; and what is missing. */
#ifndef DG_RUNTIME_ENVIRONMENT_H
#define DG_RUNTIME_ENVIRONMENT_H

#include "base/arena.h"

typedef struct dg_finding_row {
    const char *topic, *name; /* "memory", "shared" */
    const char *value;
    const char *brings; /* NULL: all is well; else what changing it would bring */
} dg_finding_row;

typedef DG_VEC(dg_finding_row) dg_environment;

/* Rows of one topic follow one another. Reads files under /proc and /sys, starts nothing. */
void dg_environment_read(dg_environment *e, dg_arena *a);

#endif
