/* attention.c: multi-head attention and its gradient; formulas as in kernels/ref/attention.c.
 *
 * One task is one head of one image. Its keys are packed transposed, [d][S], so that a vector holds
 * neighbouring columns of the scores, its values as rows [S][d]; ROWS queries at a time give a
 * strip of scores [ROWS][S] that stays in L1 cache. Columns masked for all rows of the strip are
 * skipped: with denoising groups that is most of the upper half. The gradient recomputes the strip
 * from the saved log-sum-exp and adds to its head's dk and dv strip by strip, so results do not
 * depend on the number of threads.
 *
 * Where the CPU multiplies pairs of bf16 (BF16_PAIRS), operands in bf16 stay so: each float of a
 * packed array holds two of them, neighbours along the axis that a product sums over, and a product
 * takes half the steps. Scores are rounded to bf16 between products. */
#include "kernels/host/simd/vmath.h"

enum {
#ifdef __AVX512F__
    ROWS = 8, /* ROWS * 2 sums and as many factors fit into the registers */
#else
    ROWS = 4,
#endif
    PAIR = 2 * W,
#ifdef __AVX512BF16__
    BF16_PAIRS = 1,
#else
    BF16_PAIRS = 0,
#endif
};

/* Columns begin..end-1 that some row of a strip sees, in multiples of PAIR; range 1 follows range
 * 0. */
typedef struct ranges {
    int64_t begin[2], end[2];
} ranges;

/* Columns that one row sees: a..a_end-1 (its denoising group) and b..b_end-1. */
typedef struct sight {
    int64_t a, a_end, b, b_end;
} sight;

typedef struct task {
    const dg_args *a;
    int64_t heads, n, s, width, d; /* d: channels per head */
    int64_t sp, dp, step;          /* s and d rounded up to PAIR; floats between rows of a strip */
    bool masked, low, pairs;
    int64_t capacity, live, group;
    float scale;
    int64_t floats; /* of workspace, per thread */
} task;

/* ---- sizes ----------------------------------------------------------------------------------- */

static int64_t round_up(int64_t n)
{
    return (n + PAIR - 1) / PAIR * PAIR;
}

static task sizes(const dg_shape *q, const dg_shape *k, int64_t heads, bool grad)
{
    task t = { .heads = heads, .n = q->d[1], .s = k->d[1], .width = q->d[2], .d = q->d[2] / heads };

    t.sp = round_up(t.s);
    t.dp = round_up(t.d);
    t.step = t.sp + W; /* not a power of two, so that rows of a strip do not share cache sets */
    t.scale = (float)(1 / sqrt((double)t.d));
    if (grad)
        t.floats = 2 * t.d * t.sp + 3 * t.sp * t.dp + 2 * ROWS * t.step + 3 * ROWS * t.dp +
                   BF16_PAIRS * (ROWS * t.step / 2 + ROWS * t.dp);
    else
        t.floats = t.d * t.sp + t.sp * t.dp + ROWS * t.step + 2 * ROWS * t.dp;
    return t;
}

static int prepare_with(dg_prepare *p, int q, bool grad)
{
    const attention_attr *f = p->attr;
    task t = sizes(&p->t[q].shape, &p->t[q + 1].shape, f->heads, grad);

    p->workspace_bytes = (size_t)(t.floats * max64(p->threads, 1)) * sizeof(float);
    return 0;
}

static int prepare(dg_prepare *p)
{
    return prepare_with(p, 0, false);
}

static int prepare_grad(dg_prepare *p)
{
    return prepare_with(p, 1, true);
}

static task task_of(const dg_args *a, int q, int dn)
{
    const attention_attr *f = a->attr;
    task t = sizes(&a->t[q].shape, &a->t[q + 1].shape, f->heads, q == 1);
    const int32_t *m = a->t[dn].data;

    t.a = a;
    t.low = is_low(a, q);
    t.pairs = BF16_PAIRS && t.low && t.d % 2 == 0;
    t.masked = m != NULL;
    if (m) {
        t.capacity = f->capacity;
        t.live = m[2];
        t.group = max64(m[3], 1);
    }
    return t;
}

