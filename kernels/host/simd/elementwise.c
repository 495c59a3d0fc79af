/* elementwise.c: elementwise ops with broadcasting; formulas as in kernels/ref/elementwise.c.
 *
 * Neighbouring axes along which every operand either moves or repeats fold into one. The innermost
 * remaining axis is a run of elements, along which each operand is an array or one repeated
 * number. */
#include "kernels/host/simd/vmath.h"

typedef struct numbers {
    float a, c;
} numbers;

/* ---- formulas -------------------------------------------------------------------------------- */

ALWAYS vf pick_lanes(vm m, vf x)
{
    return vf_pick(m, x, vf_set(0));
}

ALWAYS vf normal_cdf(vf x)
{
    return 0.5f + 0.5f * vf_erf(x * 0.70710678f);
}

ALWAYS vf clip(vf x, float lo, float hi)
{
    return vf_min(vf_set(hi), vf_max(vf_set(lo), x)); /* NaN stays NaN */
}

ALWAYS vf logit(vf x, float eps)
{
    vf t = clip(x, 0, 1);

    return vf_log(vf_max(vf_set(eps), t) / vf_max(vf_set(eps), 1.0f - t));
}

ALWAYS vf logit_slope(vf x, float eps)
{
    vf e = vf_set(eps), left = pick_lanes(vf_le(e, x), 1.0f / x),
       right = pick_lanes(vf_le(e, 1.0f - x), 1.0f / (1.0f - x));

    return pick_lanes(vm_and(vf_le(vf_set(0), x), vf_le(x, vf_set(1))), left + right);
}

ALWAYS vf larger(vf x, vf y) /* NaN if x or y is */
{
    return vf_pick(vf_eq(x, x), vf_pick(vf_le(y, x), x, y), x);
}

ALWAYS vf smaller(vf x, vf y)
{
    return vf_pick(vf_eq(x, x), vf_pick(vf_le(x, y), x, y), x);
}

ALWAYS vf silu_gradient(vf dy, vf x)
{
    vf p = vf_sigmoid(x);

    return dy * p * vf_fma(x, 1.0f - p, vf_set(1));
}

ALWAYS vf gelu_gradient(vf dy, vf x)
{
    return dy * vf_fma(x * 0.39894228f, vf_exp(-0.5f * x * x), normal_cdf(x));
}

ALWAYS vf clamp_gradient(vf dy, vf x, float lo, float hi)
{
    return pick_lanes(vm_and(vf_le(vf_set(lo), x), vf_le(x, vf_set(hi))), dy);
}

ALWAYS vf sign_of(vf x)
{
    return vf_pick(vf_lt(vf_set(0), x), vf_set(1), vf_pick(vf_lt(x, vf_set(0)), vf_set(-1), x));
}

/* The kernels of one or two operands, a row each: name of the op; operands; cost of an element
 * relative to a copy; where the numbers f come from; the result. x, y: the operands in order; of a
 * gradient dy, and where the derivative is taken. */
/* clang-format off */
#define TABLE(ROW)                                                                             \
    ROW(add,                  2, 1, none,   x + y)                                             \
    ROW(sub,                  2, 1, none,   x - y)                                             \
    ROW(mul,                  2, 1, none,   x * y)                                             \
    ROW(div,                  2, 1, none,   x / y)                                             \
    ROW(max2,                 2, 1, none,   larger(x, y))                                      \
    ROW(min2,                 2, 1, none,   smaller(x, y))                                     \
    ROW(greater_equal,        2, 1, none,   pick_lanes(vf_le(y, x), vf_set(1)))                \
    ROW(relu_grad,            2, 1, none,   pick_lanes(vf_lt(vf_set(0), y), x))                \
    ROW(silu_grad,            2, 4, none,   silu_gradient(x, y))                               \
    ROW(gelu_grad,            2, 8, none,   gelu_gradient(x, y))                               \
    ROW(sigmoid_grad,         2, 1, none,   x * y * (1.0f - y))                                \
    ROW(clamp_grad,           2, 1, affine, clamp_gradient(x, y, f.a, f.c))                    \
    ROW(inverse_sigmoid_grad, 2, 2, affine, x * logit_slope(y, f.a))                           \
    ROW(scale,                1, 1, affine, vf_fma(x, vf_set(f.a), vf_set(f.c)))               \
    ROW(exp,                  1, 4, none,   vf_exp(x))                                         \
    ROW(log,                  1, 4, none,   vf_log(x))                                         \
    ROW(sqrt,                 1, 2, none,   vf_sqrt(x))                                        \
    ROW(abs,                  1, 1, none,   vf_abs(x))                                         \
    ROW(sign,                 1, 1, none,   sign_of(x))                                        \
    ROW(relu,                 1, 1, none,   vf_max(vf_set(0), x))                              \
    ROW(silu,                 1, 4, none,   x * vf_sigmoid(x))                                 \
    ROW(gelu,                 1, 8, none,   x * normal_cdf(x))                                 \
    ROW(sigmoid,              1, 4, none,   vf_sigmoid(x))                                     \
    ROW(clamp,                1, 1, affine, clip(x, f.a, f.c))                                 \
    ROW(inverse_sigmoid,      1, 4, affine, logit(x, f.a))
