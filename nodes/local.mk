libnodes_la_SOURCES += \
	nodes/augment/augment.c \
	nodes/augment/copypaste.c \
	nodes/augment/erase.c \
	nodes/augment/family.c nodes/augment/family.h \
	nodes/augment/lsj.c \
	nodes/augment/mixup.c \
	nodes/augment/mosaic.c \
	nodes/augment/rotate.c \
	nodes/augment/vflip.c \
	nodes/backbone/dinov2.c \
	nodes/backbone/pixels.c nodes/backbone/pixels.h \
	nodes/backbone/presnet.c \
	nodes/backbone/residual.c \
	nodes/backbone/residual.h \
	nodes/backbone/resample.c nodes/backbone/resample.h \
	nodes/backbone/resnet.c \
	nodes/backbone/stages.c nodes/backbone/stages.h \
	nodes/backbone/swin.c \
	nodes/backbone/windows.c nodes/backbone/windows.h \
	nodes/batch.c \
	nodes/builtin.c \
	nodes/builtin.h \
	nodes/control/agree.c \
	nodes/control/broadcast.c \
	nodes/control/equalize.c \
	nodes/control/filter.c \
	nodes/control/gather.c \
	nodes/control/partition.c \
	nodes/control/record.c \
	nodes/control/resize.c \
	nodes/control/skip.c \
	nodes/control/source.c \
	nodes/control/test.c \
	nodes/decoder/anchors.c \
	nodes/decoder/anchors.h \
	nodes/decoder/detect.c \
	nodes/decoder/dino.c \
	nodes/decoder/layer.c \
	nodes/decoder/layer.h \
	nodes/decoder/lwdetr.c \
	nodes/decoder/masks.c \
	nodes/decoder/output.c \
	nodes/decoder/output.h \
	nodes/decoder/padded.c nodes/decoder/padded.h \
	nodes/decoder/rtdetr.c \
	nodes/denoising/denoising.c \
	nodes/encoder/deformable.c \
	nodes/encoder/hybrid.c \
	nodes/evaluate/coco.c \
	nodes/evaluate/coco_files.c nodes/evaluate/coco_files.h \
	nodes/evaluate/masks.c nodes/evaluate/masks.h \
	nodes/gradient/allreduce.c \
	nodes/gradient/backward.c \
	nodes/gradient/norm.c \
	nodes/head/atss.c \
	nodes/head/head.c nodes/head/head.h \
	nodes/head/roi.c \
	nodes/head/rpn.c \
	nodes/items.c nodes/items.h \
	nodes/keys.c nodes/keys.h \
	nodes/layer/linear.c \
	nodes/layer/norm.c \
	nodes/layers.c \
	nodes/layers.h \
	nodes/loader/coco.c \
	nodes/loader/index.c nodes/loader/index.h \
	nodes/loader/marks.c \
	nodes/loader/synthetic.c \
	nodes/loader/voc.c \
	nodes/loader/yolo.c \
	nodes/loss/dino.c \
	nodes/loss/mean.c \
	nodes/loss/mask_terms.c nodes/loss/mask_terms.h \
	nodes/loss/rfdetr.c \
	nodes/loss/rtdetr.c \
	nodes/loss/terms.c \
	nodes/loss/terms.h \
	nodes/neck/channels.c \
	nodes/neck/coarser.c \
	nodes/optimizer/adamw.c \
	nodes/optimizer/ema.c \
	nodes/optimizer/schedule.c \
	nodes/optimizer/schedule.h \
	nodes/projector/c2f.c nodes/projector/c2f.h \
	nodes/projector/multiscale.c \
	nodes/sampler/bucket.c \
	nodes/sampler/plain.c \
	nodes/sampler/python.c nodes/sampler/python.h \
	nodes/sampler/sampler.c nodes/sampler/sampler.h \
	nodes/sink/log.c
