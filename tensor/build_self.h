/* build_self.h: the builder's own state, for the files that make it up (build*.c, record.c,
 * autodiff.c). */
#ifndef DG_TENSOR_BUILD_SELF_H
#define DG_TENSOR_BUILD_SELF_H

#include "base/map.h"
#include "tensor/build.h"
#include "tensor/rules.h"

#define DG_POISON ((dg_val){ -1 })
#define DG_RECORDS ((int64_t)1 << 40) /* handles from here on are records */

typedef struct dg_axis {
    const char *name;
    int64_t     size;
} dg_axis;

typedef struct dg_field_of_record {
    const char *key;
    dg_val      v;
} dg_field_of_record;
typedef DG_VEC(dg_field_of_record) dg_record_fields;

/* guard is not zero only where both others are not; where `also` is 0: only where `of` is (not), which
 * it was made from. */
typedef struct dg_condition {
    int32_t guard, of, also;
    bool    negate;
} dg_condition;

typedef struct dg_pending { /* a stat_update that waits for `ok` */
    dg_origin origin;
    int32_t   guard;
    dg_val    in[5];
    stat_attr attr;
} dg_pending;

struct dg_build {
    dg_program              *p;
    dg_diag                 *d;
    dg_arena                *arena; /* the program's */
    dg_origin                origin;
    const char              *prefix, *reference;
    bool                     failed, frozen;
    dg_segment               segment;
    dg_phase                 phase;
    dg_map                  *constants; /* text of type, shape and hash -> dg_constant */
    DG_VEC(dg_axis)          axes;
    DG_VEC(dg_record_fields) records;
    DG_VEC(int32_t)          params; /* value of parameter i, 0 if this program does not use it */
    DG_VEC(dg_pending)       pending;
    int32_t                  guard; /* of what is emitted now; 0: none */
    DG_VEC(int32_t)          guards; /* around it */
    DG_VEC(dg_condition)     conditions;
    dg_val                   loss;
};

/* Runs the shape rule; s holds n_in, in, in_type, attr, and room for the outputs. */
int dg_infer_run(const dg_op *op, const dg_signature *sig, dg_infer *s, dg_where at, dg_diag *d)
    DG_MUST_USE;
dg_value *dg_value_of(dg_build *b,
                      dg_val    v); /* NULL for none, poison and records; the latter is reported */
/* A guard that holds where both do; 0 holds always. */
int32_t dg_guard_both(dg_build *b, int32_t x, int32_t y);
/* Whether y holds wherever x does. */
bool dg_guard_implies(const dg_build *b, int32_t x, int32_t y);
/* v, but zeros where the guard that is set does not hold. */
dg_val dg_guard_copy(dg_build *b, dg_val v);
/* What a collective over this axis says of itself. */
reduce_attr dg_reduce_attr(const dg_build *b, dg_reduce op, int root, const char *axis);
dg_val    dg_whole_space(dg_build *b, dg_space s); /* p->grads, weights, ... made on first use */

#endif
