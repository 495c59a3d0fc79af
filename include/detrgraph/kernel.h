/* kernel.h: ops and their kernels; for adding ops. Nodes need only op.h.
 *
 * An op is a row: a signature, an effect, a shape rule, a gradient rule and kernels. Kernels never
 * allocate, log or block: they get their memory as arguments and return a status. */
#ifndef DETRGRAPH_KERNEL_H
#define DETRGRAPH_KERNEL_H

#include <detrgraph/op.h>

#ifdef __cplusplus
extern "C" {
#endif

enum { DG_MAX_OPERANDS = 64, DG_MAX_GROUPS = 32 };

/* the largest learning rate that a pipeline or a person may set */
#define DG_LR_MAX 10.0

/* Numbers that change from step to step, in device memory. The host computes them in f64 and writes
 * them with one copy before a step; no kernel takes a step-dependent number by value. */
typedef struct dg_control {
    uint64_t seed;
    int64_t step;  /* optimizer steps finished before this one */
    int64_t batch; /* batches finished before this one */
    int64_t epoch;
    int64_t sample;      /* global number of this rank's first sample */
    int32_t accumulated; /* batches already summed into the gradients; 0: overwrite */
    int32_t n_groups;
    double bias1, bias2; /* 1 - beta^t of AdamW, t = step + 1 */
    double ema_decay;
    double lr[DG_MAX_GROUPS];
} dg_control;

/* One call of a kernel. t holds the operands in the order of the op's signature; an absent optional
 * one has data == NULL. A variadic operand is the last input and takes the remaining entries. */
typedef struct dg_args {
    const dg_tensor *t;
    int n;
    const void *attr; /* the op's attribute struct */
    const dg_control *control;
    void *workspace; /* as many bytes as prepare asked for, aligned to 64; undefined contents */
    void *handle;    /* from prepare */
    int threads;
} dg_args;

/* Arguments of prepare (operands have no data yet), and its results. */
typedef struct dg_prepare {
    const dg_tensor *t;
    int n;
    const void *attr;
    int threads;
    void *handle;           /* result */
    size_t workspace_bytes; /* result */
} dg_prepare;

/* prepare and release may be NULL. run returns 0 or -DG_E.... */
typedef struct dg_kernel {
    int (*prepare)(dg_prepare *p);
    int (*run)(const dg_args *a);
    void (*release)(void *handle);
} dg_kernel;

typedef enum dg_effect {
    /* outputs depend only on inputs, attributes and control: may be merged, dropped or
     * recomputed */
    DG_PURE,
    DG_STATE,      /* updates operands marked `u` */
    DG_COLLECTIVE, /* executed by the communicator, not by a kernel */
} dg_effect;

/* How the mixed-precision pass treats the op. */
typedef enum dg_precision {
    DG_ANY,     /* follows its inputs: bf16 in, bf16 out */
    DG_LOW,     /* prefers bf16 in and out, accumulates in f32; takes f32 weights unconverted */
    DG_F32STAT, /* bf16 in and out, but statistics and parameters stay f32 */
    DG_WIDE,    /* f32 in and out */
} dg_precision;

/* A shape rule: reads in_*, fills out_* of every output. An absent optional input has shape.rank ==
 * -1; leave an absent optional output at rank -1. Returns 0 or dg_infer_fail(...). */
typedef struct dg_infer {
    int n_in, n_out;
    const dg_shape *in;
    const dg_dtype *in_type;
    const void *attr;
    dg_shape *out;
    dg_dtype *out_type; /* preset from the signature */
    void *ctx;
} dg_infer;
DG_PUBLIC int dg_infer_fail(dg_infer *s, const char *fmt, ...) DG_PRINTF(2, 3);

/* A gradient rule: in, out are the op's operands, dout the gradients of its outputs (DG_NONE: the
 * loss does not depend on that output). Sets din for every input: a value, or DG_NONE for a known
 * zero. Entries with !wanted[i] may stay DG_NONE. */
typedef struct dg_grad_call {
    int n_in, n_out;
    const dg_val *in, *out, *dout;
    const void *attr;
    const bool *wanted;
    dg_val *din;
} dg_grad_call;

/* A field of an attribute struct, for printing programs. */
typedef enum dg_field_kind {
    DG_FIELD_INT,
    DG_FIELD_INTS,
    DG_FIELD_REAL,
    DG_FIELD_DTYPE,
    DG_FIELD_SHAPE
} dg_field_kind;
typedef struct dg_field {
    const char *name;   /* NULL terminates the list */
    dg_field_kind kind; /* INT: int64_t; INTS: int64_t[count]; REAL: double */
    uint32_t offset, count;
} dg_field;

/* A row of the op table. The signature lists operands in order, inputs, `->`, outputs:
 *     "x w:f b?:f -> y"
 * suffixes: `?` optional, `*` variadic (last input), `:u` state updated in place, `:i` i32 instead
 * of real, `:b` u8, `:f` stays f32 in mixed precision (f64 in f64 mode), `(=x)` the output may take
 * x's memory if x dies here. */
typedef struct dg_op {
    uint32_t size; /* sizeof(dg_op), set by DG_OP_ROW */
    const char *name, *signature;
    dg_effect effect;
    dg_precision precision;
    uint32_t attr_bytes;
    const dg_field *fields;
    int (*shape)(dg_infer *s);
    void (*grad)(dg_build *b, dg_grad_call *g); /* NULL: the gradient is a known zero */
    const dg_kernel *ref32, *ref64;             /* the definition, in f32 and f64 */
    const dg_kernel *host;                      /* the fast kernel; NULL: use ref32 */
    const dg_kernel *cuda;                      /* not read: the CUDA module has its own table */
    double tolerance; /* host against ref, relative to each output's largest magnitude */
    /* Floating-point operations of one call, for reports; NULL: one per output element. */
    double (*flops)(const dg_tensor *t, int n, const void *attr);
} dg_op;
#define DG_OP_ROW .size = sizeof(dg_op)

/* Appends an instruction. in has n_in entries: one per input of the signature (DG_NONE for an
 * absent optional one; variadic inputs are consecutive). out receives one value per output. attr is
 * copied. A poisoned input or a failed shape rule poisons all outputs. */
DG_PUBLIC void dg_emit(dg_build *b, const dg_op *op, const void *attr, int n_in, const dg_val in[],
                       dg_val out[]);

#ifdef __cplusplus
}
#endif
#endif
