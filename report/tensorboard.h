/* tensorboard.h: writes OUT/events.out.tfevents.detrgraph for TensorBoard: the numbers of
 * metrics.jsonl as scalars, evaluation pictures, the graph. Each record is written with one call,
 * and removed again if incomplete, so the file is always intact; a resumed run appends to it. */
#ifndef DG_REPORT_TENSORBOARD_H
#define DG_REPORT_TENSORBOARD_H

#include "base/metrics.h"
#include "graph/graph.h"

typedef struct dg_tensorboard dg_tensorboard;
extern const char dg_tensorboard_name[]; /* name of the file */

/* Opens for appending; first drops records of steps after `step` and truncated ones. A new file
 * gets the graph. */
int dg_tensorboard_open(dg_tensorboard **e, const char *path, int64_t step, const dg_graph *g,
                        dg_diag *d) DG_MUST_USE;
void dg_tensorboard_close(dg_tensorboard **e);

/* Adds each number under the tag "SCOPE/NAME". */
int dg_tensorboard_scalars(dg_tensorboard *e, int64_t step, const char *scope, const dg_metrics *m,
                           dg_diag *d) DG_MUST_USE;
/* Adds a JPEG or PNG file unchanged. */
int dg_tensorboard_picture(dg_tensorboard *e, int64_t step, const char *tag, const char *file,
                           dg_diag *d) DG_MUST_USE;

/* CRC-32C; records store a masked form of it. */
uint32_t dg_crc32c(const void *p, size_t n);

#endif
