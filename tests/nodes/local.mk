check_PROGRAMS += tests/nodes/codetr
TESTS += tests/nodes/codetr
tests_nodes_codetr_SOURCES = tests/nodes/codetr.c tests/ops/formula.h
tests_nodes_codetr_LDADD = $(runtime_rooms) $(test_libs)
check_PROGRAMS += tests/nodes/course tests/nodes/faults tests/nodes/presets tests/nodes/values \
	tests/nodes/vit
tests_nodes_course_SOURCES = tests/nodes/course.c
tests_nodes_course_LDADD = $(runtime_rooms) $(test_libs)
tests_nodes_faults_SOURCES = tests/nodes/faults.c
tests_nodes_faults_LDADD = $(nodes_rooms) $(test_libs)
check_PROGRAMS += tests/nodes/augment
TESTS += tests/nodes/augment
tests_nodes_augment_SOURCES = tests/nodes/augment.c tests/nodes/unit.h tests/nodes/unit.c \
	tests/ops/formula.h tests/ops/head_draws.h
tests_nodes_augment_LDADD = $(check_rooms) $(test_libs)
check_PROGRAMS += tests/nodes/heads tests/nodes/heads_losses
TESTS += tests/nodes/heads tests/nodes/heads_losses
tests_nodes_heads_losses_SOURCES = tests/nodes/heads_losses.c tests/nodes/unit.h \
	tests/nodes/unit.c tests/ops/formula.h tests/ops/head_draws.h
tests_nodes_heads_losses_LDADD = $(check_rooms) $(test_libs)
tests_nodes_heads_SOURCES = tests/nodes/heads.c tests/nodes/unit.h tests/nodes/unit.c \
	tests/ops/formula.h
tests_nodes_heads_LDADD = $(check_rooms) $(test_libs)
check_PROGRAMS += tests/nodes/lwdetr
TESTS += tests/nodes/lwdetr
tests_nodes_lwdetr_SOURCES = tests/nodes/lwdetr.c
tests_nodes_lwdetr_LDADD = $(runtime_rooms) $(test_libs)
tests_nodes_presets_SOURCES = tests/nodes/presets.c
tests_nodes_presets_LDADD = $(nodes_rooms) $(test_libs)
check_PROGRAMS += tests/nodes/swin
TESTS += tests/nodes/swin
tests_nodes_swin_SOURCES = tests/nodes/swin.c tests/ops/formula.h
tests_nodes_swin_LDADD = $(runtime_rooms) $(test_libs)
tests_nodes_values_SOURCES = tests/nodes/values.c
tests_nodes_values_LDADD = $(runtime_rooms) $(test_libs)
tests_nodes_vit_SOURCES = tests/nodes/vit.c
tests_nodes_vit_LDADD = $(runtime_rooms) $(test_libs)
TESTS += tests/nodes/course tests/nodes/faults tests/nodes/presets tests/nodes/values \
	tests/nodes/vit
EXTRA_DIST += \
	tests/nodes/data/codetr_heads.json \
	tests/nodes/data/heads_losses.json \
	tests/nodes/data/make_swin.py \
	tests/nodes/data/params_r18vd.tsv \
	tests/nodes/data/params_r50vd.tsv \
	tests/nodes/data/params_rfdetr_nano.tsv \
	tests/nodes/data/swin.json
