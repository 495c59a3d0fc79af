/* sample_program.h: a sample as a program: its operands, the op, a loss over its outputs and the
 * gradients. */
#ifndef DG_TESTS_OPS_SAMPLE_PROGRAM_H
#define DG_TESTS_OPS_SAMPLE_PROGRAM_H

#include "check/interpreter.h"
#include "tests/ops/samples.h"

typedef struct sample_program {
    const sample *one;
    dg_params *params;
    dg_program *p;
    dg_diag *d;
    dg_val in[8], loss; /* loss: 0 if the sample has none */
} sample_program;

void sample_program_open(sample_program *sp, dg_arena *a, const sample *one);
void sample_program_close(sample_program *sp);
void sample_program_fill(const sample_program *sp, dg_interpreter *m);

#endif
