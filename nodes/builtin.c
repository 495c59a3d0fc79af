/* builtin.c: the list of node classes that come with the engine; runtime hands it to the
 * registry. */
#include "nodes/builtin.h"

const dg_node_class *const dg_builtin_nodes[] = {
    &dg_node_loader_coco,
    &dg_node_loader_synthetic,
    &dg_node_sampler_bucket,
    &dg_node_augment,
    &dg_node_batch,
    &dg_node_backbone_presnet,
    &dg_node_encoder_hybrid,
    &dg_node_denoising,
    &dg_node_decoder_rtdetr,
    &dg_node_detect,
    &dg_node_loss_rtdetr,
    &dg_node_backward,
    &dg_node_allreduce,
    &dg_node_optimizer_adamw,
    &dg_node_ema,
    &dg_node_evaluate_coco,
    &dg_node_log,
    NULL,
};