/* clang-format on */

#define CODE(name, n_in, work, numbers_of, result) OP_##name,
#define VALUE(name, n_in, work, numbers_of, result) \
    case OP_##name:                                 \
        return result;

typedef enum code { TABLE(CODE) } code;

ALWAYS vf value(code op, vf x, vf y, numbers f)
{
    (void)f;
    switch (op) {
        TABLE(VALUE)
    }
    return x;
}

/* ---- runs ------------------------------------------------------------------------------------ */

enum { MAX_IN = 3 };

typedef struct call {
    const dg_args *a;
    int n_in;
    numbers f;
    int rank; /* axes after folding; the last is the run */
    int64_t d[DG_MAX_DIMS];
    int64_t step[MAX_IN][DG_MAX_DIMS]; /* in elements; 0: repeats */
    void (*run)(const struct call *c, int64_t z, const int64_t at[MAX_IN], int64_t n);
} call;

ALWAYS vf operand(const call *c, int i, int64_t at, int64_t k, int64_t n, bool low, bool whole)
{
    const void *p = c->a->t[i].data;

    return c->step[i][c->rank - 1] ? ld_k(p, at + k, n, low, whole) : vf_set(ld1(p, at, low));
}

ALWAYS void put(const call *c, code op, int64_t z, vf v, int64_t n, bool low, bool whole)
{
    void *p = c->a->t[c->n_in].data;

    if (op == OP_greater_equal) {
        vi flag = __builtin_convertvector(v, vi);

        memcpy((int32_t *)p + z, &flag, (size_t)(whole ? W : n) * sizeof(int32_t));
    } else {
        st_k(p, z, v, n, low, whole);
    }
}

ALWAYS void run_typed(const call *c, code op, int64_t z, const int64_t at[MAX_IN], int64_t n,
                      bool lx, bool ly, bool lz)
{
    int64_t k = 0;

    for (; k + W <= n; k += W) {
        vf x = operand(c, 0, at[0], k, W, lx, true);
        vf y = c->n_in > 1 ? operand(c, 1, at[1], k, W, ly, true) : x;

        put(c, op, z + k, value(op, x, y, c->f), W, lz, true);
    }
    if (k < n) {
        vf x = operand(c, 0, at[0], k, n - k, lx, false);
        vf y = c->n_in > 1 ? operand(c, 1, at[1], k, n - k, ly, false) : x;

        put(c, op, z + k, value(op, x, y, c->f), n - k, lz, false);
    }
}

ALWAYS void run_any(const call *c, code op, int64_t z, const int64_t at[MAX_IN], int64_t n)
{
    bool lx = is_low(c->a, 0), ly = c->n_in > 1 ? is_low(c->a, 1) : lx, lz = is_low(c->a, c->n_in);

    if (!lx && !ly && !lz)
        run_typed(c, op, z, at, n, false, false, false);
    else if (lx && ly && lz)
        run_typed(c, op, z, at, n, true, true, true);
    else
        run_typed(c, op, z, at, n, lx, ly, lz);
}

