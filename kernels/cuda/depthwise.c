/* depthwise.c: twins of kernels/ref/depthwise.c, which has the formulas. Forward, a thread for an
 * element of the result. For the gradient of w a block has a tap and 32 channels: its warps share
 * the pixels, and their sums are added up in order. */
#include "kernels/cuda/device.h"

typedef struct plane {
    const real *x, *dy;
    const wide *w, *bias;
    real *y;
    wide *dw;
    int64_t batch, h, width, c, k, pad;
    bool flip;
} plane;

KERNEL(depthwise_kernel, plane)
{
    for (int64_t n = first(); n < p->batch * p->h * p->width * p->c; n += step()) {
        int64_t pixel = (uint32_t)n / (uint32_t)p->c, c = (uint32_t)n % (uint32_t)p->c;
        int64_t x = (uint32_t)pixel % (uint32_t)p->width,
                y = (uint32_t)pixel / (uint32_t)p->width % (uint32_t)p->h;
        int64_t taps = p->k * p->k;
        wide sum = p->bias ? p->bias[c] : 0;

        for (int64_t t = 0; t < taps; t++) {
            int64_t dy = t / p->k - p->pad, dx = t % p->k - p->pad;

            if (y + dy >= 0 && y + dy < p->h && x + dx >= 0 && x + dx < p->width)
                sum += get(p->x[n + (dy * p->width + dx) * p->c]) *
                       p->w[c * taps + (p->flip ? taps - 1 - t : t)];
        }
        p->y[n] = put(sum);
    }
}

static plane plane_of(const dg_args *a, int x, int64_t k)
{
    plane p = { .x = reals(a, x) };

    p.batch = dim(a, x, 0);
    p.h = dim(a, x, 1);
    p.width = dim(a, x, 2);
    p.c = dim(a, x, 3);
    p.k = k;
    p.pad = (k - 1) / 2;
    return p;
}

static int depthwise_conv(const dg_cuda_call *c)
{
    const dg_args *a = c->a;
    plane p = plane_of(a, DG_DEPTHWISE_CONV_X, dim(a, DG_DEPTHWISE_CONV_W, 2));

    p.w = wides(a, DG_DEPTHWISE_CONV_W);
    p.bias = wides(a, DG_DEPTHWISE_CONV_B);
    p.y = reals(a, DG_DEPTHWISE_CONV_Y);
    p.flip = ((const depthwise_attr *)a->attr)->flip != 0;
    return LAUNCH(c, depthwise_kernel, grid_of(elements(a, DG_DEPTHWISE_CONV_X)), &p);
}

/* Shared memory: a sum of each warp and lane. */
KERNEL(depthwise_grad_kernel, plane)
{
    wide *sums = (wide *)shared_memory(), sum = 0;
    int64_t taps = p->k * p->k, t = block_id() % taps,
            c = block_id() / taps * DG_CUDA_WARP + lane_id();
    int64_t dy = t / p->k - p->pad, dx = t % p->k - p->pad;
    int warps = block_size() / DG_CUDA_WARP;

    for (int64_t n = warp_id(); n < p->batch * p->h * p->width; n += warps) {
        int64_t x = n % p->width + dx, y = n / p->width % p->h + dy;

        if (c < p->c && x >= 0 && x < p->width && y >= 0 && y < p->h)
            sum += get(p->dy[n * p->c + c]) * get(p->x[(n + dy * p->width + dx) * p->c + c]);
    }
    sums[thread_id()] = sum;
    barrier();
    if (warp_id() == 0 && c < p->c) {
        sum = 0;
        for (int w = 0; w < warps; w++)
            sum += sums[w * DG_CUDA_WARP + lane_id()];
        p->dw[c * taps + t] = sum;
    }
}

static int depthwise_conv_dw(const dg_cuda_call *c)
{
    const dg_args *a = c->a;
    plane p = plane_of(a, DG_DEPTHWISE_CONV_DW_X, dim(a, DG_DEPTHWISE_CONV_DW_DW, 2));
    dg_cuda_grid g = { p.k * p.k * parts(p.c, DG_CUDA_WARP), DG_CUDA_THREADS,
                       DG_CUDA_THREADS * sizeof(wide) };

    p.dy = reals(a, DG_DEPTHWISE_CONV_DW_DY);
    p.dw = wides(a, DG_DEPTHWISE_CONV_DW_DW);
    return LAUNCH(c, depthwise_grad_kernel, g, &p);
}

DG_CUDA(depthwise_conv, NULL, depthwise_conv);
DG_CUDA(depthwise_conv_dw, NULL, depthwise_conv_dw);
