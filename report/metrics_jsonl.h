/* metrics_jsonl.h: writes OUT/metrics.jsonl: one JSON object per step and per evaluation, one per
 * line, flushed as written. */
#ifndef DG_REPORT_METRICS_JSONL_H
#define DG_REPORT_METRICS_JSONL_H

#include "base/metrics.h"
#include <detrgraph/core.h>

typedef struct dg_metrics_jsonl dg_metrics_jsonl;

/* Opens for appending; first drops lines of steps after `step`, which a resumed run writes
 * again. */
int dg_metrics_jsonl_open(dg_metrics_jsonl **j, const char *path, int64_t step, dg_diag *d)
    DG_MUST_USE;
void dg_metrics_jsonl_close(dg_metrics_jsonl **j);

/* Writes what waits because an earlier write failed; is_full: more waits than memory should be
 * spent on. */
int dg_metrics_jsonl_flush(dg_metrics_jsonl *j, dg_diag *d) DG_MUST_USE;
bool dg_metrics_jsonl_is_full(const dg_metrics_jsonl *j);
/* The file was deleted while it is open; j NULL: no. again: writes it again, with all its lines. */
bool dg_metrics_jsonl_is_gone(const dg_metrics_jsonl *j);
int dg_metrics_jsonl_again(dg_metrics_jsonl *j, dg_diag *d) DG_MUST_USE;

/* After an error the line waits in memory, and is written before the next one.
 * {"step":..,"epoch":..,"evaluate":"scope",NAME:VALUE,...}; scope NULL: a training step. */
int dg_metrics_jsonl_add(dg_metrics_jsonl *j, int64_t step, int64_t epoch, const char *scope,
                         const dg_metrics *m, dg_diag *d) DG_MUST_USE;

#endif