/* ---- masks ----------------------------------------------------------------------------------- */

static sight sight_of(const task *t, int64_t row)
{
    if (row >= t->n || (t->masked && row >= t->live && row < t->capacity))
        return (sight){ 0, 0, t->s, t->s }; /* a void row */
    if (!t->masked)
        return (sight){ 0, 0, 0, t->s };
    if (row >= t->capacity)
        return (sight){ 0, 0, t->capacity, t->s };
    return (sight){ row / t->group * t->group, min64((row / t->group + 1) * t->group, t->live),
                    t->capacity, t->s };
}

static bool is_blind(const sight *v)
{
    return v->a >= v->a_end && v->b >= v->b_end;
}

static ranges ranges_of(const task *t, const sight v[ROWS])
{
    sight all = { t->s, 0, t->s, t->s };
    ranges r;

    for (int i = 0; i < ROWS; i++) {
        if (v[i].a < v[i].a_end) {
            all.a = min64(all.a, v[i].a);
            all.a_end = max64(all.a_end, v[i].a_end);
        }
        all.b = min64(all.b, v[i].b);
    }
    r.begin[0] = all.a < all.a_end ? all.a / PAIR * PAIR : 0;
    r.end[0] = round_up(all.a_end);
    r.begin[1] = max64(all.b / PAIR * PAIR, r.end[0]);
    r.end[1] = all.b < t->s ? max64(t->sp, r.begin[1]) : r.begin[1];
    return r;
}

/* True if the row sees all W columns from c on, by range b alone. */
static bool sees_all(const sight *v, int64_t c)
{
    return c >= v->b && c + W <= v->b_end;
}

/* x where the row sees columns c..c+W-1, else y. */
static inline vf mask_unseen(const sight *v, int64_t c, vf x, vf y)
{
    vf at = vf_count() + (float)c;
    vm a = vm_and(vf_le(vf_set((float)v->a), at), vf_lt(at, vf_set((float)v->a_end)));
    vm b = vm_and(vf_le(vf_set((float)v->b), at), vf_lt(at, vf_set((float)v->b_end)));

    return vf_pick(a, x, vf_pick(b, x, y));
}

/* ---- packing --------------------------------------------------------------------------------- */

/* Element 0 of row 0 of head `head` of operand i, whose rows have `width` elements. */
static int64_t begin_of(const task *t, int i, int64_t head)
{
    return head / t->heads * t->a->t[i].shape.d[1] * t->width + head % t->heads * t->d;
}

/* Packs rows first..first+n-1 of head `head` of operand i as rows [n][dp], zero-padded past d, then
 * zero rows up to `rows`. */
static void pack_rows(const task *t, int i, int64_t head, int64_t first, int64_t n, int64_t rows,
                      float *to)
{
    const void *x = t->a->t[i].data;
    int64_t length = t->a->t[i].shape.d[1], at = begin_of(t, i, head);

    n = min64(n, length - first);
    if (n < rows || t->d < t->dp)
        memset(to, 0, (size_t)(rows * t->dp) * sizeof(float));
    for (int64_t r = 0; r < n; r++) {
        ask(x, at + min64(first + r + AHEAD, length - 1) * t->width, t->d, t->low);
        for (int64_t k = 0; k < t->d; k += W)
            vf_store(to + r * t->dp + k,
                     ld_n(x, at + (first + r) * t->width + k, min64(t->d - k, W), t->low));
    }
}

/* The same in pairs of channels: rows [n] of d / 2 pairs, dp apart. */
static void pack_pairs(const task *t, int i, int64_t head, int64_t first, int64_t n, int64_t rows,
                       float *to)
{
    const uint16_t *x = (const uint16_t *)t->a->t[i].data + begin_of(t, i, head);
    int64_t length = t->a->t[i].shape.d[1];

    n = min64(n, length - first);
    for (int64_t r = 0; r < n; r++) {
        ask(x, min64(first + r + AHEAD, length - 1) * t->width, t->d, true);
        memcpy(to + r * t->dp, x + (first + r) * t->width, (size_t)t->d * sizeof *x);
    }
    for (int64_t r = n; r < rows; r++)
        memset(to + r * t->dp, 0, (size_t)t->d * sizeof *x);
}

