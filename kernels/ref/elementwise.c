/* elementwise.c: one output element from the elements at the same place. Ops of two operands
 * broadcast as in NumPy: shapes are aligned at their last axes, and an axis of 1 (or a missing one)
 * repeats. An output may overwrite an input of the same size. */
#include <math.h>

#include "base/element.h"
#include "kernels/ref/ref.h"

/* ---- broadcasting ---------------------------------------------------------------------------- */

/* Strides of operand i along the axes of output o, in elements; 0: repeats. */
static void strides(const dg_args *a, int i, int o, int64_t step[DG_MAX_DIMS])
{
    const dg_shape *x = &a->t[i].shape, *y = &a->t[o].shape;
    int64_t size = 1;

    for (int axis = y->rank - 1; axis >= 0; axis--) {
        int own = axis - (y->rank - x->rank);
        int64_t d = own >= 0 ? x->d[own] : 1;

        step[axis] = d > 1 ? size : 0;
        size *= d;
    }
}

/* Offset in an operand with these strides of element n of output o. */
static int64_t position(const dg_args *a, int o, const int64_t step[DG_MAX_DIMS], int64_t n)
{
    const dg_shape *y = &a->t[o].shape;
    int64_t at = 0;

    for (int axis = y->rank - 1; axis >= 0; axis--) {
        at += n % y->d[axis] * step[axis];
        n /= y->d[axis];
    }
    return at;
}

