/* resample.h: the weights that resize a row of samples. */
#ifndef DG_NODES_BACKBONE_RESAMPLE_H
#define DG_NODES_BACKBONE_RESAMPLE_H

#include <stdint.h>

/* Bicubic and antialiased, as PyTorch resizes with align_corners false: y = M x with
 * m [to,from], both at least 1. Keys 1981 with a = -1/2; shrinking widens the kernel. */
void dg_resample_bicubic(int64_t from, int64_t to, double *m);

#endif
