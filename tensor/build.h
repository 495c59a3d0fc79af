/* build.h: the builder from the inside: what the graph's lowering, autodiff and the passes use
 * beside the public op.h and kernel.h. */
#ifndef DG_TENSOR_BUILD_H
#define DG_TENSOR_BUILD_H

#include "tensor/program.h"

/* Instructions go to the end of p; errors to d, each root cause once. */
dg_build   *dg_build_open(dg_program *p, dg_diag *d);
void        dg_build_close(dg_build **b);
dg_program *dg_build_program(dg_build *b);
bool        dg_build_failed(const dg_build *b); /* some value was poisoned */
int         dg_build_pending(const dg_build *b); /* running statistics whose update waits for the loss */

/* From here on, instructions come from this node; parameter paths are prefix.relative and reference
 * names reference.relative (either may be "": then relative alone). */
void      dg_build_enter(dg_build *b, dg_origin origin, const char *prefix, const char *reference);
dg_origin dg_build_origin(const dg_build *b);
/* Parameters declared from here on are not trained, whatever the node says. */
void      dg_build_freeze(dg_build *b, bool frozen);
/* Ranks on a mesh axis, for dg_axis_size and collectives. */
void dg_build_axis(dg_build *b, const char *axis, int64_t size);

/* The batch: a named input in DG_IO. */
dg_val dg_input(dg_build *b, const char *name, dg_dtype dtype, dg_shape shape);
/* Publishes v (a tensor, or a record: then every field as name.key) as a result. */
void dg_result(dg_build *b, const char *name, dg_val v);
/* ---- guards (guard.c) ------------------------------------------------------------------------ */

/* From here to the matching end instructions run only where flag (one number, i32 or real) is not
 * zero, and where the guards around it are not: so do the gradients derived from them. Skipped, they
 * give zeros, and leave states and other ranks alone. */
void dg_guard_begin(dg_build *b, dg_val flag);
/* out: what leaves; tensors (also in records) that were only passed through become zeros as well. */
void dg_guard_end(dg_build *b, int n, dg_val out[]);
/* From here on these are there always, and zeros where they were skipped: nothing is copied, and
 * what reads them is not skipped with them. */
void dg_guard_connect(dg_build *b, int n, dg_val v[]);
/* Everything emitted from here on runs only where flag is zero: backward and update included. */
void dg_guard_rest(dg_build *b, dg_val flag);
/* 1 where flag is not zero and the guards around it are not, as a value of its own: i32 []. */
dg_val dg_guard_flag(dg_build *b, dg_val flag);
/* Where any of n > 0 guards holds. */
dg_val dg_guard_either(dg_build *b, int n, const dg_val guards[]);
/* The guard that is set, as i32 []; DG_NONE: none. dg_present (op.h) is that of a value. */
dg_val dg_guard_now(const dg_build *b);

bool dg_is_record(dg_val v);
bool dg_is_poison(dg_val v);

/* autodiff.c: appends to p the gradients of `loss` for every trainable parameter that reaches it
 * and `accumulate`s them; called by dg_backward. Fills reached[param] (dg_params_n entries, may be
 * NULL). */
int dg_autodiff(dg_build *b, int32_t loss, bool *reached);
/* Parameters that are declared trainable and not reached by any backward of p: index list in the
 * arena. */
int dg_uncovered(const dg_program *p, const int **params);

#endif
