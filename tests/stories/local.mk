TESTS += tests/stories/pages
EXTRA_DIST += tests/stories/pages
