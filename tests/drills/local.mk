TESTS += tests/drills/quick
EXTRA_DIST += tests/drills/quick tests/drills/lib.sh tests/drills/drill.c tests/drills/drill.xml \
	tests/drills/shout.c
