/* batch_norm.c: batch normalisation with its activation and residual (Ioffe & Szegedy 2015);
 * formulas as in kernels/ref/norm.c. Maps are [R,C], C the channels.
 *
 * Memory-bound: the forward pass reads x twice and writes y; the gradient reads dy and x twice (and
 * y where a residual hides ReLU's gate) and writes dx. Rows are cut into blocks that fit L1 cache;
 * sums are f32 within a block and double across blocks, in block order, so results do not depend on
 * the number of threads. Variances are taken about each block's mean and joined (Chan, Golub &
 * LeVeque 1983). The ops of the norm over several ranks (batch_stats, batch_norm_sync,
 * batch_norm_sums, batch_norm_dx) run the same loops one by one. */
#include "kernels/host/simd/vmath.h"

enum { BLOCK_FLOATS = 8192 };

typedef struct norm_call {
    const dg_args *a;
    const norm_attr *f;
    int64_t n, c, block, blocks; /* rows, channels, rows per block, number of blocks */
    const float *s, *b, *mean, *var;
    double *first, *second; /* [C], sums over all blocks */
    float *part;            /* [blocks][2][C], sums per block */
    float *scale, *k0, *k1; /* [C]: s * rstd, and two terms of dx */
    bool no_x;              /* the gradient has no x: fixed statistics, and ds is not wanted */
} norm_call;

/* Rows per block: a multiple of 4. */
static int64_t block_rows(int64_t c)
{
    return max64(BLOCK_FLOATS / c / 4 * 4, 4);
}

static int prepare(dg_prepare *p, const dg_shape *x)
{
    int64_t c = width_of(x), n = dg_shape_elements(*x) / c, block = block_rows(c);

    p->workspace_bytes = (size_t)(c * (2 * 8 + 3 * 4) + (n + block - 1) / block * 2 * c * 4);
    return 0;
}

static int prepare_forward(dg_prepare *p)
{
    return prepare(p, &p->t[DG_BATCH_NORM_X].shape);
}

static int prepare_grad(dg_prepare *p)
{
    return prepare(p, &p->t[DG_BATCH_NORM_GRAD_DY].shape);
}

static norm_call call_of(const dg_args *a, int x)
{
    int64_t c = width(a, x), n = rows(a, x), block = block_rows(c);
    norm_call s = {
        .a = a, .f = a->attr, .n = n, .c = c, .block = block, .blocks = (n + block - 1) / block
    };

    s.first = a->workspace;
    s.second = s.first + c;
    s.scale = (float *)(s.second + c);
    s.k0 = s.scale + c;
    s.k1 = s.k0 + c;
    s.part = s.k1 + c;
    return s;
}

/* Limits the rows to the first `live` entries along the first axis of operand x. */
static void limit_rows(norm_call *s, int x, int live)
{
    const dg_tensor *t = s->a->t;
    int64_t n = t[x].shape.d[0], k = n;

    if (t[live].data)
        k = *(const int32_t *)t[live].data;
    s->n = (k < 0 ? 0 : min64(k, n)) * (s->n / n);
    s->blocks = (s->n + s->block - 1) / s->block;
}

static void clear_void(const norm_call *s, int y)
{
    const dg_tensor *t = &s->a->t[y];
    size_t row = (size_t)s->c * dg_dtype_size(t->dtype);

    memset((char *)t->data + (size_t)s->n * row, 0, (size_t)(rows(s->a, y) - s->n) * row);
}

static void scale_of(const norm_call *s)
{
    for (int64_t k = 0; k < s->c; k++)
        s->scale[k] = (float)(s->s[k] / sqrt((double)s->var[k] + s->f->eps));
}

/* ---- statistics ------------------------------------------------------------------------------ */

