/* passes.h: what happens to a program between lowering and planning, in this order. Each is a
 * function on the program that leaves it valid; dg_passes runs them all. fuse runs inside
 * dg_backward too, on the forward part, so that gradients are those of fused ops. */
#ifndef DG_TENSOR_PASSES_H
#define DG_TENSOR_PASSES_H

#include "tensor/program.h"

/* batch_norm (+ add) (+ relu | silu) -> one op; adamw + ema -> one op */
void dg_pass_fuse(dg_program *p);
/* Drops pure instructions that nobody reads. */
void dg_pass_dead(dg_program *p);
/* One rank: collectives become nothing. */
void dg_pass_collectives(dg_program *p, int ranks);
/* Chooses the storage of every DG_REAL value and inserts casts: base is DG_F32 or DG_F64; low is
 * DG_BF16 or base. */
void dg_pass_precision(dg_program *p, dg_dtype base, dg_dtype low);
/* Clones activations of nodes marked recompute in front of their gradients. After precision, which
 * looks at readers: what is recomputed must be stored as what was computed. */
void dg_pass_recompute(dg_program *p);
/* Several ranks: the gradients are reduced in buckets of about so many elements, each as soon as it
 * is complete. Last: it counts on the order of instructions. */
enum { DG_BUCKET_ELEMENTS = 1 << 21 };
void dg_pass_buckets(dg_program *p, int64_t elements);
/* All of them. Seals the parameters. */
int dg_passes(dg_program *p, dg_dtype base, dg_dtype low, int ranks, dg_diag *d) DG_MUST_USE;

/* Checks every invariant of a program (operands defined before use, shapes agree with the rules,
 * states only updated by state ops): for tests, fuzzing and debug runs. */
int dg_program_verify(const dg_program *p, dg_diag *d) DG_MUST_USE;

#endif
