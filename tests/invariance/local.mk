# check_PROGRAMS, tests_invariance_NAME_SOURCES, TESTS; data in EXTRA_DIST.
invariance_tests = tests/invariance/cases tests/invariance/choose tests/invariance/fuzz tests/invariance/supply
check_PROGRAMS += $(invariance_tests)
tests_invariance_cases_SOURCES = tests/invariance/cases.c tests/check.h
tests_invariance_choose_SOURCES = tests/invariance/choose.c tests/check.h
tests_invariance_supply_SOURCES = tests/invariance/supply.c tests/check.h
proof_fuzz = tests/invariance/fuzz
tests_invariance_fuzz_SOURCES = $(proof_fuzz).c $(proof_fuzz)_cases.c $(proof_fuzz)_cases.h $(proof_fuzz)_data.c \
	$(proof_fuzz)_draw.c $(proof_fuzz)_draw.h $(proof_fuzz)_judge.c $(proof_fuzz)_judge.h $(proof_fuzz)_layers.c \
	$(proof_fuzz)_meet.c $(proof_fuzz)_model.c $(proof_fuzz)_model.h $(proof_fuzz)_nodes.c $(proof_fuzz)_parts.c \
	$(proof_fuzz)_parts.h $(proof_fuzz)_run.c $(proof_fuzz)_run.h $(proof_fuzz)_spoil.c $(proof_fuzz)_still.c \
	$(proof_fuzz)_toys.c $(proof_fuzz)_toys.h $(proof_fuzz)_turn.c $(proof_fuzz)_val.h $(proof_fuzz)_xml.c
TESTS += $(invariance_tests)
EXTRA_DIST += tests/invariance/xml
