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
    dg_val in[SAMPLE_MOST], loss; /* loss: 0 if the sample has none */
} sample_program;

void sample_program_open(sample_program *sp, dg_arena *a, const sample *one);
void sample_program_close(sample_program *sp);
void sample_program_fill(const sample_program *sp, dg_interpreter *m);

/* The precisions that twins are compared in, and a check of an instruction in one of them. */
enum { SAMPLE_TYPES = 3 };
extern const dg_dtype sample_types[SAMPLE_TYPES];
extern const char *const sample_type_names[SAMPLE_TYPES];
typedef void sample_check(void *ctx, dg_interpreter *m, const dg_instr *instr, int type);
/* Runs the sample instruction by instruction with the f32 reference; before each one, calls check
 * for every type that its op may have. */
void sample_program_walk(dg_arena *a, const sample *one, sample_check *check, void *ctx);

#endif
