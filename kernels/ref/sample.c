/* sample.c: rows of a list, chosen by keys: which boxes train a head, which become queries, which
 * of each level are proposals. <detrgraph/heads.h> has the rules.
 *
 * The k least are found with a heap of k places whose top is the last in order: O(n log k). Keys
 * are draws, so the choice is random and depends on the rows' own numbers alone; equal keys go by
 * the number. */
#include <math.h>
#include <string.h>

#include <detrgraph/heads.h>

#include "kernels/ref/heap.h"

/* True if row i comes before row k; without keys: by their numbers. */
static bool before(const real *key, int32_t i, int32_t k)
{
    if (!key || key[i] == key[k])
        return i < k;
    return key[i] < key[k];
}

static bool after(const real *key, int32_t i, int32_t k)
{
    return before(key, k, i);
}

static void put_in_order(const real *key, int32_t *row, int64_t n)
{
    heap_make(key, row, n, after);
    heap_list(key, row, n, after);
}

/* Puts the k rows of gt[0..n-1] between lo and hi that have the least keys into row, in the order
 * of keys; returns their number. */
static int64_t least_keys(const int32_t *gt, int64_t n, int32_t lo, int32_t hi, const real *key,
                          int64_t k, int32_t *row)
{
    int64_t have = 0;

    for (int64_t i = 0; i < n && k > 0; i++) {
        if (gt[i] < lo || gt[i] > hi)
            continue;
        if (have < k) {
            row[have++] = (int32_t)i;
            if (have == k)
                heap_make(key, row, k, after);
        } else if (before(key, (int32_t)i, row[0])) {
            row[0] = (int32_t)i;
            heap_sink(key, row, k, 0, after);
        }
    }
    put_in_order(key, row, have);
    return have;
}

/* ---- sample_rows: gt pos_key neg_key [B,N] -> row [B,n] count [B,2] -------------------------- */

static void sample_images(const dg_args *a, int64_t begin, int64_t end, int thread)
{
    const dg_sample_attr *f = a->attr;
    int64_t n = dim(a, DG_SAMPLE_ROWS_GT, 1);

    (void)thread;
    for (int64_t b = begin; b < end; b++) {
        const int32_t *gt = in_i32(a, DG_SAMPLE_ROWS_GT) + b * n;
        int32_t *row = out_i32(a, DG_SAMPLE_ROWS_ROW) + b * f->n;
        int64_t pos =
            least_keys(gt, n, 0, INT32_MAX, in(a, DG_SAMPLE_ROWS_POS_KEY) + b * n, f->most, row);
        int64_t neg = least_keys(gt, n, DG_ASSIGNED_NONE, DG_ASSIGNED_NONE,
                                 in(a, DG_SAMPLE_ROWS_NEG_KEY) + b * n, f->n - pos, row + pos);

        put_in_order(NULL, row, pos);
        put_in_order(NULL, row + pos, neg);
        for (int64_t i = pos + neg; i < f->n; i++)
            row[i] = -1;
        out_i32(a, DG_SAMPLE_ROWS_COUNT)[b * 2] = (int32_t)pos;
        out_i32(a, DG_SAMPLE_ROWS_COUNT)[b * 2 + 1] = (int32_t)neg;
    }
}

static int sample_rows(const dg_args *a)
{
    parallel(a, dim(a, DG_SAMPLE_ROWS_GT, 0), sample_images);
    return 0;
}

/* ---- query_rows: gt pos_key other_key [B,R] -> row query gt [B,capacity] dn [4] -------------- */

/* Rows of every image that take part: those before the first that does not exist. */
static int64_t common_rows(const dg_args *a)
{
    int64_t n = dim(a, DG_QUERY_ROWS_GT, 1), common = n;

    for (int64_t b = 0; b < dim(a, DG_QUERY_ROWS_GT, 0); b++) {
        const int32_t *gt = in_i32(a, DG_QUERY_ROWS_GT) + b * n;
        int64_t i = 0;

        while (i < common && gt[i] > DG_ASSIGNED_ABSENT)
            i++;
        common = i;
    }
    return common;
}

static int64_t most_positives(const dg_args *a, int64_t rows)
{
    int64_t n = dim(a, DG_QUERY_ROWS_GT, 1), most = 0;

    for (int64_t b = 0; b < dim(a, DG_QUERY_ROWS_GT, 0); b++) {
        int64_t here = 0;

        for (int64_t i = 0; i < rows; i++)
            here += in_i32(a, DG_QUERY_ROWS_GT)[b * n + i] >= 0;
        most = here > most ? here : most;
    }
    return most;
}

