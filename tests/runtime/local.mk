runtime_tests = tests/runtime/archive tests/runtime/session tests/runtime/shards
check_PROGRAMS += $(runtime_tests)
TESTS += $(runtime_tests)
tests_runtime_archive_SOURCES = tests/runtime/archive.c
tests_runtime_shards_SOURCES = tests/runtime/shards.c
tests_runtime_session_SOURCES = tests/runtime/session.c tests/train/toy.c tests/train/toy.h
EXTRA_DIST += \
	tests/runtime/data/deflated.pth \
	tests/runtime/data/empty.pth \
	tests/runtime/data/evil.pth \
	tests/runtime/data/list.pth \
	tests/runtime/data/model.pth \
	tests/runtime/data/old.pth \
	tests/runtime/data/old_checkpoint.pth \
	tests/runtime/data/plain.pth \
	tests/runtime/data/reference.pth
stream_tests = tests/runtime/stream tests/runtime/stream_faults
stream_rig = tests/runtime/stream_rig.c tests/runtime/stream_rig.h
check_PROGRAMS += $(stream_tests)
TESTS += $(stream_tests)
tests_runtime_stream_SOURCES = tests/runtime/stream.c $(stream_rig)
tests_runtime_stream_faults_SOURCES = tests/runtime/stream_faults.c $(stream_rig)
threaded += $(stream_tests)
control_tests = tests/runtime/control tests/runtime/launch tests/runtime/message tests/runtime/recorder \
	tests/runtime/roster tests/runtime/seen tests/runtime/muster
check_PROGRAMS += $(control_tests)
TESTS += $(control_tests)
tests_runtime_control_SOURCES = tests/runtime/control.c
tests_runtime_launch_SOURCES = tests/runtime/launch.c
tests_runtime_message_SOURCES = tests/runtime/message.c
# Speed is measured, not tested: make tests/bench/monitor
EXTRA_PROGRAMS += tests/bench/monitor
tests_bench_monitor_SOURCES = tests/bench/monitor.c
tests_runtime_recorder_SOURCES = tests/runtime/recorder.c
roster_rig = tests/runtime/roster_rig.c tests/runtime/roster_rig.h
tests_runtime_roster_SOURCES = tests/runtime/roster.c $(roster_rig)
tests_runtime_seen_SOURCES = tests/runtime/seen.c $(roster_rig)
tests_runtime_muster_SOURCES = tests/runtime/muster.c $(roster_rig)
threaded += tests/runtime/control
