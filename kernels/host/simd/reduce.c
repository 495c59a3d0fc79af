/* reduce.c: sums and maxima over axes. A tensor is folded to [K,R,N] with R reduced; sums are f32
 * within fixed blocks and double across them, in order, so results do not depend on the number of
 * threads. Axes that do not fold (reduced and kept ones alternate) are walked element by
 * element. */
#include "kernels/host/simd/simd.h"

typedef struct view {
    const dg_args *a;
    int64_t k, r, n;       /* [K,R,N] */
    int64_t block, blocks; /* rows of R per f32 sum; number of such blocks */
    float *part;           /* [K][blocks][N] */
} view;

/* Folds x to [K,R,N]; false if its axes do not fold. */
static bool view_of(const dg_shape *x, int64_t axes, view *v)
{
    int stage = 0; /* 0: kept, 1: reduced, 2: kept again */

    v->k = v->r = v->n = 1;
    for (int i = 0; i < x->rank; i++) {
        bool reduced = axes >> i & 1;

        if (x->d[i] == 1)
            continue;
        if (reduced && stage == 2)
            return false;
        stage = reduced ? 1 : stage == 0 ? 0 : 2;
        *(stage == 0 ? &v->k : stage == 1 ? &v->r : &v->n) *= x->d[i];
    }
    v->block = v->n == 1 ? 4096 : max64(8192 / v->n, 8);
    v->blocks = (v->r + v->block - 1) / v->block;
    return true;
}

static int prepare_sum(dg_prepare *p)
{
    const axes_attr *f = p->attr;
    view v;

    if (view_of(&p->t[DG_SUM_X].shape, f->axes, &v))
        p->workspace_bytes = (size_t)(v.k * v.blocks * v.n) * sizeof(float);
    else
        p->workspace_bytes = (size_t)dg_shape_elements(p->t[DG_SUM_Y].shape) * sizeof(double);
    return 0;
}

/* Sum of n adjacent elements (N = 1). */
ALWAYS float sum_run(const void *x, int64_t at, int64_t n, bool low)
{
    vf s[4] = { { 0 }, { 0 }, { 0 }, { 0 } };
    int64_t i = 0;

    for (; i + 4 * W <= n; i += 4 * W)
        for (int j = 0; j < 4; j++)
            s[j] += ld(x, at + i + j * W, low);
    for (; i < n; i += W)
        s[0] += ld_n(x, at + i, min64(n - i, W), low);
    return vf_sum((s[0] + s[1]) + (s[2] + s[3]));
}

ALWAYS void sum_columns(const void *x, int64_t at, int64_t r, int64_t n, float *sum, bool low)
{
    memset(sum, 0, (size_t)n * sizeof(float));
    for (int64_t i = 0; i < r; i += 4) {
        int64_t m = min64(4, r - i), k = 0;

        for (; k + W <= n; k += W) {
            vf v = ld(x, at + i * n + k, low);

            for (int64_t j = 1; j < m; j++)
                v += ld(x, at + (i + j) * n + k, low);
            vf_store(sum + k, vf_load(sum + k) + v);
        }
        for (; k < n; k++)
            for (int64_t j = 0; j < m; j++)
                sum[k] += ld1(x, at + (i + j) * n + k, low);
    }
}

static void sum_body(void *ctx, int64_t begin, int64_t end, int thread)
{
    const view *v = ctx;
    const void *x = v->a->t[DG_SUM_X].data;
    bool low = is_low(v->a, 0);

    (void)thread;
    for (int64_t i = begin; i < end; i++) {
        int64_t first = i % v->blocks * v->block, m = min64(v->block, v->r - first);
        int64_t at = (i / v->blocks * v->r + first) * v->n;

        if (v->n == 1)
            v->part[i] = low ? sum_run(x, at, m, true) : sum_run(x, at, m, false);
        else if (low)
            sum_columns(x, at, m, v->n, v->part + i * v->n, true);
        else
            sum_columns(x, at, m, v->n, v->part + i * v->n, false);
    }
}

/* Adds up the blocks of results begin..end-1, neighbours together: their parts lie side by side. */
static void total_body(void *ctx, int64_t begin, int64_t end, int thread)
{
    const view *v = ctx;
    enum { AT_ONCE = 64 };
    double total[AT_ONCE];
    int64_t m;

    (void)thread;
    for (int64_t at = begin; at < end; at += m) {
        int64_t k = at / v->n, n = at % v->n;

        m = min64(min64(end - at, v->n - n), AT_ONCE);
        for (int64_t j = 0; j < m; j++)
            total[j] = 0;
        for (int64_t i = 0; i < v->blocks; i++)
            for (int64_t j = 0; j < m; j++)
                total[j] += (double)v->part[(k * v->blocks + i) * v->n + n + j];
        for (int64_t j = 0; j < m; j++)
            st1(v->a->t[DG_SUM_Y].data, at + j, (float)total[j], is_low(v->a, DG_SUM_Y));
    }
}

