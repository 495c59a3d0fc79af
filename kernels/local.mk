# ref_sources are compiled twice (f32, f64), host_simd_sources once per instruction set, libhost
# once, cuda_sources three times (bf16, f32, f64; for tests).
libhost_la_SOURCES += kernels/ops.def kernels/attrs.h kernels/backend.c kernels/backend.h \
	kernels/comm.h kernels/peers.h kernels/host/host.h kernels/addition.h kernels/host/addition.c \
	kernels/host/dnn.c kernels/host/no_dnn.c kernels/host/weight_gradient.h \
	kernels/host/weight_gradient.c kernels/host/taps.h kernels/host/taps.c \
	kernels/host/long_sums.h kernels/host/long_sums.c \
	kernels/host/dispatch.c kernels/host/backend.c kernels/far/far.h \
	kernels/far/far_internal.h kernels/far/far.c kernels/far/far_memory.c \
	kernels/far/far_queue.c kernels/far/far_record.c kernels/cuda/runtime.h \
	kernels/cuda/host/host.h kernels/cuda/host/internal.h kernels/cuda/host/backend.c \
	kernels/cuda/host/work.c kernels/cuda/host/calls.c kernels/cuda/host/join.c \
	kernels/cuda/host/libraries.c kernels/cuda/host/record.c kernels/cuda/host/load.c \
	kernels/cuda/host/nccl.h kernels/cuda/host/nccl.c kernels/cuda/host/peers.c
ref_sources += kernels/ref/ref.h kernels/ref/product.h kernels/ref/box.h kernels/ref/conv.c \
	kernels/ref/depthwise.c \
	kernels/ref/matmul.c kernels/ref/norm.c kernels/ref/attention.c kernels/ref/deform.c \
	kernels/ref/elementwise.c kernels/ref/shape.c kernels/ref/pool.c kernels/ref/gather.c \
	kernels/ref/topk.c kernels/ref/random.c kernels/ref/denoise.c kernels/ref/match.c \
	kernels/ref/mask.c kernels/ref/mask_loss.c \
	kernels/ref/loss.c kernels/ref/boxes.c kernels/ref/ranks.c kernels/ref/update.c \
	kernels/ref/heap.h kernels/ref/iou.h kernels/ref/anchors.c kernels/ref/sample.c kernels/ref/nms.c \
	kernels/ref/roi.h kernels/ref/roi.c kernels/ref/dense.c
host_simd_sources += kernels/host/simd/simd.h kernels/host/simd/vmath.h kernels/host/simd/cast.h \
	kernels/host/simd/batch_norm.c kernels/host/simd/cast.c kernels/host/simd/elementwise.c \
	kernels/host/simd/shape.c kernels/host/simd/norm.c kernels/host/simd/reduce.c \
	kernels/host/simd/loss.c kernels/host/simd/boxes.c kernels/host/simd/update.c \
	kernels/host/simd/pool.c kernels/host/simd/depthwise.c kernels/host/simd/mask.c \
	kernels/host/simd/gather.c kernels/host/simd/attention.c kernels/host/simd/deform.c \
	kernels/host/simd/roi.c kernels/host/simd/dense.c kernels/host/simd/pack.h \
	kernels/host/simd/pack.c
host_pairs_sources += kernels/host/simd/attention.c kernels/host/simd/batch_norm.c \
	kernels/host/simd/conv_weights.c
libcuda_la_SOURCES += kernels/cuda/cuda.h kernels/cuda/table.c kernels/cuda/service.c \
	kernels/cuda/addition.c
cuda_sources += kernels/cuda/device.h kernels/cuda/on_cpu.h kernels/cuda/layout.h \
	kernels/cuda/total.h \
	kernels/cuda/box.h kernels/cuda/stored.h kernels/cuda/conv.c kernels/cuda/pack.c \
	kernels/cuda/product.c kernels/cuda/elementwise.c kernels/cuda/norm.h kernels/cuda/norm.c \
	kernels/cuda/layer_norm.c kernels/cuda/statistics.c \
	kernels/cuda/attention.c kernels/cuda/deform.c kernels/cuda/shape.c kernels/cuda/reduce.c \
	kernels/cuda/pool.c kernels/cuda/depthwise.c kernels/cuda/mask.c \
	kernels/cuda/mask_loss.c \
	kernels/cuda/gather.c kernels/cuda/topk.c kernels/cuda/random.c kernels/cuda/denoise.c \
	kernels/cuda/boxes.c kernels/cuda/match.c kernels/cuda/loss.c kernels/cuda/ranks.c \
	kernels/cuda/update.c kernels/cuda/iou.h kernels/cuda/order.h kernels/cuda/anchors.c \
	kernels/cuda/sample.c kernels/cuda/nms.c kernels/cuda/roi.c kernels/cuda/dense.c

