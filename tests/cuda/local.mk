# The CUDA kernels, compiled by the C compiler and run thread by thread.
cuda_tests = tests/cuda/defects tests/cuda/twins
check_PROGRAMS += $(cuda_tests)
TESTS += $(cuda_tests)
cuda_fibers = tests/check.h tests/cuda/fibers.h tests/cuda/fibers.c
tests_cuda_defects_SOURCES = tests/cuda/defects.c $(cuda_fibers)
tests_cuda_defects_LDADD = $(kernels_rooms) $(test_libs)
tests_cuda_twins_SOURCES = tests/cuda/twins.c $(cuda_fibers) $(ops_samples)
tests_cuda_twins_LDADD = libcuda.la libcuda16.la libcuda32.la libcuda64.la $(check_rooms) \
	$(test_libs)

# The same sources, compiled by nvcc for devices; some minutes.
check-nvcc:
	@NVCC='$(NVCC)' CUDA_CPPFLAGS='$(CUDA_CPPFLAGS)' CHECK_TIMEOUT=3600 $(harness) tests/long/nvcc
.PHONY: check-nvcc
