# check_PROGRAMS, tests_bad_NAME_SOURCES, TESTS; data in EXTRA_DIST.
check_PROGRAMS += tests/bad/pipelines
tests_bad_pipelines_SOURCES = tests/bad/pipelines.c tests/graph/toy.c tests/graph/toy.h
tests_bad_pipelines_LDADD = $(proof_rooms) $(test_libs)
TESTS += tests/bad/pipelines tests/bad/cli
EXTRA_DIST += tests/bad/xml tests/bad/cli tests/bad/cases tests/bad/fixtures

bad_rig = tests/bad/rig.c tests/bad/rig.h tests/train/toy.c tests/train/toy.h
check_PROGRAMS += tests/bad/folders tests/bad/runs
tests_bad_folders_SOURCES = tests/bad/folders.c $(bad_rig)
tests_bad_folders_LDADD = $(runtime_rooms) $(test_libs)
tests_bad_runs_SOURCES = tests/bad/runs.c $(bad_rig)
tests_bad_runs_LDADD = $(runtime_rooms) $(test_libs)
TESTS += tests/bad/folders tests/bad/runs
