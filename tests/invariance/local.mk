# check_PROGRAMS, tests_invariance_NAME_SOURCES, TESTS; data in EXTRA_DIST.
invariance_tests = tests/invariance/cases tests/invariance/choose tests/invariance/fuzz \
	tests/invariance/supply
check_PROGRAMS += $(invariance_tests)
tests_invariance_cases_SOURCES = tests/invariance/cases.c tests/invariance/declared.c \
	tests/invariance/declared.h tests/check.h
tests_invariance_cases_LDADD = libreport.la libproof.la $(nodes_rooms) $(test_libs)
tests_invariance_choose_SOURCES = tests/invariance/choose.c tests/check.h
tests_invariance_choose_LDADD = $(nodes_rooms) $(test_libs)
tests_invariance_supply_SOURCES = tests/invariance/supply.c tests/check.h
tests_invariance_supply_LDADD = $(runtime_rooms) $(test_libs)
tests_invariance_fuzz_SOURCES = tests/invariance/fuzz.c tests/invariance/fuzz_cases.c \
	tests/invariance/fuzz_cases.h tests/invariance/fuzz_cover.c tests/invariance/fuzz_cover.h \
	tests/invariance/fuzz_find.c tests/invariance/fuzz_find.h tests/invariance/fuzz_data.c \
	tests/invariance/fuzz_draw.c tests/invariance/fuzz_draw.h tests/invariance/fuzz_judge.c \
	tests/invariance/fuzz_judge.h tests/invariance/fuzz_layers.c tests/invariance/fuzz_machine.c \
	tests/invariance/fuzz_machine.h tests/invariance/fuzz_meet.c \
	tests/invariance/fuzz_model.c tests/invariance/fuzz_model.h tests/invariance/fuzz_nodes.c \
	tests/invariance/fuzz_ops.c tests/invariance/fuzz_ops.h \
	tests/invariance/fuzz_parts.c tests/invariance/fuzz_parts.h tests/invariance/fuzz_run.c \
	tests/invariance/fuzz_run.h tests/invariance/fuzz_spoil.c tests/invariance/fuzz_still.c \
	tests/invariance/fuzz_text.c tests/invariance/fuzz_text.h \
	tests/invariance/fuzz_toys.c tests/invariance/fuzz_toys.h tests/invariance/fuzz_turn.c \
	tests/invariance/fuzz_val.h tests/invariance/fuzz_xml.c
tests_invariance_fuzz_LDADD = libproof.la $(nodes_rooms) $(test_libs)
TESTS += $(invariance_tests)
EXTRA_DIST += tests/invariance/xml
