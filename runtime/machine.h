/* machine.h: runs a program instruction by instruction, with memory of its own for every value: no
 * passes, no plan. What the tests of single ops and `detrgraph check-node` need. */
#ifndef DG_RUNTIME_MACHINE_H
#define DG_RUNTIME_MACHINE_H

#include "tensor/build.h"
#include "tensor/ops.h"

/* What a kernel did that it must not do. */
typedef enum dg_kernel_fault_kind {
    DG_KERNEL_NONE,
    DG_KERNEL_MISSING,  /* there is none */
    DG_KERNEL_FAILED,   /* it returned an error */
    DG_KERNEL_OUTSIDE,  /* it wrote beside an operand */
    DG_KERNEL_INPUT,    /* it changed an operand that is not its to change */
    DG_KERNEL_STATE,    /* it gives other bits when it is called again */
    DG_KERNEL_RUBBISH,  /* an output depends on what stood there before, or in the workspace */
    DG_KERNEL_THREADS,  /* more threads, other bits */
} dg_kernel_fault_kind;

typedef struct dg_kernel_fault {
    dg_kernel_fault_kind kind;
    int                  instr, operand; /* operand: place in the instruction's list */
} dg_kernel_fault;

typedef struct dg_machine {
    dg_arena         *arena;
    const dg_program *p;
    int               bits;
    int               threads;
    bool              host;    /* kernels of the host where an op has one (32 bits), else reference kernels */
    bool              frozen;  /* ops through which no gradient flows keep what they gave: what autodiff differentiates */
    bool              watched; /* every kernel is watched for faults; slow */
    dg_control        control;
    void            **data; /* of value i; guard zones stand around it */
    dg_kernel_fault   fault; /* of the last run */
} dg_machine;

/* Values are zero, constants are set. bits: 32 or 64. */
dg_machine *dg_machine_open(dg_arena *a, const dg_program *p, int bits);
dg_tensor dg_machine_tensor(const dg_machine *m, int32_t value); /* value 0: an absent operand */
void      dg_machine_set(dg_machine *m, int32_t value, const double *numbers);
double    dg_machine_get(const dg_machine *m, int32_t value, int64_t i);

/* Operands of instruction i, in the kernel's order; returns how many. */
int dg_machine_operands(const dg_machine *m, const dg_instr *instr, dg_tensor t[DG_MAX_OPERANDS]);
/* Runs all instructions, or only those of the forward pass; returns 0 or the first kernel's error, or
 * -DG_EINTERNAL after a fault. There must be no collectives. */
int dg_machine_run(dg_machine *m, bool forward_only);

/* One kernel on these operands, with a workspace full of rubbish. */
int dg_machine_kernel(const dg_kernel *k, const dg_tensor *t, int n, const void *attr, const dg_control *c,
                      int threads);

double dg_tensor_get(const dg_tensor *t, int64_t i);
void   dg_tensor_set(const dg_tensor *t, int64_t i, double x);

/* Space in which the gradient of parameter `param` is summed; 0: it reaches no loss. */
int32_t dg_machine_gradient(const dg_program *p, int param);

#endif
