/* ops.h: the built-in ops as rows of ops.def, and signatures in parsed form. */
#ifndef DG_TENSOR_OPS_H
#define DG_TENSOR_OPS_H

#include "kernels/attrs.h"
#include <detrgraph/kernel.h>

typedef enum dg_op_id {
#define OP(name, ...) DG_OP_##name,
#include "tensor/ops.def"
#undef OP
    DG_N_OPS
} dg_op_id;

extern const dg_op dg_ops[DG_N_OPS];
#define DG_OP(name) (&dg_ops[DG_OP_##name])
const dg_op *dg_op_find(const char *name); /* NULL if there is none */

/* Floating-point operations of one run on these operands. */
double dg_op_flops(const dg_op *op, const dg_tensor *t, int n, const void *attr);

enum { DG_MAX_SIGNATURE = 24 };

typedef struct dg_operand {
    const char *name; /* into the signature's text, len bytes */
    int         len;
    bool        optional, variadic;
    bool        state; /* :u */
    bool        wide;  /* :f */
    dg_dtype    dtype; /* DG_REAL, DG_I32 or DG_U8 */
    int         alias; /* of an output: the input whose place it may take; -1 */
} dg_operand;

typedef struct dg_signature {
    int        n_in, n_out; /* as written: a variadic input counts once */
    bool       variadic;
    dg_operand operand[DG_MAX_SIGNATURE]; /* inputs, then outputs */
} dg_signature;

/* Returns 0, or -DG_EINPUT when the text is not a signature. */
int dg_signature_parse(dg_signature *s, const char *text) DG_MUST_USE;
/* The operand that entry i of n_in inputs, then outputs, belongs to. */
const dg_operand *dg_signature_at(const dg_signature *s, int n_in, int i);
/* Whether an instruction may have this many input entries. */
bool dg_signature_takes(const dg_signature *s, int n_in);

#endif
