/* build_internal.h: the builder's state, for the files that implement it (build*.c, record.c,
 * guard.c, autodiff.c). */
#ifndef DG_TENSOR_BUILD_INTERNAL_H
#define DG_TENSOR_BUILD_INTERNAL_H

#include "base/map.h"
#include "tensor/build.h"
#include "tensor/ops.h"
#include "tensor/rules.h"

#define DG_POISON ((dg_val){ -1 })
#define DG_RECORDS ((int64_t)1 << 40) /* handles from here on denote records */

typedef struct dg_axis {
    const char *name;
    int64_t size, place; /* place: this rank's number on it */
} dg_axis;

typedef struct dg_field_of_record {
    const char *key;
    dg_val v;
} dg_field_of_record;
typedef DG_VEC(dg_field_of_record) dg_record_fields;

/* A guard made from `of` (negated if asked) and, unless 0, `also`: it holds where both do. */
typedef struct dg_condition {
    int32_t guard, of, also;
    bool negate;
} dg_condition;

typedef struct dg_pending { /* a stat_update that waits for `ok` */
    dg_origin origin;
    int32_t guard;
    dg_val in[5];
    stat_attr attr;
} dg_pending;

struct dg_build {
    dg_program *p;
    dg_diag *d;
    dg_arena *arena; /* owned by the program */
    dg_origin origin;
    bool whole; /* the whole node is recomputed */
    const char *prefix, *reference;
    bool failed, frozen;
    dg_segment segment;
    dg_phase phase;
    dg_signatures signatures;
    dg_map *constants; /* "type shape hash" -> dg_constant */
    DG_VEC(dg_axis) axes;
    DG_VEC(dg_record_fields) records;
    DG_VEC(int32_t) params; /* value of parameter i; 0: not used by this program */
    DG_VEC(dg_pending) pending;
    int32_t guard;          /* of the instruction emitted next; 0: none */
    DG_VEC(int32_t) guards; /* the enclosing ones */
    DG_VEC(dg_condition) conditions;
    dg_val loss;
};

/* Runs the op's shape rule. s holds n_in, in, in_type, attr, and space for the outputs. */
int dg_infer_run(const dg_op *op, const dg_signature *sig, dg_infer *s, dg_where at, dg_diag *d)
    DG_MUST_USE;
/* NULL for DG_NONE, poison and records; records are reported */
dg_value *dg_value_of(dg_build *b, dg_val v);
/* No gradient flows through v, and none is missed. */
void dg_stop_gradient(dg_build *b, dg_val v);
/* A guard that holds where both do; 0 is the guard that always holds. */
int32_t dg_guard_both(dg_build *b, int32_t x, int32_t y);
/* True if y holds wherever x does. */
bool dg_guard_implies(const dg_build *b, int32_t x, int32_t y);
/* A copy of v that is zeros where the current guard does not hold. */
dg_val dg_guard_copy(dg_build *b, dg_val v);
/* This rank's number on the axis, or axes, of a collective: its attribute `axis`. */
int64_t dg_axis_place(const dg_build *b, int64_t axis);
/* The attributes of a collective over this axis. */
reduce_attr dg_reduce_attr(const dg_build *b, dg_reduce op, int root, const char *axis);
/* the value of a whole space (p->grads, weights, ...), made on first use */
dg_val dg_whole_space(dg_build *b, dg_space s);

#endif
