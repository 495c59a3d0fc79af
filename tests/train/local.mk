check_PROGRAMS += tests/train/report tests/train/resume tests/train/viewers
leavings = tests/train/leavings.c tests/train/leavings.h tests/train/toy.c tests/train/toy.h
tests_train_report_SOURCES = tests/train/report.c $(leavings)
tests_train_viewers_SOURCES = tests/train/viewers.c $(leavings)
tests_train_resume_SOURCES = tests/train/resume.c tests/train/toy.c tests/train/toy.h
TESTS += tests/train/network tests/train/report tests/train/resume tests/train/signals tests/train/viewers
EXTRA_DIST += tests/train/network tests/train/signals tests/train/trace.schema.json