# names for the places of operands
BUILT_SOURCES += kernels/operands.h
CLEANFILES += kernels/operands.h
EXTRA_DIST += kernels/operands.awk
kernels/operands.h: kernels/ops.def kernels/operands.awk
	$(AM_V_GEN)$(MKDIR_P) kernels && \
	awk -f $(srcdir)/kernels/operands.awk $(srcdir)/kernels/ops.def >$@.new && mv -f $@.new $@

# the ops that have CUDA kernels
BUILT_SOURCES += kernels/cuda/table.def
CLEANFILES += kernels/cuda/table.def
EXTRA_DIST += kernels/cuda/table.awk
kernels/cuda/table.def: kernels/ops.def kernels/cuda/table.awk $(cuda_sources)
	$(AM_V_GEN)$(MKDIR_P) $(@D) && cd $(srcdir) && \
	awk -f kernels/cuda/table.awk kernels/ops.def $(filter %.c,$(cuda_sources)) \
	>'$(abs_builddir)/$@.new' && mv -f '$(abs_builddir)/$@.new' '$(abs_builddir)/$@'
kernels/cuda/table.lo: kernels/cuda/table.def

# The module that --device cuda loads: the kernels by nvcc, and what calls CUDA.
nvidia_sources = kernels/cuda/nvidia/nvidia.h kernels/cuda/nvidia/runtime.c \
	kernels/cuda/nvidia/products.c kernels/cuda/nvidia/convolutions.c \
	kernels/cuda/nvidia/nccl_check.c
EXTRA_DIST += $(nvidia_sources)
if CUDA_MODULE
cuda_c = $(filter %.c,$(cuda_sources))
cuda_objects = $(cuda_c:.c=.16.o) $(cuda_c:.c=.32.o) $(cuda_c:.c=.64.o) kernels/cuda/service.32.o \
	kernels/cuda/addition.32.o
nvidia_objects = kernels/cuda/nvidia/runtime.o kernels/cuda/nvidia/products.o \
	kernels/cuda/nvidia/table.o kernels/cuda/nvidia/tensor.o
if CUDNN
cudnn_objects = kernels/cuda/nvidia/convolutions.o
endif
modules_DATA += detrgraph-cuda.so
module_sources += $(filter %.c,$(nvidia_sources))
CLEANFILES += detrgraph-cuda.so $(cuda_objects) $(nvidia_objects) \
	$(cudnn_objects) $(NCCL_CHECK)
nvcc_compile = @echo "  NVCC     $@"; $(MKDIR_P) $(@D) && \
	$(NVCC) -x cu $(CUDA_TARGETS) -std=c++20 -O3 -Werror all-warnings \
	-Xcompiler -fPIC,-Wall,-fvisibility=hidden -D_GNU_SOURCE -I$(top_srcdir) \
	-I$(top_srcdir)/include -I$(top_builddir) $(CUDA_CPPFLAGS) -c $< -o $@
nvidia_compile = $(AM_V_CC)$(MKDIR_P) $(@D) && \
	$(CC) $(AM_CPPFLAGS) $(CUDA_CPPFLAGS:-I%=-isystem %) $(AM_CFLAGS) $(CFLAGS) -fPIC -c -o $@ $<
$(cuda_objects): kernels/cuda/device.h kernels/cuda/cuda.h kernels/cuda/layout.h \
	kernels/cuda/total.h kernels/cuda/box.h kernels/cuda/stored.h kernels/cuda/norm.h \
	kernels/operands.h
%.16.o: %.c
	$(nvcc_compile) -DDG_CUDA_BITS=16
%.32.o: %.c
	$(nvcc_compile) -DDG_CUDA_BITS=32
%.64.o: %.c
	$(nvcc_compile) -DDG_CUDA_BITS=64
$(nvidia_objects) $(cudnn_objects): kernels/cuda/nvidia/nvidia.h kernels/cuda/runtime.h \
	kernels/cuda/cuda.h
kernels/cuda/nvidia/runtime.o: kernels/cuda/nvidia/runtime.c
	$(nvidia_compile)
kernels/cuda/nvidia/products.o: kernels/cuda/nvidia/products.c
	$(nvidia_compile)
kernels/cuda/nvidia/convolutions.o: kernels/cuda/nvidia/convolutions.c
	$(nvidia_compile)
kernels/cuda/nvidia/nccl_check.o: kernels/cuda/nvidia/nccl_check.c kernels/cuda/host/nccl.h
	$(nvidia_compile)
kernels/cuda/nvidia/table.o: kernels/cuda/table.c kernels/cuda/table.def
	$(nvidia_compile)
kernels/cuda/nvidia/tensor.o: base/tensor.c
	$(nvidia_compile)
detrgraph-cuda.so: $(cuda_objects) $(nvidia_objects) $(cudnn_objects) $(NCCL_CHECK)
	$(AM_V_CCLD)$(CXX) -shared -o $@ $(cuda_objects) $(nvidia_objects) $(cudnn_objects) $(CUDA_LIBS)
endif
