libweights_la_SOURCES += \
	weights/archive.c \
	weights/archive.h \
	weights/class_names.c \
	weights/class_names.h \
	weights/hf.c \
	weights/hf.h \
	weights/hf_config.c \
	weights/hf_internal.h \
	weights/onnx.c \
	weights/onnx.h \
	weights/onnx_attention.c \
	weights/onnx_emit.h \
	weights/onnx_internal.h \
	weights/onnx_ops.c \
	weights/pickle.c \
	weights/pickle.h \
	weights/pth.c \
	weights/rows.c \
	weights/rows.h \
	weights/safetensors.c \
	weights/shards.c \
	weights/weight_names.c \
	weights/weight_names.h \
	weights/weights.c \
	weights/weights.h \
	weights/weights_inspect.c \
	weights/weights_inspect.h
