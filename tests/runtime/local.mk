runtime_tests = tests/runtime/archive tests/runtime/session
check_PROGRAMS += $(runtime_tests)
TESTS += $(runtime_tests)
tests_runtime_archive_SOURCES = tests/runtime/archive.c
tests_runtime_session_SOURCES = tests/runtime/session.c tests/train/toy.c tests/train/toy.h
EXTRA_DIST += \
	tests/runtime/data/deflated.pth \
	tests/runtime/data/empty.pth \
	tests/runtime/data/evil.pth \
	tests/runtime/data/list.pth \
	tests/runtime/data/model.pth \
	tests/runtime/data/old.pth \
	tests/runtime/data/plain.pth \
	tests/runtime/data/reference.pth
check_PROGRAMS += tests/runtime/stream
TESTS += tests/runtime/stream
tests_runtime_stream_SOURCES = tests/runtime/stream.c
threaded += tests/runtime/stream
