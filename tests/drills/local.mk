TESTS += tests/drills/quick tests/drills/lies
EXTRA_DIST += tests/drills/quick tests/drills/lies tests/drills/lib.sh tests/drills/drill.c \
	tests/drills/drill.xml tests/drills/shout.c
