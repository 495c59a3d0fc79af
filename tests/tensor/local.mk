tensor_tests = tests/tensor/builder tests/tensor/gradients tests/tensor/guards tests/tensor/passes tests/tensor/plan \
	tests/tensor/ranks
check_PROGRAMS += $(tensor_tests)
TESTS += $(tensor_tests)
tensor_rig = tests/check.h tests/tensor/rig.h tests/tensor/rig.c
tests_tensor_builder_SOURCES = tests/tensor/builder.c $(tensor_rig)
tests_tensor_gradients_SOURCES = tests/tensor/gradients.c $(tensor_rig)
tests_tensor_guards_SOURCES = tests/tensor/guards.c tests/tensor/wild.c tests/tensor/wild.h $(tensor_rig)
tests_tensor_ranks_SOURCES = tests/tensor/ranks.c tests/ranks/crew.c tests/ranks/crew.h $(tensor_rig)
tests_tensor_passes_SOURCES = tests/tensor/passes.c $(tensor_rig)
tests_tensor_plan_SOURCES = tests/tensor/plan.c tests/tensor/wild.c tests/tensor/wild.h $(tensor_rig)
EXTRA_DIST += tests/tensor/data