ALWAYS void block_stats(const norm_call *s, int64_t block, bool low, bool whole)
{
    const void *x = s->a->t[DG_BATCH_NORM_X].data;
    int64_t c = s->c, begin = block * s->block, n = min64(s->block, s->n - begin);
    float *sum = s->part + 2 * c * block, *square = sum + c;

    memset(sum, 0, (size_t)c * sizeof(float));
    for (int64_t r = 0; r < n; r += 4) {
        int64_t at = (begin + r) * c, m = min64(4, n - r);

        for (int64_t k = 0; k < c; k += W) {
            vf v = ld_k(x, at + k, c - k < W ? c - k : W, low, whole);

            for (int64_t i = 1; i < m; i++)
                v += ld_k(x, at + i * c + k, c - k < W ? c - k : W, low, whole);
            st_k(sum, k, ld_k(sum, k, c - k < W ? c - k : W, false, whole) + v,
                 c - k < W ? c - k : W, false, whole);
        }
    }
    for (int64_t k = 0; k < c; k += W) {
        int64_t w = c - k < W ? c - k : W;
        vf mean = ld_k(sum, k, w, false, whole) * (1.0f / (float)n), q[2] = { { 0 }, { 0 } };

        for (int64_t r = 0; r < n; r++) {
            vf d = ld_k(x, (begin + r) * c + k, w, low, whole) - mean;

            q[r & 1] = vf_fma(d, d, q[r & 1]);
        }
        st_k(square, k, q[0] + q[1], w, false, whole);
    }
}

static void stats_body(void *ctx, int64_t begin, int64_t end, int thread)
{
    const norm_call *s = ctx;
    bool low = is_low(s->a, DG_BATCH_NORM_X), whole = s->c % W == 0;

    (void)thread;
    for (int64_t i = begin; i < end; i++)
        if (!whole)
            block_stats(s, i, low, false);
        else if (low)
            block_stats(s, i, true, true);
        else
            block_stats(s, i, false, true);
}

/* Joins the blocks: first becomes the means, second the sums of squares about them. */
static void join_stats(const norm_call *s)
{
    memset(s->first, 0, (size_t)(2 * s->c) * sizeof(double));
    for (int64_t i = 0; i < s->blocks; i++)
        for (int64_t k = 0; k < s->c; k++)
            s->first[k] += (double)s->part[2 * s->c * i + k];
    for (int64_t k = 0; k < s->c && s->n; k++)
        s->first[k] /= (double)s->n;
    for (int64_t i = 0; i < s->blocks; i++) {
        const float *sum = s->part + 2 * s->c * i, *square = sum + s->c;
        double n = (double)min64(s->block, s->n - i * s->block), each = 1 / n;

        for (int64_t k = 0; k < s->c; k++) {
            double d = (double)sum[k] * each - s->first[k];

            s->second[k] += (double)square[k] + n * d * d;
        }
    }
}

static void find_stats(norm_call *s)
{
    parallel(s->a, s->blocks, s->block * s->c, stats_body, s);
    join_stats(s);
}

/* x live? -> stats */
static int batch_stats(const dg_args *a)
{
    norm_call s = call_of(a, DG_BATCH_STATS_X);
    float *stats = a->t[DG_BATCH_STATS_STATS].data;

    limit_rows(&s, 0, 1);
    find_stats(&s);
    for (int64_t k = 0; k < s.c; k++) {
        stats[k] = (float)s.first[k];
        stats[s.c + k] = (float)s.second[k];
    }
    stats[2 * s.c] = (float)s.n;
    return 0;
}

/* ---- forward --------------------------------------------------------------------------------- */

typedef struct apply_call {
    norm_call n;
    const void *res;
    void *y;
    bool low_res, low_y;
} apply_call;

/* low: what is computed of it is stored as bf16 */
ALWAYS vf sigmoid(vf z, bool low)
{
    return low ? vf_sigmoid_low(z) : vf_sigmoid(z);
}

ALWAYS vf act(vf z, int64_t kind, bool low)
{
    return kind == DG_ACT_RELU   ? vf_max(vf_set(0), z)
           : kind == DG_ACT_SILU ? z * sigmoid(z, low)
                                 : z;
}

ALWAYS void apply_rows(const apply_call *s, int64_t begin, int64_t end, bool low, bool low_res,
                       bool low_y, bool whole, int64_t kind, bool add)
{
    const norm_call *p = &s->n;
    const void *x = p->a->t[DG_BATCH_NORM_X].data;
    int64_t c = p->c;

    for (int64_t r = begin; r < end; r++)
        for (int64_t k = 0; k < c; k += W) {
            int64_t w = c - k < W ? c - k : W;
            vf d = ld_k(x, r * c + k, w, low, whole) - ld_k(p->mean, k, w, false, whole);
            vf z = vf_fma(d, ld_k(p->scale, k, w, false, whole), ld_k(p->b, k, w, false, whole));

            if (add)
                z += ld_k(s->res, r * c + k, w, low_res, whole);
            st_k(s->y, r * c + k, act(z, kind, low_y), w, low_y, whole);
        }
}

