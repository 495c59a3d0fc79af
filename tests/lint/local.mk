lints = tests/lint/counts tests/lint/columns tests/lint/exports tests/lint/externs \
	tests/lint/diagnostics tests/lint/globals tests/lint/headers tests/lint/layers \
	tests/lint/links tests/lint/manual tests/lint/names tests/lint/tracked tests/lint/words
# With tools that building does not need; make lint runs them, make check does not.
lint_tools = tests/lint/format tests/lint/cppcheck tests/lint/tidy
TESTS += $(lints)
EXTRA_DIST += $(lints) $(lint_tools) tests/lint/tap.sh tests/lint/compile_commands.awk \
	tests/lint/cppcheck.cfg tests/lint/cppcheck.txt .clang-tidy tests/.clang-tidy .editorconfig
CLEANFILES += compile_commands.json

# Every lint, with the programs that make check does not build. SINCE=COMMIT: clang-tidy, the slow
# one, reads only what changed since then.
lint: all $(EXTRA_PROGRAMS) compile_commands.json
	@CHECK_TIMEOUT=3600 CHECK_JOBS=1 SINCE='$(SINCE)' $(harness) $(lints) $(lint_tools)

format:
	@srcdir='$(srcdir)' bash $(srcdir)/tests/lint/format --write

# For editors and clang-tidy: what make would run if every source had changed.
compile_commands.json: Makefile
	@$(MAKE) -n V=1 $(SOURCES:%=-W %) $(module_sources:%=-W %) all-am $(check_PROGRAMS) 2>/dev/null | \
	awk -v dir='$(abs_builddir)' -f $(srcdir)/tests/lint/compile_commands.awk >$@.new && \
	mv -f $@.new $@

.PHONY: format lint
