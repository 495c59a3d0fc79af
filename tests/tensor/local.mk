tensor_tests = tests/tensor/builder tests/tensor/devices tests/tensor/gradients \
	tests/tensor/guards tests/tensor/join tests/tensor/passes tests/tensor/plan tests/tensor/ranks
check_PROGRAMS += $(tensor_tests)
TESTS += $(tensor_tests)
tensor_rig = tests/check.h tests/tensor/rig.h tests/tensor/rig.c
tensor_network = tests/tensor/network.h tests/tensor/network.c $(tensor_rig)
tests_tensor_builder_SOURCES = tests/tensor/builder.c $(tensor_rig)
tests_tensor_builder_LDADD = $(exec_rooms) $(test_libs)
tests_tensor_devices_SOURCES = tests/tensor/devices.c $(tensor_network)
tests_tensor_devices_LDADD = $(exec_rooms) $(test_libs)
EXTRA_tests_tensor_devices_DEPENDENCIES = tests/cuda/standin.la
tests_tensor_gradients_SOURCES = tests/tensor/gradients.c $(tensor_rig)
tests_tensor_gradients_LDADD = $(exec_rooms) $(test_libs)
tests_tensor_guards_SOURCES = tests/tensor/guards.c tests/tensor/wild.c tests/tensor/wild.h \
	$(tensor_rig)
tests_tensor_guards_LDADD = $(exec_rooms) $(test_libs)
tests_tensor_join_SOURCES = tests/tensor/join.c tests/tensor/wild.c tests/tensor/wild.h \
	$(tensor_rig)
tests_tensor_join_LDADD = $(exec_rooms) $(test_libs)
tests_tensor_ranks_SOURCES = tests/tensor/ranks.c tests/comm/crew.c tests/comm/crew.h $(tensor_rig)
tests_tensor_ranks_LDADD = libcomm.la $(exec_rooms) $(test_libs)
tests_tensor_passes_SOURCES = tests/tensor/passes.c $(tensor_network)
tests_tensor_passes_LDADD = $(exec_rooms) $(test_libs)
tests_tensor_plan_SOURCES = tests/tensor/plan.c tests/tensor/wild.c tests/tensor/wild.h \
	$(tensor_rig)
tests_tensor_plan_LDADD = $(exec_rooms) $(test_libs)
EXTRA_DIST += tests/tensor/data
