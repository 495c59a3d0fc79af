/* sample.c: twins of kernels/ref/sample.c, which has the rules. A block for an image, or for a
 * level of one. */
#include <detrgraph/heads.h>

#include "kernels/cuda/order.h"

static size_t orders(int64_t n)
{
    return (size_t)n * sizeof(order);
}

/* Numbers the rows between lo and hi by their keys, least first. */
DEVICE void order_rows(const int32_t *gt, const real *key, int64_t n, int32_t lo, int32_t hi,
                       order *o)
{
    for (int64_t i = thread_id(); i < n; i += block_size())
        o[i] = gt[i] < lo || gt[i] > hi ? 0 : order_of(-get(key[i]), i);
    barrier();
}

/* ---- sample_rows ----------------------------------------------------------------------------- */

typedef struct samples {
    const int32_t *gt;
    const real *pos_key, *neg_key;
    int32_t *row, *count;
    order *rows, *kept; /* [B,N], [B,n] */
    int64_t batch, n, wanted, most;
} samples;

/* Shared memory: FIRST_BYTES. */
KERNEL(sample_kernel, samples)
{
    int32_t *counts = (int32_t *)shared_memory();
    int64_t b = block_id(), pos, neg;
    const int32_t *gt = p->gt + b * p->n;
    int32_t *row = p->row + b * p->wanted;
    order *rows = p->rows + b * p->n, *kept = p->kept + b * p->wanted;

    order_rows(gt, p->pos_key + b * p->n, p->n, 0, INT32_MAX, rows);
    pos = list_first(rows, p->n, p->most, true, kept, row, counts);
    order_rows(gt, p->neg_key + b * p->n, p->n, DG_ASSIGNED_NONE, DG_ASSIGNED_NONE, rows);
    neg = list_first(rows, p->n, p->wanted - pos, true, kept, row + pos, counts);
    for (int64_t i = pos + neg + thread_id(); i < p->wanted; i += block_size())
        row[i] = -1;
    if (thread_id() == 0) {
        p->count[b * 2] = (int32_t)pos;
        p->count[b * 2 + 1] = (int32_t)neg;
    }
}

static int prepare_sample(dg_prepare *p)
{
    const dg_shape *gt = &p->t[DG_SAMPLE_ROWS_GT].shape;
    const dg_sample_attr *f = (const dg_sample_attr *)p->attr;

    p->workspace_bytes = orders(gt->d[0] * (gt->d[1] + f->n));
    return 0;
}

static int sample_rows(const dg_cuda_call *c)
{
    const dg_args *a = c->a;
    const dg_sample_attr *f = (const dg_sample_attr *)a->attr;
    samples p = { .gt = ints(a, DG_SAMPLE_ROWS_GT),
                  .pos_key = reals(a, DG_SAMPLE_ROWS_POS_KEY),
                  .neg_key = reals(a, DG_SAMPLE_ROWS_NEG_KEY),
                  .row = ints(a, DG_SAMPLE_ROWS_ROW),
                  .count = ints(a, DG_SAMPLE_ROWS_COUNT),
                  .rows = (order *)a->workspace,
                  .kept = (order *)a->workspace + elements(a, DG_SAMPLE_ROWS_GT),
                  .batch = dim(a, DG_SAMPLE_ROWS_GT, 0),
                  .n = dim(a, DG_SAMPLE_ROWS_GT, 1),
                  .wanted = f->n,
                  .most = f->most };
    dg_cuda_grid g = { p.batch, DG_CUDA_THREADS, FIRST_BYTES };

    return LAUNCH(c, sample_kernel, g, &p);
}

/* ---- query_rows ------------------------------------------------------------------------------ */

typedef struct queries {
    const int32_t *gt;
    const real *pos_key, *other_key;
    int32_t *row, *query, *of, *dn;
    int32_t *common, *positives; /* [1]; [B] of each image */
    order *rows, *kept;          /* [B,R], [B,capacity] */
    int64_t batch, n, capacity, least;
} queries;

