/* elementwise.c: one output element from the elements at the same place. Two-operand ops
 * broadcast as NumPy does: shapes are aligned at their last axes, an axis of 1 (or a missing
 * one) repeats. Outputs may take the place of an input of the same size. */
#include <math.h>

#include "kernels/ref/ref.h"

/* --- broadcasting ----------------------------------------------------------------------------- */

/* How far operand i moves per step along each axis of output o: 0 where it repeats. */
static void strides(const dg_args *a, int i, int o, int64_t step[DG_MAX_DIMS])
{
    const dg_shape *x = &a->t[i].shape, *y = &a->t[o].shape;
    int64_t         size = 1;

    for (int axis = y->rank - 1; axis >= 0; axis--) {
        int     own = axis - (y->rank - x->rank);
        int64_t d = own >= 0 ? x->d[own] : 1;

        step[axis] = d > 1 ? size : 0;
        size *= d;
    }
}

/* Position of element n of output o in an operand with these strides. */
static int64_t position(const dg_args *a, int o, const int64_t step[DG_MAX_DIMS], int64_t n)
{
    const dg_shape *y = &a->t[o].shape;
    int64_t         at = 0;

    for (int axis = y->rank - 1; axis >= 0; axis--) {
        at += n % y->d[axis] * step[axis];
        n /= y->d[axis];
    }
    return at;
}

