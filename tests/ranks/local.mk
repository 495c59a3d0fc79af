check_PROGRAMS += tests/ranks/comm
TESTS += tests/ranks/comm
tests_ranks_comm_SOURCES = tests/ranks/comm.c tests/ranks/crew.c tests/ranks/crew.h
threaded += tests/ranks/comm
check_PROGRAMS += tests/ranks/train
TESTS += tests/ranks/train
tests_ranks_train_SOURCES = tests/ranks/train.c tests/ranks/toy_rank.c tests/ranks/toy_rank.h tests/train/toy.c tests/train/toy.h