ALWAYS void apply_kind(const apply_call *s, int64_t begin, int64_t end, bool low, bool low_res,
                       bool low_y, bool whole)
{
    int64_t kind = s->n.f->act;

    if (s->res && kind == DG_ACT_RELU)
        apply_rows(s, begin, end, low, low_res, low_y, whole, DG_ACT_RELU, true);
    else if (s->res)
        apply_rows(s, begin, end, low, low_res, low_y, whole, kind, true);
    else if (kind == DG_ACT_RELU)
        apply_rows(s, begin, end, low, low_res, low_y, whole, DG_ACT_RELU, false);
    else if (kind == DG_ACT_SILU)
        apply_rows(s, begin, end, low, low_res, low_y, whole, DG_ACT_SILU, false);
    else
        apply_rows(s, begin, end, low, low_res, low_y, whole, DG_ACT_NONE, false);
}

static void apply_body(void *ctx, int64_t begin, int64_t end, int thread)
{
    const apply_call *s = ctx;
    bool low = is_low(s->n.a, 0), whole = s->n.c % W == 0;

    (void)thread;
    if (whole && !low && !s->low_res && !s->low_y)
        apply_kind(s, begin, end, false, false, false, true);
    else if (whole && low && s->low_y && (s->low_res || !s->res))
        apply_kind(s, begin, end, true, true, true, true);
    else
        apply_kind(s, begin, end, low, s->low_res, s->low_y, false);
}

static int apply(const norm_call *n, int res, int y)
{
    const dg_args *a = n->a;
    apply_call s = { *n, a->t[res].data, a->t[y].data, a->t[res].data && is_low(a, res),
                     is_low(a, y) };

    scale_of(n);
    parallel(a, n->n, n->c, apply_body, &s);
    return 0;
}

/* x s b res? -> y mean var */
static int batch_norm(const dg_args *a)
{
    norm_call s = call_of(a, DG_BATCH_NORM_X);

    float *mean = a->t[DG_BATCH_NORM_MEAN].data, *var = a->t[DG_BATCH_NORM_VAR].data;

    s.s = a->t[DG_BATCH_NORM_S].data;
    s.b = a->t[DG_BATCH_NORM_B].data;
    find_stats(&s);
    for (int64_t k = 0; k < s.c; k++) {
        mean[k] = (float)s.first[k];
        var[k] = (float)(s.second[k] / (double)s.n);
    }
    s.mean = mean;
    s.var = var;
    return apply(&s, 3, 4);
}

/* x s b mean var res? -> y */
static int batch_norm_fixed(const dg_args *a)
{
    norm_call s = call_of(a, DG_BATCH_NORM_FIXED_X);

    s.s = a->t[DG_BATCH_NORM_FIXED_S].data;
    s.b = a->t[DG_BATCH_NORM_FIXED_B].data;
    s.mean = a->t[DG_BATCH_NORM_FIXED_MEAN].data;
    s.var = a->t[DG_BATCH_NORM_FIXED_VAR].data;
    return apply(&s, 5, 6);
}

/* x s b mean var n live? res? -> y */
static int batch_norm_sync(const dg_args *a)
{
    norm_call s = call_of(a, DG_BATCH_NORM_SYNC_X);

    s.s = a->t[DG_BATCH_NORM_SYNC_S].data;
    s.b = a->t[DG_BATCH_NORM_SYNC_B].data;
    s.mean = a->t[DG_BATCH_NORM_SYNC_MEAN].data;
    s.var = a->t[DG_BATCH_NORM_SYNC_VAR].data;
    limit_rows(&s, 0, 6);
    clear_void(&s, 8);
    return apply(&s, 7, 8);
}

/* ---- gradient -------------------------------------------------------------------------------- */

enum {
    DY = DG_BATCH_NORM_GRAD_DY,
    X = DG_BATCH_NORM_GRAD_X,
    Y = DG_BATCH_NORM_GRAD_Y,
    S = DG_BATCH_NORM_GRAD_S,
    B = DG_BATCH_NORM_GRAD_B,
    MEAN = DG_BATCH_NORM_GRAD_MEAN,
    VAR = DG_BATCH_NORM_GRAD_VAR,
    RES = DG_BATCH_NORM_GRAD_RES,
    DX = DG_BATCH_NORM_GRAD_DX,
    DS = DG_BATCH_NORM_GRAD_DS,
    DB = DG_BATCH_NORM_GRAD_DB,
    DRES = DG_BATCH_NORM_GRAD_DRES,
};

