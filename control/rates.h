/* rates.h: learning rates that people have set in a run, each from a batch on. Batches repeated
 * after a restart use the same rates again. */
#ifndef DG_CONTROL_RATES_H
#define DG_CONTROL_RATES_H

#include <stdint.h>

enum { DG_RATES_MAX = 32 };

typedef struct dg_rate {
    int64_t from; /* the first batch with this rate */
    double lr;    /* negative: back to the schedule */
} dg_rate;

typedef struct dg_rates {
    int n;
    dg_rate v[DG_RATES_MAX]; /* ascending by `from` */
} dg_rates;

/* The rate of a batch; 0: none was set. */
double dg_rates_at(const dg_rates *r, int64_t batch);
/* Sets the rate from that batch on, replacing those set for later ones. If the table is full, the
 * oldest entry is dropped. */
void dg_rates_set(dg_rates *r, int64_t from, double lr);

#endif
