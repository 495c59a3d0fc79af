check_PROGRAMS += tests/train/resume
tests_train_resume_SOURCES = tests/train/resume.c tests/train/toy.c tests/train/toy.h
TESTS += tests/train/resume tests/train/signals
EXTRA_DIST += tests/train/signals
