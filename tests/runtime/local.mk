check_PROGRAMS += tests/runtime/session
TESTS += tests/runtime/session
tests_runtime_session_SOURCES = tests/runtime/session.c tests/train/toy.c tests/train/toy.h
tests_runtime_session_LDADD = $(runtime_rooms) $(test_libs)
check_PROGRAMS += tests/runtime/staged
TESTS += tests/runtime/staged
tests_runtime_staged_SOURCES = tests/runtime/staged.c tests/train/toy.c tests/train/toy.h
tests_runtime_staged_LDADD = $(runtime_rooms) $(test_libs)
