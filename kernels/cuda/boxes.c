/* boxes.c: twins of kernels/ref/boxes.c, which has the formulas. */
#include "kernels/cuda/device.h"

/* ---- box_decode ------------------------------------------------------------------------------ */

typedef struct decoding {
    const real *dy, *d, *box;
    real *y, *dd, *dbox;
    int64_t n; /* boxes */
} decoding;

/* A thread for a box and an axis. y may be d. */
KERNEL(decode_kernel, decoding)
{
    for (int64_t i = first(); i < p->n * 2; i += step()) {
        int64_t at = i / 2 * 4 + i % 2;
        wide side = get(p->box[at + 2]), centre = get(p->d[at]) * side + get(p->box[at]);

        p->y[at + 2] = put(exp(get(p->d[at + 2])) * side);
        p->y[at] = put(centre);
    }
}

KERNEL(decode_grad_kernel, decoding)
{
    for (int64_t i = first(); i < p->n * 2; i += step()) {
        int64_t at = i / 2 * 4 + i % 2;
        wide side = get(p->box[at + 2]), grown = exp(get(p->d[at + 2])), by_centre = get(p->dy[at]),
             by_side = get(p->dy[at + 2]);

        if (p->dd) {
            p->dd[at] = put(by_centre * side);
            p->dd[at + 2] = put(by_side * grown * side);
        }
        if (p->dbox) {
            p->dbox[at] = put(by_centre);
            p->dbox[at + 2] = put(by_centre * get(p->d[at]) + by_side * grown);
        }
    }
}

static int box_decode(const dg_cuda_call *c)
{
    const dg_args *a = c->a;
    decoding p = { .d = reals(a, DG_BOX_DECODE_D),
                   .box = reals(a, DG_BOX_DECODE_BOX),
                   .y = reals(a, DG_BOX_DECODE_Y),
                   .n = elements(a, DG_BOX_DECODE_Y) / 4 };

    return LAUNCH(c, decode_kernel, grid_of(p.n * 2), &p);
}

static int box_decode_grad(const dg_cuda_call *c)
{
    const dg_args *a = c->a;
    decoding p = { .dy = reals(a, DG_BOX_DECODE_GRAD_DY),
                   .d = reals(a, DG_BOX_DECODE_GRAD_D),
                   .box = reals(a, DG_BOX_DECODE_GRAD_BOX),
                   .dd = reals(a, DG_BOX_DECODE_GRAD_DD),
                   .dbox = reals(a, DG_BOX_DECODE_GRAD_DBOX),
                   .n = elements(a, DG_BOX_DECODE_GRAD_DY) / 4 };

    return LAUNCH(c, decode_grad_kernel, grid_of(p.n * 2), &p);
}

/* ---- sine_embed ------------------------------------------------------------------------------ */

typedef struct sines {
    const real *x, *dy, *y_in;
    real *y, *dx;
    int64_t blocks, n, each; /* blocks of n values; coordinates of a point */
    double log_temperature;
} sines;

/* The place in x of a block's coordinate: y, x, w, h. */
DEVICE int64_t coordinate(int64_t block, int64_t each)
{
    int64_t k = block % each;

    return block - k + (k < 2 ? 1 - k : k);
}

/* 1 / t_i of value k = 2i or 2i+1. */
DEVICE double rate(const sines *p, int64_t k)
{
    return exp(-p->log_temperature * (double)(k - k % 2) / (double)p->n);
}

/* The sine of an angle in turns, within rounding: the series of sine and cosine up to an eighth of
 * a turn, in which the first term left out is below 1e-18. CUDA's own needs local memory, for
 * angles of any size. */
DEVICE double sine_of_turns(double turns)
{
    const double quarters = rint(4 * turns), r = 6.28318530717958647692 * (turns - quarters / 4),
                 s = r * r, place = quarters - 4 * floor(quarters / 4);
    double odd = 1 - s * (1.0 / 272), even = 1 - s * (1.0 / 240);

    odd = 1 - s * (1.0 / 156) * (1 - s * (1.0 / 210) * odd);
    odd = 1 - s * (1.0 / 72) * (1 - s * (1.0 / 110) * odd);
    odd = r * (1 - s * (1.0 / 6) * (1 - s * (1.0 / 20) * (1 - s * (1.0 / 42) * odd)));
    even = 1 - s * (1.0 / 132) * (1 - s * (1.0 / 182) * even);
    even = 1 - s * (1.0 / 56) * (1 - s * (1.0 / 90) * even);
    even = 1 - s * (1.0 / 2) * (1 - s * (1.0 / 12) * (1 - s * (1.0 / 30) * even));
    odd = place == 1 || place == 3 ? even : odd;
    return place >= 2 ? -odd : odd;
}

/* In double: an angle of many turns has no digits left in f32. */
KERNEL(sine_kernel, sines)
{
    for (int64_t i = first(); i < p->blocks * p->n; i += step()) {
        int64_t k = i % p->n;
        double turns = rate(p, k) * (double)get(p->x[coordinate(i / p->n, p->each)]);

        p->y[i] = put((wide)sine_of_turns(k % 2 ? turns + 0.25 : turns));
    }
}

/* A warp for a coordinate. */
KERNEL(sine_grad_kernel, sines)
{
    for (int64_t i = first() / DG_CUDA_WARP; i < p->blocks; i += step() / DG_CUDA_WARP) {
        const real *dy = p->dy + i * p->n, *y = p->y_in + i * p->n;
        wide sum = 0;

        for (int64_t k = 2 * lane_id(); k < p->n; k += 2 * DG_CUDA_WARP)
            sum += (wide)(6.28318530717958647692 * rate(p, k)) *
                   (get(dy[k]) * get(y[k + 1]) - get(dy[k + 1]) * get(y[k]));
        sum = warp_sum(sum);
        if (lane_id() == 0)
            p->dx[coordinate(i, p->each)] = put(sum);
    }
}

static int sine_embed(const dg_cuda_call *c)
{
    const dg_args *a = c->a;
    const sine_attr *f = (const sine_attr *)a->attr;
    sines p = { .x = reals(a, DG_SINE_EMBED_X),
                .y = reals(a, DG_SINE_EMBED_Y),
                .blocks = elements(a, DG_SINE_EMBED_X),
                .n = f->n,
                .each = dim(a, DG_SINE_EMBED_X, -1),
                .log_temperature = log(f->temperature) };

    return LAUNCH(c, sine_kernel, grid_of(p.blocks * p.n), &p);
}

static int sine_embed_grad(const dg_cuda_call *c)
{
    const dg_args *a = c->a;
    const sine_attr *f = (const sine_attr *)a->attr;
    sines p = { .dy = reals(a, DG_SINE_EMBED_GRAD_DY),
                .y_in = reals(a, DG_SINE_EMBED_GRAD_Y),
                .dx = reals(a, DG_SINE_EMBED_GRAD_DX),
                .blocks = elements(a, DG_SINE_EMBED_GRAD_DX),
                .n = f->n,
                .each = dim(a, DG_SINE_EMBED_GRAD_DX, -1),
                .log_temperature = log(f->temperature) };

    return LAUNCH(c, sine_grad_kernel, grid_of(p.blocks * DG_CUDA_WARP), &p);
}

DG_CUDA(box_decode, NULL, box_decode);
DG_CUDA(box_decode_grad, NULL, box_decode_grad);
DG_CUDA(sine_embed, NULL, sine_embed);
DG_CUDA(sine_embed_grad, NULL, sine_embed_grad);
