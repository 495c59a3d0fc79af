/* rows.h: chooses rows of a stored tensor for a model with other classes or fewer queries than the
 * file. For RF-DETR, whose published checkpoints have one output per COCO category number. */
#ifndef DG_WEIGHTS_ROWS_H
#define DG_WEIGHTS_ROWS_H

#include "tensor/params.h"
#include "weights/archive.h"

typedef enum dg_rows_kind {
    DG_ROWS_AS_STORED,
    DG_ROWS_COCO,    /* 91 classes to 80: those whose numbers COCO uses, in order */
    DG_ROWS_QUERIES, /* the first queries of each group */
    DG_ROWS_TILED    /* class j gets the row of class j modulo the file's, as the reference does */
} dg_rows_kind;

/* Fills rows (p->shape.d[0] of them, indices into e) unless the result is AS_STORED, which also
 * means that no rows fit. */
dg_rows_kind dg_rows_of(const dg_archive *a, const dg_entry *e, const dg_param_info *p,
                        int64_t *rows);
/* "COCO's 80 of 91 classes" */
const char *dg_rows_name(dg_rows_kind kind);

#endif