/* The gradient before the norm of one vector: g = dy act'(z), and d = x - mean. low: all maps are
 * bf16. res: z has a residual. ReLU's gate is read from y if res, otherwise from x, which is read
 * anyway. */
ALWAYS vf upstream(const norm_call *s, const dg_tensor *t, int64_t at, int64_t k, int64_t w,
                   bool low, bool whole, int64_t kind, bool res, vf *d)
{
    vf g = ld_k(t[DY].data, at + k, w, low, whole), z, p;

    ask_far(t[DY].data, at + k, low);
    ask_far(t[X].data, at + k, low);
    if (kind == DG_ACT_RELU && res)
        ask_far(t[Y].data, at + k, low);

    *d = ld_k(t[X].data, at + k, w, low, whole) - ld_k(s->mean, k, w, false, whole);
    if (kind == DG_ACT_NONE)
        return g;
    if (kind == DG_ACT_RELU && res)
        return vf_pick(vf_lt(vf_set(0), ld_k(t[Y].data, at + k, w, low, whole)), g, vf_set(0));
    z = vf_fma(*d, ld_k(s->scale, k, w, false, whole), ld_k(s->b, k, w, false, whole));
    if (kind == DG_ACT_RELU)
        return vf_pick(vf_lt(vf_set(0), z), g, vf_set(0));
    if (res)
        z += ld_k(t[RES].data, at + k, w, low, whole);
    p = sigmoid(z, low);
    return g * p * vf_fma(z, 1.0f - p, vf_set(1));
}

ALWAYS void block_sums(const norm_call *s, int64_t block, bool low, bool whole, int64_t kind,
                       bool res, bool keep)
{
    const dg_tensor *t = s->a->t;
    int64_t c = s->c, begin = block * s->block, end = min64(begin + s->block, s->n);
    float *sum = s->part + 2 * c * block, *sum_d = sum + c;
    vf d;

    memset(sum, 0, (size_t)(2 * c) * sizeof(float));
    for (int64_t r = begin; r < end; r += 2)
        for (int64_t k = 0; k < c; k += W) {
            int64_t w = c - k < W ? c - k : W;
            vf g = upstream(s, t, r * c, k, w, low, whole, kind, res, &d), gd = g * d;

            if (keep)
                st_k(t[DRES].data, r * c + k, g, w, low, whole);
            if (r + 1 < end) {
                vf g2 = upstream(s, t, (r + 1) * c, k, w, low, whole, kind, res, &d);

                if (keep)
                    st_k(t[DRES].data, (r + 1) * c + k, g2, w, low, whole);
                gd = vf_fma(g2, d, gd);
                g += g2;
            }
            st_k(sum, k, ld_k(sum, k, w, false, whole) + g, w, false, whole);
            st_k(sum_d, k, ld_k(sum_d, k, w, false, whole) + gd, w, false, whole);
        }
}

/* dx = scale g + k1 (x - mean) + k0. kept: g was stored in dres. */
ALWAYS void block_dx(const norm_call *s, int64_t block, bool low, bool whole, int64_t kind,
                     bool res, bool kept)
{
    const dg_tensor *t = s->a->t;
    int64_t c = s->c, begin = block * s->block, end = min64(begin + s->block, s->n);

    for (int64_t r = begin; r < end; r++)
        for (int64_t k = 0; k < c; k += W) {
            int64_t w = c - k < W ? c - k : W;
            vf d, g, v;

            if (kept) {
                ask_far(t[DRES].data, r * c + k, low);
                ask_far(t[X].data, r * c + k, low);
                g = ld_k(t[DRES].data, r * c + k, w, low, whole);
                d = ld_k(t[X].data, r * c + k, w, low, whole) - ld_k(s->mean, k, w, false, whole);
            } else {
                g = upstream(s, t, r * c, k, w, low, whole, kind, res, &d);
            }
            v = vf_fma(d, ld_k(s->k1, k, w, false, whole), ld_k(s->k0, k, w, false, whole));
            st_k(t[DX].data, r * c + k, vf_fma(g, ld_k(s->scale, k, w, false, whole), v), w, low,
                 whole);
        }
}

