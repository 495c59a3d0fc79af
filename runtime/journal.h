/* journal.h: OUT/metrics.jsonl: one JSON object a step and one an evaluation, a line each, flushed as written. */
#ifndef DG_RUNTIME_JOURNAL_H
#define DG_RUNTIME_JOURNAL_H

#include "base/metrics.h"
#include <detrgraph/core.h>

typedef struct dg_journal dg_journal;

/* Opens for appending; lines of steps after `step` are dropped first: a resumed run writes them again. */
int  dg_journal_open(dg_journal **j, const char *path, int64_t step, dg_diag *d) DG_MUST_USE;
void dg_journal_close(dg_journal **j);

/* {"step":..,"epoch":..,"evaluate":"scope",NAME:VALUE,...}; scope NULL: a training step. */
int dg_journal_add(dg_journal *j, int64_t step, int64_t epoch, const char *scope, const dg_metrics *m, dg_diag *d) DG_MUST_USE;

#endif
