/* attention.c: softmax, and multi-head attention on projected inputs (Vaswani et al. 2017).
 *
 * q, y [B,N,D], k, v [B,S,D]; a head is a run of d = D / heads channels. For every image and head
 *     score[n,s] = q[n] . k[s] / sqrt(d)                  -inf where row n must not see column s
 *     lse[n]     = log sum over s of exp(score[n,s])      lse [B,heads,N]
 *     p[n,s]     = exp(score[n,s] - lse[n])
 *     y[n]       = sum over s of p[n,s] v[s]
 * and backward
 *     dv[s] = sum over n of p[n,s] dy[n]
 *     g[n,s] = p[n,s] * (dy[n] . v[s] - dy[n] . y[n]) / sqrt(d)
 *     dq[n] = sum over s of g[n,s] k[s]       dk[s] = sum over n of g[n,s] q[n]
 *
 * dn = (M, groups, live, group) masks denoising queries, see dg_attention in op.h; void rows have y
 * = 0 and lse = 0, void columns dk = dv = 0. */
#include <math.h>
#include <string.h>

#include "kernels/ref/ref.h"

/* ---- softmax over the last axis -------------------------------------------------------------- */

static int softmax(const dg_args *a)
{
    int64_t d = width(a, DG_SOFTMAX_X);

    for (int64_t r = 0; r < rows(a, DG_SOFTMAX_X); r++) {
        const real *x = in(a, DG_SOFTMAX_X) + r * d;
        real *y = out(a, DG_SOFTMAX_Y) + r * d; /* may be x */
        double most = x[0], sum = 0;

        for (int64_t k = 1; k < d; k++)
            most = x[k] > most ? x[k] : most;
        for (int64_t k = 0; k < d; k++)
            sum += exp(x[k] - most);
        for (int64_t k = 0; k < d; k++)
            y[k] = (real)(exp(x[k] - most) / sum);
    }
    return 0;
}

/* dx = y * (dy - sum dy y); operands dy y -> dx */
static int softmax_grad(const dg_args *a)
{
    int64_t d = width(a, DG_SOFTMAX_GRAD_DY);

    for (int64_t r = 0; r < rows(a, DG_SOFTMAX_GRAD_DY); r++) {
        const real *dy = in(a, DG_SOFTMAX_GRAD_DY) + r * d, *y = in(a, DG_SOFTMAX_GRAD_Y) + r * d;
        double dot = 0;

        for (int64_t k = 0; k < d; k++)
            dot += (double)dy[k] * y[k];
        for (int64_t k = 0; k < d; k++)
            out(a, DG_SOFTMAX_GRAD_DX)[r * d + k] = (real)(y[k] * (dy[k] - dot));
    }
    return 0;
}

/* ---- attention ------------------------------------------------------------------------------- */

typedef struct mask {
    bool present;
    int64_t capacity, live, group;
} mask;

static mask mask_of(const dg_args *a, int i)
{
    const attention_attr *f = a->attr;
    mask m = { .present = has(a, i) };

    if (m.present) {
        m.capacity = f->capacity;
        m.live = in_i32(a, i)[2];
        m.group = in_i32(a, i)[3];
    }
    return m;
}

static bool is_void(const mask *m, int64_t n)
{
    return m->present && n >= m->live && n < m->capacity;
}

static bool sees(const mask *m, int64_t row, int64_t column)
{
    if (!m->present || (column >= m->capacity && !is_void(m, row)))
        return true;
    return row < m->live && column < m->live && row / m->group == column / m->group;
}

/* Shapes, and the slices of head `head` = b*heads + h. */
typedef struct view {
    int64_t n, s, width, d, heads;
    const real *q, *k, *v;
    double scale;
} view;

static view view_of(const dg_args *a, int q, int64_t head)
{
    const attention_attr *f = a->attr;
    view o = { .n = dim(a, q, 1), .s = dim(a, q + 1, 1), .width = dim(a, q, 2), .heads = f->heads };
    int64_t b = head / o.heads, first;

    o.d = o.width / o.heads;
    o.scale = 1 / sqrt((double)o.d);
    first = head % o.heads * o.d;
    o.q = in(a, q) + b * o.n * o.width + first;
    o.k = in(a, q + 1) + b * o.s * o.width + first;
    o.v = in(a, q + 2) + b * o.s * o.width + first;
    return o;
}

static double dot(const real *x, const real *y, int64_t d)
{
    double sum = 0;

    for (int64_t i = 0; i < d; i++)
        sum += (double)x[i] * y[i];
    return sum;
}

/* Workspace per thread: scores (then probabilities) of one row, and sums of one row of y. */
static int prepare(dg_prepare *p)
{
    p->workspace_bytes =
        (size_t)((p->threads > 1 ? p->threads : 1) *
                 (p->t[DG_ATTENTION_K].shape.d[1] + p->t[DG_ATTENTION_Q].shape.d[2])) *
        sizeof(double);
    return 0;
}

/* Writes the scores of row n to score and returns their log-sum-exp. */
static double row_scores(const view *o, const mask *m, int64_t n, double *score)
{
    double most = -INFINITY, sum = 0;

    for (int64_t s = 0; s < o->s; s++) {
        score[s] = -INFINITY;
        if (sees(m, n, s))
            score[s] = dot(o->q + n * o->width, o->k + s * o->width, o->d) * o->scale;
        most = score[s] > most ? score[s] : most;
    }
    for (int64_t s = 0; s < o->s; s++)
        sum += exp(score[s] - most);
    return most + log(sum);
}

