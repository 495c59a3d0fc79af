/* wild.h: programs that nobody would write, from a string of bytes: for the planner's property test
 * and for fuzzing. */
#ifndef DG_TESTS_TENSOR_WILD_H
#define DG_TESTS_TENSOR_WILD_H

#include "kernels/backend.h"
#include "tensor/build.h"

/* What becomes of the parts that the bytes put under guards. */
typedef enum wild_guards {
    WILD_SUMS,  /* they run where some value's sum is not zero */
    WILD_FLAG,  /* they run where the input "flag" is not zero */
    WILD_PLAIN, /* there are no guards */
    WILD_ZEROS, /* their values are zeros, and they update nothing */
} wild_guards;

/* Emits what the bytes say. tame: only operations that fit their operands, so that nothing is
 * refused. */
void wild_program(dg_build *b, const uint8_t *bytes, size_t n, bool tame, wild_guards guards);

/* Selects a kernel that does nothing, with a workspace that depends on the op. */
extern dg_backend wild_backend;

#endif
