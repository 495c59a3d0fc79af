/* passes.h: passes over a program between lowering and planning, in this order. Each leaves the
 * program valid; dg_passes runs all. dg_backward also runs fuse on the forward part, so that
 * gradients are those of the fused ops. */
#ifndef DG_TENSOR_PASSES_H
#define DG_TENSOR_PASSES_H

#include "kernels/backend.h"
#include "tensor/program.h"

/* batch_norm (+ add) (+ relu | silu) -> one op; adamw + ema -> one op */
void dg_pass_fuse(dg_program *p);
/* Removes pure instructions whose outputs are unread. */
void dg_pass_dead(dg_program *p);
/* Chooses the storage type of every DG_REAL value and inserts casts. base: DG_F32 or DG_F64; low:
 * DG_BF16 or base. What the backend (NULL: none) runs faster in base stays base. */
void dg_pass_precision(dg_program *p, dg_dtype base, dg_dtype low, dg_backend *backend);
/* Packs the kernels of convolutions, frozen norms included, where the backend (NULL: none) has
 * kernels for it that are no reference kernels. */
void dg_pass_pack(dg_program *p, dg_backend *backend);
/* matmul (+ add | relu) -> matmul_act, add + batch_norm_grad -> one op, likewise. */
void dg_pass_fuse_device(dg_program *p, dg_backend *backend);
/* Clones the activations of nodes and parts marked recompute before their gradients. Runs after
 * precision, so that clones are stored with the originals' types. */
void dg_pass_recompute(dg_program *p);
/* Brings together what the backend (NULL: none) takes as one launch. */
void dg_pass_join(dg_program *p, dg_backend *backend);
/* With several ranks, reduces gradients in buckets of about `elements` elements, each as soon as it
 * is complete. Runs last, because it depends on the final order of instructions. */
enum { DG_BUCKET_ELEMENTS = 1 << 21 };
void dg_pass_buckets(dg_program *p, int64_t elements);
/* Runs all passes and seals the parameters. */
int dg_passes(dg_program *p, dg_dtype base, dg_dtype low, dg_backend *backend, int ranks,
              dg_diag *d) DG_MUST_USE;

/* Checks the program's invariants (operands defined before use, shapes as the rules say, states
 * updated only by state ops); for tests, fuzzing and debug runs. */
int dg_program_verify(const dg_program *p, dg_diag *d) DG_MUST_USE;

#endif
