/* pixels.h: what backbones with ImageNet's weights do to images first. */
#ifndef DG_NODES_BACKBONE_PIXELS_H
#define DG_NODES_BACKBONE_PIXELS_H

#include <detrgraph/node.h>

/* images [B,H,W,3], RGB from 0 to 1: minus ImageNet's mean, over its deviation. sizes i32 [B,2]
 * (height, width) or DG_NONE: pixels outside an image's own size become 0, as where padding comes
 * last. */
dg_val dg_pixels_normalised(dg_build *b, dg_val images, dg_val sizes);

#endif