/* Packs rows [n][dp] of floats that are bf16 values as pairs of rows [n / 2][dp]; n is even. */
static void zip_rows(const task *t, const float *from, int64_t n, float *to)
{
    for (int64_t r = 0; r < n; r += 2)
        for (int64_t k = 0; k < t->dp; k += W)
            vf_store(to + r / 2 * t->dp + k,
                     zip(vf_load(from + r * t->dp + k), vf_load(from + (r + 1) * t->dp + k)));
}

/* Transposes rows [sp][dp] to columns [n][sp]. */
static void transpose(const task *t, const float *from, int64_t n, float *to)
{
    for (int64_t s = 0; s < t->sp; s += W)
        for (int64_t k = 0; k < n; k++)
            for (int i = 0; i < W; i++)
                to[k * t->sp + s + i] = from[(s + i) * t->dp + k];
}

static void unpack_rows(const task *t, int i, int64_t head, int64_t first, int64_t n,
                        const float *from)
{
    void *x = t->a->t[i].data;
    int64_t length = t->a->t[i].shape.d[1], at = begin_of(t, i, head);

    n = min64(n, length - first);
    for (int64_t r = 0; r < n; r++)
        for (int64_t k = 0; k < t->d; k += W)
            st_n(x, at + (first + r) * t->width + k, vf_load(from + r * t->dp + k),
                 min64(t->d - k, W), t->low);
}

/* ---- three small products --------------------------------------------------------------------
 * pairs is constant in each call: every operand but the sums holds pairs, along the summed axis. */

/* sum + x y in each lane, x the same in all. */
ALWAYS vf add_product(const float *x, vf y, vf sum, bool pairs)
{
#ifdef __AVX512BF16__
    if (pairs)
        return (vf)_mm512_dpbf16_ps((__m512)sum, (__m512bh)_mm512_set1_ps(*x), (__m512bh)y);
#endif
    (void)pairs;
    return vf_fma(vf_set(*x), y, sum);
}

/* strip[r][c] = sum over k of x[r][k] columns[k][c] */
ALWAYS void strip_of(const task *t, const ranges *g, const float *x, const float *columns,
                     float *strip, bool pairs)
{
    int64_t n = pairs ? t->d / 2 : t->d;

    for (int half = 0; half < 2; half++)
        for (int64_t c = g->begin[half]; c < g->end[half]; c += PAIR) {
            vf sum[ROWS][2];

            for (int r = 0; r < ROWS; r++)
                sum[r][0] = sum[r][1] = (vf){ 0 };
            for (int64_t k = 0; k < n; k++) {
                vf left = vf_load(columns + k * t->sp + c),
                   right = vf_load(columns + k * t->sp + c + W);

                for (int r = 0; r < ROWS; r++) {
                    sum[r][0] = add_product(x + r * t->dp + k, left, sum[r][0], pairs);
                    sum[r][1] = add_product(x + r * t->dp + k, right, sum[r][1], pairs);
                }
            }
            for (int r = 0; r < ROWS; r++) {
                vf_store(strip + r * t->step + c, sum[r][0]);
                vf_store(strip + r * t->step + c + W, sum[r][1]);
            }
        }
}

/* y[r][k] = sum over c of strip[r][c] rows[c][k] */
ALWAYS void mix_rows(const task *t, const ranges *g, const float *strip, const float *rows,
                     float *y, bool pairs)
{
    int by = pairs ? 2 : 1;

    for (int64_t k = 0; k < t->dp; k += PAIR) {
        vf sum[ROWS][2];

        for (int r = 0; r < ROWS; r++)
            sum[r][0] = sum[r][1] = (vf){ 0 };
        for (int half = 0; half < 2; half++)
            for (int64_t c = g->begin[half] / by; c < g->end[half] / by; c++) {
                vf left = vf_load(rows + c * t->dp + k), right = vf_load(rows + c * t->dp + k + W);

                for (int r = 0; r < ROWS; r++) {
                    sum[r][0] = add_product(strip + r * t->step + c, left, sum[r][0], pairs);
                    sum[r][1] = add_product(strip + r * t->step + c, right, sum[r][1], pairs);
                }
            }
        for (int r = 0; r < ROWS; r++) {
            vf_store(y + r * t->dp + k, sum[r][0]);
            vf_store(y + r * t->dp + k + W, sum[r][1]);
        }
    }
}

