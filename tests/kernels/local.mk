# check_PROGRAMS, tests_kernels_NAME_SOURCES, TESTS; data in EXTRA_DIST.
check_PROGRAMS += tests/kernels/backend
tests_kernels_backend_SOURCES = tests/check.h tests/kernels/backend.c
tests_kernels_backend_LDADD = $(tensor_rooms) $(test_libs)
check_PROGRAMS += tests/kernels/rounding
tests_kernels_rounding_SOURCES = tests/check.h tests/kernels/rounding.c
tests_kernels_rounding_LDADD = $(tensor_rooms) $(test_libs)
check_PROGRAMS += tests/kernels/taps
tests_kernels_taps_SOURCES = tests/check.h tests/kernels/taps.c
tests_kernels_taps_LDADD = $(tensor_rooms) $(test_libs)
check_PROGRAMS += tests/kernels/pack
tests_kernels_pack_SOURCES = tests/check.h tests/kernels/pack.c
tests_kernels_pack_LDADD = $(tensor_rooms) $(test_libs)
far_tests = tests/kernels/far tests/kernels/far_calls tests/kernels/far_faults \
	tests/kernels/far_record
check_PROGRAMS += $(far_tests)
tests_kernels_far_SOURCES = tests/check.h tests/kernels/far.h tests/kernels/far.c
tests_kernels_far_calls_SOURCES = tests/check.h tests/kernels/far.h tests/kernels/far_calls.c
tests_kernels_far_faults_SOURCES = tests/check.h tests/kernels/far.h tests/kernels/far_faults.c
tests_kernels_far_record_SOURCES = tests/check.h tests/kernels/far.h tests/kernels/far_record.c
tests_kernels_far_LDADD = $(tensor_rooms) $(test_libs)
tests_kernels_far_calls_LDADD = $(tests_kernels_far_LDADD)
tests_kernels_far_faults_LDADD = $(tests_kernels_far_LDADD)
tests_kernels_far_record_LDADD = $(tests_kernels_far_LDADD)
TESTS += tests/kernels/backend tests/kernels/rounding tests/kernels/taps tests/kernels/pack \
	$(far_tests)
threaded += $(far_tests)
EXTRA_DIST += tests/bench/peers.py
# Speed is measured, not tested: make tests/bench/kernels
EXTRA_PROGRAMS = tests/bench/kernels
tests_bench_kernels_SOURCES = tests/bench/kernels.c
