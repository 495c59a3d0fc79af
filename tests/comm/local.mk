comm_tests = tests/comm/comm tests/comm/gloo
check_PROGRAMS += $(comm_tests)
TESTS += $(comm_tests)
threaded += tests/comm/comm
tests_comm_comm_SOURCES = tests/comm/comm.c tests/comm/crew.c tests/comm/crew.h \
	tests/comm/duplicate.c
tests_comm_comm_LDADD = $(comm_rooms) $(test_libs)
tests_comm_gloo_SOURCES = tests/comm/gloo.c tests/comm/crew.h tests/comm/duplicate.c
tests_comm_gloo_LDADD = $(comm_rooms) $(test_libs)

# Speed is measured, not tested: make tests/bench/comm tests/bench/bare
EXTRA_PROGRAMS += tests/bench/comm tests/bench/bare
tests_bench_comm_SOURCES = tests/bench/comm.c
tests_bench_bare_SOURCES = tests/bench/bare.c