/* Both passes, specialised for what is constant in the loops. */
ALWAYS void block_any(const norm_call *s, int64_t i, bool sums, bool low, bool whole, int64_t kind,
                      bool res)
{
    bool keep = s->a->t[DRES].data != NULL;

    if (sums && keep)
        block_sums(s, i, low, whole, kind, res, true);
    else if (sums)
        block_sums(s, i, low, whole, kind, res, false);
    else if (keep)
        block_dx(s, i, low, whole, kind, res, true);
    else
        block_dx(s, i, low, whole, kind, res, false);
}

ALWAYS void block_kind(const norm_call *s, int64_t i, bool sums, bool low, bool whole)
{
    int64_t kind = s->f->act;
    bool res = s->a->t[RES].data != NULL; /* for SiLU; ReLU's gate is read from y */

    if (kind == DG_ACT_RELU && (!s->f->plain || s->no_x))
        block_any(s, i, sums, low, whole, DG_ACT_RELU, true);
    else if (kind == DG_ACT_RELU)
        block_any(s, i, sums, low, whole, DG_ACT_RELU, false);
    else if (kind == DG_ACT_SILU && !res)
        block_any(s, i, sums, low, whole, DG_ACT_SILU, false);
    else
        block_any(s, i, sums, low, whole, kind, res);
}

ALWAYS void grad_range(const norm_call *s, int64_t begin, int64_t end, bool sums)
{
    bool low = is_low(s->a, DY), whole = s->c % W == 0;

    for (int64_t i = begin; i < end; i++)
        if (!whole)
            block_kind(s, i, sums, low, false);
        else if (low)
            block_kind(s, i, sums, true, true);
        else
            block_kind(s, i, sums, false, true);
}

static void sums_body(void *ctx, int64_t begin, int64_t end, int thread)
{
    (void)thread;
    grad_range(ctx, begin, end, true);
}

static void dx_body(void *ctx, int64_t begin, int64_t end, int thread)
{
    (void)thread;
    grad_range(ctx, begin, end, false);
}

/* first, second: sums of g and of g d. */
static void add_sums(const norm_call *s, bool sums)
{
    memset(s->first, 0, (size_t)(2 * s->c) * sizeof(double));
    for (int64_t i = 0; sums && i < s->blocks; i++)
        for (int64_t k = 0; k < s->c; k++) {
            s->first[k] += (double)s->part[2 * s->c * i + k];
            s->second[k] += (double)s->part[2 * s->c * i + s->c + k];
        }
}

/* Computes ds, db, and the constants of dx, which with fixed statistics do not depend on x. */
static void join_sums(const norm_call *s, bool sums, float *ds, float *db)
{
    add_sums(s, sums);
    for (int64_t k = 0; k < s->c; k++) {
        double rstd = 1 / sqrt((double)s->var[k] + s->f->eps),
               n = s->f->fixed ? INFINITY : (double)s->n;

        if (ds)
            ds[k] = (float)(s->second[k] * rstd);
        if (db)
            db[k] = (float)s->first[k];
        s->k0[k] = (float)(-s->s[k] * rstd * s->first[k] / n);
        s->k1[k] = (float)(-s->s[k] * rstd * rstd * rstd * s->second[k] / n);
    }
}

/* Makes the call use operands t, ordered as in batch_norm_grad. */
static void set_operands(norm_call *s, dg_args *copy, const dg_tensor *t)
{
    *copy = *s->a;
    copy->t = t;
    s->a = copy;
    s->s = t[S].data;
    s->b = t[B].data;
    s->mean = t[MEAN].data;
    s->var = t[VAR].data;
    scale_of(s);
}

static int batch_norm_grad(const dg_args *a)
{
    norm_call s = call_of(a, DY);
    dg_tensor t[DRES + 1];
    dg_args copy;
    bool sums = !s.f->fixed || a->t[DS].data || a->t[DB].data || a->t[DRES].data;

    memcpy(t, a->t, sizeof t);
    s.no_x = t[X].data == NULL;
    if (s.no_x)
        t[X].data = t[DY].data; /* any finite numbers: their factor k1 is 0 */
    set_operands(&s, &copy, t);
    if (sums)
        parallel(a, s.blocks, s.block * s.c, sums_body, &s);
    join_sums(&s, sums, t[DS].data, t[DB].data);
    parallel(a, s.blocks, s.block * s.c, dx_body, &s);
    return 0;
}

