/* operands.h: operands of an instruction in several precisions, and how far results are apart. */
#ifndef DG_TESTS_OPS_OPERANDS_H
#define DG_TESTS_OPS_OPERANDS_H

#include "check/interpreter.h"

/* Largest difference over largest magnitude, or over `least` if that is more; infinite where one
 * is not finite and the other is not the same. */
double distance(const dg_tensor *a, const dg_tensor *b, double least);

/* What the signature says of operand i. */
dg_operand operand_of(const dg_instr *instr, int i);

/* A copy of the operands, reals stored as `type`: bf16 where the signature allows it. Outputs
 * are full of rubbish. */
void copy_operands(dg_arena *a, const dg_interpreter *m, const dg_instr *instr, dg_dtype type,
                   dg_tensor *to);
/* Outputs take the places of inputs where the signature allows it. */
void share_places(const dg_instr *instr, dg_tensor *t);
/* Gives every bf16 operand's value to the f32 operand at the same place. */
void widen_inputs(const dg_instr *instr, const dg_tensor *low, dg_tensor *wide);

#endif
