/* machine.h: runs a program on reference kernels, instruction by instruction, with memory of its
 * own for every value: no passes, no plan. What tests of single ops need, in f32 or f64. */
#ifndef DG_TESTS_OPS_MACHINE_H
#define DG_TESTS_OPS_MACHINE_H

#include "tensor/build.h"
#include "tensor/ops.h"

typedef struct machine {
    dg_arena         *arena;
    const dg_program *p;
    int               bits;
    int               threads;
    dg_control        control;
    void            **data; /* of value i */
} machine;

/* Values are zero, constants are set. bits: 32 or 64. */
machine  *machine_open(dg_arena *a, const dg_program *p, int bits);
dg_tensor machine_tensor(const machine *m, int32_t value); /* value 0: an absent operand */
void      machine_set(machine *m, int32_t value, const double *numbers);
double    machine_get(const machine *m, int32_t value, int64_t i);

/* Operands of instruction i, in the kernel's order; returns how many. */
int machine_operands(const machine *m, const dg_instr *instr, dg_tensor t[DG_MAX_OPERANDS]);
/* Runs all instructions, or only those of the forward pass; returns 0 or the first kernel's
 * error. */
int machine_run(machine *m, bool forward_only);

/* One kernel on these operands, with a workspace full of rubbish. */
int run_kernel(const dg_kernel *k, const dg_tensor *t, int n, const void *attr, const dg_control *c,
               int threads);

double tensor_get(const dg_tensor *t, int64_t i);
void   tensor_set(const dg_tensor *t, int64_t i, double x);

/* Space in which the gradient of parameter `param` is summed; 0: it reaches no loss. */
int32_t gradient_of(const dg_program *p, int param);

#endif