/* rows[c][k] += sum over r of strip[r][c] x[r][k] */
ALWAYS void spread_rows(const task *t, const ranges *g, const float *strip, const float *x,
                        float *rows, bool pairs)
{
    int n = pairs ? ROWS / 2 : ROWS;

    for (int64_t k = 0; k < t->dp; k += PAIR) {
        vf left[ROWS], right[ROWS];

        for (int r = 0; r < n; r++) {
            left[r] = vf_load(x + r * t->dp + k);
            right[r] = vf_load(x + r * t->dp + k + W);
        }
        for (int half = 0; half < 2; half++)
            for (int64_t c = g->begin[half]; c < g->end[half]; c++) {
                vf a = vf_load(rows + c * t->dp + k), b = vf_load(rows + c * t->dp + k + W);

                for (int r = 0; r < n; r++) {
                    a = add_product(strip + r * t->step + c, left[r], a, pairs);
                    b = add_product(strip + r * t->step + c, right[r], b, pairs);
                }
                vf_store(rows + c * t->dp + k, a);
                vf_store(rows + c * t->dp + k + W, b);
            }
    }
}

/* Rounds a strip to bf16 in place: a row becomes pairs of columns. */
static void narrow_strip(const task *t, const ranges *g, float *strip)
{
    for (int r = 0; r < ROWS; r++)
        for (int half = 0; half < 2; half++)
            for (int64_t c = g->begin[half]; c < g->end[half]; c += W)
                st(strip + r * t->step, c, vf_load(strip + r * t->step + c), true);
}

/* Rounds a strip to bf16, as pairs of rows: [ROWS / 2][step]. */
static void zip_strip(const task *t, const ranges *g, const float *strip, float *to)
{
    for (int r = 0; r < ROWS; r += 2)
        for (int half = 0; half < 2; half++)
            for (int64_t c = g->begin[half]; c < g->end[half]; c += W) {
                vf a = vf_load(strip + r * t->step + c), b = vf_load(strip + (r + 1) * t->step + c);

                vf_store(to + r / 2 * t->step + c,
                         zip(vf_from_bits(vf_narrow(a)), vf_from_bits(vf_narrow(b))));
            }
}

/* ---- forward --------------------------------------------------------------------------------- */

/* Turns one row of products p into exp(scale * (p - max)); returns the log-sum-exp of the scores,
 * and in *each the factor 1 / sum that makes p probabilities. */
static float soften(const sight *v, const ranges *g, float scale, float *p, float *each)
{
    vf most = vf_set(-INFINITY), sum = { 0 };
    float top, total;

    for (int half = 0; half < 2; half++)
        for (int64_t c = g->begin[half]; c < g->end[half]; c += W) {
            if (!sees_all(v, c))
                vf_store(p + c, mask_unseen(v, c, vf_load(p + c), vf_set(-INFINITY)));
            most = vf_max(most, vf_load(p + c));
        }
    top = vf_top(most);
    for (int half = 0; half < 2; half++)
        for (int64_t c = g->begin[half]; c < g->end[half]; c += W) {
            vf e = vf_exp((vf_load(p + c) - top) * scale);

            sum += e;
            vf_store(p + c, e);
        }
    total = vf_sum(sum);
    *each = 1 / total;
    return top * scale + logf(total);
}

static void blank(const ranges *g, float *p)
{
    for (int half = 0; half < 2; half++)
        memset(p + g->begin[half], 0, (size_t)(g->end[half] - g->begin[half]) * sizeof(float));
}

