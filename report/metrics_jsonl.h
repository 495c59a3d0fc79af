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

/* {"step":..,"epoch":..,"evaluate":"scope",NAME:VALUE,...}; scope NULL: a training step. */
int dg_metrics_jsonl_add(dg_metrics_jsonl *j, int64_t step, int64_t epoch, const char *scope,
                         const dg_metrics *m, dg_diag *d) DG_MUST_USE;

#endif
