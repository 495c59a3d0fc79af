check_PROGRAMS += tests/train/damage tests/train/report tests/train/resume tests/train/viewers
leavings = tests/train/leavings.c tests/train/leavings.h tests/train/toy.c tests/train/toy.h
tests_train_report_SOURCES = tests/train/report.c $(leavings)
tests_train_report_LDADD = $(runtime_rooms) $(test_libs)
tests_train_viewers_SOURCES = tests/train/viewers.c $(leavings)
tests_train_viewers_LDADD = $(runtime_rooms) $(test_libs)
tests_train_damage_SOURCES = tests/train/damage.c tests/train/toy.c tests/train/toy.h
tests_train_damage_LDADD = $(runtime_rooms) $(test_libs)
tests_train_resume_SOURCES = tests/train/resume.c tests/train/toy.c tests/train/toy.h
tests_train_resume_LDADD = $(runtime_rooms) $(test_libs)
TESTS += tests/train/damage tests/train/network tests/train/report tests/train/resume \
	tests/train/signals tests/train/viewers
EXTRA_DIST += tests/train/network tests/train/signals tests/train/trace.schema.json
