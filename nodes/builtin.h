/* builtin.h: the node classes that come with the engine. */
#ifndef DG_NODES_BUILTIN_H
#define DG_NODES_BUILTIN_H

#include <detrgraph/node.h>

extern const dg_node_class dg_node_loader_coco, dg_node_loader_synthetic, dg_node_sampler_bucket,
    dg_node_augment, dg_node_batch;
extern const dg_node_class dg_node_backbone_presnet, dg_node_encoder_hybrid, dg_node_denoising,
    dg_node_decoder_rtdetr, dg_node_detect;
extern const dg_node_class dg_node_loss_rtdetr, dg_node_backward, dg_node_allreduce,
    dg_node_optimizer_adamw, dg_node_ema;
extern const dg_node_class dg_node_evaluate_coco, dg_node_log;

/* All of them, in the order of a pipeline; NULL ends the list. */
extern const dg_node_class *const dg_builtin_nodes[];

#endif
