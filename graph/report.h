/* report.h: errors of a pipeline. Beside dg_fail it says each fault once, however often a stack
 * repeats it, and notes through which includes the place is reached. */
#ifndef DG_GRAPH_REPORT_H
#define DG_GRAPH_REPORT_H

#include "base/diag.h"
#include "base/map.h"
#include "graph/expand.h"

struct dg_reporter {
    dg_arena *arena;
    dg_diag  *diag;
    dg_map   *seen;  /* places and ids reported so far */
    int       n;     /* errors, also those said before */
    bool      muted; /* the last one had been said before: its notes are dropped too */
    bool      holes; /* something was not expanded: unknown names may stand in it */
};

/* frame may be NULL. All return -DG_EINPUT. */
int  dg_report_fail(dg_reporter *r, const dg_frame *frame, dg_where at, const char *id,
                    const char *fmt, ...) DG_PRINTF(5, 6);
int  dg_report_vfail(dg_reporter *r, const dg_frame *frame, dg_where at, const char *id,
                     const char *fmt, va_list ap) DG_PRINTF(5, 0);
void dg_report_warn(dg_reporter *r, const dg_frame *frame, dg_where at, const char *id,
                    const char *fmt, ...) DG_PRINTF(5, 6);
void dg_report_note(dg_reporter *r, dg_where at, const char *fmt, ...) DG_PRINTF(3, 4);
void dg_report_help(dg_reporter *r, const char *fmt, ...) DG_PRINTF(2, 3);
/* An error that may only follow from a hole: counted, and said unless there is one. */
int dg_report_fail_unless_holes(dg_reporter *r, const dg_frame *frame, dg_where at, const char *id,
                                const char *fmt, ...) DG_PRINTF(5, 6);
/* help: did you mean "x"? if one of the n names is near, else the list of them if it is short. */
void dg_report_nearest(dg_reporter *r, const char *name, const char *const names[], int n,
                       const char *what);

#endif
