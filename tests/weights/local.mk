weights_tests = tests/weights/archive tests/weights/shards
check_PROGRAMS += $(weights_tests) tests/weights/probe
TESTS += $(weights_tests) tests/weights/travel
tests_weights_archive_SOURCES = tests/weights/archive.c
tests_weights_archive_LDADD = $(weights_rooms) $(test_libs)
tests_weights_shards_SOURCES = tests/weights/shards.c
tests_weights_shards_LDADD = $(weights_rooms) $(test_libs)
tests_weights_probe_SOURCES = tests/weights/probe.c
tests_weights_probe_LDADD = $(runtime_rooms) $(test_libs)
EXTRA_DIST += tests/weights/compare.py tests/weights/data tests/weights/mmcv.py \
	tests/weights/rfdetr_reference.py tests/weights/rfdetr_transformers.py tests/weights/travel
