/* rates.c: see rates.h. */
#include "control/rates.h"

#include <string.h>

double dg_rates_at(const dg_rates *r, int64_t batch)
{
    double lr = 0;

    for (int i = 0; i < r->n && r->v[i].from <= batch; i++)
        lr = r->v[i].lr;
    return lr;
}

void dg_rates_set(dg_rates *r, int64_t from, double lr)
{
    while (r->n && r->v[r->n - 1].from >= from)
        r->n--;
    if (r->n == DG_RATES_MAX)
        memmove(r->v, r->v + 1, (size_t)--r->n * sizeof *r->v);
    r->v[r->n++] = (dg_rate){ from, lr };
}
