check_PROGRAMS += tests/ranks/comm
TESTS += tests/ranks/comm
tests_ranks_comm_SOURCES = tests/ranks/comm.c tests/ranks/crew.c tests/ranks/crew.h
threaded += tests/ranks/comm