static void attention_heads(const dg_args *a, int64_t begin, int64_t end, int thread)
{
    mask m = mask_of(a, DG_ATTENTION_DN);
    int64_t all = dim(a, DG_ATTENTION_K, 1) + dim(a, DG_ATTENTION_Q, 2);
    double *score = (double *)a->workspace + thread * all, *sum = score + dim(a, DG_ATTENTION_K, 1);

    for (int64_t head = begin; head < end; head++) {
        view o = view_of(a, DG_ATTENTION_Q, head);
        real *y = out(a, DG_ATTENTION_Y) + head / o.heads * o.n * o.width + head % o.heads * o.d;
        real *lse = out(a, DG_ATTENTION_LSE) + head * o.n;

        for (int64_t n = 0; n < o.n; n++, y += o.width) {
            memset(sum, 0, (size_t)o.d * sizeof(double));
            lse[n] = 0;
            if (!is_void(&m, n)) {
                double all_scores = row_scores(&o, &m, n, score);

                for (int64_t s = 0; s < o.s; s++) {
                    double p = exp(score[s] - all_scores);

                    for (int64_t i = 0; i < o.d && p > 0; i++)
                        sum[i] += p * o.v[s * o.width + i];
                }
                lse[n] = (real)all_scores;
            }
            for (int64_t i = 0; i < o.d; i++)
                y[i] = (real)sum[i];
        }
    }
}

static int attention(const dg_args *a)
{
    const attention_attr *f = a->attr;

    parallel(a, dim(a, DG_ATTENTION_Q, 0) * f->heads, attention_heads);
    return 0;
}

/* ---- its gradient: dy q k v y lse dn? -> dq dk dv -------------------------------------------- */

/* Doubles per thread: sums of dk and dv of one head, and of one row of dq. */
static int64_t sums_per_thread(const dg_shape *q, const dg_shape *k, int64_t heads)
{
    return (2 * k->d[1] + 1) * (q->d[2] / heads);
}

static int prepare_grad(dg_prepare *p)
{
    const attention_attr *f = p->attr;

    p->workspace_bytes = (size_t)((p->threads > 1 ? p->threads : 1) *
                                  sums_per_thread(&p->t[DG_ATTENTION_GRAD_Q].shape,
                                                  &p->t[DG_ATTENTION_GRAD_K].shape, f->heads)) *
                         sizeof(double);
    return 0;
}

/* Adds row n's contributions to dk and dv, and its gradient to dq. */
static void row_grad(const view *o, const mask *m, int64_t n, const real *dy, const real *y,
                     double lse, double *dk, double *dv, double *dq)
{
    const real *q = o->q + n * o->width;
    double own = dot(dy, y, o->d);

    for (int64_t s = 0; s < o->s; s++) {
        const real *k = o->k + s * o->width, *v = o->v + s * o->width;

        if (!sees(m, n, s))
            continue;
        double p = exp(dot(q, k, o->d) * o->scale - lse);
        double g = p * (dot(dy, v, o->d) - own) * o->scale;

        for (int64_t i = 0; i < o->d; i++) {
            dv[s * o->d + i] += p * dy[i];
            dk[s * o->d + i] += g * q[i];
            dq[i] += g * k[i];
        }
    }
}

static void attention_grad_heads(const dg_args *a, int64_t begin, int64_t end, int thread)
{
    const attention_attr *f = a->attr;
    mask m = mask_of(a, DG_ATTENTION_GRAD_DN);
    int64_t all = sums_per_thread(&a->t[DG_ATTENTION_GRAD_Q].shape,
                                  &a->t[DG_ATTENTION_GRAD_K].shape, f->heads);

    for (int64_t head = begin; head < end; head++) {
        view o = view_of(a, DG_ATTENTION_GRAD_Q, head);
        int64_t b = head / o.heads, first = head % o.heads * o.d;
        const real *lse = in(a, DG_ATTENTION_GRAD_LSE) + head * o.n;
        double *dk = (double *)a->workspace + thread * all;
        double *dv = dk + o.s * o.d, *dq = dv + o.s * o.d;

        memset(dk, 0, (size_t)(2 * o.s * o.d) * sizeof(double));
        for (int64_t n = 0; n < o.n; n++) {
            int64_t at = (b * o.n + n) * o.width + first;

            memset(dq, 0, (size_t)o.d * sizeof(double));
            if (!is_void(&m, n))
                row_grad(&o, &m, n, in(a, DG_ATTENTION_GRAD_DY) + at,
                         in(a, DG_ATTENTION_GRAD_Y) + at, lse[n], dk, dv, dq);
            for (int64_t i = 0; i < o.d; i++)
                out(a, DG_ATTENTION_GRAD_DQ)[at + i] = (real)dq[i];
        }
        for (int64_t s = 0; s < o.s; s++)
            for (int64_t i = 0; i < o.d; i++) {
                out(a, DG_ATTENTION_GRAD_DK)[(b * o.s + s) * o.width + first + i] =
                    (real)dk[s * o.d + i];
                out(a, DG_ATTENTION_GRAD_DV)[(b * o.s + s) * o.width + first + i] =
                    (real)dv[s * o.d + i];
            }
    }
}

static int attention_grad(const dg_args *a)
{
    const attention_attr *f = a->attr;

    parallel(a, dim(a, DG_ATTENTION_GRAD_Q, 0) * f->heads, attention_grad_heads);
    return 0;
}

DG_REF(softmax, NULL, softmax);
DG_REF(softmax_grad, NULL, softmax_grad);
DG_REF(attention, prepare, attention);
DG_REF(attention_grad, prepare_grad, attention_grad);
