/* builtin.h: the built-in node classes. */
#ifndef DG_NODES_BUILTIN_H
#define DG_NODES_BUILTIN_H

#include <detrgraph/node.h>

/* One row per class, in the order of a pipeline: loader_coco is dg_node_loader_coco, which one
 * source of this room defines. */
// clang-format off
#define DG_BUILTIN_NODES(NODE) \
    NODE(loader_coco) \
    NODE(loader_voc) \
    NODE(loader_yolo) \
    NODE(loader_labelme) \
    NODE(loader_cvat) \
    NODE(loader_csv) \
    NODE(loader_synthetic) \
    NODE(sampler_bucket) \
    NODE(augment) \
    NODE(augment_mosaic) \
    NODE(augment_mixup) \
    NODE(augment_copypaste) \
    NODE(augment_rotate) \
    NODE(augment_vflip) \
    NODE(augment_erase) \
    NODE(augment_lsj) \
    NODE(batch) \
    NODE(backbone_presnet) \
    NODE(backbone_dinov2) \
    NODE(backbone_resnet) \
    NODE(backbone_swin) \
    NODE(neck_channels) \
    NODE(neck_coarser) \
    NODE(encoder_hybrid) \
    NODE(encoder_deformable) \
    NODE(projector_multiscale) \
    NODE(denoising) \
    NODE(decoder_rtdetr) \
    NODE(decoder_lwdetr) \
    NODE(decoder_dino) \
    NODE(decoder_masks) \
    NODE(detect) \
    NODE(head_rpn) \
    NODE(head_roi) \
    NODE(head_atss) \
    NODE(loss_rtdetr) \
    NODE(loss_rfdetr) \
    NODE(loss_dino) \
    NODE(backward) \
    NODE(allreduce) \
    NODE(optimizer_adamw) \
    NODE(ema) \
    NODE(evaluate_coco) \
    NODE(log) \
    NODE(loss_mean) \
    NODE(layer_linear) \
    NODE(layer_norm) \
    NODE(gradient_norm) \
    NODE(sampler_plain) \
    NODE(partition) \
    NODE(filter) \
    NODE(equalize) \
    NODE(resize) \
    NODE(agree) \
    NODE(broadcast) \
    NODE(reduce) \
    NODE(allgather) \
    NODE(allgatherv) \
    NODE(skip) \
    NODE(stop) \
    NODE(test) \
    NODE(record) \
    NODE(sum) \
    NODE(source_number) \
    NODE(source_step) \
    NODE(source_epoch) \
    NODE(source_rank) \
    NODE(source_clock) \
    NODE(source_memory) \
    NODE(source_file) \
    NODE(source_random)
// clang-format on

#define DG_DECLARE_NODE(name) extern const dg_node_class dg_node_##name;
DG_BUILTIN_NODES(DG_DECLARE_NODE)
#undef DG_DECLARE_NODE

/* All of them; NULL-terminated. */
extern const dg_node_class *const dg_builtin_nodes[];

#endif
