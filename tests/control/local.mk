control_tests = tests/control/control tests/control/elastic tests/control/judge \
	tests/control/judge_orders tests/control/judge_seen \
	tests/control/launch tests/control/message tests/control/recorder \
	tests/control/strangers
judge_rig = tests/control/judge_rig.c tests/control/judge_rig.h
check_PROGRAMS += $(control_tests)
TESTS += $(control_tests)
threaded += tests/control/control tests/control/strangers
control_rig = tests/control/control_rig.c tests/control/control_rig.h
tests_control_control_SOURCES = tests/control/control.c $(control_rig)
tests_control_control_LDADD = $(control_rooms) $(test_libs)
tests_control_elastic_SOURCES = tests/control/elastic.c $(judge_rig)
tests_control_elastic_LDADD = $(control_rooms) $(test_libs)
tests_control_judge_SOURCES = tests/control/judge.c $(judge_rig)
tests_control_judge_LDADD = $(control_rooms) $(test_libs)
tests_control_judge_orders_SOURCES = tests/control/judge_orders.c $(judge_rig)
tests_control_judge_orders_LDADD = $(control_rooms) $(test_libs)
tests_control_judge_seen_SOURCES = tests/control/judge_seen.c $(judge_rig)
tests_control_judge_seen_LDADD = $(control_rooms) $(test_libs)
tests_control_launch_SOURCES = tests/control/launch.c
tests_control_launch_LDADD = $(control_rooms) $(test_libs)
tests_control_message_SOURCES = tests/control/message.c
tests_control_message_LDADD = $(control_rooms) $(test_libs)
tests_control_recorder_SOURCES = tests/control/recorder.c
tests_control_recorder_LDADD = $(control_rooms) $(test_libs)
tests_control_strangers_SOURCES = tests/control/strangers.c $(control_rig)
tests_control_strangers_LDADD = $(control_rooms) $(test_libs)

# Speed is measured, not tested: make tests/bench/monitor
EXTRA_PROGRAMS += tests/bench/monitor
tests_bench_monitor_SOURCES = tests/bench/monitor.c