/* z = EXPRESSION of x and y; their places are those of add. */
#define BINARY(name, expression)                                                      \
    static int run_##name(const dg_args *a)                                           \
    {                                                                                 \
        bool plain = elements(a, DG_ADD_X) == elements(a, DG_ADD_Z) &&                \
                     elements(a, DG_ADD_Y) == elements(a, DG_ADD_Z);                  \
        int64_t step_x[DG_MAX_DIMS], step_y[DG_MAX_DIMS];                             \
                                                                                      \
        strides(a, DG_ADD_X, DG_ADD_Z, step_x);                                       \
        strides(a, DG_ADD_Y, DG_ADD_Z, step_y);                                       \
        for (int64_t n = 0; n < elements(a, DG_ADD_Z); n++) {                         \
            double x = in(a, DG_ADD_X)[plain ? n : position(a, DG_ADD_Z, step_x, n)]; \
            double y = in(a, DG_ADD_Y)[plain ? n : position(a, DG_ADD_Z, step_y, n)]; \
                                                                                      \
            STORE(a, n, expression);                                                  \
        }                                                                             \
        return 0;                                                                     \
    }                                                                                 \
    DG_REF(name, NULL, run_##name)

#define STORE(a, n, value) out(a, DG_ADD_Z)[n] = (real)(value)
BINARY(add, x + y);
BINARY(sub, x - y);
BINARY(mul, (x * y));
BINARY(div, x / y);
BINARY(max2, x >= y || x != x ? x : y); /* NaN stays NaN */
BINARY(min2, x <= y || x != x ? x : y);
#undef STORE
#define STORE(a, n, value) out_i32(a, DG_ADD_Z)[n] = (value)
BINARY(greater_equal, x >= y);
#undef STORE

/* x -> y: 1 if x is not zero (NaN is not), else 0; negate exchanges the two. */
static int truth(const dg_args *a)
{
    const truth_attr *f = a->attr;

    for (int64_t n = 0; n < elements(a, DG_TRUTH_Y); n++)
        out_i32(a, DG_TRUTH_Y)[n] = (in(a, DG_TRUTH_X)[n] != 0) != (f->negate != 0);
    return 0;
}

/* x also? -> y: the same for integers; y is 0 where `also` is 0. */
static int truth_i32(const dg_args *a)
{
    const truth_attr *f = a->attr;

    for (int64_t n = 0; n < elements(a, DG_TRUTH_I32_Y); n++)
        out_i32(a, DG_TRUTH_I32_Y)[n] =
            (in_i32(a, DG_TRUTH_I32_X)[n] != 0) != (f->negate != 0) &&
            (!has(a, DG_TRUTH_I32_ALSO) || in_i32(a, DG_TRUTH_I32_ALSO)[n] != 0);
    return 0;
}

/* mask x y -> z; all three broadcast. */
static int where(const dg_args *a)
{
    int64_t step[3][DG_MAX_DIMS];

    for (int i = 0; i < 3; i++)
        strides(a, i, DG_WHERE_Z, step[i]);
    for (int64_t n = 0; n < elements(a, DG_WHERE_Z); n++) {
        int take = in_i32(a, DG_WHERE_MASK)[position(a, DG_WHERE_Z, step[0], n)] ? 1 : 2;

        out(a, DG_WHERE_Z)[n] = in(a, take)[position(a, DG_WHERE_Z, step[take], n)];
    }
    return 0;
}
DG_REF(truth, NULL, truth);
DG_REF(truth_i32, NULL, truth_i32);
DG_REF(where, NULL, where);

/* ---- one operand ----------------------------------------------------------------------------- */

#define ROOT_HALF 0.70710678118654752440        /* 1/sqrt(2) */
#define ROOT_TAU_INVERSE 0.39894228040143267794 /* 1/sqrt(2 pi) */

static double logistic(double x)
{
    return 1 / (1 + exp(-x));
}

static double normal_cdf(double x)
{
    return 0.5 * (1 + erf(x * ROOT_HALF));
}

static double clip(double x, double lo, double hi)
{
    return x < lo ? lo : x > hi ? hi : x;
}

/* log(max(x,eps) / max(1-x,eps)), x clipped to [0,1] first: a logit that stays finite. */
static double bounded_logit(double x, double eps)
{
    x = clip(x, 0, 1);
    return log((x < eps ? eps : x) / (1 - x < eps ? eps : 1 - x));
}

/* At the edges this is the derivative from inside, as in autograd frameworks. */
static double bounded_logit_slope(double x, double eps)
{
    if (x < 0 || x > 1)
        return 0;
    return (x < eps ? 0 : 1 / x) + (1 - x < eps ? 0 : 1 / (1 - x));
}

/* y = EXPRESSION of x, and of f for ops with an affine_attr; their places are those of exp. */
#define UNARY(name, expression)                               \
    static int run_##name(const dg_args *a)                   \
    {                                                         \
        for (int64_t n = 0; n < elements(a, DG_EXP_Y); n++) { \
            double x = in(a, DG_EXP_X)[n];                    \
                                                              \
            out(a, DG_EXP_Y)[n] = (real)(expression);         \
        }                                                     \
        return 0;                                             \
    }                                                         \
    DG_REF(name, NULL, run_##name)

#define UNARY_AFFINE(name, expression)                        \
    static int run_##name(const dg_args *a)                   \
    {                                                         \
        const affine_attr *f = a->attr;                       \
                                                              \
        for (int64_t n = 0; n < elements(a, DG_EXP_Y); n++) { \
            double x = in(a, DG_EXP_X)[n];                    \
                                                              \
            out(a, DG_EXP_Y)[n] = (real)(expression);         \
        }                                                     \
        return 0;                                             \
    }                                                         \
    DG_REF(name, NULL, run_##name)

UNARY_AFFINE(scale, (f->a * x + f->c));
UNARY(exp, exp(x));
UNARY(log, log(x));
UNARY(sqrt, sqrt(x));
UNARY(abs, fabs(x));
UNARY(sign, x > 0 ? 1 : x < 0 ? -1 : x); /* 0 at 0; NaN stays */
UNARY(relu, x < 0 ? 0 : x);
UNARY(silu, (x * logistic(x))); /* Hendrycks & Gimpel 2016, as is gelu */
UNARY(gelu, (x * normal_cdf(x)));
UNARY(sigmoid, logistic(x));
UNARY_AFFINE(clamp, clip(x, f->a, f->c));
UNARY_AFFINE(inverse_sigmoid, bounded_logit(x, f->a));

/* dy v -> dx, where v is the op's x, or its y if the derivative is simpler in y. */
#define SLOPE(name, v, affine, expression)                                                 \
    static int run_##name(const dg_args *a)                                                \
    {                                                                                      \
        affine;                                                                            \
        for (int64_t n = 0; n < elements(a, DG_RELU_GRAD_DX); n++) {                       \
            double v = in(a, DG_RELU_GRAD_Y)[n];                                           \
                                                                                           \
            out(a, DG_RELU_GRAD_DX)[n] = (real)(in(a, DG_RELU_GRAD_DY)[n] * (expression)); \
        }                                                                                  \
        return 0;                                                                          \
    }                                                                                      \
    DG_REF(name, NULL, run_##name)

SLOPE(relu_grad, y, , y > 0);
SLOPE(silu_grad, x, , logistic(x) * (1 + x * (1 - logistic(x))));
SLOPE(gelu_grad, x, , normal_cdf(x) + x * ROOT_TAU_INVERSE * exp(-0.5 * x * x));
SLOPE(sigmoid_grad, y, , (y * (1 - y)));
SLOPE(clamp_grad, x, const affine_attr *f = a->attr, x >= f->a && x <= f->c);
SLOPE(inverse_sigmoid_grad, x, const affine_attr *f = a->attr, bounded_logit_slope(x, f->a));

/* ---- change of type -------------------------------------------------------------------------- */

/* Between f64, f32 and bf16, by the operands' types. */
static int cast(const dg_args *a)
{
    for (int64_t n = 0; n < elements(a, DG_CAST_Y); n++)
        dg_tensor_set(&a->t[DG_CAST_Y], n, dg_tensor_get(&a->t[DG_CAST_X], n));
    return 0;
}

static int real_of_i32(const dg_args *a)
{
    for (int64_t n = 0; n < elements(a, DG_REAL_Y); n++)
        out(a, DG_REAL_Y)[n] = (real)in_i32(a, DG_REAL_X)[n];
    return 0;
}

DG_REF(cast, NULL, cast);
DG_REF(real, NULL, real_of_i32);
