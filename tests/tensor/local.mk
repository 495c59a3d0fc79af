tensor_tests = tests/tensor/builder tests/tensor/gradients tests/tensor/passes
check_PROGRAMS += $(tensor_tests)
TESTS += $(tensor_tests)
tensor_rig = tests/check.h tests/tensor/rig.h tests/tensor/rig.c
tests_tensor_builder_SOURCES = tests/tensor/builder.c $(tensor_rig)
tests_tensor_gradients_SOURCES = tests/tensor/gradients.c $(tensor_rig)
tests_tensor_passes_SOURCES = tests/tensor/passes.c $(tensor_rig)
