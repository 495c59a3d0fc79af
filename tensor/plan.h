/* plan.h: a program with its memory laid out: lifetimes, offsets in one slab, workspaces.
 * Immutable. */
#ifndef DG_TENSOR_PLAN_H
#define DG_TENSOR_PLAN_H

#include "kernels/backend.h"
#include "tensor/program.h"

typedef struct dg_plan_instr { /* parallel to program->instrs */
    const dg_kernel *kernel;   /* NULL for collectives and aliases */
    bool alias;                /* the output shares the input's memory: nothing to run */
    bool is_ref;               /* kernel is a reference kernel */
    bool staged;               /* kernel is the host's: the device has none */
    /* Launched in one call with those that follow: how many, itself among them; -1: with one before
     * it; 0: alone. in_turn: some of them read results of others. */
    int joined;
    bool in_turn;
    uint32_t
        zero_outputs; /* bit k: clear output k when the guard is 0, because it has other readers */
    void *handle;     /* from the kernel's prepare; released with the plan */
    size_t workspace_bytes;
    int64_t workspace; /* offset in the slab */
    dg_tensor *t;      /* operands without data, as given to prepare */
    double flops, bytes;
} dg_plan_instr;

typedef struct dg_plan {
    const dg_program *program;
    dg_plan_instr *instrs;
    int threads;
    int64_t slab_bytes, constant_bytes, io_bytes, report_bytes;
    /* largest sum of live values at one instruction: lower bound of the slab */
    int64_t live_peak_bytes;
    int64_t workspace_bytes; /* largest workspace */
    dg_arena *arena;
} dg_plan;

/* Plans a program that went through the passes; sets the offsets of its slab, constant and io
 * values. Kernels come from the backend's column of the op table. */
int dg_plan_open(dg_plan **plan, dg_program *p, dg_backend *backend, int threads, dg_diag *d)
    DG_MUST_USE;
void dg_plan_close(dg_plan **plan);

/* Size of value v in bytes. */
size_t dg_plan_value_bytes(const dg_program *p, int32_t v);

/* Proves that no two values alive at the same time overlap; for tests. */
int dg_plan_verify(const dg_plan *plan, dg_diag *d) DG_MUST_USE;

/* Lists what this rank exchanges with others in one run of batch and update, in the order of the
 * starts: instruction, node, op, elements, type, and root if any. */
void dg_plan_exchange(dg_str *out, const dg_plan *plan);
/* Digest of that list without instruction numbers. Ranks with equal digests, for a scope and an
 * image size, exchange the same data in the same order. */
uint64_t dg_plan_digest(const dg_plan *plan);

/* Lists the ops that the device lacks, with their numbers of instructions: "softmax (12), exp (1)".
 */
void dg_plan_staged(dg_str *out, const dg_plan *plan);

/* Prints the instructions (if asked) with spaces and offsets, then memory, FLOPs and bytes by
 * node. */
void dg_plan_print(dg_str *out, const dg_plan *plan, bool instructions);
void dg_plan_json(dg_str *out, const dg_plan *plan, bool instructions); /* one JSON object */

#endif
