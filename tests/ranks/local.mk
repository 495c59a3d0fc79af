check_PROGRAMS += tests/ranks/comm
TESTS += tests/ranks/comm
tests_ranks_comm_SOURCES = tests/ranks/comm.c tests/ranks/crew.c tests/ranks/crew.h
threaded += tests/ranks/comm
check_PROGRAMS += tests/ranks/train
TESTS += tests/ranks/train
tests_ranks_train_SOURCES = tests/ranks/train.c tests/ranks/toy_rank.c tests/ranks/toy_rank.h tests/train/toy.c tests/train/toy.h
check_PROGRAMS += tests/ranks/data
TESTS += tests/ranks/data
tests_ranks_data_SOURCES = tests/ranks/data.c tests/ranks/toy_rank.c tests/ranks/toy_rank.h tests/train/toy.c tests/train/toy.h
check_PROGRAMS += tests/ranks/gloo
TESTS += tests/ranks/gloo
tests_ranks_gloo_SOURCES = tests/ranks/gloo.c tests/ranks/crew.h
check_PROGRAMS += tests/ranks/choice
TESTS += tests/ranks/choice
tests_ranks_choice_SOURCES = tests/ranks/choice.c
threaded += tests/ranks/choice
check_PROGRAMS += tests/ranks/course
TESTS += tests/ranks/course
tests_ranks_course_SOURCES = tests/ranks/course.c tests/ranks/crew.c tests/ranks/crew.h

# Speed is measured, not tested: make tests/bench/comm tests/bench/bare. Whole pipelines are compared by tests/long/ranks.
EXTRA_PROGRAMS += tests/bench/comm tests/bench/bare tests/ranks/equal
tests_ranks_equal_SOURCES = tests/ranks/equal.c
tests_bench_comm_SOURCES = tests/bench/comm.c
tests_bench_bare_SOURCES = tests/bench/bare.c
