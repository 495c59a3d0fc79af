/* trace.h: records some steps in full, for Perfetto (ui.perfetto.dev) and chrome://tracing:
 * OUT/trace.json has a process per rank, and in it the step with nodes and instructions, loader
 * threads, collectives and the control plane. Only the rank's compute thread writes. All functions
 * accept NULL for "no trace". */
#ifndef DG_REPORT_TRACE_H
#define DG_REPORT_TRACE_H

#include "control/recorder.h"
#include "comm/world.h"
#include "tensor/plan.h"

typedef struct dg_trace dg_trace;

/* Further events of a rank are only counted. */
enum { DG_TRACE_EVENTS = 200000 };

/* loaders: one lane per thread */
typedef enum dg_timeline {
    DG_TIMELINE_STEP = 1,
    DG_TIMELINE_DEVICE, /* which works later than it is called */
    DG_TIMELINE_CONTROL,
    DG_TIMELINE_COLLECTIVE,
    DG_TIMELINE_LOADER = 16
} dg_timeline;

/* Sets the clocks of all ranks to 0 together. */
int dg_trace_open(dg_trace **t, const dg_world *w, dg_diag *d) DG_MUST_USE;
void dg_trace_close(dg_trace **t);

/* Adds a span from begin_s to end_s of the monotonic clock; name and at (NULL: none) are copied. */
void dg_trace_span(dg_trace *t, int lane, double begin_s, double end_s, const char *at,
                   const char *fmt, ...) DG_PRINTF(6, 7);
/* An instruction has run, in order, on the lane STEP or DEVICE; adjacent ones of one node form a
 * span of the node. */
void dg_trace_instr(dg_trace *t, int lane, const dg_plan *plan, int instr, double begin_s,
                    double end_s);
void dg_trace_end_node(dg_trace *t);                           /* ends the current node's span */
void dg_trace_number(dg_trace *t, const char *name, double v); /* at the current time */

/* Collects all ranks' events into one file, written by rank 0; r has this rank's collectives. If
 * writing fails, `file` gets the reason and all ranks return 0; d is for failures of the joint
 * work. */
int dg_trace_write(dg_trace *t, const dg_world *w, const dg_recorder *r, const char *path,
                   dg_diag *file, dg_diag *d) DG_MUST_USE;

#endif
