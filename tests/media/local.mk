# check_PROGRAMS, tests_media_NAME_SOURCES, TESTS; data in EXTRA_DIST.
check_PROGRAMS +=
TESTS +=
EXTRA_DIST +=
