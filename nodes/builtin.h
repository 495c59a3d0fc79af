/* builtin.h: the built-in node classes. */
#ifndef DG_NODES_BUILTIN_H
#define DG_NODES_BUILTIN_H

#include <detrgraph/node.h>

extern const dg_node_class dg_node_loader_coco, dg_node_loader_voc, dg_node_loader_yolo,
    dg_node_loader_synthetic, dg_node_sampler_bucket, dg_node_augment, dg_node_batch;
extern const dg_node_class dg_node_backbone_presnet, dg_node_backbone_dinov2,
    dg_node_encoder_hybrid, dg_node_projector_multiscale, dg_node_denoising, dg_node_decoder_rtdetr,
    dg_node_detect;
extern const dg_node_class dg_node_loss_rtdetr, dg_node_backward, dg_node_allreduce,
    dg_node_optimizer_adamw, dg_node_ema;
extern const dg_node_class dg_node_evaluate_coco, dg_node_log;
extern const dg_node_class dg_node_loss_mean, dg_node_layer_linear, dg_node_layer_norm,
    dg_node_gradient_norm, dg_node_sampler_plain;
extern const dg_node_class dg_node_decoder_lwdetr, dg_node_decoder_masks, dg_node_loss_rfdetr;
extern const dg_node_class dg_node_head_rpn, dg_node_head_roi, dg_node_head_atss;
extern const dg_node_class dg_node_backbone_resnet, dg_node_backbone_swin, dg_node_neck_channels,
    dg_node_neck_coarser, dg_node_encoder_deformable, dg_node_decoder_dino, dg_node_loss_dino;
extern const dg_node_class dg_node_partition, dg_node_filter, dg_node_equalize, dg_node_resize;
extern const dg_node_class dg_node_agree, dg_node_broadcast, dg_node_reduce, dg_node_allgather,
    dg_node_allgatherv, dg_node_skip, dg_node_stop, dg_node_test, dg_node_record, dg_node_sum;
extern const dg_node_class dg_node_source_number, dg_node_source_step, dg_node_source_epoch,
    dg_node_source_rank, dg_node_source_clock, dg_node_source_memory, dg_node_source_file,
    dg_node_source_random;

/* All of them, in the order of a pipeline; NULL-terminated. */
extern const dg_node_class *const dg_builtin_nodes[];

#endif
