/* anchors.h: the box that every token of a feature pyramid starts from. */
#ifndef DG_NODES_DECODER_ANCHORS_H
#define DG_NODES_DECODER_ANCHORS_H

#include <detrgraph/op.h>

/* Tokens of all levels. */
int64_t dg_anchors_n(const dg_levels *levels);
/* Level l, cell (x, y): centre of the cell, side 0.05 * 2^l. boxes [S,4]: logits of (cx, cy, w,
 * h), all four infinite
 * where one lies outside (0.01, 0.99); valid [S]: 0 there, else 1. Returns whether all are
 * valid. */
bool dg_anchors(const dg_levels *levels, double *boxes, double *valid);

#endif