static void scale_rows(const task *t, float *x, const float each[ROWS])
{
    for (int r = 0; r < ROWS; r++)
        for (int64_t k = 0; k < t->dp; k += W)
            vf_store(x + r * t->dp + k, vf_load(x + r * t->dp + k) * each[r]);
}

/* q k v dn? -> y lse */
ALWAYS void forward_head(const task *t, int64_t head, float *ws, bool pairs)
{
    float *rows = ws, *columns = rows + t->sp * t->dp, *strip = columns + t->d * t->sp,
          *q = strip + ROWS * t->step;
    float *y = q + ROWS * t->dp, *lse = (float *)t->a->t[DG_ATTENTION_LSE].data + head * t->n;

    (pairs ? pack_pairs : pack_rows)(t, 1, head, 0, t->s, t->sp, rows);
    transpose(t, rows, pairs ? t->d / 2 : t->d, columns);
    pack_rows(t, 2, head, 0, t->s, t->sp, rows);
    if (pairs)
        zip_rows(t, rows, t->sp, rows);
    for (int64_t n = 0; n < t->n; n += ROWS) {
        sight v[ROWS];
        ranges g;
        float each[ROWS];

        for (int i = 0; i < ROWS; i++)
            v[i] = sight_of(t, n + i);
        g = ranges_of(t, v);
        (pairs ? pack_pairs : pack_rows)(t, 0, head, n, ROWS, ROWS, q);
        strip_of(t, &g, q, columns, strip, pairs);
        for (int i = 0; i < ROWS; i++) {
            float of_row = 0;

            each[i] = 0;
            if (is_blind(&v[i]))
                blank(&g, strip + i * t->step);
            else
                of_row = soften(&v[i], &g, t->scale, strip + i * t->step, &each[i]);
            if (n + i < t->n)
                lse[n + i] = of_row;
        }
        if (pairs)
            narrow_strip(t, &g, strip);
        mix_rows(t, &g, strip, rows, y, pairs);
        scale_rows(t, y, each);
        unpack_rows(t, 4, head, n, ROWS, y);
    }
}

static void forward_body(void *ctx, int64_t begin, int64_t end, int thread)
{
    const task *t = ctx;

    float *ws = (float *)t->a->workspace + thread * t->floats;

    for (int64_t head = begin; head < end; head++)
        if (BF16_PAIRS && t->pairs)
            forward_head(t, head, ws, true);
        else
            forward_head(t, head, ws, false);
}

static int attention(const dg_args *a)
{
    task t = task_of(a, 0, 3);

    parallel(a, a->t[DG_ATTENTION_Q].shape.d[0] * t.heads, t.n * t.s, forward_body, &t);
    return 0;
}

/* ---- gradient: dy q k v y lse dn? -> dq dk dv ------------------------------------------------ */

/* One row of the gradient: p from products q . k to probabilities, g from dy . v to p (dy . v -
 * own) scale, where own = dy . y. */
static void slope_row(const task *t, const sight *v, const ranges *r, float lse, float own,
                      float *p, float *g)
{
    for (int half = 0; half < 2; half++)
        for (int64_t c = r->begin[half]; c < r->end[half]; c += W) {
            vf e = vf_exp(vf_fma(vf_load(p + c), vf_set(t->scale), vf_set(-lse))), s;

            if (!sees_all(v, c))
                e = mask_unseen(v, c, e, vf_set(0));
            s = e * (vf_load(g + c) - own) * t->scale;
            if (!sees_all(v, c))
                s = mask_unseen(v, c, s, vf_set(0));
            vf_store(p + c, e);
            vf_store(g + c, s);
        }
}

static float dot(const float *x, const float *y, int64_t n)
{
    vf sum = { 0 };

    for (int64_t i = 0; i < n; i += W)
        sum = vf_fma(vf_load(x + i), vf_load(y + i), sum);
    return vf_sum(sum);
}

