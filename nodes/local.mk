libnodes_la_SOURCES +=
libnodes_la_SOURCES += \
	nodes/augment/augment.c \
	nodes/batch.c \
	nodes/evaluate/coco.c \
	nodes/loader/coco.c \
	nodes/loader/synthetic.c \
	nodes/sampler/bucket.c
