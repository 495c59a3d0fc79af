proof_tests = tests/proof/monitors tests/proof/second tests/proof/second_graphs \
	tests/proof/defects tests/proof/advice tests/proof/codetr \
	tests/proof/families
check_PROGRAMS += $(proof_tests)
TESTS += $(proof_tests) tests/proof/metrics
EXTRA_DIST += tests/proof/metrics
proof_loaded = tests/proof/loaded.c tests/proof/loaded.h tests/invariance/declared.c \
	tests/invariance/declared.h tests/check.h
proof_followed = tests/proof/edits.c tests/proof/edits.h tests/proof/followed.c \
	tests/proof/followed.h $(proof_loaded)
tests_proof_advice_SOURCES = tests/proof/advice.c $(proof_followed)
tests_proof_families_SOURCES = tests/proof/families.c $(proof_followed)
EXTRA_DIST += tests/proof/drawn
tests_proof_codetr_SOURCES = tests/proof/codetr.c $(proof_followed)
tests_proof_codetr_LDADD = libproof.la $(nodes_rooms) $(test_libs)
tests_proof_families_LDADD = libproof.la $(nodes_rooms) $(test_libs)
tests_proof_advice_LDADD = libproof.la $(nodes_rooms) $(test_libs)
tests_proof_monitors_SOURCES = tests/proof/monitors.c
tests_proof_monitors_LDADD = libproof.la $(nodes_rooms) $(test_libs)
tests_proof_defects_SOURCES = tests/proof/defects.c $(proof_loaded)
tests_proof_defects_LDADD = libproof.la $(nodes_rooms) $(test_libs)
tests_proof_second_SOURCES = tests/proof/second.c tests/check.h
tests_proof_second_graphs_SOURCES = tests/proof/second_graphs.c $(proof_loaded)
tests_proof_second_graphs_LDADD = libproof.la $(nodes_rooms) $(test_libs)
tests_proof_second_LDADD = libproof.la $(nodes_rooms) $(test_libs)
# Speed is measured, not tested: make tests/bench/proof
EXTRA_PROGRAMS += tests/bench/proof
tests_bench_proof_SOURCES = tests/bench/proof.c
tests_bench_proof_LDADD = libproof.la $(nodes_rooms) $(test_libs)
