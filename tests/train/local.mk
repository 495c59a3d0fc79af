check_PROGRAMS += tests/train/report tests/train/resume
tests_train_report_SOURCES = tests/train/report.c tests/train/toy.c tests/train/toy.h
tests_train_resume_SOURCES = tests/train/resume.c tests/train/toy.c tests/train/toy.h
TESTS += tests/train/network tests/train/report tests/train/resume tests/train/signals
EXTRA_DIST += tests/train/network tests/train/signals
