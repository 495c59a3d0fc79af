lints = tests/lint/counts tests/lint/exports tests/lint/diagnostics tests/lint/globals tests/lint/headers tests/lint/layers tests/lint/links tests/lint/manual tests/lint/words
TESTS += $(lints)
EXTRA_DIST += $(lints) tests/lint/tap.sh
