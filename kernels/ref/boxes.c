/* boxes.c: boxes from deltas, and boxes as vectors.
 *
 * box_decode  y = (dx w + cx, dy h + cy, exp(dw) w, exp(dh) h) for d = (dx, dy, dw, dh) and a box
 *             (cx, cy, w, h): the parametrisation of Girshick et al. 2014 (R-CNN)
 * sine_embed  [..,4] -> [..,4n], blocks of n values for cy, cx, w, h in this order; or [..,2] ->
 *             [..,2n], for cy, cx:
 *             y[2i] = sin(2 pi v / t_i), y[2i+1] = cos(2 pi v / t_i), t_i = 10000^(2i/n)
 *             (Liu et al. 2022, DAB-DETR; the frequencies are those of Vaswani et al. 2017). Its
 *             gradient needs y alone, because sine and cosine are each other's derivatives. */
#include <math.h>

#include "kernels/ref/ref.h"

static const double TAU = 6.28318530717958647692;

/* ---- box_decode: d box -> y ------------------------------------------------------------------ */

static int box_decode(const dg_args *a)
{
    for (int64_t n = 0; n < elements(a, DG_BOX_DECODE_Y); n += 4) {
        const real *d = in(a, DG_BOX_DECODE_D) + n, *box = in(a, DG_BOX_DECODE_BOX) + n;
        real *y = out(a, DG_BOX_DECODE_Y) + n;

        for (int k = 0; k < 2; k++) { /* y may be d */
            double side = box[k + 2], log_side = d[k + 2];

            y[k] = (real)(d[k] * side + box[k]);
            y[k + 2] = (real)(exp(log_side) * side);
        }
    }
    return 0;
}

/* dy d box -> dd? dbox? */
static int box_decode_grad(const dg_args *a)
{
    for (int64_t n = 0; n < elements(a, DG_BOX_DECODE_GRAD_DY); n += 4) {
        const real *dy = in(a, DG_BOX_DECODE_GRAD_DY) + n, *d = in(a, DG_BOX_DECODE_GRAD_D) + n,
                   *box = in(a, DG_BOX_DECODE_GRAD_BOX) + n;

        for (int k = 0; k < 2; k++) {
            double side = box[k + 2], grown = exp((double)d[k + 2]);

            if (has(a, DG_BOX_DECODE_GRAD_DD)) {
                out(a, DG_BOX_DECODE_GRAD_DD)[n + k] = (real)(dy[k] * side);
                out(a, DG_BOX_DECODE_GRAD_DD)[n + k + 2] = (real)(dy[k + 2] * grown * side);
            }
            if (has(a, DG_BOX_DECODE_GRAD_DBOX)) {
                out(a, DG_BOX_DECODE_GRAD_DBOX)[n + k] = dy[k];
                out(a, DG_BOX_DECODE_GRAD_DBOX)[n + k + 2] =
                    (real)((double)dy[k] * d[k] + dy[k + 2] * grown);
            }
        }
    }
    return 0;
}

/* ---- sine_embed: x -> y ---------------------------------------------------------------------- */

/* The place in x of a block's coordinate; a point has `each`. */
static int64_t coordinate(int64_t block, int64_t each)
{
    int64_t k = block % each;

    return block - k + (k < 2 ? 1 - k : k);
}

/* 2 pi / t_i of value k = 2i or 2i+1. */
static double frequency(int64_t k, const sine_attr *f)
{
    return TAU / pow(f->temperature, (double)(k - k % 2) / (double)f->n);
}

static int sine_embed(const dg_args *a)
{
    const sine_attr *f = a->attr;
    int64_t n = f->n, each = width(a, DG_SINE_EMBED_X);

    for (int64_t i = 0; i < elements(a, DG_SINE_EMBED_Y); i++) {
        int64_t k = i % n, block = i / n;
        double angle = frequency(k, f) * in(a, DG_SINE_EMBED_X)[coordinate(block, each)];

        out(a, DG_SINE_EMBED_Y)[i] = (real)(k % 2 ? cos(angle) : sin(angle));
    }
    return 0;
}

/* dy y -> dx */
static int sine_embed_grad(const dg_args *a)
{
    const sine_attr *f = a->attr;
    int64_t n = f->n, each = width(a, DG_SINE_EMBED_GRAD_DX);

    for (int64_t block = 0; block < elements(a, DG_SINE_EMBED_GRAD_DX); block++) {
        const real *dy = in(a, DG_SINE_EMBED_GRAD_DY) + block * n,
                   *y = in(a, DG_SINE_EMBED_GRAD_Y) + block * n;
        double sum = 0;

        for (int64_t k = 0; k < n; k += 2)
            sum += frequency(k, f) * ((double)dy[k] * y[k + 1] - (double)dy[k + 1] * y[k]);
        out(a, DG_SINE_EMBED_GRAD_DX)[coordinate(block, each)] = (real)sum;
    }
    return 0;
}

DG_REF(box_decode, NULL, box_decode);
DG_REF(box_decode_grad, NULL, box_decode_grad);
DG_REF(sine_embed, NULL, sine_embed);
DG_REF(sine_embed_grad, NULL, sine_embed_grad);
