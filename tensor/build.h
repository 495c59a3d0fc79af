/* build.h: the builder's interface for lowering, autodiff and passes, besides the public op.h and
 * kernel.h. */
#ifndef DG_TENSOR_BUILD_H
#define DG_TENSOR_BUILD_H

#include "tensor/program.h"

/* Opens a builder that appends to p and reports errors to d, each root cause once. */
dg_build *dg_build_open(dg_program *p, dg_diag *d);
void dg_build_close(dg_build **b);
dg_program *dg_build_program(dg_build *b);
bool dg_build_failed(const dg_build *b); /* some value is poison */
/* batch norm statistics whose update is not emitted yet, because it depends on the loss being
 * finite */
int dg_build_pending(const dg_build *b);

/* Sets the node that the next instructions come from. Parameter paths become prefix.relative,
 * reference names reference.relative; an empty prefix leaves relative alone. */
void dg_build_enter(dg_build *b, dg_origin origin, const char *prefix, const char *reference);
dg_origin dg_build_origin(const dg_build *b);
/* Declares the following parameters as frozen, whatever the node says. */
void dg_build_freeze(dg_build *b, bool frozen);
/* Sets the number of ranks on a mesh axis, for dg_axis_size and collectives. */
void dg_build_axis(dg_build *b, const char *axis, int64_t size);
/* This rank's number on an axis; until then 0. */
void dg_build_place(dg_build *b, const char *axis, int64_t place);

/* A named input of the batch, in DG_IO. */
dg_val dg_input(dg_build *b, const char *name, dg_dtype dtype, dg_shape shape);
/* The same, fed by a node of the graph: as->index, under as->key, which points into as->name. */
dg_val dg_input_as(dg_build *b, const dg_binding *as, dg_dtype dtype, dg_shape shape);
/* A constant i32 that is this rank's own: programs of other ranks of the axis (as in reduce_attr;
 * 0: of any axis) may have the other flag here. */
dg_val dg_own_flag(dg_build *b, int64_t axis, bool flag);
/* The same: i32 [n], 1 at `which` and else 0. */
dg_val dg_own_choice(dg_build *b, int64_t axis, int64_t n, int64_t which);
/* Publishes v as a result; of a record each field as name.key. */
void dg_result(dg_build *b, const char *name, dg_val v);
/* The same, as a result of this kind. as->key, if set, points into as->name; fields of a record
 * extend both. */
void dg_result_as(dg_build *b, const dg_binding *as, dg_val v);

/* ---- guards (guard.c); begin, end and connect are op.h's ------------------------------------ */

/* Runs everything emitted from here on only if flag is zero, including backward and update. */
void dg_guard_rest(dg_build *b, dg_val flag);
/* True if any of n > 0 guards holds. */
dg_val dg_guard_either(dg_build *b, int n, const dg_val guards[]);
/* The current guard, an i32 []; DG_NONE: none. For a value's guard see dg_present (op.h). */
dg_val dg_guard_now(const dg_build *b);

bool dg_is_record(dg_val v);
bool dg_is_poison(dg_val v);

/* autodiff.c: appends the gradients of `loss` for every trainable parameter that it depends on, and
 * accumulates them. Sets reached[param] (dg_params_n entries; may be NULL). Called by
 * dg_backward. */
int dg_autodiff(dg_build *b, int32_t loss, bool *reached);
/* Indices, in p's arena, of trainable parameters that no backward of p reaches; returns their
 * number. */
int dg_uncovered(const dg_program *p, const int **params);

#endif
