check_PROGRAMS += tests/train/resume
tests_train_resume_SOURCES = tests/train/resume.c tests/train/toy.c tests/train/toy.h
TESTS += tests/train/network tests/train/resume tests/train/signals
EXTRA_DIST += tests/train/network tests/train/signals
