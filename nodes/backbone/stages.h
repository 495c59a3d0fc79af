/* stages.h: ports of backbones that give the maps of their four stages, of images that may be
 * padded. */
#ifndef DG_NODES_BACKBONE_STAGES_H
#define DG_NODES_BACKBONE_STAGES_H

#include <detrgraph/node.h>

enum { DG_STAGES_IMAGES, DG_STAGES_SIZES }; /* inputs: [B,H,W,3], and i32 [B,2] or absent */
enum { DG_STAGES = 4 };

/* The output is a record of maps [B,H/s,W/s,C], s = 4, 8, 16, 32, with these keys. */
extern const dg_port dg_stages_ports[];
extern const char *const dg_stages_keys[DG_STAGES];

#endif
