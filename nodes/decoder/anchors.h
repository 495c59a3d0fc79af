/* anchors.h: the anchor box of every token of a feature pyramid. */
#ifndef DG_NODES_DECODER_ANCHORS_H
#define DG_NODES_DECODER_ANCHORS_H

#include <detrgraph/op.h>

/* The side of an anchor at level 0, and the least distance of its four numbers from 0 and 1, both
 * in shares of the image. */
#define DG_ANCHOR_SIDE 0.05
#define DG_ANCHOR_MARGIN 0.01

/* Number of tokens of all levels. */
int64_t dg_anchors_n(const dg_levels *levels);
/* Level l, cell (x, y): the cell's centre, side 0.05 * 2^l. boxes [S,4]: (cx, cy, w, h), all four 0
 * if any is outside (0.01, 0.99); valid [S]: 0 there, else 1. Returns true if all are valid. */
bool dg_proposals(const dg_levels *levels, double *boxes, double *valid);
/* The same boxes as logits: invalid ones are infinite. */
bool dg_anchors(const dg_levels *levels, double *boxes, double *valid);

#endif
