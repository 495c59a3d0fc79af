/* rows.h: chooses rows of a stored tensor for a model with other classes or fewer queries than the
 * file. RF-DETR's published checkpoints have one output per COCO category number. Heads that score
 * each class by itself (RT-DETR's, DINO's, ATSS') begin with the mean of the file's classes: what
 * all of them have in common tells objects from ground, and queries are chosen by these scores. */
#ifndef DG_WEIGHTS_ROWS_H
#define DG_WEIGHTS_ROWS_H

#include "tensor/params.h"
#include "weights/archive.h"

typedef enum dg_rows_kind {
    DG_ROWS_AS_STORED,
    DG_ROWS_COCO,    /* 91 classes to 80: those whose numbers COCO uses, in order */
    DG_ROWS_QUERIES, /* the first queries of each group */
    DG_ROWS_TILED,   /* class j gets the row of class j modulo the file's, as the reference does */
    DG_ROWS_MEAN     /* every class gets the mean of the file's */
} dg_rows_kind;
enum { DG_N_ROWS_KINDS = DG_ROWS_MEAN + 1, DG_ROW_MEAN = -1 /* as an index: of all rows */ };

/* Fills rows (p->shape.d[0] of them, indices into e, or DG_ROW_MEAN) unless the result is
 * AS_STORED, which also means that no rows fit. */
dg_rows_kind dg_rows_of(const dg_archive *a, const dg_entry *e, const dg_param_info *p,
                        int64_t *rows);
/* "COCO's 80 of 91 classes" */
const char *dg_rows_name(dg_rows_kind kind);

#endif
