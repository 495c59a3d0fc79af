train_tests = tests/train/resume
toy_run = tests/train/toy.c tests/train/toy.h
check_PROGRAMS += $(train_tests)
TESTS += $(train_tests)
tests_train_resume_SOURCES = tests/train/resume.c $(toy_run)
