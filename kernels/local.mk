# ref_sources are compiled twice (f32, f64), host_simd_sources once per instruction set, libhost once.
libhost_la_SOURCES +=
ref_sources += kernels/ref/ref.h kernels/ref/product.h \
	kernels/ref/conv.c kernels/ref/matmul.c kernels/ref/norm.c kernels/ref/elementwise.c kernels/ref/shape.c kernels/ref/pool.c kernels/ref/gather.c kernels/ref/topk.c
host_simd_sources +=
