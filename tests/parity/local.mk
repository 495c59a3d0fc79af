check_PROGRAMS += tests/parity/parity
tests_parity_parity_SOURCES = \
	tests/parity/codetr.c \
	tests/parity/codetr.h \
	tests/parity/codetr_heads.c \
	tests/parity/codetr_step.c \
	tests/parity/compare.c \
	tests/parity/evaluate.c \
	tests/parity/fixture.c \
	tests/parity/fixture.h \
	tests/parity/formula.c \
	tests/parity/formula.h \
	tests/parity/groups.c \
	tests/parity/masks.c \
	tests/parity/misread.c \
	tests/parity/parity.c \
	tests/parity/report.c \
	tests/parity/report.h \
	tests/parity/step.c \
	tests/parity/trace.c \
	tests/parity/trace_groups.c
tests_parity_parity_LDADD = $(runtime_rooms) $(test_libs)
TESTS += tests/parity/check tests/parity/recompute
EXTRA_DIST += \
	tests/parity/check \
	tests/parity/recompute \
	tests/parity/codetr_fixture.py \
	tests/parity/rfdetr_fixture.py \
	tests/parity/data/eval_r18vd_256.json \
	tests/parity/data/eval_rfdetr_nano.json \
	tests/parity/data/rfdetr_base_parts.json \
	tests/parity/data/step_r18vd_256_n5_2.json \
	tests/parity/data/step_rfdetr_nano.json
