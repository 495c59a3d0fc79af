/* layer_norm.c: twins of the layer norm of kernels/ref/norm.c, which has the formulas. A warp has a
 * row; sums over rows are those of norm.h. */
#include "kernels/cuda/norm.h"

KERNEL(layer_norm_kernel, norm_call)
{
    for (int64_t r = first() / DG_CUDA_WARP; r < p->rows; r += step() / DG_CUDA_WARP) {
        const real *x = p->x + r * p->c;
        wide mean = 0, var = 0, rstd;

        for (int64_t k = lane_id(); k < p->c; k += DG_CUDA_WARP)
            mean += get(x[k]);
        mean = warp_sum(mean) / (wide)p->c;
        for (int64_t k = lane_id(); k < p->c; k += DG_CUDA_WARP)
            var += (get(x[k]) - mean) * (get(x[k]) - mean);
        rstd = 1 / sqrt(warp_sum(var) / (wide)p->c + (wide)p->eps);
        for (int64_t k = lane_id(); k < p->c; k += DG_CUDA_WARP)
            p->out[r * p->c + k] = put((get(x[k]) - mean) * rstd * p->s[k] + p->b[k]);
        if (lane_id() == 0) {
            p->to_mean[r] = mean;
            p->to_var[r] = rstd;
        }
    }
}

static int layer_norm(const dg_cuda_call *c)
{
    const dg_args *a = c->a;
    norm_call p = norm_of(a, DG_LAYER_NORM_X, (const norm_attr *)a->attr);

    p.x = reals(a, DG_LAYER_NORM_X);
    p.s = wides(a, DG_LAYER_NORM_S);
    p.b = wides(a, DG_LAYER_NORM_B);
    p.out = reals(a, DG_LAYER_NORM_Y);
    p.to_mean = wides(a, DG_LAYER_NORM_MEAN);
    p.to_var = wides(a, DG_LAYER_NORM_RSTD);
    return LAUNCH(c, layer_norm_kernel, grid_of_warps(p.rows), &p);
}

/* ---- gradients: some blocks have rows of dx, the others slices of the sums --------------------
 */

typedef struct layer_gradients {
    norm_call of; /* var: 1 / sqrt(variance + eps) of each row */
    int64_t dx_blocks;
} layer_gradients;

DEVICE void find_dx(const norm_call *p, int64_t block, int64_t blocks)
{
    const int64_t warps = block_size() / DG_CUDA_WARP;

    for (int64_t r = block * warps + warp_id(); r < p->rows; r += blocks * warps) {
        const real *dy = p->dy + r * p->c, *x = p->x + r * p->c;
        wide mean = p->mean[r], rstd = p->var[r], mean_g = 0, mean_gh = 0;

        for (int64_t k = lane_id(); k < p->c; k += DG_CUDA_WARP) {
            wide g = get(dy[k]) * p->s[k];

            mean_g += g;
            mean_gh += g * (get(x[k]) - mean) * rstd;
        }
        mean_g = warp_sum(mean_g) / (wide)p->c;
        mean_gh = warp_sum(mean_gh) / (wide)p->c;
        for (int64_t k = lane_id(); k < p->c; k += DG_CUDA_WARP) {
            wide h = (get(x[k]) - mean) * rstd;

            p->out[r * p->c + k] = put(rstd * (get(dy[k]) * p->s[k] - mean_g - h * mean_gh));
        }
    }
}

DEVICE void find_sums(const norm_call *p, int64_t block)
{
    int64_t groups = parts(p->c, DG_CUDA_WARP), slice = block / groups, group = block % groups;
    int64_t k = group * DG_CUDA_WARP + lane_id(), size = parts(p->rows, p->slices),
            end = (slice + 1) * size < p->rows ? (slice + 1) * size : p->rows;
    wide sum_g = 0, sum_gh = 0;

    for (int64_t r = slice * size + warp_id(); r < end && k < p->c; r += WARPS) {
        wide g = get(p->dy[r * p->c + k]);

        sum_g += g;
        sum_gh += g * (get(p->x[r * p->c + k]) - p->mean[r]) * p->var[r];
    }
    join_sums(p, slice, group, sum_g, sum_gh);
}

KERNEL(layer_grad_kernel, layer_gradients)
{
    if (block_id() < p->dx_blocks)
        find_dx(&p->of, block_id(), p->dx_blocks);
    else
        find_sums(&p->of, block_id() - p->dx_blocks);
}

static int layer_norm_grad(const dg_cuda_call *c)
{
    const dg_args *a = c->a;
    layer_gradients p = { .of = norm_of(a, DG_LAYER_NORM_GRAD_DY, NULL) };
    dg_cuda_grid g = grid_of_warps(p.of.rows);

    p.dx_blocks = g.blocks;
    p.of.dy = reals(a, DG_LAYER_NORM_GRAD_DY);
    p.of.x = reals(a, DG_LAYER_NORM_GRAD_X);
    p.of.s = wides(a, DG_LAYER_NORM_GRAD_S);
    p.of.mean = wides(a, DG_LAYER_NORM_GRAD_MEAN);
    p.of.var = wides(a, DG_LAYER_NORM_GRAD_RSTD);
    p.of.out = reals(a, DG_LAYER_NORM_GRAD_DX);
    p.of.ds = wides(a, DG_LAYER_NORM_GRAD_DS);
    p.of.db = wides(a, DG_LAYER_NORM_GRAD_DB);
    if (p.of.ds || p.of.db) {
        g = grid_of_slices(&p.of, 2);
        g.blocks += p.dx_blocks;
        p.of.counter = counters(c, parts(p.of.c, DG_CUDA_WARP));
    }
    return LAUNCH(c, layer_grad_kernel, g, &p);
}

DG_CUDA(layer_norm, NULL, layer_norm);
DG_CUDA(layer_norm_grad, prepare_slices, layer_norm_grad);
