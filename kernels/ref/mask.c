/* mask.c: masks of queries at points. A mask is the product of a map of features with the vector of
 * its query, and is never made as a whole.
 *
 * map [B,H,W,D], q [B,Q,D], points [B,P,N,2] = (x, y) as fractions of the sides, query [B,P]:
 *
 *     y[b,p,n] = sample(map[b], points[b,p,n]) . q[b, query[b,p]]        0 where the query is -1
 *
 * sample is bilinear between the four pixels around (x W - 1/2, y H - 1/2), which is first moved
 * into the square of pixel centres. Points have no gradient. */
#include <math.h>
#include <string.h>

#include "kernels/ref/ref.h"

/* The pixels that a point reads, and their shares. */
typedef struct taps {
    int64_t pixel[4];
    double share[4];
} taps;

static double inside(double at, int64_t size)
{
    return !(at > 0) ? 0 : at > (double)(size - 1) ? (double)(size - 1) : at;
}

static taps taps_of(const real *point, int64_t h, int64_t w)
{
    double u = inside((double)point[0] * (double)w - 0.5, w),
           v = inside((double)point[1] * (double)h - 0.5, h);
    int64_t left = (int64_t)u, top = (int64_t)v, right = left + (left < w - 1),
            below = top + (top < h - 1);
    double fu = u - (double)left, fv = v - (double)top;

    return (taps){
        { top * w + left, top * w + right, below * w + left, below * w + right },
        { (1 - fv) * (1 - fu), (1 - fv) * fu, fv * (1 - fu), fv * fu },
    };
}

typedef struct sizes {
    int64_t h, w, d, q, p, n;
} sizes;

/* map, q, points, query are operands i, i+1, i+2, i+3. */
static sizes sizes_of(const dg_args *a, int i)
{
    return (sizes){ dim(a, i, 1),     dim(a, i, 2),     dim(a, i, 3),
                    dim(a, i + 1, 1), dim(a, i + 2, 1), dim(a, i + 2, 2) };
}

static void sample_pairs(const dg_args *a, int64_t begin, int64_t end, int thread)
{
    sizes z = sizes_of(a, DG_MASK_SAMPLE_MAP);

    (void)thread;
    for (int64_t pair = begin; pair < end; pair++) { /* pair = b*P + p */
        int64_t b = pair / z.p, query = in_i32(a, DG_MASK_SAMPLE_QUERY)[pair];
        bool live = query >= 0 && query < z.q;
        const real *map = in(a, DG_MASK_SAMPLE_MAP) + b * z.h * z.w * z.d;
        const real *q = in(a, DG_MASK_SAMPLE_Q) + (b * z.q + (live ? query : 0)) * z.d;

        for (int64_t n = pair * z.n; n < (pair + 1) * z.n; n++) {
            taps t = taps_of(in(a, DG_MASK_SAMPLE_POINTS) + 2 * n, z.h, z.w);
            double sum = 0;

            for (int k = 0; k < 4 && live; k++)
                for (int64_t i = 0; i < z.d; i++)
                    sum += t.share[k] * map[t.pixel[k] * z.d + i] * q[i];
            out(a, DG_MASK_SAMPLE_Y)[n] = (real)sum;
        }
    }
}

static int mask_sample(const dg_args *a)
{
    parallel(a, elements(a, DG_MASK_SAMPLE_QUERY), sample_pairs);
    return 0;
}

/* ---- gradient: dy map q points query -> dmap? dq? -------------------------------------------- */

/* One pair adds to dmap [H,W,D] and dq [D], either of which may be NULL. */
static void grad_pair(const sizes *z, const real *dy, const real *map, const real *q,
                      const real *points, double *dmap, double *dq)
{
    for (int64_t n = 0; n < z->n; n++) {
        taps t = taps_of(points + 2 * n, z->h, z->w);

        for (int k = 0; k < 4; k++) {
            double share = t.share[k] * dy[n];
            int64_t at = t.pixel[k] * z->d;

            for (int64_t i = 0; i < z->d; i++) {
                if (dmap)
                    dmap[at + i] += share * q[i];
                if (dq)
                    dq[i] += share * map[at + i];
            }
        }
    }
}

static int64_t map_elements(const dg_shape *map)
{
    return map->d[1] * map->d[2] * map->d[3];
}

/* Sums of one image, of each thread: dmap, then dq. */
static int64_t sums_of(const dg_shape *map, const dg_shape *q)
{
    return map_elements(map) + q->d[1] * q->d[2];
}

static int prepare(dg_prepare *p)
{
    p->workspace_bytes =
        (size_t)(p->threads > 1 ? p->threads : 1) *
        (size_t)sums_of(&p->t[DG_MASK_SAMPLE_GRAD_MAP].shape, &p->t[DG_MASK_SAMPLE_GRAD_Q].shape) *
        sizeof(double);
    return 0;
}

static void grad_images(const dg_args *a, int64_t begin, int64_t end, int thread)
{
    sizes z = sizes_of(a, DG_MASK_SAMPLE_GRAD_MAP);
    int64_t area = z.h * z.w * z.d, all = area + z.q * z.d;
    double *dmap = (double *)a->workspace + thread * all, *dq = dmap + area;

    for (int64_t b = begin; b < end; b++) {
        memset(dmap, 0, (size_t)all * sizeof *dmap);
        for (int64_t pair = b * z.p; pair < (b + 1) * z.p; pair++) {
            int64_t query = in_i32(a, DG_MASK_SAMPLE_GRAD_QUERY)[pair];

            if (query >= 0 && query < z.q)
                grad_pair(&z, in(a, DG_MASK_SAMPLE_GRAD_DY) + pair * z.n,
                          in(a, DG_MASK_SAMPLE_GRAD_MAP) + b * area,
                          in(a, DG_MASK_SAMPLE_GRAD_Q) + (b * z.q + query) * z.d,
                          in(a, DG_MASK_SAMPLE_GRAD_POINTS) + pair * z.n * 2,
                          has(a, DG_MASK_SAMPLE_GRAD_DMAP) ? dmap : NULL,
                          has(a, DG_MASK_SAMPLE_GRAD_DQ) ? dq + query * z.d : NULL);
        }
        for (int64_t i = 0; i < area && has(a, DG_MASK_SAMPLE_GRAD_DMAP); i++)
            out(a, DG_MASK_SAMPLE_GRAD_DMAP)[b * area + i] = (real)dmap[i];
        for (int64_t i = 0; i < z.q * z.d && has(a, DG_MASK_SAMPLE_GRAD_DQ); i++)
            out(a, DG_MASK_SAMPLE_GRAD_DQ)[b * z.q * z.d + i] = (real)dq[i];
    }
}

static int mask_sample_grad(const dg_args *a)
{
    parallel(a, dim(a, DG_MASK_SAMPLE_GRAD_MAP, 0), grad_images);
    return 0;
}

DG_REF(mask_sample, NULL, mask_sample);
DG_REF(mask_sample_grad, prepare, mask_sample_grad);
