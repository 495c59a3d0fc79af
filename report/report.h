/* report.h: writes a run's report: one self-contained HTML file, from the files in the run's
 * folder, whether the run is finished, running or failed. For several runs, with common charts and
 * a table of differences. */
#ifndef DG_REPORT_REPORT_H
#define DG_REPORT_REPORT_H

#include <detrgraph/core.h>

#include "base/arena.h"
#include "base/str.h"

int dg_report_write(const char *path, const char *const *folders, int n, dg_diag *d) DG_MUST_USE;
/* The same page for a server, in memory: it has an empty element "live", loads "live.js", may load
 * nothing else, and its sections are known, so that those that changed can be sent alone. */
typedef struct dg_report_part { /* <section id="ID"> */
    const char *id;
    size_t begin, end; /* in the page */
    uint64_t sum;      /* of its text */
} dg_report_part;
typedef struct dg_report_page {
    dg_arena *arena; /* owns the parts */
    dg_str html;
    int n;
    const dg_report_part *parts;
} dg_report_page;
int dg_report_live(dg_report_page *out, const char *const *folders, int n, dg_diag *d) DG_MUST_USE;
void dg_report_page_free(dg_report_page *p);
/* Appends {"ID":"SUM",...}; the page holds the same, in an element "sums". */
void dg_report_sums(dg_str *out, const dg_report_part *parts, int n);

/* Appends scores, speed and settings of the runs: as JSON, or as a table for a terminal. */
int dg_report_summary(dg_str *out, const char *const *folders, int n, bool json, dg_diag *d)
    DG_MUST_USE;

#endif
