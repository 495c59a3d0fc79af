/* interpreter.h: runs a program instruction by instruction, with separate memory for every value:
 * no passes, no plan. For tests of single ops and `detrgraph check-node`. */
#ifndef DG_CHECK_INTERPRETER_H
#define DG_CHECK_INTERPRETER_H

#include "base/element.h"
#include "tensor/build.h"
#include "tensor/ops.h"

/* What a kernel did wrong. */
typedef enum dg_kernel_fault_kind {
    DG_KERNEL_NONE,
    DG_KERNEL_MISSING, /* no kernel exists */
    DG_KERNEL_FAILED,  /* returned an error */
    DG_KERNEL_OUTSIDE, /* wrote outside an operand */
    DG_KERNEL_INPUT,   /* changed an operand that it must only read */
    DG_KERNEL_STATE,   /* other bits when called again */
    DG_KERNEL_GARBAGE, /* an output depends on earlier contents of outputs or workspace */
    DG_KERNEL_THREADS, /* other bits with more threads */
} dg_kernel_fault_kind;

typedef struct dg_kernel_fault {
    dg_kernel_fault_kind kind;
    int instr, operand; /* operand: index in the instruction's list */
} dg_kernel_fault;

typedef struct dg_interpreter {
    dg_arena *arena;
    const dg_program *p;
    int bits;
    int threads;
    bool host; /* use the host's kernels where they exist (32 bits); false: reference kernels */
    /* ops without a gradient repeat their first outputs, so that differences match what autodiff
     * differentiates */
    bool frozen;
    bool checked; /* check every kernel for faults; slow */
    dg_control control;
    void **data;           /* of value i, between guard zones */
    dg_kernel_fault fault; /* of the latest run */
} dg_interpreter;

/* Values start at zero, constants are set. bits: 32 or 64. */
dg_interpreter *dg_interpreter_open(dg_arena *a, const dg_program *p, int bits);
/* value 0: an absent operand */
dg_tensor dg_interpreter_tensor(const dg_interpreter *m, int32_t value);
void dg_interpreter_set(dg_interpreter *m, int32_t value, const double *numbers);
double dg_interpreter_get(const dg_interpreter *m, int32_t value, int64_t i);

/* The operands of an instruction in the kernel's order; returns their number. */
int dg_interpreter_operands(const dg_interpreter *m, const dg_instr *instr,
                            dg_tensor t[DG_MAX_OPERANDS]);
/* Runs all instructions, or only the forward pass. Returns 0, the first kernel's error, or
 * -DG_EINTERNAL after a fault. The program must not contain collectives. */
int dg_interpreter_run(dg_interpreter *m, bool forward_only);

/* Runs one kernel on these operands, with garbage in the workspace. */
int dg_interpreter_kernel(const dg_kernel *k, const dg_tensor *t, int n, const void *attr,
                          const dg_control *c, int threads);

/* The space that accumulates the gradient of parameter `param`; 0: it reaches no loss. */
int32_t dg_interpreter_gradient(const dg_program *p, int param);

#endif
