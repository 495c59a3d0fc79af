/* plan.h: a program with its memory laid out: lifetimes, offsets in one slab, workspaces.
 * Immutable, printable. */
#ifndef DG_TENSOR_PLAN_H
#define DG_TENSOR_PLAN_H

#include "kernels/backend.h"
#include "tensor/program.h"

typedef struct dg_plan_instr { /* parallel to program->instrs */
    const dg_kernel *kernel;   /* chosen for the backend; NULL for collectives and aliases */
    bool             alias;    /* the output is its input: nothing to run */
    bool             is_ref;   /* kernel is a reference kernel */
    uint32_t         zero;     /* bit k: output k must be zeros where the guard is 0: somebody looks */
    void            *handle;   /* from prepare, released with the plan */
    size_t           workspace_bytes;
    int64_t          workspace; /* offset in the slab */
    dg_tensor       *t;         /* operands without data: what prepare saw */
    double           flops, bytes;
} dg_plan_instr;

typedef struct dg_plan {
    const dg_program *program;
    dg_plan_instr    *instrs;
    int               threads;
    int64_t           slab_bytes, constant_bytes, io_bytes;
    int64_t   live_peak_bytes; /* lower bound: largest sum of live values at one instruction */
    int64_t   workspace_bytes; /* the largest */
    dg_arena *arena;
} dg_plan;

/* Takes a program that went through the passes; sets offsets of its slab, constant and io values.
 * Kernels come from the backend's column of the op table. */
int dg_plan_open(dg_plan **plan, dg_program *p, const dg_backend *backend, int threads, dg_diag *d)
    DG_MUST_USE;
void dg_plan_close(dg_plan **plan);

/* Where a value's bytes are: its space, and the offset there. */
size_t dg_plan_value_bytes(const dg_program *p, int32_t v);

/* Proves that no two values that live at the same time share a byte; for tests. */
int dg_plan_verify(const dg_plan *plan, dg_diag *d) DG_MUST_USE;

/* What this rank exchanges with others in one run of batch and update, in the order in which it
 * begins: instruction, node, op, elements of its operand, type, and root where there is one. */
void dg_plan_exchange(dg_str *out, const dg_plan *plan);
/* Of that list, without the instructions' numbers: ranks whose plans for a scope and an image size
 * have equal digests exchange the same things in the same order. */
uint64_t dg_plan_digest(const dg_plan *plan);

/* The instruction listing with spaces and offsets, then memory, FLOPs and bytes by node. */
void dg_plan_print(dg_str *out, const dg_plan *plan, bool instructions);
void dg_plan_json(dg_str *out, const dg_plan *plan, bool instructions); /* one object */

#endif
