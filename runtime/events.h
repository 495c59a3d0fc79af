/* events.h: OUT/events.out.tfevents.detrgraph, which TensorBoard reads: the numbers of metrics.jsonl as scalars, the pictures
 * of evaluations, the graph. Every record is written with one call, and a record that did not fit is taken back, so the
 * file is whole whatever happens to the run; a resumed run goes on in it. */
#ifndef DG_RUNTIME_EVENTS_H
#define DG_RUNTIME_EVENTS_H

#include "base/metrics.h"
#include "graph/graph.h"

typedef struct dg_events dg_events;
extern const char dg_events_name[]; /* of the file */

/* Opens for appending; records of steps after `step`, and what was cut short, are dropped first. A new file gets the graph. */
int  dg_events_open(dg_events **e, const char *path, int64_t step, const dg_graph *g, dg_diag *d) DG_MUST_USE;
void dg_events_close(dg_events **e);

/* Each number under the tag "SCOPE/NAME". */
int dg_events_scalars(dg_events *e, int64_t step, const char *scope, const dg_metrics *m, dg_diag *d) DG_MUST_USE;
/* A JPEG or PNG file, as it is. */
int dg_events_picture(dg_events *e, int64_t step, const char *tag, const char *file, dg_diag *d) DG_MUST_USE;

/* CRC-32C, of which a record holds a masked form. */
uint32_t dg_crc32c(const void *p, size_t n);

#endif
