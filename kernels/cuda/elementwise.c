/* elementwise.c: twins of kernels/ref/elementwise.c. Where no operand repeats, a thread takes 16
 * bytes at a time; operands begin at multiples of 16. */
#include "kernels/cuda/device.h"
#include "kernels/cuda/layout.h"

/* ---- functions of elements ------------------------------------------------------------------- */

DEVICE wide logistic(wide x)
{
    return 1 / (1 + exp(-x));
}

DEVICE wide normal_cdf(wide x)
{
    return (wide)0.5 * (1 + erf(x * (wide)0.70710678118654752440)); /* 1/sqrt(2) */
}

DEVICE wide normal_density(wide x)
{
    return (wide)0.39894228040143267794 * exp((wide)-0.5 * x * x); /* 1/sqrt(2 pi) */
}

DEVICE wide clip(wide x, wide lo, wide hi)
{
    return x < lo ? lo : x > hi ? hi : x;
}

DEVICE wide bounded_logit(wide x, wide eps)
{
    x = clip(x, 0, 1);
    return log((x < eps ? eps : x) / (1 - x < eps ? eps : 1 - x));
}

/* Compared in double: at an edge the two sides differ. */
DEVICE wide bounded_logit_slope(wide x, double eps)
{
    if (x < 0 || x > 1)
        return 0;
    return ((double)x < eps ? 0 : 1 / x) + (1 - (double)x < eps ? 0 : 1 / (1 - x));
}

/* ---- y from x, z from x and y ---------------------------------------------------------------- */

typedef struct map {
    const real *x, *y; /* y: NULL if there is one operand */
    real *z;
    int64_t n;
    double a, c; /* of an affine_attr */
    layout l;    /* where an operand repeats */
} map;

/* z = EXPRESSION of x, y, p->a and p->c for n elements at the same place. A thread reads a pack
 * before it writes one: z may be x or y. */
