libtensor_la_SOURCES += \
	tensor/autodiff.c \
	tensor/gradient_buckets.c \
	tensor/build.c tensor/build.h tensor/build_internal.h \
	tensor/build_detection.c \
	tensor/build_elementwise.c \
	tensor/build_heads.c \
	tensor/build_layer.c \
	tensor/build_mask.c \
	tensor/build_param.c \
	tensor/build_ranks.c \
	tensor/build_shape.c \
	tensor/build_update.c \
	tensor/fuse.h tensor/fuse.c \
	tensor/fuse_device.c \
	tensor/guard.c \
	tensor/join.c \
	tensor/grad_attention.c \
	tensor/grad_conv.c \
	tensor/grad_detection.c \
	tensor/grad_elementwise.c \
	tensor/grad_heads.c \
	tensor/grad_mask.c \
	tensor/grad_norm.c \
	tensor/grad_pool.c \
	tensor/grad_ranks.c \
	tensor/grad_shape.c \
	tensor/ops.c tensor/ops.h tensor/rules.h \
	tensor/params.c tensor/params.h \
	tensor/passes.c tensor/passes.h \
	tensor/pack.c \
	tensor/precision.c \
	tensor/slab.c tensor/slab.h \
	tensor/plan.c tensor/plan.h \
	tensor/plan_json.c \
	tensor/plan_print.c \
	tensor/plan_trace.c \
	tensor/plan_verify.c \
	tensor/program.c tensor/program.h tensor/print.h \
	tensor/record.c \
	tensor/recompute.c \
	tensor/shape_attention.c \
	tensor/shape_conv.c \
	tensor/shape_detection.c \
	tensor/shape_elementwise.c \
	tensor/shape_heads.c \
	tensor/shape_mask.c \
	tensor/shape_norm.c \
	tensor/shape_pool.c \
	tensor/shape_ranks.c \
	tensor/shape_shape.c \
	tensor/shape_update.c \
	tensor/verify.c
