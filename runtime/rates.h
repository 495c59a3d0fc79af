/* rates.h: the learning rates that people have set in a run, each from a batch on. Batches that are done again after a restart
 * have the rates that they had. */
#ifndef DG_RUNTIME_RATES_H
#define DG_RUNTIME_RATES_H

#include <stdint.h>

enum { DG_RATES_MAX = 32 };

typedef struct dg_rate {
    int64_t from; /* the first batch that has it */
    double  lr;   /* below 0: the schedule's again */
} dg_rate;

typedef struct dg_rates {
    int     n;
    dg_rate v[DG_RATES_MAX]; /* ascending */
} dg_rates;

/* What a batch has; 0: nobody has set one. */
double dg_rates_at(const dg_rates *r, int64_t batch);
/* From that batch on, whatever was set for later ones. Where all places are taken, the oldest gives way. */
void   dg_rates_set(dg_rates *r, int64_t from, double lr);

#endif