/* dy x y? s b mean var live? res? -> sums ds? db? dres? */
static int batch_norm_sums(const dg_args *a)
{
    norm_call s = call_of(a, DY);
    dg_tensor t[DRES + 1];
    dg_args copy;
    float *sums = a->t[DG_BATCH_NORM_SUMS_SUMS].data;

    memcpy(t, a->t, (size_t)RES * sizeof *t);
    t[RES] = a->t[DG_BATCH_NORM_SUMS_RES];
    t[DX] = (dg_tensor){ .shape.rank = -1 };
    memcpy(t + DS, a->t + 10, 3 * sizeof *t);
    limit_rows(&s, DY, 7);
    set_operands(&s, &copy, t);
    if (t[DRES].data)
        clear_void(&s, DRES);
    parallel(a, s.blocks, s.block * s.c, sums_body, &s);
    add_sums(&s, true);
    for (int64_t k = 0; k < s.c; k++) {
        sums[k] = (float)s.first[k];
        sums[s.c + k] = (float)(s.second[k] / sqrt((double)s.var[k] + s.f->eps));
    }
    if (t[DS].data)
        memcpy(t[DS].data, sums + s.c, (size_t)s.c * sizeof *sums);
    if (t[DB].data)
        memcpy(t[DB].data, sums, (size_t)s.c * sizeof *sums);
    return 0;
}

/* dy x y? s b mean var n sums live? res? -> dx */
static int batch_norm_dx(const dg_args *a)
{
    norm_call s = call_of(a, DY);
    dg_tensor t[DRES + 1];
    dg_args copy;
    const float *sums = a->t[DG_BATCH_NORM_DX_SUMS].data;
    double n = (double)*(const float *)a->t[DG_BATCH_NORM_DX_N].data;

    memcpy(t, a->t, (size_t)RES * sizeof *t);
    t[RES] = a->t[DG_BATCH_NORM_DX_RES];
    t[DX] = a->t[DG_BATCH_NORM_DX_DX];
    t[DS] = t[DB] = t[DRES] = (dg_tensor){ .shape.rank = -1 };
    limit_rows(&s, DY, 9);
    set_operands(&s, &copy, t);
    clear_void(&s, DX);
    for (int64_t k = 0; k < s.c; k++) {
        double rstd = 1 / sqrt((double)s.var[k] + s.f->eps), each = -s.s[k] * rstd / n;

        s.k0[k] = (float)(each * (double)sums[k]);
        s.k1[k] = (float)(each * rstd * (double)sums[s.c + k]);
    }
    parallel(a, s.blocks, s.block * s.c, dx_body, &s);
    return 0;
}

DG_SAME_PLACE(DG_BATCH_NORM_X, DG_BATCH_NORM_FIXED_X);
DG_SAME_PLACE(DG_BATCH_NORM_S, DG_BATCH_NORM_FIXED_S);
DG_SAME_PLACE(DG_BATCH_NORM_B, DG_BATCH_NORM_FIXED_B);
DG_SAME_PLACE(DG_BATCH_NORM_X, DG_BATCH_NORM_SYNC_X);
DG_SAME_PLACE(DG_BATCH_NORM_S, DG_BATCH_NORM_SYNC_S);
DG_SAME_PLACE(DG_BATCH_NORM_B, DG_BATCH_NORM_SYNC_B);
DG_SAME_PLACE(DG_BATCH_NORM_X, DG_BATCH_STATS_X);
DG_SAME_PLACE(DG_BATCH_NORM_GRAD_DY, DG_BATCH_NORM_SUMS_DY);
DG_SAME_PLACE(DG_BATCH_NORM_GRAD_DY, DG_BATCH_NORM_DX_DY);
DG_SIMD(batch_norm, prepare_forward, batch_norm);
DG_SIMD(batch_norm_fixed, prepare_forward, batch_norm_fixed);
DG_SIMD(batch_norm_grad, prepare_grad, batch_norm_grad);
DG_SIMD(batch_stats, prepare_forward, batch_stats);
DG_SIMD(batch_norm_sync, prepare_forward, batch_norm_sync);
DG_SIMD(batch_norm_sums, prepare_grad, batch_norm_sums);
DG_SIMD(batch_norm_dx, prepare_grad, batch_norm_dx);
