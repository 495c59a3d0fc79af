# check_PROGRAMS, tests_kernels_NAME_SOURCES, TESTS; data in EXTRA_DIST.
check_PROGRAMS += tests/kernels/backend
tests_kernels_backend_SOURCES = tests/check.h tests/kernels/backend.c
TESTS += tests/kernels/backend
EXTRA_DIST +=
# Speed is measured, not tested: make tests/bench/kernels
EXTRA_PROGRAMS = tests/bench/kernels
tests_bench_kernels_SOURCES = tests/bench/kernels.c
