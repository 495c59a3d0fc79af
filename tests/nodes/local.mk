check_PROGRAMS += tests/nodes/faults tests/nodes/presets
tests_nodes_faults_SOURCES = tests/nodes/faults.c
tests_nodes_presets_SOURCES = tests/nodes/presets.c
TESTS += tests/nodes/faults tests/nodes/presets
EXTRA_DIST += \
	tests/nodes/data/params_r18vd.tsv \
	tests/nodes/data/params_r50vd.tsv
