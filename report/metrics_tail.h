/* metrics_tail.h: follows the numbers of a run: each look reads what was appended to
 * metrics.jsonl. */
#ifndef DG_REPORT_METRICS_TAIL_H
#define DG_REPORT_METRICS_TAIL_H

#include "base/arena.h"
#include "base/str.h"

typedef struct dg_metrics_tail dg_metrics_tail;

enum { DG_TRAIL = 60 };

typedef struct dg_now {
    int64_t step, n_steps, epoch; /* n_steps 0: no end is known */
    int64_t n_epochs;             /* 0: no end is known */
    double loss, mean_loss, lr;   /* mean: over some twenty steps; NaN: unknown */
    double images_per_s, step_s;  /* running means */
    /* shares of the step that rank 0 waited for data, and for other ranks */
    double data_share, wait_share;
    double device_share;        /* in which its GPU worked; NaN: it computes on CPUs */
    double memory_bytes;        /* of rank 0 */
    double device_memory_bytes; /* of its GPU, used by all processes; NaN: it computes on CPUs */
    double left_s;              /* negative: unknown */
    double best;                /* AP */
    int64_t best_step;          /* -1: no evaluation yet */
    double ap, constant_ap; /* of the latest evaluation, and of boxes that never move; NaN: none */
    int n_trail;            /* mean losses of equal parts of the steps so far, up to DG_TRAIL */
    double trail[DG_TRAIL];
    /* From run.json: the state, "running" or how it ended ("": no file), and why. If the launcher
     * has recorded why the run failed, state is "failed" and why the launcher's text: a rank knows
     * only what it saw, and a killed one wrote nothing. */
    const char *state, *why;
    const char *fault; /* why metrics.jsonl, which is there, cannot be read; or "" */
} dg_now;

dg_metrics_tail *dg_metrics_tail_open(const char *folder);
void dg_metrics_tail_close(dg_metrics_tail **f);
/* Unknown values are marked as above; texts are valid until the next look. */
const dg_now *dg_metrics_tail_look(dg_metrics_tail *f);

#endif
