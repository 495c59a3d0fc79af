# check_PROGRAMS, tests_cli_NAME_SOURCES, TESTS; data in EXTRA_DIST.
check_PROGRAMS +=
TESTS += tests/cli/language
EXTRA_DIST += tests/cli/language
