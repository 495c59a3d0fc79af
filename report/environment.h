/* environment.h: what this machine offers a run (processor, memory, limits, libraries, GPUs), and
 * what is missing. */
#ifndef DG_REPORT_ENVIRONMENT_H
#define DG_REPORT_ENVIRONMENT_H

#include "base/arena.h"

typedef struct dg_finding_row {
    const char *topic, *name; /* e.g. "memory", "shared" */
    const char *value;
    const char *brings; /* the benefit of changing it; NULL: nothing to improve */
} dg_finding_row;

typedef DG_VEC(dg_finding_row) dg_environment;

/* Rows of one topic are adjacent. Reads files under /proc and /sys; starts no process. */
void dg_environment_read(dg_environment *e, dg_arena *a);

#endif
