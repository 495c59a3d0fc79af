/* layer.h: one layer of a deformable transformer decoder. */
#ifndef DG_NODES_DECODER_LAYER_H
#define DG_NODES_DECODER_LAYER_H

#include "nodes/layers.h"

/* What differs between families: RTDETR1 clamps before the last norm and starts its feed-forward
 * parts with PyTorch's default, RTDETR2 stores the scale of points, LWDETR starts the output of
 * self-attention as Glorot 2010 does, like all other matrices. */
typedef enum dg_decoder_family {
    DG_DECODER_RTDETR1,
    DG_DECODER_RTDETR2,
    DG_DECODER_LWDETR
} dg_decoder_family;

/* Shared by the layers of a decoder. */
typedef struct dg_decoder_stack {
    dg_decoder_family family;
    int64_t heads, self_heads; /* of attention to memory, and among queries */
    int64_t groups;            /* equal parts of the queries that do not see each other */
    int64_t ffn;
    dg_levels levels; /* of memory, with sampling points */
    bool discrete;    /* nearest pixel; offsets are frozen */
    dg_val memory;    /* [B,S,D] */
    dg_val dn;        /* i32[4] or DG_NONE: dg_attention's mask */
    int64_t capacity;
} dg_decoder_stack;

int64_t dg_decoder_points(const dg_levels *levels); /* sampling points per head */
/* Initial offsets: head k points in direction 2 pi k / heads, point j of each level at distance j:
 * squares around the reference. */
dg_init dg_deform_grid(dg_build *b, int64_t heads, const dg_levels *levels);

/* x [B,N,D] queries, pos [B,N,D] position embeddings, ref [B,N,4] boxes -> [B,N,D] */
dg_val dg_decoder_layer(const dg_param_path_of *at, const dg_decoder_stack *s, dg_val x, dg_val pos,
                        dg_val ref);

#endif
