TESTS += tests/stories/all_empty tests/stories/pages
EXTRA_DIST += tests/stories/all_empty tests/stories/pages
