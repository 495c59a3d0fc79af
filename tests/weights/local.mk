check_PROGRAMS += tests/weights/probe
tests_weights_probe_SOURCES = tests/weights/probe.c
TESTS += tests/weights/travel
EXTRA_DIST += tests/weights/compare.py tests/weights/travel
