/* metrics.h: the named numbers and the notes that an evaluation sink reports. */
#ifndef DG_BASE_METRICS_H
#define DG_BASE_METRICS_H

#include "base/arena.h"
#include <detrgraph/node.h>

struct dg_metrics {
    dg_arena *arena;
    DG_VEC(const char *) names;
    DG_VEC(double) values; /* parallel to names */
    DG_VEC(const char *) notes;
};

dg_metrics *dg_metrics_open(void);
void dg_metrics_close(dg_metrics **m);
/* the latest value of that name; NULL if absent */
const double *dg_metrics_find(const dg_metrics *m, const char *name);

#endif
