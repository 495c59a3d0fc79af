/* fuzz.h: what a fuzz target is. It takes any bytes and must neither crash, hang nor leak. Linked
 * with replay.c it is a test over tests/fuzz/corpus/<name>; configured with
 * --enable-sanitizers=address,undefined,fuzzer and CC=clang CXX=clang++, libFuzzer drives it: make
 * fuzz FUZZ_SECONDS=60. */
#ifndef DG_TESTS_FUZZ_FUZZ_H
#define DG_TESTS_FUZZ_FUZZ_H

#include <stddef.h>
#include <stdint.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

#endif