/* z = EXPRESSION of x and y, operands x y -> z. */
#define BINARY(name, expression)                                                              \
    static int run_##name(const dg_args *a)                                                   \
    {                                                                                         \
        bool    plain = elements(a, 0) == elements(a, 2) && elements(a, 1) == elements(a, 2); \
        int64_t step_x[DG_MAX_DIMS], step_y[DG_MAX_DIMS];                                     \
                                                                                              \
        strides(a, 0, 2, step_x);                                                             \
        strides(a, 1, 2, step_y);                                                             \
        for (int64_t n = 0; n < elements(a, 2); n++) {                                        \
            double x = in(a, 0)[plain ? n : position(a, 2, step_x, n)];                       \
            double y = in(a, 1)[plain ? n : position(a, 2, step_y, n)];                       \
                                                                                              \
            STORE(a, n, expression);                                                          \
        }                                                                                     \
        return 0;                                                                             \
    }                                                                                         \
    DG_REF(name, NULL, run_##name)

#define STORE(a, n, value) out(a, 2)[n] = (real)(value)
BINARY(add, x + y);
BINARY(sub, x - y);
BINARY(mul, (x * y));
BINARY(div, x / y);
BINARY(max2, x >= y || x != x ? x : y); /* NaN stays NaN */
BINARY(min2, x <= y || x != x ? x : y);
#undef STORE
#define STORE(a, n, value) out_i32(a, 2)[n] = (value)
BINARY(greater_equal, x >= y);
#undef STORE

/* x -> y: 1 where x is not zero (a NaN is not); negate: where it is. */
static int truth(const dg_args *a)
{
    const truth_attr *f = a->attr;

    for (int64_t n = 0; n < elements(a, 1); n++)
        out_i32(a, 1)[n] = (in(a, 0)[n] != 0) != (f->negate != 0);
    return 0;
}

/* x also? -> y: the same of whole numbers, and `also` is not zero. */
static int truth_i32(const dg_args *a)
{
    const truth_attr *f = a->attr;

    for (int64_t n = 0; n < elements(a, 2); n++)
        out_i32(a, 2)[n] = (in_i32(a, 0)[n] != 0) != (f->negate != 0) &&
                           (!has(a, 1) || in_i32(a, 1)[n] != 0);
    return 0;
}

/* Operands mask x y -> z: all three broadcast. */
static int where(const dg_args *a)
{
    int64_t step[3][DG_MAX_DIMS];

    for (int i = 0; i < 3; i++)
        strides(a, i, 3, step[i]);
    for (int64_t n = 0; n < elements(a, 3); n++) {
        int take = in_i32(a, 0)[position(a, 3, step[0], n)] ? 1 : 2;

        out(a, 3)[n] = in(a, take)[position(a, 3, step[take], n)];
    }
    return 0;
}
DG_REF(truth, NULL, truth);
DG_REF(truth_i32, NULL, truth_i32);
DG_REF(where, NULL, where);

/* --- one operand ------------------------------------------------------------------------------ */

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

/* At the edges the derivative from inside counts, as autograd frameworks have it. */
static double bounded_logit_slope(double x, double eps)
{
    if (x < 0 || x > 1)
        return 0;
    return (x < eps ? 0 : 1 / x) + (1 - x < eps ? 0 : 1 / (1 - x));
}

/* y = EXPRESSION of x, and of f where the op has an affine_attr. */
#define UNARY(name, expression)                        \
    static int run_##name(const dg_args *a)            \
    {                                                  \
        for (int64_t n = 0; n < elements(a, 1); n++) { \
            double x = in(a, 0)[n];                    \
                                                       \
            out(a, 1)[n] = (real)(expression);         \
        }                                              \
        return 0;                                      \
    }                                                  \
    DG_REF(name, NULL, run_##name)

#define UNARY_AFFINE(name, expression)                 \
    static int run_##name(const dg_args *a)            \
    {                                                  \
        const affine_attr *f = a->attr;                \
                                                       \
        for (int64_t n = 0; n < elements(a, 1); n++) { \
            double x = in(a, 0)[n];                    \
                                                       \
            out(a, 1)[n] = (real)(expression);         \
        }                                              \
        return 0;                                      \
    }                                                  \
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

/* Operands dy v -> dx, where v is the op's x, or its y where the derivative is simpler in y. */
#define SLOPE(name, v, affine, expression)                     \
    static int run_##name(const dg_args *a)                    \
    {                                                          \
        affine;                                                \
        for (int64_t n = 0; n < elements(a, 2); n++) {         \
            double v = in(a, 1)[n];                            \
                                                               \
            out(a, 2)[n] = (real)(in(a, 0)[n] * (expression)); \
        }                                                      \
        return 0;                                              \
    }                                                          \
    DG_REF(name, NULL, run_##name)

SLOPE(relu_grad, y, , y > 0);
SLOPE(silu_grad, x, , logistic(x) * (1 + x * (1 - logistic(x))));
SLOPE(gelu_grad, x, , normal_cdf(x) + x * ROOT_TAU_INVERSE * exp(-0.5 * x * x));
SLOPE(sigmoid_grad, y, , (y * (1 - y)));
SLOPE(clamp_grad, x, const affine_attr *f = a->attr, x >= f->a && x <= f->c);
SLOPE(inverse_sigmoid_grad, x, const affine_attr *f = a->attr, bounded_logit_slope(x, f->a));

/* --- change of type --------------------------------------------------------------------------- */

/* The upper half of an f32, rounded to nearest even; NaN stays NaN. */
static uint16_t bf16_of(float x)
{
    union {
        float    f;
        uint32_t u;
    } v = { x };

    if (x != x)
        return 0x7FC0;
    return (uint16_t)((v.u + 0x7FFF + (v.u >> 16 & 1)) >> 16);
}

static double load(const dg_tensor *t, int64_t n)
{
    union {
        uint32_t u;
        float    f;
    } v;

    switch (t->dtype) {
    case DG_F32:
        return ((const float *)t->data)[n];
    case DG_BF16:
        v.u = (uint32_t)((const uint16_t *)t->data)[n] << 16;
        return v.f;
    default:
        return ((const double *)t->data)[n];
    }
}

static void store(const dg_tensor *t, int64_t n, double x)
{
    switch (t->dtype) {
    case DG_F32:
        ((float *)t->data)[n] = (float)x;
        break;
    case DG_BF16:
        ((uint16_t *)t->data)[n] = bf16_of((float)x);
        break;
    default:
        ((double *)t->data)[n] = x;
    }
}

/* Between f64, f32 and bf16, as the operands say. */
static int cast(const dg_args *a)
{
    for (int64_t n = 0; n < elements(a, 1); n++)
        store(&a->t[1], n, load(&a->t[0], n));
    return 0;
}

static int real_of_i32(const dg_args *a)
{
    for (int64_t n = 0; n < elements(a, 1); n++)
        out(a, 1)[n] = (real)in_i32(a, 0)[n];
    return 0;
}

DG_REF(cast, NULL, cast);
DG_REF(real, NULL, real_of_i32);
