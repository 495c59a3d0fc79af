/* head.h: what detection heads beside the decoder share: maps and their strides, objects in pixels,
 * and lists of boxes that become queries of the decoder. */
#ifndef DG_NODES_HEAD_HEAD_H
#define DG_NODES_HEAD_HEAD_H

#include <detrgraph/heads.h>

#include "nodes/layers.h"

/* What a sum of losses is divided by is larger by this than the count that is meant. */
#define DG_HEAD_EPS 0x1p-23

typedef struct dg_head {
    dg_build *b;
    int n; /* levels */
    int64_t batch, width, h[DG_MAX_LEVELS], w[DG_MAX_LEVELS], stride[DG_MAX_LEVELS];
    dg_val map[DG_MAX_LEVELS]; /* [B,H,W,D] */
    /* training alone: */
    dg_val size;         /* i32 [B,2]: height and width of each image */
    dg_val sides;        /* [B,1,4]: width, height, width, height */
    dg_val labels;       /* i32 [B,M] */
    dg_val boxes, count; /* [B,M,4] in pixels, zeros past the count; i32 [B] */
} dg_head;

/* Reads the first `most` maps of a record, whose strides are stride, 2 stride, ...; targets and
 * sizes may be DG_NONE in an evaluation. Returns false after an error, which is in *error. */
bool dg_head_open(dg_head *h, dg_build *b, dg_val maps, int most, int64_t stride, dg_val targets,
                  dg_val sizes, dg_val *error);

/* A count over all ranks of axis (NULL: of this rank alone), but at least 1, divided by the ranks:
 * N ranks whose gradients are averaged learn what one rank with all images learns. */
dg_val dg_head_normaliser(dg_build *b, dg_val count, const char *axis);
double dg_head_ranks(dg_build *b, const char *axis);

/* real [..]: 1 where x (i32) is 0 or more */
dg_val dg_head_known(dg_build *b, dg_val x);
/* [B,n] at rows of [B,N] */
dg_val dg_head_keys(dg_build *b, dg_val keys, dg_val row);

/* Decoder queries {boxes:f[B,N,4],meta:i[4],query:i[B,N],gt:i[B,N]}: boxes [B,N,4] in pixels of the
 * rows in q become fractions of the image. */
dg_val dg_head_queries(const dg_head *h, const dg_query_rows_of *q, dg_val boxes);
/* What stands for the outputs of a head in an evaluation, which does not read them: no queries, and
 * a record of zeros under the names of terms (NULL ends the list). */
dg_val dg_head_no_queries(const dg_head *h);
dg_val dg_head_nobody(const dg_head *h); /* i32 [B,1]: -1 */
dg_val dg_head_no_terms(dg_build *b, const char *const names[]);
#define DG_HEAD_QUERIES "{boxes:f[B,N,4],meta:i[4],query:i[B,N],gt:i[B,N]}"

#endif
