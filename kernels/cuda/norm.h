/* norm.h: what batch norms and layer norms share: the call of a kernel, and sums over rows that
 * slices of them are cut into.
 *
 * Statistics and sums over rows take two stages. A block has 32 channels and a slice of the rows;
 * each of its warps walks over every eighth row, the warps are joined in their order, and the last
 * block of the channels joins their slices, in their order, a warp for a channel. Slices depend on
 * the number of rows alone. */
#ifndef DG_KERNELS_CUDA_NORM_H
#define DG_KERNELS_CUDA_NORM_H

#include "kernels/cuda/device.h"

enum { WARPS = DG_CUDA_THREADS / DG_CUDA_WARP, MOST_SLICES = 256, ROWS_OF_WARP = 32 };

typedef struct norm_call {
    const real *dy, *more, *x, *y, *res; /* more: is added to dy; NULL: nothing is */
    const wide *s, *b, *mean, *var, *n, *sums;
    const int32_t *live; /* only the first rows of images count; NULL: all */
    real *out, *dres;    /* out: y or dx */
    wide *to_mean, *to_var, *to_sums, *ds, *db;
    wide *partial;    /* [slices][3 or 2][c] */
    int32_t *counter; /* per 32 channels: of their slices */
    int64_t rows, images, c, slices;
    double eps;
    int64_t act, fixed;
} norm_call;

DEVICE int64_t live_rows(const norm_call *p)
{
    int64_t k = p->live ? *p->live : p->images;

    return (k < 0 ? 0 : k > p->images ? p->images : k) * (p->rows / p->images);
}

/* Behind the numbers of a block's threads in shared memory. */
DEVICE int32_t *flag_of(int numbers)
{
    return (int32_t *)((wide *)shared_memory() + DG_CUDA_THREADS * numbers);
}

/* Sums of slices to to_sums [2,c], and to db and ds. */
DEVICE void join_slices(const norm_call *p, int64_t group)
{
    for (int i = warp_id(); i < 2 * DG_CUDA_WARP; i += WARPS) {
        int64_t k = group * DG_CUDA_WARP + i / 2, n = i % 2 * p->c + k;
        wide v = 0, *to = i % 2 ? p->ds : p->db;

        for (int64_t r = lane_id(); r < p->slices && k < p->c; r += DG_CUDA_WARP)
            v += p->partial[r * 2 * p->c + n];
        v = warp_sum(v);
        if (lane_id() == 0 && k < p->c && p->to_sums)
            p->to_sums[n] = v;
        if (lane_id() == 0 && k < p->c && to)
            to[k] = v;
    }
}

/* The sums of a block's threads for a slice, and of the slices by the last block. */
DEVICE void join_sums(const norm_call *p, int64_t slice, int64_t group, wide sum_g, wide sum_gh)
{
    wide *shared = (wide *)shared_memory();
    int64_t k = group * DG_CUDA_WARP + lane_id();

    shared[thread_id() * 2] = sum_g;
    shared[thread_id() * 2 + 1] = sum_gh;
    barrier();
    for (int w = 1; w < WARPS && warp_id() == 0; w++) {
        sum_g += shared[(w * DG_CUDA_WARP + lane_id()) * 2];
        sum_gh += shared[(w * DG_CUDA_WARP + lane_id()) * 2 + 1];
    }
    if (warp_id() == 0 && k < p->c) {
        p->partial[(slice * 2) * p->c + k] = sum_g;
        p->partial[(slice * 2 + 1) * p->c + k] = sum_gh;
    }
    if (last_of(p->counter + group, p->slices, flag_of(2)))
        join_slices(p, group);
}

/* ---- the host's side ------------------------------------------------------------------------ */

static inline int64_t slices_of(int64_t rows)
{
    int64_t n = parts(rows, WARPS * ROWS_OF_WARP);

    return n < MOST_SLICES ? n : MOST_SLICES;
}

static inline dg_cuda_grid grid_of_slices(const norm_call *p, size_t numbers)
{
    dg_cuda_grid g = { parts(p->c, DG_CUDA_WARP) * p->slices, DG_CUDA_THREADS,
                       DG_CUDA_THREADS * numbers * sizeof(wide) + sizeof(wide) };

    return g;
}

static inline int prepare_slices(dg_prepare *p)
{
    const dg_shape *x = &p->t[0].shape;
    int64_t c = x->d[x->rank - 1];

    p->workspace_bytes = (size_t)(3 * c * slices_of(dg_shape_elements(*x) / c)) * sizeof(wide);
    return 0;
}

static inline norm_call norm_of(const dg_args *a, int x, const norm_attr *f)
{
    norm_call p = { .partial = (wide *)a->workspace, .rows = rows(a, x), .images = dim(a, x, 0) };

    p.c = width(a, x);
    p.slices = slices_of(p.rows);
    if (f) {
        p.eps = f->eps;
        p.act = f->act;
        p.fixed = f->fixed;
    }
    return p;
}

#endif