static void list_queries(const dg_args *a, int64_t b, int64_t common, int64_t n)
{
    const dg_query_attr *f = a->attr;
    int64_t all = dim(a, DG_QUERY_ROWS_GT, 1), at = b * f->capacity, pos = 0, total = 0;
    const int32_t *gt = in_i32(a, DG_QUERY_ROWS_GT) + b * all;
    int32_t *row = out_i32(a, DG_QUERY_ROWS_ROW) + at;

    for (int64_t i = 0; i < common; i++)
        total += gt[i] >= 0;
    pos = least_keys(gt, common, 0, INT32_MAX,
                     total > n ? in(a, DG_QUERY_ROWS_POS_KEY) + b * all : NULL, n, row);
    total = pos + least_keys(gt, common, DG_ASSIGNED_VOID, DG_ASSIGNED_NONE,
                             in(a, DG_QUERY_ROWS_OTHER_KEY) + b * all, n - pos, row + pos);
    for (int64_t i = 0; i < f->capacity; i++) {
        row[i] = i < total ? row[i] : -1;
        out_i32(a, DG_QUERY_ROWS_QUERY)[at + i] = i < pos ? (int32_t)i : -1;
        out_i32(a, DG_QUERY_ROWS_OF)[at + i] = i < pos ? gt[row[i]] : -1;
    }
}

static int query_rows(const dg_args *a)
{
    const dg_query_attr *f = a->attr;
    int64_t common = common_rows(a), n = most_positives(a, common);
    int32_t *dn = out_i32(a, DG_QUERY_ROWS_DN);

    n = n < f->least ? f->least : n > f->capacity ? f->capacity : n;
    for (int64_t b = 0; b < dim(a, DG_QUERY_ROWS_GT, 0); b++)
        list_queries(a, b, common, n);
    dn[0] = dn[2] = (int32_t)n;
    dn[1] = 1;
    dn[3] = (int32_t)f->capacity;
    return 0;
}

/* ---- level_topk: x [B,N] -> index [B,K] ------------------------------------------------------ */

static bool worse(const real *x, int32_t i, int32_t k)
{
    return heap_better(x, k, i);
}

/* The k best of x[begin..end-1], best first. */
static void best_of(const real *x, int64_t begin, int64_t end, int64_t k, int32_t *best)
{
    for (int64_t i = 0; i < k; i++)
        best[i] = (int32_t)(begin + i);
    heap_make(x, best, k, worse);
    for (int64_t i = begin + k; i < end; i++)
        if (heap_better(x, (int32_t)i, best[0])) {
            best[0] = (int32_t)i;
            heap_sink(x, best, k, 0, worse);
        }
    heap_list(x, best, k, worse);
}

static void best_of_levels(const dg_args *a, int64_t begin, int64_t end, int thread)
{
    const dg_level_topk_attr *f = a->attr;
    int64_t n = dim(a, DG_LEVEL_TOPK_X, 1), k = dim(a, DG_LEVEL_TOPK_INDEX, 1);

    (void)thread;
    for (int64_t i = begin; i < end; i++) {
        int64_t b = i / f->n_levels, from = 0, to = 0;

        for (int64_t l = 0; l < i % f->n_levels; l++) {
            from += f->n[l];
            to += f->n[l] < f->k ? f->n[l] : f->k;
        }
        int64_t here = f->n[i % f->n_levels];

        best_of(in(a, DG_LEVEL_TOPK_X) + b * n, from, from + here, here < f->k ? here : f->k,
                out_i32(a, DG_LEVEL_TOPK_INDEX) + b * k + to);
    }
}

static int level_topk(const dg_args *a)
{
    const dg_level_topk_attr *f = a->attr;

    parallel(a, dim(a, DG_LEVEL_TOPK_X, 0) * f->n_levels, best_of_levels);
    return 0;
}

/* ---- pick_i32: x [B,S] index [B,Q] -> y [B,Q] ------------------------------------------------ */

static int pick_i32(const dg_args *a)
{
    const index_attr *f = a->attr;
    int64_t s = dim(a, DG_PICK_I32_X, 1), q = dim(a, DG_PICK_I32_INDEX, 1);

    for (int64_t n = 0; n < elements(a, DG_PICK_I32_INDEX); n++) {
        int32_t i = in_i32(a, DG_PICK_I32_INDEX)[n];

        out_i32(a, DG_PICK_I32_Y)[n] = i < -1 ? i
                                       : i == -1 || i >= s
                                           ? (int32_t)f->padding
                                           : in_i32(a, DG_PICK_I32_X)[n / q * s + i];
    }
    return 0;
}

DG_REF(sample_rows, NULL, sample_rows);
DG_REF(query_rows, NULL, query_rows);
DG_REF(level_topk, NULL, level_topk);
DG_REF(pick_i32, NULL, pick_i32);