ALWAYS void grad_head(const task *t, int64_t head, float *ws, bool pairs)
{
    int64_t channels = pairs ? t->d / 2 : t->d;
    float *k_columns = ws, *v_columns = k_columns + t->d * t->sp,
          *k_rows = v_columns + t->d * t->sp;
    float *dk = k_rows + t->sp * t->dp, *dv = dk + t->sp * t->dp, *p = dv + t->sp * t->dp,
          *g = p + ROWS * t->step;
    float *q = g + ROWS * t->step, *dy = q + ROWS * t->dp, *y = dy + ROWS * t->dp;
    float *both = y + ROWS * t->dp, *q_pairs = both + ROWS / 2 * t->step,
          *dy_pairs = q_pairs + ROWS / 2 * t->dp; /* for pairs */
    const float *lse = (const float *)t->a->t[DG_ATTENTION_GRAD_LSE].data + head * t->n;

    (pairs ? pack_pairs : pack_rows)(t, 3, head, 0, t->s, t->sp, k_rows);
    transpose(t, k_rows, channels, v_columns);
    (pairs ? pack_pairs : pack_rows)(t, 2, head, 0, t->s, t->sp, k_rows);
    transpose(t, k_rows, channels, k_columns);
    if (pairs) {
        pack_rows(t, 2, head, 0, t->s, t->sp, k_rows);
        zip_rows(t, k_rows, t->sp, k_rows);
    }
    memset(dk, 0, (size_t)(2 * t->sp * t->dp) * sizeof(float));
    for (int64_t n = 0; n < t->n; n += ROWS) {
        sight v[ROWS];
        ranges r;
        float own[ROWS]; /* of a row: dy . y */

        for (int i = 0; i < ROWS; i++)
            v[i] = sight_of(t, n + i);
        r = ranges_of(t, v);
        pack_rows(t, 1, head, n, ROWS, ROWS, q);
        pack_rows(t, 0, head, n, ROWS, ROWS, dy);
        pack_rows(t, 4, head, n, ROWS, ROWS, y);
        for (int i = 0; i < ROWS; i++)
            own[i] = dot(dy + i * t->dp, y + i * t->dp, t->dp);
        if (pairs) {
            zip_rows(t, q, ROWS, q_pairs);
            zip_rows(t, dy, ROWS, dy_pairs);
            pack_pairs(t, 1, head, n, ROWS, ROWS, q);
            pack_pairs(t, 0, head, n, ROWS, ROWS, dy);
        }
        strip_of(t, &r, dy, v_columns, g, pairs);
        strip_of(t, &r, q, k_columns, p, pairs);
        for (int i = 0; i < ROWS; i++)
            if (is_blind(&v[i])) {
                blank(&r, p + i * t->step);
                blank(&r, g + i * t->step);
            } else {
                slope_row(t, &v[i], &r, lse[n + i], own[i], p + i * t->step, g + i * t->step);
            }
        if (pairs) {
            zip_strip(t, &r, p, both);
            spread_rows(t, &r, both, dy_pairs, dv, true);
            zip_strip(t, &r, g, both);
            spread_rows(t, &r, both, q_pairs, dk, true);
            narrow_strip(t, &r, g);
        } else {
            spread_rows(t, &r, p, dy, dv, false);
            spread_rows(t, &r, g, q, dk, false);
        }
        mix_rows(t, &r, g, k_rows, y, pairs);
        unpack_rows(t, 7, head, n, ROWS, y);
    }
    unpack_rows(t, 8, head, 0, t->s, dk);
    unpack_rows(t, 9, head, 0, t->s, dv);
}

static void grad_body(void *ctx, int64_t begin, int64_t end, int thread)
{
    const task *t = ctx;
    float *ws = (float *)t->a->workspace + thread * t->floats;

    for (int64_t head = begin; head < end; head++)
        if (BF16_PAIRS && t->pairs)
            grad_head(t, head, ws, true);
        else
            grad_head(t, head, ws, false);
}

static int attention_grad(const dg_args *a)
{
    task t = task_of(a, 1, 6);

    parallel(a, a->t[DG_ATTENTION_GRAD_Q].shape.d[0] * t.heads, t.n * t.s, grad_body, &t);
    return 0;
}

DG_SIMD(attention, prepare, attention);
DG_SIMD(attention_grad, prepare_grad, attention_grad);
