/* report.h: writes a run's report: one self-contained HTML file, from the files in the run's
 * folder, whether the run is finished, running or failed. For several runs, with common charts and
 * a table of differences. */
#ifndef DG_REPORT_REPORT_H
#define DG_REPORT_REPORT_H

#include "base/str.h"
#include <detrgraph/core.h>

int dg_report_write(const char *path, const char *const *folders, int n, dg_diag *d) DG_MUST_USE;
/* Appends scores, speed and settings of the runs: as JSON, or as a table for a terminal. */
int dg_report_summary(dg_str *out, const char *const *folders, int n, bool json, dg_diag *d)
    DG_MUST_USE;

#endif
