ops_tests = tests/ops/definitions tests/ops/gradients tests/ops/heads tests/ops/stored \
	tests/ops/twins
check_PROGRAMS += $(ops_tests)
TESTS += $(ops_tests)
ops_shared = tests/check.h tests/ops/formula.h
ops_samples = $(ops_shared) tests/ops/samples.h tests/ops/samples.c tests/ops/samples_layers.c \
	tests/ops/samples_elements.c tests/ops/samples_detection.c tests/ops/samples_heads.c \
	tests/ops/samples_ranks.c \
	tests/ops/sample_program.h tests/ops/sample_program.c tests/ops/operands.h \
	tests/ops/operands.c
tests_ops_twins_SOURCES = tests/ops/twins.c tests/ops/variants.h tests/ops/variants.c $(ops_samples)
tests_ops_twins_LDADD = $(check_rooms) $(test_libs)
tests_ops_gradients_SOURCES = tests/ops/gradients.c $(ops_samples)
tests_ops_gradients_LDADD = $(check_rooms) $(test_libs)
tests_ops_stored_SOURCES = tests/ops/stored.c tests/ops/stored.h tests/ops/stored_layers.c \
	tests/ops/stored_detection.c tests/ops/stored_nodes.c tests/ops/stored_rfdetr.c \
	tests/ops/stored_rfdetr_model.c \
	tests/ops/stored_model.h \
	tests/ops/stored_model.c $(ops_shared)
tests_ops_stored_LDADD = $(check_rooms) $(test_libs)
tests_ops_heads_SOURCES = tests/ops/heads.c $(ops_shared)
tests_ops_heads_LDADD = $(check_rooms) $(test_libs)
tests_ops_definitions_SOURCES = tests/ops/definitions.c $(ops_shared)
tests_ops_definitions_LDADD = $(check_rooms) $(test_libs)
EXTRA_DIST += tests/ops/data/ops.json tests/ops/data/ops_rfdetr.json
