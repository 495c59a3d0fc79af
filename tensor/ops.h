/* ops.h: the built-in ops (the rows of ops.def), and parsed signatures. */
#ifndef DG_TENSOR_OPS_H
#define DG_TENSOR_OPS_H

#include "base/arena.h"
#include "kernels/attrs.h"
#include <detrgraph/kernel.h>

typedef enum dg_op_id {
#define OP(name, ...) DG_OP_##name,
#include "kernels/ops.def"
#undef OP
    DG_N_OPS
} dg_op_id;

extern const dg_op dg_ops[DG_N_OPS];
#define DG_OP(name) (&dg_ops[DG_OP_##name])

/* Floating-point operations of one execution on these operands. */
double dg_op_flops(const dg_op *op, const dg_tensor *t, int n, const void *attr);

enum { DG_MAX_SIGNATURE = 24 };

typedef struct dg_operand {
    const char *name; /* points into the signature's text; len bytes */
    int len;
    bool optional, variadic;
    bool state;     /* :u, updated in place */
    bool wide;      /* :f, stays f32 in mixed precision */
    dg_dtype dtype; /* DG_REAL, DG_I32 or DG_U8 */
    int alias;      /* outputs: index of the input whose memory it may take; -1: none */
} dg_operand;

typedef struct dg_signature {
    int n_in, n_out; /* as written; a variadic input counts once */
    bool variadic;
    dg_operand operand[DG_MAX_SIGNATURE]; /* inputs, then outputs */
} dg_signature;

/* Fails with -DG_EINPUT if text is not a signature. */
int dg_signature_parse(dg_signature *s, const char *text) DG_MUST_USE;
/* Signatures that many instructions ask for: each is parsed once. */
typedef struct dg_signatures {
    dg_arena *arena;
    dg_signature *of[DG_N_OPS];
    dg_signature other; /* of an op that is not built in */
} dg_signatures;
/* Valid until the next call; NULL if the op's text is not a signature. */
const dg_signature *dg_signatures_get(dg_signatures *s, const dg_op *op);
/* The operand that entry i belongs to, counting n_in input entries, then outputs. */
const dg_operand *dg_signature_at(const dg_signature *s, int n_in, int i);
/* True if an instruction may have n_in input entries. */
bool dg_signature_takes(const dg_signature *s, int n_in);

#endif
