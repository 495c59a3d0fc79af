base_tests = tests/base/arena tests/base/cgroup \
	tests/base/diag tests/base/file tests/base/limit tests/base/map \
	tests/base/pool \
	tests/base/ring tests/base/rng tests/base/str
check_PROGRAMS += $(base_tests)
TESTS += $(base_tests)
threaded += tests/base/pool tests/base/ring
tests_base_arena_SOURCES = tests/base/arena.c tests/check.h
tests_base_arena_LDADD = $(base_rooms) $(test_libs)
tests_base_cgroup_SOURCES = tests/base/cgroup.c tests/check.h
tests_base_cgroup_LDADD = $(base_rooms) $(test_libs)
tests_base_diag_SOURCES = tests/base/diag.c
tests_base_diag_LDADD = $(base_rooms) $(test_libs)
tests_base_file_SOURCES = tests/base/file.c
tests_base_file_LDADD = $(base_rooms) $(test_libs)
tests_base_limit_SOURCES = tests/base/limit.c
tests_base_limit_LDADD = $(base_rooms) $(test_libs)
tests_base_map_SOURCES = tests/base/map.c
tests_base_map_LDADD = $(base_rooms) $(test_libs)
tests_base_pool_SOURCES = tests/base/pool.c
tests_base_pool_LDADD = $(base_rooms) $(test_libs)
tests_base_ring_SOURCES = tests/base/ring.c
tests_base_ring_LDADD = $(base_rooms) $(test_libs)
tests_base_rng_SOURCES = tests/base/rng.c
tests_base_rng_LDADD = $(base_rooms) $(test_libs)
tests_base_str_SOURCES = tests/base/str.c
tests_base_str_LDADD = $(base_rooms) $(test_libs)
