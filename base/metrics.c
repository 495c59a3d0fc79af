/* metrics.c: collects the numbers and notes that evaluation sinks report; compares `until="..."`
 * moments with the clock. */
#include "base/metrics.h"

#include <string.h>

dg_metrics *dg_metrics_open(void)
{
    dg_arena *a = dg_arena_open();
    dg_metrics *m = DG_NEW(a, dg_metrics);

    m->arena = a;
    return m;
}

void dg_metrics_close(dg_metrics **m)
{
    if (!*m)
        return;
    dg_arena *a = (*m)->arena;

    dg_arena_close(&a);
    *m = NULL;
}

void dg_metric(dg_metrics *m, double value, const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    DG_PUSH(m->arena, m->names, dg_vprintf(m->arena, fmt, ap));
    DG_PUSH(m->arena, m->values, value);
    va_end(ap);
}

void dg_metric_note(dg_metrics *m, const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    DG_PUSH(m->arena, m->notes, dg_vprintf(m->arena, fmt, ap));
    va_end(ap);
}

const double *dg_metrics_find(const dg_metrics *m, const char *name)
{
    for (int i = m->names.n - 1; i >= 0; i--)
        if (strcmp(m->names.items[i], name) == 0)
            return &m->values.items[i];
    return NULL;
}

bool dg_reached(const dg_when *w, const dg_clock *c)
{
    switch (w->unit) {
    case DG_STEPS:
        return (double)c->step >= w->n;
    case DG_EPOCHS:
        return (double)c->epoch >= w->n;
    case DG_MINUTES:
        return c->minutes >= w->n;
    case DG_SHARE:
        return c->n_steps > 0 && (double)c->step >= w->n / 100 * (double)c->n_steps;
    case DG_NEVER:
        break;
    }
    return false;
}
