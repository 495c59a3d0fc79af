# check_PROGRAMS, tests_invariance_NAME_SOURCES, TESTS; data in EXTRA_DIST.
invariance_tests = tests/invariance/cases tests/invariance/choose
check_PROGRAMS += $(invariance_tests)
tests_invariance_cases_SOURCES = tests/invariance/cases.c tests/check.h
tests_invariance_choose_SOURCES = tests/invariance/choose.c tests/check.h
TESTS += $(invariance_tests)
EXTRA_DIST += tests/invariance/xml
