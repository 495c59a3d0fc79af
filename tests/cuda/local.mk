# The CUDA kernels, compiled by the C compiler and run thread by thread.
cuda_tests = tests/cuda/backend tests/cuda/defects tests/cuda/peers tests/cuda/ranks \
	tests/cuda/joined tests/cuda/launches tests/cuda/twins
check_PROGRAMS += $(cuda_tests) tests/cuda/device
TESTS += $(cuda_tests) tests/cuda/memory tests/cuda/starts
threaded += tests/cuda/peers
cuda_fibers = tests/check.h tests/cuda/switch.h tests/cuda/fibers.h tests/cuda/fibers.c \
	tests/cuda/products.h tests/cuda/products.c
tests_cuda_backend_SOURCES = tests/check.h tests/cuda/backend.c
tests_cuda_backend_LDADD = $(tensor_rooms) $(test_libs)
EXTRA_tests_cuda_backend_DEPENDENCIES = tests/cuda/standin.la
tests_cuda_joined_SOURCES = tests/cuda/joined.c $(tensor_rig)
tests_cuda_joined_LDADD = $(exec_rooms) $(test_libs)
EXTRA_tests_cuda_joined_DEPENDENCIES = tests/cuda/standin.la
tests_cuda_launches_SOURCES = tests/check.h tests/cuda/launches.c
tests_cuda_launches_LDADD = libexec.la $(nodes_rooms) $(test_libs)
EXTRA_tests_cuda_launches_DEPENDENCIES = tests/cuda/standin.la
tests_cuda_peers_SOURCES = tests/cuda/peers.c tests/comm/crew.c tests/comm/crew.h
tests_cuda_peers_LDADD = $(comm_rooms) $(test_libs)
EXTRA_tests_cuda_peers_DEPENDENCIES = tests/cuda/standin.la tests/cuda/nccl.la
tests_cuda_ranks_SOURCES = tests/cuda/ranks.c $(toy_ranks)
tests_cuda_ranks_LDADD = $(runtime_rooms) $(test_libs)
EXTRA_tests_cuda_ranks_DEPENDENCIES = tests/cuda/standin.la tests/cuda/nccl.la
tests_cuda_device_SOURCES = tests/cuda/device.c $(ops_samples)
tests_cuda_device_LDADD = $(check_rooms) $(test_libs)
EXTRA_tests_cuda_device_DEPENDENCIES = tests/cuda/standin.la
EXTRA_DIST += tests/cuda/all tests/cuda/memory tests/cuda/starts
tests_cuda_defects_SOURCES = tests/cuda/defects.c $(cuda_fibers)
tests_cuda_defects_LDADD = $(kernels_rooms) $(test_libs)
tests_cuda_twins_SOURCES = tests/cuda/twins.c $(cuda_fibers) $(ops_samples)
tests_cuda_twins_LDADD = libcuda.la libcuda16.la libcuda32.la libcuda64.la $(check_rooms) \
	$(test_libs)

# A module that stands in for CUDA: the same kernels on the CPU, late. make check-cuda runs tests of
# training, resume and ranks on it.
check_LTLIBRARIES += tests/cuda/standin.la
tests_cuda_standin_la_SOURCES = tests/cuda/standin.c tests/cuda/standin.h \
	tests/cuda/standin_memory.c tests/cuda/standin_queue.c tests/cuda/standin_capture.c \
	tests/cuda/runner.h \
	tests/cuda/runner.c tests/cuda/switch.h tests/cuda/products.h tests/cuda/products.c \
	base/tensor.c
tests_cuda_standin_la_CFLAGS = $(AM_CFLAGS) $(DG_OPTIMIZE_MORE)
tests_cuda_standin_la_LIBADD = libcuda.la libcuda16.la libcuda32.la libcuda64.la
tests_cuda_standin_la_LDFLAGS = $(AM_LDFLAGS) -module -avoid-version -shared \
	-rpath $(abs_builddir)/tests/cuda

# A library that stands in for NCCL, between processes on the stand-in of CUDA.
check_LTLIBRARIES += tests/cuda/nccl.la
tests_cuda_nccl_la_SOURCES = tests/cuda/nccl.c tests/cuda/standin.h
tests_cuda_nccl_la_LDFLAGS = $(AM_LDFLAGS) -module -avoid-version -shared \
	-rpath $(abs_builddir)/tests/cuda

# cuDNN's plans of the presets' convolutions, without a GPU; some minutes.
EXTRA_DIST += tests/cuda/plans.c
if CUDNN
EXTRA_PROGRAMS += tests/cuda/plans
tests_cuda_plans_SOURCES = tests/cuda/plans.c kernels/cuda/nvidia/convolutions.c $(cuda_fibers)
tests_cuda_plans_CPPFLAGS = $(AM_CPPFLAGS) $(CUDNN_CPPFLAGS)
tests_cuda_plans_LDADD = libcuda.la libcuda16.la libcuda32.la libcuda64.la $(check_rooms) \
	$(test_libs) $(CUDNN_LIBS)
EXTRA_tests_cuda_plans_DEPENDENCIES = tests/cuda/standin.la
endif
check-plans:
	@CHECK_TIMEOUT=3600 $(harness) tests/long/plans
.PHONY: check-plans

# The same sources, compiled by nvcc for devices; some minutes.
check-nvcc:
	@NVCC='$(NVCC)' CUDA_CPPFLAGS='$(CUDA_CPPFLAGS)' CHECK_TIMEOUT=3600 $(harness) tests/long/nvcc
.PHONY: check-nvcc
