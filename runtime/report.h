/* report.h: a run as a page for people: one HTML file that opens without a network. Written from what lies in the run's
 * folder, of a run that is done, goes on or failed; of several runs, with their curves in one picture and a table of what
 * differs. */
#ifndef DG_RUNTIME_REPORT_H
#define DG_RUNTIME_REPORT_H

#include "base/str.h"
#include <detrgraph/core.h>

int dg_report_write(const char *path, const char *const *folders, int n, dg_diag *d) DG_MUST_USE;
/* The scores, speed and settings of the runs: JSON, or a table for a terminal. */
int dg_report_summary(dg_str *out, const char *const *folders, int n, bool json, dg_diag *d) DG_MUST_USE;

#endif
