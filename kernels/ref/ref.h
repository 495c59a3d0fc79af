/* ref.h: shared by the reference kernels. A reference kernel defines its op: plain loops, written
 * to be read. One source serves both precisions: it is compiled with DG_REF_BITS 32 and 64, `real`
 * is the type of every real operand, and DG_REF(name, ...) defines the symbol dg_ref_<name>_f32 or
 * dg_ref_<name>_f64.
 *
 * Arithmetic is in double and rounded once when a result is stored, so the error of a sum does not
 * grow with its length, and f32 results are correctly rounded but for that. Nothing depends on the
 * number of threads. */
#ifndef DG_KERNELS_REF_REF_H
#define DG_KERNELS_REF_REF_H

#include <math.h>

#include "base/pool.h"
#include "kernels/attrs.h"
#include "kernels/operands.h"

#ifndef DG_REF_BITS
#define DG_REF_BITS 64 /* for compiling this header alone */
#endif

#if DG_REF_BITS == 32
typedef float real;
#define DG_REF_SYMBOL(name) dg_ref_##name##_f32
#else
typedef double real;
#define DG_REF_SYMBOL(name) dg_ref_##name##_f64
#endif

#define DG_REF(name, prepare_fn, run_fn)        \
    extern const dg_kernel DG_REF_SYMBOL(name); \
    const dg_kernel DG_REF_SYMBOL(name) = {     \
        .prepare = (prepare_fn),                \
        .run = (run_fn),                        \
    }

static inline bool has(const dg_args *a, int i)
{
    return a->t[i].data != NULL;
}

static inline const real *in(const dg_args *a, int i)
{
    return a->t[i].data;
}

static inline const int32_t *in_i32(const dg_args *a, int i)
{
    return a->t[i].data;
}

static inline real *out(const dg_args *a, int i)
{
    return a->t[i].data;
}

static inline int32_t *out_i32(const dg_args *a, int i)
{
    return a->t[i].data;
}

/* Negative axes count from the end. */
static inline int64_t dim(const dg_args *a, int i, int axis)
{
    const dg_shape *s = &a->t[i].shape;

    return s->d[axis < 0 ? s->rank + axis : axis];
}

static inline int64_t elements(const dg_args *a, int i)
{
    return dg_shape_elements(a->t[i].shape);
}

/* Size of the last axis, and the number of rows of that size; a scalar is one row of one
 * element. */
static inline int64_t width(const dg_args *a, int i)
{
    return a->t[i].shape.rank ? dim(a, i, -1) : 1;
}

static inline int64_t rows(const dg_args *a, int i)
{
    return elements(a, i) / width(a, i);
}

/* Body of dg_parallel_for that computes the outputs of indices begin..end-1. */
typedef struct range_call {
    const dg_args *a;
    void (*body)(const dg_args *a, int64_t begin, int64_t end, int thread);
} range_call;

static inline void range_body(void *ctx, int64_t begin, int64_t end, int thread)
{
    const range_call *c = ctx;

    c->body(c->a, begin, end, thread);
}

static inline void parallel(const dg_args *a, int64_t n,
                            void (*body)(const dg_args *a, int64_t begin, int64_t end, int thread))
{
    range_call c = { a, body };

    dg_parallel_for(a->threads, n, range_body, &c);
}

static inline double act(int64_t kind, double z)
{
    switch (kind) {
    case DG_ACT_RELU:
        return z < 0 ? 0 : z;
    case DG_ACT_SILU:
        return z / (1 + exp(-z));
    default:
        return z;
    }
}

#endif