/* One block. Shared memory: two numbers. */
KERNEL(count_queries_kernel, queries)
{
    int32_t *shared = (int32_t *)shared_memory(), most = 0;
    int64_t common = p->n;

    for (int64_t b = 0; b < p->batch; b++) { /* the rows before the first that does not exist */
        for (int64_t from = 0; from < common; from += block_size()) {
            int64_t i = from + thread_id();

            if (thread_id() == 0)
                shared[0] = shared[1] = 0;
            barrier();
            if (i < common && p->gt[b * p->n + i] <= DG_ASSIGNED_ABSENT)
                (void)atomic_add(&shared[0], 1);
            barrier();
            if (shared[0] && thread_id() == 0)
                for (int64_t k = from;; k++)
                    if (p->gt[b * p->n + k] <= DG_ASSIGNED_ABSENT) {
                        shared[1] = (int32_t)k;
                        break;
                    }
            barrier();
            common = shared[0] ? shared[1] : common;
            barrier();
        }
    }
    for (int64_t b = 0; b < p->batch; b++) {
        if (thread_id() == 0)
            shared[0] = 0;
        barrier();
        for (int64_t i = thread_id(); i < common; i += block_size())
            if (p->gt[b * p->n + i] >= 0)
                (void)atomic_add(&shared[0], 1);
        barrier();
        if (thread_id() == 0)
            p->positives[b] = shared[0];
        most = shared[0] > most ? shared[0] : most;
        barrier();
    }
    if (thread_id() == 0) {
        int64_t n = most < p->least ? p->least : most > p->capacity ? p->capacity : most;

        *p->common = (int32_t)common;
        p->dn[0] = p->dn[2] = (int32_t)n;
        p->dn[1] = 1;
        p->dn[3] = (int32_t)p->capacity;
    }
}

/* Shared memory: FIRST_BYTES. */
KERNEL(query_kernel, queries)
{
    int32_t *counts = (int32_t *)shared_memory();
    int64_t b = block_id(), n = p->dn[0], common = *p->common, pos, all;
    const int32_t *gt = p->gt + b * p->n;
    int32_t *row = p->row + b * p->capacity;
    order *rows = p->rows + b * p->n, *kept = p->kept + b * p->capacity;

    order_rows(gt, p->pos_key + b * p->n, common, 0, INT32_MAX, rows);
    pos = list_first(rows, common, n, p->positives[b] <= n, kept, row, counts);
    order_rows(gt, p->other_key + b * p->n, common, DG_ASSIGNED_VOID, DG_ASSIGNED_NONE, rows);
    all = pos + list_first(rows, common, n - pos, false, kept, row + pos, counts);
    for (int64_t i = thread_id(); i < p->capacity; i += block_size()) {
        if (i >= all)
            row[i] = -1;
        p->query[b * p->capacity + i] = i < pos ? (int32_t)i : -1;
        p->of[b * p->capacity + i] = i < pos ? gt[row[i]] : -1;
    }
}

static int prepare_query(dg_prepare *p)
{
    const dg_shape *gt = &p->t[DG_QUERY_ROWS_GT].shape;
    const dg_query_attr *f = (const dg_query_attr *)p->attr;

    p->workspace_bytes =
        orders(gt->d[0] * (gt->d[1] + f->capacity)) + (size_t)(1 + gt->d[0]) * sizeof(int32_t);
    return 0;
}

static int query_rows(const dg_cuda_call *c)
{
    const dg_args *a = c->a;
    const dg_query_attr *f = (const dg_query_attr *)a->attr;
    queries p = { .gt = ints(a, DG_QUERY_ROWS_GT),
                  .pos_key = reals(a, DG_QUERY_ROWS_POS_KEY),
                  .other_key = reals(a, DG_QUERY_ROWS_OTHER_KEY),
                  .row = ints(a, DG_QUERY_ROWS_ROW),
                  .query = ints(a, DG_QUERY_ROWS_QUERY),
                  .of = ints(a, DG_QUERY_ROWS_OF),
                  .dn = ints(a, DG_QUERY_ROWS_DN),
                  .rows = (order *)a->workspace,
                  .batch = dim(a, DG_QUERY_ROWS_GT, 0),
                  .n = dim(a, DG_QUERY_ROWS_GT, 1),
                  .capacity = f->capacity,
                  .least = f->least };
    dg_cuda_grid one = { 1, DG_CUDA_THREADS, 2 * sizeof(int32_t) },
                 images = { p.batch, DG_CUDA_THREADS, FIRST_BYTES };
    int rc;

    p.kept = p.rows + p.batch * p.n;
    p.common = (int32_t *)(p.kept + p.batch * p.capacity);
    p.positives = p.common + 1;
    rc = LAUNCH(c, count_queries_kernel, one, &p);
    return rc ? rc : LAUNCH(c, query_kernel, images, &p);
}

