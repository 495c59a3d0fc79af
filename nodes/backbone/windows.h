/* windows.h: the windows of a map, inside which layers of transformers look. */
#ifndef DG_NODES_BACKBONE_WINDOWS_H
#define DG_NODES_BACKBONE_WINDOWS_H

#include <detrgraph/node.h>

/* [B,H,W,D] -> [B rows columns, H/rows W/columns, D]: windows of an image row by row, and tokens
 * row by row in each. rows and columns divide H and W. */
dg_val dg_windows_cut(dg_build *b, dg_val map, int64_t rows, int64_t columns);
/* The way back, to maps [batch,h,w,D]. */
dg_val dg_windows_join(dg_build *b, dg_val windows, int64_t rows, int64_t columns, int64_t batch,
                       int64_t h, int64_t w);

#endif