/* Index in the result of element n of x. */
static int64_t target(const dg_shape *x, int64_t axes, int64_t n)
{
    int64_t at = 0, size = 1;

    for (int k = x->rank - 1; k >= 0; k--) {
        if (!(axes >> k & 1)) {
            at += n % x->d[k] * size;
            size *= x->d[k];
        }
        n /= x->d[k];
    }
    return at;
}

static void sum_singly(const dg_args *a, int64_t axes)
{
    double *total = a->workspace;

    memset(total, 0, (size_t)elements(a, DG_SUM_Y) * sizeof(double));
    for (int64_t n = 0; n < elements(a, DG_SUM_X); n++)
        total[target(&a->t[DG_SUM_X].shape, axes, n)] +=
            (double)ld1(a->t[DG_SUM_X].data, n, is_low(a, DG_SUM_X));
    for (int64_t n = 0; n < elements(a, DG_SUM_Y); n++)
        st1(a->t[DG_SUM_Y].data, n, (float)total[n], is_low(a, DG_SUM_Y));
}

static int sum(const dg_args *a)
{
    const axes_attr *f = a->attr;
    view v = { .a = a, .part = a->workspace };

    if (!view_of(&a->t[DG_SUM_X].shape, f->axes, &v)) {
        sum_singly(a, f->axes);
        return 0;
    }
    parallel(a, v.k * v.blocks, v.block * v.n, sum_body, &v);
    parallel(a, v.k * v.n, v.blocks, total_body, &v);
    return 0;
}

/* ---- maximum: NaN wins ----------------------------------------------------------------------- */

ALWAYS vf larger(vf most, vf x)
{
    return vf_pick(vf_eq(most, most), vf_max(most, x), most);
}

static float larger1(float most, float x)
{
    return most != most || x <= most ? most : x;
}

ALWAYS float max_run(const void *x, int64_t at, int64_t n, bool low)
{
    vf most = vf_set(-INFINITY);
    float lane[W], top = -INFINITY;
    int64_t i = 0;

    for (; i + W <= n; i += W)
        most = larger(most, ld(x, at + i, low));
    vf_store(lane, most);
    for (int k = 0; k < W; k++)
        top = larger1(top, lane[k]);
    for (; i < n; i++)
        top = larger1(top, ld1(x, at + i, low));
    return top;
}

static void max_body(void *ctx, int64_t begin, int64_t end, int thread)
{
    const view *v = ctx;
    const void *x = v->a->t[DG_REDUCE_MAX_X].data;
    bool low = is_low(v->a, 0);

    (void)thread;
    for (int64_t i = begin; i < end; i++) {
        float top = -INFINITY;

        if (v->n == 1)
            top = low ? max_run(x, i * v->r, v->r, true) : max_run(x, i * v->r, v->r, false);
        else
            for (int64_t r = 0; r < v->r; r++)
                top = larger1(top, ld1(x, (i / v->n * v->r + r) * v->n + i % v->n, low));
        st1(v->a->t[DG_REDUCE_MAX_Y].data, i, top, is_low(v->a, 1));
    }
}

static int reduce_max(const dg_args *a)
{
    const axes_attr *f = a->attr;
    view v = { .a = a };

    if (view_of(&a->t[DG_REDUCE_MAX_X].shape, f->axes, &v)) {
        parallel(a, v.k * v.n, v.r, max_body, &v);
        return 0;
    }
    for (int64_t n = 0; n < elements(a, DG_REDUCE_MAX_Y); n++)
        st1(a->t[DG_REDUCE_MAX_Y].data, n, -INFINITY, is_low(a, DG_REDUCE_MAX_Y));
    for (int64_t n = 0; n < elements(a, DG_REDUCE_MAX_X); n++) {
        int64_t to = target(&a->t[DG_REDUCE_MAX_X].shape, f->axes, n);
        float top = larger1(ld1(a->t[DG_REDUCE_MAX_Y].data, to, is_low(a, DG_REDUCE_MAX_Y)),
                            ld1(a->t[DG_REDUCE_MAX_X].data, n, is_low(a, DG_REDUCE_MAX_X)));

        st1(a->t[DG_REDUCE_MAX_Y].data, to, top, is_low(a, DG_REDUCE_MAX_Y));
    }
    return 0;
}

DG_SIMD(sum, prepare_sum, sum);
DG_SIMD(reduce_max, NULL, reduce_max);
