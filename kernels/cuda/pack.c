/* pack.c: twins of what packs the kernels of convolutions in kernels/ref/conv.c, which has the
 * formulas. They are ops of their own because a step has a hundred of them, each a few
 * microseconds long: so they join. */
#include "kernels/cuda/device.h"

/* from [n][rows][columns], to [n][columns][rows] */
typedef struct packing {
    const wide *w; /* what is packed; or k, what is unpacked */
    const real *k;
    real *to_k;
    wide *to_w;
    int64_t size, rows, columns;
} packing;

KERNEL_MANY(repack_kernel, packing)
{
    const uint32_t rows = (uint32_t)p->rows, columns = (uint32_t)p->columns;

    for (int64_t n = first(); n < p->size; n += step()) {
        uint32_t r = (uint32_t)n % rows, rest = (uint32_t)n / rows, c = rest % columns;
        int64_t from = ((int64_t)(rest / columns) * rows + r) * columns + c;

        if (p->w)
            p->to_k[n] = put(p->w[from]);
        else
            p->to_w[n] = get(p->k[from]);
    }
}

static int pack_kernel(const dg_cuda_call *c)
{
    const dg_args *a = c->a;
    packing p = { .w = wides(a, DG_PACK_KERNEL_W),
                  .k = NULL,
                  .to_k = reals(a, DG_PACK_KERNEL_K),
                  .to_w = NULL,
                  .size = elements(a, DG_PACK_KERNEL_W),
                  .rows = dim(a, DG_PACK_KERNEL_W, 1),
                  .columns = dim(a, DG_PACK_KERNEL_W, 2) * dim(a, DG_PACK_KERNEL_W, 3) };

    return LAUNCH_MANY(c, repack_kernel, grid_of(p.size), &p);
}

static int unpack_kernel(const dg_cuda_call *c)
{
    const dg_args *a = c->a;
    packing p = { .w = NULL,
                  .k = reals(a, DG_UNPACK_KERNEL_K),
                  .to_k = NULL,
                  .to_w = wides(a, DG_UNPACK_KERNEL_W),
                  .size = elements(a, DG_UNPACK_KERNEL_K),
                  .rows = dim(a, DG_UNPACK_KERNEL_K, 1) * dim(a, DG_UNPACK_KERNEL_K, 2),
                  .columns = dim(a, DG_UNPACK_KERNEL_K, 3) };

    return LAUNCH_MANY(c, repack_kernel, grid_of(p.size), &p);
}

typedef struct folding {
    const wide *w, *s, *b, *mean, *var;
    real *k;
    wide *c;
    double eps;
    int64_t size, i, taps;
} folding;

KERNEL_MANY(fold_kernel, folding)
{
    const uint32_t inputs = (uint32_t)p->i, taps = (uint32_t)p->taps;

    for (int64_t n = first(); n < p->size; n += step()) {
        uint32_t i = (uint32_t)n % inputs, rest = (uint32_t)n / inputs, t = rest % taps,
                 o = rest / taps;
        wide scale = p->s[o] / sqrt(p->var[o] + (wide)p->eps);

        p->k[n] = put(p->w[((int64_t)o * inputs + i) * taps + t] * scale);
        if (i == 0 && t == 0)
            p->c[o] = p->b[o] - p->mean[o] * scale;
    }
}

static int fold_norm(const dg_cuda_call *c)
{
    const dg_args *a = c->a;
    folding p = { .w = wides(a, DG_FOLD_NORM_W),
                  .s = wides(a, DG_FOLD_NORM_S),
                  .b = wides(a, DG_FOLD_NORM_B),
                  .mean = wides(a, DG_FOLD_NORM_MEAN),
                  .var = wides(a, DG_FOLD_NORM_VAR),
                  .k = reals(a, DG_FOLD_NORM_K),
                  .c = wides(a, DG_FOLD_NORM_C),
                  .eps = ((const norm_attr *)a->attr)->eps,
                  .size = elements(a, DG_FOLD_NORM_W),
                  .i = dim(a, DG_FOLD_NORM_W, 1),
                  .taps = dim(a, DG_FOLD_NORM_W, 2) * dim(a, DG_FOLD_NORM_W, 3) };

    return LAUNCH_MANY(c, fold_kernel, grid_of(p.size), &p);
}

DG_CUDA_JOINED(pack_kernel, NULL, pack_kernel, DG_JOIN_SIDE);
DG_CUDA_JOINED(unpack_kernel, NULL, unpack_kernel, DG_JOIN_SIDE);
DG_CUDA_JOINED(fold_norm, NULL, fold_norm, DG_JOIN_SIDE);
