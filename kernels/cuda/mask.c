/* mask.c: twins of kernels/ref/mask.c, which has the formulas. Forward, a warp for a point of a
 * pair. Backward, a warp has 32 channels of a pixel, or of a query: it looks through the live pairs
 * in their order, so that nothing is scattered and sums are the same every time. */
#include "kernels/cuda/device.h"

enum { TAPS = 4 };

typedef struct masks {
    const real *map, *vectors;
    const wide *points, *dy;
    const int32_t *query;
    wide *y;
    real *dmap, *dq;
    int64_t batch, h, w, d, q, p, n;
} masks;

typedef struct spot {
    int64_t left, top, right, below; /* pixels */
    wide along, down;                /* shares of the neighbours to the right and below */
} spot;

DEVICE wide inside(wide at, int64_t size)
{
    return !(at > 0) ? 0 : at > (wide)(size - 1) ? (wide)(size - 1) : at;
}

DEVICE spot spot_of(const masks *p, int64_t point)
{
    wide u = inside(p->points[2 * point] * (wide)p->w - (wide)0.5, p->w),
         v = inside(p->points[2 * point + 1] * (wide)p->h - (wide)0.5, p->h);
    spot o;

    o.left = (int64_t)u;
    o.top = (int64_t)v;
    o.right = o.left + (o.left < p->w - 1);
    o.below = o.top + (o.top < p->h - 1);
    o.along = u - (wide)o.left;
    o.down = v - (wide)o.top;
    return o;
}

DEVICE int64_t tap_pixel(const masks *p, const spot *o, int tap)
{
    return (tap / 2 ? o->below : o->top) * p->w + (tap % 2 ? o->right : o->left);
}

DEVICE wide tap_share(const spot *o, int tap)
{
    return (tap % 2 ? o->along : 1 - o->along) * (tap / 2 ? o->down : 1 - o->down);
}

KERNEL(mask_sample_kernel, masks)
{
    for (int64_t n = first() / DG_CUDA_WARP; n < p->batch * p->p * p->n;
         n += step() / DG_CUDA_WARP) {
        int64_t pair = n / p->n, b = pair / p->p, query = p->query[pair];
        const real *map = p->map + b * p->h * p->w * p->d, *q = p->vectors;
        spot o = spot_of(p, n);
        bool live = query >= 0 && query < p->q;
        wide sum = 0;

        q += (b * p->q + (live ? query : 0)) * p->d;
        for (int64_t i = lane_id(); i < p->d && live; i += DG_CUDA_WARP) {
            wide v = 0;

            for (int tap = 0; tap < TAPS; tap++)
                v += tap_share(&o, tap) * get(map[tap_pixel(p, &o, tap) * p->d + i]);
            sum += v * get(q[i]);
        }
        sum = warp_sum(sum);
        if (lane_id() == 0)
            p->y[n] = sum;
    }
}

/* map, q, points, query are operands i, i+1, i+2, i+3. */
static masks masks_of(const dg_args *a, int i)
{
    masks p = { .map = reals(a, i), .vectors = reals(a, i + 1), .points = wides(a, i + 2) };

    p.query = ints(a, i + 3);
    p.batch = dim(a, i, 0);
    p.h = dim(a, i, 1);
    p.w = dim(a, i, 2);
    p.d = dim(a, i, 3);
    p.q = dim(a, i + 1, 1);
    p.p = dim(a, i + 2, 1);
    p.n = dim(a, i + 2, 2);
    return p;
}

static int mask_sample(const dg_cuda_call *c)
{
    masks p = masks_of(c->a, DG_MASK_SAMPLE_MAP);

    p.y = wides(c->a, DG_MASK_SAMPLE_Y);
    return LAUNCH(c, mask_sample_kernel, grid_of_warps(p.batch * p.p * p.n), &p);
}

/* ---- gradient -------------------------------------------------------------------------------- */

/* What the points of a pair give to a pixel, for every lane. */
DEVICE wide share_of_pixel(const masks *p, int64_t pair, int64_t pixel)
{
    wide sum = 0;

    for (int64_t n = lane_id(); n < p->n; n += DG_CUDA_WARP) {
        spot o = spot_of(p, pair * p->n + n);

        for (int tap = 0; tap < TAPS; tap++)
            if (tap_pixel(p, &o, tap) == pixel)
                sum += tap_share(&o, tap) * p->dy[pair * p->n + n];
    }
    return warp_sum(sum);
}

KERNEL(mask_map_kernel, masks)
{
    int64_t groups = parts(p->d, DG_CUDA_WARP), area = p->h * p->w;

    for (int64_t n = first() / DG_CUDA_WARP; n < p->batch * area * groups;
         n += step() / DG_CUDA_WARP) {
        int64_t c = n % groups * DG_CUDA_WARP + lane_id(), pixel = n / groups % area,
                b = n / groups / area;
        wide sum = 0;

        for (int64_t pair = b * p->p; pair < (b + 1) * p->p; pair++) {
            int64_t query = p->query[pair];

            if (query < 0 || query >= p->q)
                continue;
            wide share = share_of_pixel(p, pair, pixel);

            if (c < p->d)
                sum += share * get(p->vectors[(b * p->q + query) * p->d + c]);
        }
        if (c < p->d)
            p->dmap[(b * area + pixel) * p->d + c] = put(sum);
    }
}

KERNEL(mask_query_kernel, masks)
{
    int64_t groups = parts(p->d, DG_CUDA_WARP);

    for (int64_t n = first() / DG_CUDA_WARP; n < p->batch * p->q * groups;
         n += step() / DG_CUDA_WARP) {
        int64_t c = n % groups * DG_CUDA_WARP + lane_id(), b = n / groups / p->q;
        const real *map = p->map + b * p->h * p->w * p->d;
        wide sum = 0;

        for (int64_t pair = b * p->p; pair < (b + 1) * p->p; pair++) {
            if (p->query[pair] != n / groups % p->q)
                continue;
            for (int64_t at = pair * p->n; at < (pair + 1) * p->n && c < p->d; at++) {
                spot o = spot_of(p, at);

                for (int tap = 0; tap < TAPS; tap++)
                    sum +=
                        tap_share(&o, tap) * p->dy[at] * get(map[tap_pixel(p, &o, tap) * p->d + c]);
            }
        }
        if (c < p->d)
            p->dq[n / groups * p->d + c] = put(sum);
    }
}

static int mask_sample_grad(const dg_cuda_call *c)
{
    masks p = masks_of(c->a, DG_MASK_SAMPLE_GRAD_MAP);
    int64_t groups = parts(p.d, DG_CUDA_WARP);
    int rc = 0;

    p.dy = wides(c->a, DG_MASK_SAMPLE_GRAD_DY);
    p.dmap = reals(c->a, DG_MASK_SAMPLE_GRAD_DMAP);
    p.dq = reals(c->a, DG_MASK_SAMPLE_GRAD_DQ);
    if (p.dmap)
        rc = LAUNCH(c, mask_map_kernel, grid_of_warps(p.batch * p.h * p.w * groups), &p);
    if (p.dq && !rc)
        rc = LAUNCH(c, mask_query_kernel, grid_of_warps(p.batch * p.q * groups), &p);
    return rc;
}

DG_CUDA(mask_sample, NULL, mask_sample);
DG_CUDA(mask_sample_grad, NULL, mask_sample_grad);
