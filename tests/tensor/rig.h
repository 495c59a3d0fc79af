/* rig.h: a program from its builder to numbers, on reference kernels: what the tests of tensor/ and
 * exec/ share. */
#ifndef DG_TESTS_TENSOR_RIG_H
#define DG_TESTS_TENSOR_RIG_H

#include "tests/check.h"

#include "exec/exec.h"
#include "tensor/build.h"
#include "tensor/ops.h"
#include "tensor/passes.h"

typedef struct rig {
    dg_diag *d;
    dg_backend *backend;
    dg_params *params;
    dg_program *p;
    dg_build *b;
    dg_plan *plan;
    dg_exec *x;
    dg_spaces spaces;
    dg_control control;
    dg_dtype base;
    dg_dtype low; /* of DG_LOW ops; 0: base */
} rig;

/* On the host, or on the far device if DETRGRAPH_DEVICE in the environment names it. */
rig rig_open(bool training);
rig rig_open_on(bool training, const char *device);
void rig_close(rig *r);
void rig_node(rig *r, int number, const char *path,
              bool recompute); /* instructions come from here on */

/* Passes, plan, proof, memory, initial values from seed 7. */
void rig_compile(rig *r, dg_dtype base);
/* The same for one of several ranks; the communicator is the caller's. */
void rig_compile_rank(rig *r, dg_dtype base, dg_comm *comm);
/* As many bytes for every space, where the program's own need none. */
void rig_spaces(rig *r, size_t bytes_each);
void rig_batch(rig *r);  /* runs the batch segment */
void rig_update(rig *r); /* and the update */

void rig_input(rig *r, const char *name, const double *values);
double rig_result(rig *r, const char *name);
/* A parameter's elements in a space, by path. */
void rig_get(rig *r, dg_space s, const char *path, double *out);
void rig_set(rig *r, dg_space s, const char *path, const double *in);
/* A copy of the beginning of a space; free it. */
void *rig_copy(rig *r, dg_space s, size_t bytes);
int rig_count(const rig *r, const dg_op *op); /* instructions of the program */
const dg_instr *rig_find(const rig *r, const dg_op *op);

/* Compares text with tests/tensor/data/<name>; DG_RECORD=1 in the environment writes it instead. */
void rig_stored(const char *name, const char *text);

#endif
