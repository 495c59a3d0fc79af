/* resample.h: the weights that resize a row of samples, and a table that is resized with them. */
#ifndef DG_NODES_BACKBONE_RESAMPLE_H
#define DG_NODES_BACKBONE_RESAMPLE_H

#include <detrgraph/node.h>

/* Bicubic and antialiased, as PyTorch resizes with align_corners false: y = M x with
 * m [to,from], both at least 1. Keys 1981 with a = -1/2; shrinking widens the kernel. */
void dg_resample_bicubic(int64_t from, int64_t to, double *m);
/* Bilinear without antialiasing, otherwise the same: each output lies between two samples, or on
 * the first or last one. */
void dg_resample_bilinear(int64_t from, int64_t to, double *m);

/* The rows of a table of side x side cells, width numbers each, for h x w cells: [h,w,width]. */
dg_val dg_resample_grid(dg_build *b, dg_val rows, int64_t side, int64_t width, int64_t h,
                        int64_t w);

#endif
