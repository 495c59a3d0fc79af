# check_PROGRAMS, tests_kernels_NAME_SOURCES, TESTS; data in EXTRA_DIST.
check_PROGRAMS +=
TESTS +=
EXTRA_DIST +=
