# check_PROGRAMS, tests_cli_NAME_SOURCES, TESTS; data in EXTRA_DIST.
cli_scripts = tests/cli/batch tests/cli/bench tests/cli/check_data_node tests/cli/check_node \
	tests/cli/completion tests/cli/exit_status tests/cli/fetch tests/cli/init tests/cli/installed \
	tests/cli/language tests/cli/live tests/cli/new_node tests/cli/serve tests/cli/terminal \
	tests/cli/tutorial tests/cli/video
check_PROGRAMS +=
TESTS += $(cli_scripts)
EXTRA_DIST += $(cli_scripts) tests/cli/live.py tests/cli/serve.py tests/cli/web.py
