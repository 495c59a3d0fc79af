/* product.c: twin of kernels/ref/matmul.c, which has the formula. The vendor's library multiplies;
 * what stands here brings operands to the type that it multiplies. In mixed precision a parameter
 * is f32 where the other operand is bf16, and a result that only f32 wants is f32. */
#include "kernels/cuda/stored.h"

typedef struct conversion {
    const void *from;
    void *to;
    int64_t n, from_real, to_real; /* real: as this precision stores, else wide */
} conversion;

KERNEL(convert_kernel, conversion)
{
    for (int64_t n = first(); n < p->n; n += step())
        store(p->to, p->to_real, n, load(p->from, p->from_real, n));
}

typedef struct sizes {
    int64_t batch, m, n, k, a_step, b_step;
} sizes;

/* Size of an axis, counted from the last (1); 1 if absent. */
static int64_t from_last(const dg_tensor *t, int axis)
{
    return t->shape.rank >= axis ? t->shape.d[t->shape.rank - axis] : 1;
}

static sizes sizes_of(const dg_tensor *t, const matmul_attr *f)
{
    int64_t n_a, n_b;
    sizes s;

    s.m = from_last(&t[DG_MATMUL_A], f->trans_a ? 1 : 2);
    s.k = from_last(&t[DG_MATMUL_A], f->trans_a ? 2 : 1);
    s.n = from_last(&t[DG_MATMUL_B], f->trans_b ? 2 : 1);
    n_a = dg_shape_elements(t[DG_MATMUL_A].shape) / (s.m * s.k);
    n_b = dg_shape_elements(t[DG_MATMUL_B].shape) / (s.n * s.k);
    s.batch = n_a > n_b ? n_a : n_b;
    s.a_step = n_a > 1 ? s.m * s.k : 0;
    s.b_step = n_b > 1 ? s.n * s.k : 0;
    if (n_b == 1 && !f->trans_a) { /* with a shared b, all rows of a form one matrix */
        s.m *= s.batch;
        s.batch = 1;
        s.a_step = 0;
    }
    return s;
}

/* Operand i in the type that is wanted: bytes of workspace, 0 if it is so already. */
static size_t converted_bytes(const dg_tensor *t, int i, dg_dtype wanted)
{
    if (t[i].shape.rank < 0 || t[i].dtype == wanted)
        return 0;
    return aligned_bytes(dg_shape_elements(t[i].shape) * (int64_t)dg_dtype_size(wanted));
}

static int prepare_for(dg_prepare *p, const dg_tensor *y)
{
    p->workspace_bytes = converted_bytes(p->t, DG_MATMUL_A, DG_CUDA_REAL) +
                         converted_bytes(p->t, DG_MATMUL_B, DG_CUDA_REAL) +
                         converted_bytes(p->t, DG_MATMUL_C, y->dtype);
    return 0;
}

static int prepare(dg_prepare *p)
{
    return prepare_for(p, &p->t[DG_MATMUL_Y]);
}

/* The residual is stored as y. */
static int prepare_act(dg_prepare *p)
{
    const dg_tensor *res = &p->t[DG_MATMUL_ACT_RES], *y = &p->t[DG_MATMUL_ACT_Y];

    return res->shape.rank >= 0 && res->dtype != y->dtype ? -DG_EUNSUPPORTED : prepare_for(p, y);
}

/* The operand, converted to *at if need be, which then moves on. */
static int convert(const dg_cuda_call *c, int i, dg_dtype wanted, char **at, const void **out)
{
    const dg_tensor *t = &c->a->t[i];
    conversion p = { .from = t->data,
                     .to = *at,
                     .n = t->data ? dg_shape_elements(t->shape) : 0,
                     .from_real = t->dtype == DG_CUDA_REAL,
                     .to_real = wanted == DG_CUDA_REAL };

    *out = t->data;
    if (!t->data || t->dtype == wanted)
        return 0;
    *out = *at;
    *at += converted_bytes(c->a->t, i, wanted);
    return LAUNCH(c, convert_kernel, grid_of(p.n), &p);
}

static int multiply(const dg_cuda_call *c, const matmul_attr *f, int64_t act, const void *res,
                    const dg_tensor *y)
{
    const dg_args *a = c->a;
    const sizes s = sizes_of(a->t, f);
    const dg_cuda_product p = { .type = DG_CUDA_REAL,
                                .out = y->dtype,
                                .trans_a = f->trans_a,
                                .trans_b = f->trans_b,
                                .batch = s.batch,
                                .m = s.m,
                                .n = s.n,
                                .k = s.k,
                                .a_step = s.a_step,
                                .b_step = s.b_step,
                                .bias = has(a, DG_MATMUL_C),
                                .add = res != NULL,
                                .act = act,
                                .alignment = 0,
                                .tf32 = 0 };
    dg_cuda_multiplied at = { NULL, NULL, NULL, res, y->data };
    char *free_bytes = (char *)a->workspace;
    int rc = convert(c, DG_MATMUL_A, DG_CUDA_REAL, &free_bytes, &at.a);

    rc = rc ? rc : convert(c, DG_MATMUL_B, DG_CUDA_REAL, &free_bytes, &at.b);
    rc = rc ? rc : convert(c, DG_MATMUL_C, y->dtype, &free_bytes, &at.bias);
    return rc ? rc : enqueue_multiplied(c, &p, &at);
}

static int matmul(const dg_cuda_call *c)
{
    return multiply(c, (const matmul_attr *)c->a->attr, DG_ACT_NONE, NULL, &c->a->t[DG_MATMUL_Y]);
}

static int matmul_act(const dg_cuda_call *c)
{
    const matmul_act_attr *f = (const matmul_act_attr *)c->a->attr;

    return multiply(c, &f->of, f->act, c->a->t[DG_MATMUL_ACT_RES].data, &c->a->t[DG_MATMUL_ACT_Y]);
}

DG_SAME_PLACE(DG_MATMUL_C, DG_MATMUL_ACT_C);
DG_CUDA_LIBRARY(matmul, prepare, matmul);
DG_CUDA_LIBRARY(matmul_act, prepare_act, matmul_act);
