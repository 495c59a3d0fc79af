/* trace.h: some steps of a run in full, for Perfetto (ui.perfetto.dev) and chrome://tracing: OUT/trace.json, a process a
 * rank, and of each the step with its nodes and instructions, loader threads, collectives and the control plane. Only the
 * rank's compute thread writes. Every call takes NULL for "nothing is traced". */
#ifndef DG_RUNTIME_TRACE_H
#define DG_RUNTIME_TRACE_H

#include "runtime/recorder.h"
#include "runtime/world.h"
#include "tensor/plan.h"

typedef struct dg_trace dg_trace;

/* More events of a rank are counted, not kept. */
enum { DG_TRACE_EVENTS = 200000 };

typedef enum dg_lane { DG_LANE_STEP = 1, DG_LANE_CONTROL, DG_LANE_COLLECTIVE, DG_LANE_LOADER = 16 } dg_lane; /* loaders: one each */

/* The ranks' clocks are set to 0 together. */
int  dg_trace_open(dg_trace **t, const dg_world *w, dg_diag *d) DG_MUST_USE;
void dg_trace_close(dg_trace **t);

/* From begin_s to end_s of the monotonic clock; name and at (NULL: nothing) are copied. */
void dg_trace_span(dg_trace *t, int lane, double begin_s, double end_s, const char *at, const char *fmt, ...) DG_PRINTF(6, 7);
/* An instruction has ended now; neighbours of one node make a span of the node. */
void dg_trace_instr(dg_trace *t, const dg_plan *plan, int instr, double seconds);
void dg_trace_end_node(dg_trace *t); /* what comes next is none */
void dg_trace_number(dg_trace *t, const char *name, double v); /* now */

/* All ranks' events into one file of rank 0; r holds this rank's collectives. Where the file cannot be written `file` says
 * why, and all ranks still have 0: d is of what they do together. */
int  dg_trace_write(dg_trace *t, const dg_world *w, const dg_recorder *r, const char *path, dg_diag *file, dg_diag *d) DG_MUST_USE;

#endif