/* ---- level_topk ------------------------------------------------------------------------------ */

typedef struct level_best {
    dg_level_topk_attr f;
    const real *x;
    int32_t *index;
    order *all, *kept; /* [B,N], [B,K] */
    int64_t n, k;
} level_best;

/* A block for a level of an image. Shared memory: FIRST_BYTES. */
KERNEL(level_kernel, level_best)
{
    int64_t b = block_id() / p->f.n_levels, l = block_id() % p->f.n_levels, from = b * p->n,
            to = b * p->k, begin;

    for (int64_t i = 0; i < l; i++) {
        from += p->f.n[i];
        to += p->f.n[i] < p->f.k ? p->f.n[i] : p->f.k;
    }
    begin = from - b * p->n;
    for (int64_t i = thread_id(); i < p->f.n[l]; i += block_size())
        p->all[from + i] = order_of(get(p->x[from + i]), begin + i);
    barrier();
    (void)list_first(p->all + from, p->f.n[l], p->f.k, false, p->kept + to, p->index + to,
                     (int32_t *)shared_memory());
}

static int prepare_level(dg_prepare *p)
{
    p->workspace_bytes = orders(dg_shape_elements(p->t[DG_LEVEL_TOPK_X].shape) +
                                dg_shape_elements(p->t[DG_LEVEL_TOPK_INDEX].shape));
    return 0;
}

static int level_topk(const dg_cuda_call *c)
{
    const dg_args *a = c->a;
    level_best p = { .f = *(const dg_level_topk_attr *)a->attr,
                     .x = reals(a, DG_LEVEL_TOPK_X),
                     .index = ints(a, DG_LEVEL_TOPK_INDEX),
                     .all = (order *)a->workspace,
                     .kept = (order *)a->workspace + elements(a, DG_LEVEL_TOPK_X),
                     .n = dim(a, DG_LEVEL_TOPK_X, 1),
                     .k = dim(a, DG_LEVEL_TOPK_INDEX, 1) };
    dg_cuda_grid g = { dim(a, DG_LEVEL_TOPK_X, 0) * p.f.n_levels, DG_CUDA_THREADS, FIRST_BYTES };

    return LAUNCH(c, level_kernel, g, &p);
}

/* ---- pick_i32 -------------------------------------------------------------------------------- */

typedef struct picks {
    const int32_t *x, *index;
    int32_t *y;
    int64_t batch, s, q, missing;
} picks;

KERNEL(pick_kernel, picks)
{
    for (int64_t n = first(); n < p->batch * p->q; n += step()) {
        int64_t i = p->index[n];

        p->y[n] = i < -1                 ? (int32_t)i
                  : i == -1 || i >= p->s ? (int32_t)p->missing
                                         : p->x[n / p->q * p->s + i];
    }
}

static int pick_i32(const dg_cuda_call *c)
{
    const dg_args *a = c->a;
    picks p = { .x = ints(a, DG_PICK_I32_X),
                .index = ints(a, DG_PICK_I32_INDEX),
                .y = ints(a, DG_PICK_I32_Y),
                .batch = dim(a, DG_PICK_I32_X, 0),
                .s = dim(a, DG_PICK_I32_X, 1),
                .q = dim(a, DG_PICK_I32_INDEX, 1),
                .missing = ((const index_attr *)a->attr)->padding };

    return LAUNCH(c, pick_kernel, grid_of(p.batch * p.q), &p);
}

DG_CUDA(sample_rows, prepare_sample, sample_rows);
DG_CUDA(query_rows, prepare_query, query_rows);
DG_CUDA(level_topk, prepare_level, level_topk);
DG_CUDA(pick_i32, NULL, pick_i32);
