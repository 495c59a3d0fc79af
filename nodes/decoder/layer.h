/* layer.h: one layer of a deformable transformer decoder. */
#ifndef DG_NODES_DECODER_LAYER_H
#define DG_NODES_DECODER_LAYER_H

#include "nodes/layers.h"

/* Shared by the layers of a decoder. */
typedef struct dg_decoder_stack {
    int64_t heads, ffn;
    dg_levels levels; /* of memory, with sampling points */
    bool discrete;    /* nearest pixel; offsets are frozen */
    bool version1;    /* as in RT-DETR: clamps before the last norm, stores no scale of points */
    dg_val memory;    /* [B,S,D] */
    dg_val dn;        /* i32[4] or DG_NONE: dg_attention's mask */
    int64_t capacity;
} dg_decoder_stack;

int64_t dg_decoder_points(const dg_levels *levels); /* sampling points per head */

/* x [B,N,D] queries, pos [B,N,D] position embeddings, ref [B,N,4] boxes -> [B,N,D] */
dg_val dg_decoder_layer(const dg_param_path_of *at, const dg_decoder_stack *s, dg_val x, dg_val pos,
                        dg_val ref);

#endif
