ranks_tests = tests/ranks/codetr tests/ranks/course tests/ranks/data tests/ranks/few \
	tests/ranks/runs tests/ranks/train
check_PROGRAMS += $(ranks_tests)
TESTS += $(ranks_tests) tests/ranks/masks
EXTRA_DIST += tests/ranks/masks
toy_ranks = tests/ranks/toy_rank.c tests/ranks/toy_rank.h tests/train/toy.c tests/train/toy.h
tests_ranks_codetr_SOURCES = tests/ranks/codetr.c $(toy_ranks)
tests_ranks_codetr_LDADD = $(runtime_rooms) $(test_libs)
tests_ranks_course_SOURCES = tests/ranks/course.c tests/comm/crew.c tests/comm/crew.h
tests_ranks_course_LDADD = $(runtime_rooms) $(test_libs)
tests_ranks_data_SOURCES = tests/ranks/data.c $(toy_ranks)
tests_ranks_data_LDADD = $(runtime_rooms) $(test_libs)
tests_ranks_few_SOURCES = tests/ranks/few.c tests/comm/crew.c tests/comm/crew.h
tests_ranks_few_LDADD = $(runtime_rooms) $(test_libs)
tests_ranks_runs_SOURCES = tests/ranks/runs.c $(toy_ranks)
tests_ranks_runs_LDADD = $(runtime_rooms) $(test_libs)
tests_ranks_train_SOURCES = tests/ranks/train.c $(toy_ranks)
tests_ranks_train_LDADD = $(runtime_rooms) $(test_libs)

# Compares whole pipelines with one rank, for tests/long/ranks.
EXTRA_PROGRAMS += tests/ranks/equal
tests_ranks_equal_SOURCES = tests/ranks/equal.c
