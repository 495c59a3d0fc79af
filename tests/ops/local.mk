# check_PROGRAMS, tests_ops_NAME_SOURCES, TESTS; data in EXTRA_DIST.
check_PROGRAMS +=
TESTS +=
EXTRA_DIST +=
