/* padded.h: feature maps of images of different size in one canvas, as one row of tokens, and
 * deformable attention to them.
 *
 * An image covers the first h rows and w columns of the canvas, the rest is padding. A row or
 * column of a map is padding where the canvas pixel that it is nearest to (floor of index * canvas
 * / map, in single precision) is. */
#ifndef DG_NODES_DECODER_PADDED_H
#define DG_NODES_DECODER_PADDED_H

#include "nodes/layers.h"

typedef struct dg_padded {
    dg_build *b;
    int64_t batch, tokens;
    int64_t heads;    /* of attention */
    dg_levels levels; /* with sampling points */
    /* DG_NONE: images fill the canvas */
    dg_val keep;  /* [B,S,1]: 1, or 0 at padding */
    dg_val count; /* [B,L,2]: columns and rows that are not padding */
    dg_val ratio; /* [B,L,2]: the same over the map's columns and rows */
} dg_padded;

/* images [B,H,W,C], sizes i32 [B,2] (height, width) -> [B,H,W,1]: 1 inside an image, 0 in the
 * padding. */
dg_val dg_padded_pixels(dg_build *b, dg_val images, dg_val sizes);

/* Sets levels from maps, a record of [B,H,W,D], with points sampling points each; returns the
 * tokens [B,S,D]. */
dg_val dg_padded_open(dg_padded *p, dg_build *b, dg_val maps, int64_t heads, int64_t points);
/* Sets keep, count and ratio from sizes (DG_NONE: none) and the canvas. */
void dg_padded_sizes(dg_padded *p, dg_val images, dg_val sizes);
/* The same from what dg_padded_record made: {keep,count,ratio}, empty without padding. */
void dg_padded_from(dg_padded *p, dg_val record);
dg_val dg_padded_record(const dg_padded *p);

/* [B,S,256]-like table of sines, width values: half of them for y, half for x, each as fractions of
 * the image; padding as in a running count of what is not padding. */
dg_val dg_padded_positions(const dg_padded *p, int level, int64_t width, double temperature);
/* [B,S,2] (x, y) or [1,S,2]: centres of tokens as fractions of the image; padding lies beyond 1. */
dg_val dg_padded_centres(const dg_padded *p);

/* Where queries sample: location * points of the level = base + spread * offset; both [B,N,1,2P]
 * (spread may be [1,1,1,2P]), constants for gradients. */
typedef struct dg_places {
    dg_val base, spread;
} dg_places;
/* Around centres [B|1,N,2], with offsets in cells of the level. */
dg_places dg_padded_around_points(const dg_padded *p, dg_val centres);
/* Around boxes [B,N,4], with offsets in half sides over the number of points. */
dg_places dg_padded_around_boxes(const dg_padded *p, dg_val boxes);

/* Multi-scale deformable attention (Zhu et al. 2021) in two parts, with the parameters value_proj,
 * sampling_offsets, attention_weights and output_proj below `at`. */
dg_val dg_padded_values(const dg_param_path_of *at, const dg_padded *p, dg_val memory);
dg_val dg_padded_attention(const dg_param_path_of *at, const dg_padded *p, dg_val values,
                           dg_val query, const dg_places *where);

#endif
