/* c2f.h: the block of convolutions that joins feature maps, as in YOLOv8, with layer norms over the
 * channels of a pixel (eps 1e-6), which the reference calls bn. */
#ifndef DG_NODES_PROJECTOR_C2F_H
#define DG_NODES_PROJECTOR_C2F_H

#include "nodes/layers.h"

/* a, b = halves of cv1(x); m_0 = M_0(b), m_i = M_i(m_{i-1}); cv2([a, b, m_0, m_1, ...]), where M_i
 * is two 3x3 convolutions and every cv silu(LN(conv(x))). x [B,H,W,C]; out [B,H,W,width]. */
enum { DG_C2F_MOST = 10 }; /* blocks */
dg_val dg_c2f(const dg_param_path_of *at, dg_val x, int64_t width, int blocks);
/* Its parts: LN(conv(x)) without bias or activation, below `name`, and the LN. */
dg_val dg_c2f_conv(const dg_param_path_of *outer, const char *name, dg_val x, int64_t out, int size,
                   int stride);
dg_val dg_c2f_norm(const dg_param_path_of *at, dg_val x);

#endif
