libnodes_la_SOURCES += \
	nodes/augment/augment.c \
	nodes/backbone/presnet.c \
	nodes/batch.c \
	nodes/builtin.c \
	nodes/builtin.h \
	nodes/decoder/anchors.c \
	nodes/decoder/anchors.h \
	nodes/decoder/detect.c \
	nodes/decoder/layer.c \
	nodes/decoder/layer.h \
	nodes/decoder/rtdetr.c \
	nodes/denoising/denoising.c \
	nodes/encoder/hybrid.c \
	nodes/evaluate/coco.c \
	nodes/gradient/allreduce.c \
	nodes/gradient/backward.c \
	nodes/layers.c \
	nodes/layers.h \
	nodes/loader/coco.c \
	nodes/loader/synthetic.c \
	nodes/loss/rtdetr.c \
	nodes/optimizer/adamw.c \
	nodes/optimizer/ema.c \
	nodes/optimizer/schedule.c \
	nodes/optimizer/schedule.h \
	nodes/sampler/bucket.c \
	nodes/sink/log.c
