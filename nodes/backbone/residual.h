/* residual.h: what the two kinds of residual network have in common. He et al. 2016. */
#ifndef DG_NODES_BACKBONE_RESIDUAL_H
#define DG_NODES_BACKBONE_RESIDUAL_H

#include <detrgraph/node.h>

enum { DG_RESNET_STAGES = 4 };

/* By the index of the attribute depth: "18|34|50|101". */
typedef struct dg_resnet_depth {
    int blocks[DG_RESNET_STAGES];
    bool bottleneck; /* blocks of three convolutions, with four times the output channels */
} dg_resnet_depth;
extern const dg_resnet_depth dg_resnet_depths[];

/* norm: DG_NORM_BATCH or DG_NORM_SYNC over axis. Errors: "frozen-without-pretrained",
 * "norm-fixed". */
void dg_resnet_check_norm(dg_check *k, bool freeze_norm, int64_t norm, const char *axis);

#endif