/* mask x y -> z */
static void run_where(const call *c, int64_t z, const int64_t at[MAX_IN], int64_t n)
{
    const int32_t *mask = c->a->t[DG_WHERE_MASK].data;
    int last = c->rank - 1;

    for (int64_t k = 0; k < n; k++) {
        int take = mask[at[0] + (c->step[0][last] ? k : 0)] ? 1 : 2;

        st1(c->a->t[DG_WHERE_Z].data, z + k,
            ld1(c->a->t[take].data, at[take] + (c->step[take][last] ? k : 0), is_low(c->a, take)),
            is_low(c->a, DG_WHERE_Z));
    }
}

/* Folds neighbouring axes of the output along which every operand moves alike. */
static void fold(call *c)
{
    const dg_shape *z = &c->a->t[c->n_in].shape;
    int64_t size[MAX_IN] = { 1, 1, 1 };
    int k = DG_MAX_DIMS; /* axes are found from the last, and stored at the end of d */
    bool moves[MAX_IN] = { false }, first = true;

    for (int axis = z->rank - 1; axis >= 0; axis--) {
        bool now[MAX_IN] = { false }, same = !first;

        if (z->d[axis] == 1)
            continue;
        for (int i = 0; i < c->n_in; i++) {
            int own = axis - (z->rank - c->a->t[i].shape.rank);

            now[i] = own >= 0 && c->a->t[i].shape.d[own] > 1;
            same = same && now[i] == moves[i];
        }
        if (!same)
            c->d[--k] = 1;
        for (int i = 0; i < c->n_in; i++) {
            if (!same)
                c->step[i][k] = now[i] ? size[i] : 0;
            size[i] *= now[i] ? z->d[axis] : 1;
            moves[i] = now[i];
        }
        c->d[k] *= z->d[axis];
        first = false;
    }
    if (first) { /* a single element */
        c->d[--k] = 1;
        for (int i = 0; i < c->n_in; i++)
            c->step[i][k] = 0;
    }
    c->rank = DG_MAX_DIMS - k;
    memmove(c->d, c->d + k, (size_t)c->rank * sizeof c->d[0]);
    for (int i = 0; i < c->n_in; i++)
        memmove(c->step[i], c->step[i] + k, (size_t)c->rank * sizeof c->step[i][0]);
}

static void body(void *ctx, int64_t begin, int64_t end, int thread)
{
    const call *c = ctx;
    int64_t run = c->d[c->rank - 1];

    (void)thread;
    for (int64_t z = begin; z < end;) {
        int64_t col = z % run, row = z / run, n = min64(run - col, end - z), at[MAX_IN];

        for (int i = 0; i < c->n_in; i++)
            at[i] = c->step[i][c->rank - 1] * col;
        for (int axis = c->rank - 2; axis >= 0; axis--) {
            for (int i = 0; i < c->n_in; i++)
                at[i] += row % c->d[axis] * c->step[i][axis];
            row /= c->d[axis];
        }
        c->run(c, z, at, n);
        z += n;
    }
}

static int start(const dg_args *a, int n_in, numbers f, int64_t work,
                 void (*run)(const call *c, int64_t z, const int64_t at[MAX_IN], int64_t n))
{
    call c = { .a = a, .n_in = n_in, .f = f, .run = run };

    fold(&c);
    parallel(a, elements(a, n_in), work, body, &c);
    return 0;
}

static numbers none(const dg_args *a)
{
    (void)a;
    return (numbers){ 0, 0 };
}

static numbers affine(const dg_args *a)
{
    const affine_attr *f = a->attr;

    return (numbers){ (float)f->a, (float)f->c };
}

static int where_(const dg_args *a)
{
    return start(a, 3, none(a), 4, run_where);
}

#define KERNEL(name, n_in, work, numbers_of, result)                                       \
    static void runs_##name(const call *c, int64_t z, const int64_t at[MAX_IN], int64_t n) \
    {                                                                                      \
        run_any(c, OP_##name, z, at, n);                                                   \
    }                                                                                      \
    static int name##_(const dg_args *a)                                                   \
    {                                                                                      \
        return start(a, n_in, numbers_of(a), work, runs_##name);                           \
    }                                                                                      \
    DG_SIMD(name, NULL, name##_);

TABLE(KERNEL)
DG_SIMD(where, NULL, where_);
