check_PROGRAMS += tests/nodes/presets
tests_nodes_presets_SOURCES = tests/nodes/presets.c
TESTS += tests/nodes/presets
EXTRA_DIST += \
	tests/nodes/data/params_r18vd.tsv \
	tests/nodes/data/params_r50vd.tsv