#define MAP_KERNEL(name, both, expression)                                      \
    DEVICE wide name##_of(const map *p, wide x, wide y)                         \
    {                                                                           \
        (void)p;                                                                \
        (void)y;                                                                \
        return (wide)(expression);                                              \
    }                                                                           \
    KERNEL_MANY(name##_kernel, map)                                             \
    {                                                                           \
        int64_t whole = p->n / PACK, n = whole * PACK + first();                \
                                                                                \
        for (int64_t k = first(); k < whole; k += step()) {                     \
            sixteen x = ((const sixteen *)p->x)[k], y = x;                      \
                                                                                \
            if (both)                                                           \
                y = ((const sixteen *)p->y)[k];                                 \
            for (int i = 0; i < PACK; i++)                                      \
                x.v[i] = put(name##_of(p, get(x.v[i]), get(y.v[i])));           \
            ((sixteen *)p->z)[k] = x;                                           \
        }                                                                       \
        if (n < p->n)                                                           \
            p->z[n] = put(name##_of(p, get(p->x[n]), both ? get(p->y[n]) : 0)); \
    }

#define BOTH(kernel) (dg_cuda_function)(kernel), (dg_cuda_function)(kernel##_many)

static int enqueue_map(const dg_cuda_call *c, dg_cuda_function f, dg_cuda_function many, map m)
{
    c->queue->many = many;
    return LAUNCH(c, f, grid_of(parts(m.n, PACK)), &m);
}

static map unary(const dg_args *a)
{
    map m = { .x = reals(a, DG_EXP_X), .z = reals(a, DG_EXP_Y), .n = elements(a, DG_EXP_Y) };

    return m;
}

#define UNARY(name, expression)                                  \
    MAP_KERNEL(name, false, expression)                          \
    static int enqueue_##name(const dg_cuda_call *c)             \
    {                                                            \
        return enqueue_map(c, BOTH(name##_kernel), unary(c->a)); \
    }                                                            \
    DG_CUDA_JOINED(name, NULL, enqueue_##name, DG_JOIN_TURN)

#define UNARY_AFFINE(name, expression)                          \
    MAP_KERNEL(name, false, expression)                         \
    static int enqueue_##name(const dg_cuda_call *c)            \
    {                                                           \
        const affine_attr *f = (const affine_attr *)c->a->attr; \
        map m = unary(c->a);                                    \
                                                                \
        m.a = f->a;                                             \
        m.c = f->c;                                             \
        return enqueue_map(c, BOTH(name##_kernel), m);          \
    }                                                           \
    DG_CUDA_JOINED(name, NULL, enqueue_##name, DG_JOIN_TURN)

UNARY_AFFINE(scale, (wide)p->a *x + (wide)p->c);
UNARY(exp, exp(x));
UNARY(log, log(x));
UNARY(sqrt, sqrt(x));
UNARY(abs, fabs(x));
UNARY(sign, x > 0 ? 1 : x < 0 ? -1 : x);
UNARY(relu, x < 0 ? 0 : x);
UNARY(silu, x *logistic(x));
UNARY(gelu, x *normal_cdf(x));
UNARY(sigmoid, logistic(x));
UNARY_AFFINE(clamp, clip(x, (wide)p->a, (wide)p->c));
UNARY_AFFINE(inverse_sigmoid, bounded_logit(x, (wide)p->a));

/* ---- gradients: x is dy, y the op's x or y --------------------------------------------------- */

static map slope(const dg_args *a)
{
    map m = { .x = reals(a, DG_RELU_GRAD_DY),
              .y = reals(a, DG_RELU_GRAD_Y),
              .z = reals(a, DG_RELU_GRAD_DX),
              .n = elements(a, DG_RELU_GRAD_DX) };

    return m;
}

#define SLOPE(name, expression)                                  \
    MAP_KERNEL(name, true, x *(expression))                      \
    static int enqueue_##name(const dg_cuda_call *c)             \
    {                                                            \
        return enqueue_map(c, BOTH(name##_kernel), slope(c->a)); \
    }                                                            \
    DG_CUDA_JOINED(name, NULL, enqueue_##name, DG_JOIN_TURN)

#define SLOPE_AFFINE(name, expression)                          \
    MAP_KERNEL(name, true, x *(expression))                     \
    static int enqueue_##name(const dg_cuda_call *c)            \
    {                                                           \
        const affine_attr *f = (const affine_attr *)c->a->attr; \
        map m = slope(c->a);                                    \
                                                                \
        m.a = f->a;                                             \
        m.c = f->c;                                             \
        return enqueue_map(c, BOTH(name##_kernel), m);          \
    }                                                           \
    DG_CUDA_JOINED(name, NULL, enqueue_##name, DG_JOIN_TURN)

SLOPE(relu_grad, (wide)(y > 0));
SLOPE(silu_grad, logistic(y) * (1 + y * (1 - logistic(y))));
SLOPE(gelu_grad, normal_cdf(y) + y * normal_density(y));
SLOPE(sigmoid_grad, (y * (1 - y)));
SLOPE_AFFINE(clamp_grad, (wide)((double)y >= p->a && (double)y <= p->c));
SLOPE_AFFINE(inverse_sigmoid_grad, bounded_logit_slope(y, p->a));

/* ---- broadcasting ---------------------------------------------------------------------------- */

#define BINARY(name, expression)                                                                 \
    MAP_KERNEL(name, true, expression)                                                           \
    KERNEL_MANY(name##_spread, map)                                                              \
    {                                                                                            \
        for (int64_t n = first(); n < p->n; n += step())                                         \
            p->z[n] =                                                                            \
                put(name##_of(p, get(p->x[place(&p->l, 0, n)]), get(p->y[place(&p->l, 1, n)]))); \
    }                                                                                            \
    static int enqueue_##name(const dg_cuda_call *c)                                             \
    {                                                                                            \
        return enqueue_binary(c, BOTH(name##_kernel), BOTH(name##_spread));                      \
    }                                                                                            \
    DG_CUDA_JOINED(name, NULL, enqueue_##name, DG_JOIN_TURN)

static int enqueue_binary(const dg_cuda_call *c, dg_cuda_function plain,
                          dg_cuda_function plain_many, dg_cuda_function spread,
                          dg_cuda_function spread_many)
{
    const dg_args *a = c->a;
    map m = { .x = reals(a, DG_ADD_X),
              .y = reals(a, DG_ADD_Y),
              .z = reals(a, DG_ADD_Z),
              .n = elements(a, DG_ADD_Z),
              .l = layout_of(a, DG_ADD_Z, 2, DG_ADD_X) };

    if (elements(a, DG_ADD_X) == m.n && elements(a, DG_ADD_Y) == m.n)
        return enqueue_map(c, plain, plain_many, m);
    c->queue->many = spread_many;
    return LAUNCH(c, spread, grid_of(m.n), &m);
}

BINARY(add, x + y);
BINARY(sub, x - y);
BINARY(mul, (x * y));
BINARY(div, x / y);
BINARY(max2, x >= y || x != x ? x : y);
BINARY(min2, x <= y || x != x ? x : y);

typedef struct choice {
    const int32_t *mask;
    const real *x, *y;
    real *z;
    int32_t *truth;
    int64_t n;
    layout l;
} choice;

KERNEL_MANY(where_kernel, choice)
{
    for (int64_t n = first(); n < p->n; n += step())
        p->z[n] = p->mask[place(&p->l, 0, n)] ? p->x[place(&p->l, 1, n)] : p->y[place(&p->l, 2, n)];
}

static int where(const dg_cuda_call *c)
{
    const dg_args *a = c->a;
    choice m = { .mask = ints(a, DG_WHERE_MASK),
                 .x = reals(a, DG_WHERE_X),
                 .y = reals(a, DG_WHERE_Y),
                 .z = reals(a, DG_WHERE_Z),
                 .n = elements(a, DG_WHERE_Z),
                 .l = layout_of(a, DG_WHERE_Z, 3, DG_WHERE_MASK) };

    return LAUNCH_MANY(c, where_kernel, grid_of(m.n), &m);
}

KERNEL(greater_equal_kernel, choice)
{
    for (int64_t n = first(); n < p->n; n += step())
        p->truth[n] = get(p->x[place(&p->l, 0, n)]) >= get(p->y[place(&p->l, 1, n)]);
}

static int greater_equal(const dg_cuda_call *c)
{
    const dg_args *a = c->a;
    choice m = { .x = reals(a, DG_GREATER_EQUAL_X),
                 .y = reals(a, DG_GREATER_EQUAL_Y),
                 .truth = ints(a, DG_GREATER_EQUAL_Z),
                 .n = elements(a, DG_GREATER_EQUAL_Z),
                 .l = layout_of(a, DG_GREATER_EQUAL_Z, 2, DG_GREATER_EQUAL_X) };

    return LAUNCH(c, greater_equal_kernel, grid_of(m.n), &m);
}

/* ---- integers and types ---------------------------------------------------------------------- */

typedef struct verdict {
    const real *x;
    const int32_t *whole, *also;
    int32_t *y;
    int64_t n;
    int32_t negate;
} verdict;

KERNEL_MANY(truth_kernel, verdict)
{
    for (int64_t n = first(); n < p->n; n += step())
        p->y[n] = (get(p->x[n]) != 0) != p->negate;
}

static int truth(const dg_cuda_call *c)
{
    const truth_attr *f = (const truth_attr *)c->a->attr;
    verdict v = { .x = reals(c->a, DG_TRUTH_X),
                  .y = ints(c->a, DG_TRUTH_Y),
                  .n = elements(c->a, DG_TRUTH_Y),
                  .negate = f->negate != 0 };

    return LAUNCH_MANY(c, truth_kernel, grid_of(v.n), &v);
}

KERNEL_MANY(truth_i32_kernel, verdict)
{
    for (int64_t n = first(); n < p->n; n += step())
        p->y[n] = (p->whole[n] != 0) != p->negate && (!p->also || p->also[n] != 0);
}

static int truth_i32(const dg_cuda_call *c)
{
    const truth_attr *f = (const truth_attr *)c->a->attr;
    verdict v = { .whole = ints(c->a, DG_TRUTH_I32_X),
                  .also = ints(c->a, DG_TRUTH_I32_ALSO),
                  .y = ints(c->a, DG_TRUTH_I32_Y),
                  .n = elements(c->a, DG_TRUTH_I32_Y),
                  .negate = f->negate != 0 };

    return LAUNCH_MANY(c, truth_i32_kernel, grid_of(v.n), &v);
}

typedef struct change {
    const void *x;
    void *y;
    int64_t n;
    dg_dtype from, to;
} change;

/* bf16 is the upper half of an f32, to nearest even. */
DEVICE float f32_of_bf16(uint16_t h)
{
    const uint32_t bits = (uint32_t)h << 16;
    float v;

    memcpy(&v, &bits, sizeof v);
    return v;
}

DEVICE uint16_t bf16_of_f32(float v)
{
    uint32_t bits;

    memcpy(&bits, &v, sizeof bits);
    if ((bits & 0x7FFFFFFFu) > 0x7F800000u)
        return (uint16_t)(bits >> 16 | 0x40);
    return (uint16_t)((bits + 0x7FFFu + (bits >> 16 & 1)) >> 16);
}

/* Without f64, numbers pass through f32 only. */
KERNEL_MANY(cast_kernel, change)
{
    for (int64_t n = first(); n < p->n; n += step()) {
        wide v = p->from == DG_BF16  ? f32_of_bf16(((const uint16_t *)p->x)[n])
                 : p->from == DG_F32 ? ((const float *)p->x)[n]
                                     : (wide)((const double *)p->x)[n];

        if (p->to == DG_BF16)
            ((uint16_t *)p->y)[n] = bf16_of_f32((float)v);
        else if (p->to == DG_F32)
            ((float *)p->y)[n] = (float)v;
        else
            ((double *)p->y)[n] = v;
    }
}

static int cast(const dg_cuda_call *c)
{
    const dg_tensor *t = c->a->t;
    change m = { .x = t[DG_CAST_X].data,
                 .y = t[DG_CAST_Y].data,
                 .n = elements(c->a, DG_CAST_Y),
                 .from = t[DG_CAST_X].dtype,
                 .to = t[DG_CAST_Y].dtype };

    return LAUNCH_MANY(c, cast_kernel, grid_of(m.n), &m);
}

typedef struct widening {
    const int32_t *x;
    real *y;
    int64_t n;
} widening;

KERNEL_MANY(real_kernel, widening)
{
    for (int64_t n = first(); n < p->n; n += step())
        p->y[n] = put((wide)p->x[n]);
}

static int real_of_i32(const dg_cuda_call *c)
{
    widening m = { ints(c->a, DG_REAL_X), reals(c->a, DG_REAL_Y), elements(c->a, DG_REAL_Y) };

    return LAUNCH_MANY(c, real_kernel, grid_of(m.n), &m);
}

DG_CUDA_JOINED(where, NULL, where, DG_JOIN_TURN);
DG_CUDA(greater_equal, NULL, greater_equal);
DG_CUDA_JOINED(truth, NULL, truth, DG_JOIN_TURN);
DG_CUDA_JOINED(truth_i32, NULL, truth_i32, DG_JOIN_TURN);
DG_CUDA_JOINED(cast, NULL, cast, DG_JOIN_TURN);
DG_CUDA_JOINED(real, NULL, real_of_i32, DG_JOIN_TURN);
