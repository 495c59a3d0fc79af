/* pool.c: twins of kernels/ref/pool.c, which has the formulas. A thread for an element of the
 * result; in the gradients it visits the windows that contain it in their order. */
#include "kernels/cuda/device.h"

typedef struct pooling {
    const real *x; /* or dy */
    real *y;       /* or dx */
    uint8_t *to_at;
    const uint8_t *at;
    int64_t n, h, w, out_h, out_w, c; /* n: elements of the result; h, w: of the larger map */
    int64_t size, stride, pad;
} pooling;

/* An element of a map [.., H, W, C]. */
typedef struct pixel {
    int64_t b, y, x, k;
} pixel;

DEVICE pixel pixel_of(int64_t n, int64_t h, int64_t w, int64_t c)
{
    uint32_t rest = (uint32_t)n;
    pixel o;

    o.k = rest % (uint32_t)c;
    rest /= (uint32_t)c;
    o.x = rest % (uint32_t)w;
    rest /= (uint32_t)w;
    o.y = rest % (uint32_t)h;
    o.b = rest / (uint32_t)h;
    return o;
}

DEVICE int64_t at_most(int64_t x, int64_t y)
{
    return x < y ? x : y;
}

DEVICE int64_t at_least(int64_t x, int64_t y)
{
    return x > y ? x : y;
}

/* The first window along an axis that contains position i. */
DEVICE int64_t first_window(const pooling *p, int64_t i)
{
    return at_least(0, parts(i + p->pad - p->size + 1, p->stride));
}

DEVICE int64_t last_window(const pooling *p, int64_t i, int64_t windows)
{
    return at_most(windows - 1, (i + p->pad) / p->stride);
}

KERNEL(max_pool_kernel, pooling)
{
    for (int64_t n = first(); n < p->n; n += step()) {
        pixel o = pixel_of(n, p->out_h, p->out_w, p->c);
        int64_t top = o.y * p->stride - p->pad, left = o.x * p->stride - p->pad;
        int64_t y1 = at_most(top + p->size, p->h), x1 = at_most(left + p->size, p->w);
        bool found = false;
        wide best = 0;
        int64_t at = 0;

        for (int64_t y = at_least(top, 0); y < y1; y++)
            for (int64_t x = at_least(left, 0); x < x1; x++) {
                wide v = get(p->x[((o.b * p->h + y) * p->w + x) * p->c + o.k]);

                if (found && !(v > best) && !(v != v && best == best))
                    continue;
                found = true;
                best = v;
                at = (y - top) * p->size + x - left;
            }
        p->y[n] = put(best);
        p->to_at[n] = (uint8_t)at;
    }
}

KERNEL(max_pool_grad_kernel, pooling)
{
    for (int64_t n = first(); n < p->n; n += step()) {
        pixel o = pixel_of(n, p->h, p->w, p->c);
        int64_t y1 = last_window(p, o.y, p->out_h), x1 = last_window(p, o.x, p->out_w);
        wide sum = 0;

        for (int64_t y = first_window(p, o.y); y <= y1; y++)
            for (int64_t x = first_window(p, o.x); x <= x1; x++) {
                int64_t from = ((o.b * p->out_h + y) * p->out_w + x) * p->c + o.k;
                int64_t here =
                    (o.y - y * p->stride + p->pad) * p->size + o.x - x * p->stride + p->pad;

                if (p->at[from] == here)
                    sum += get(p->x[from]);
            }
        p->y[n] = put(sum);
    }
}

/* Elements of a window along an axis of the map that are inside. */
DEVICE int64_t inside(const pooling *p, int64_t window, int64_t size)
{
    int64_t begin = window * p->stride - p->pad;

    return at_most(begin + p->size, size) - at_least(begin, 0);
}

KERNEL(avg_pool_kernel, pooling)
{
    for (int64_t n = first(); n < p->n; n += step()) {
        pixel o = pixel_of(n, p->out_h, p->out_w, p->c);
        int64_t y0 = at_least(o.y * p->stride - p->pad, 0), rows = inside(p, o.y, p->h);
        int64_t x0 = at_least(o.x * p->stride - p->pad, 0), columns = inside(p, o.x, p->w);
        wide sum = 0;

        for (int64_t y = y0; y < y0 + rows; y++)
            for (int64_t x = x0; x < x0 + columns; x++)
                sum += get(p->x[((o.b * p->h + y) * p->w + x) * p->c + o.k]);
        p->y[n] = put(sum / (wide)(rows * columns));
    }
}

KERNEL(avg_pool_grad_kernel, pooling)
{
    for (int64_t n = first(); n < p->n; n += step()) {
        pixel o = pixel_of(n, p->h, p->w, p->c);
        int64_t y1 = last_window(p, o.y, p->out_h), x1 = last_window(p, o.x, p->out_w);
        wide sum = 0;

        for (int64_t y = first_window(p, o.y); y <= y1; y++)
            for (int64_t x = first_window(p, o.x); x <= x1; x++)
                sum += get(p->x[((o.b * p->out_h + y) * p->out_w + x) * p->c + o.k]) /
                       (wide)(inside(p, y, p->h) * inside(p, x, p->w));
        p->y[n] = put(sum);
    }
}

/* x is the smaller map here. */
KERNEL(upsample_kernel, pooling)
{
    for (int64_t n = first(); n < p->n; n += step()) {
        pixel o = pixel_of(n, p->h, p->w, p->c);
        int64_t row = o.b * (p->h / p->size) + o.y / p->size;

        p->y[n] = p->x[(row * (p->w / p->size) + o.x / p->size) * p->c + o.k];
    }
}

KERNEL(upsample_grad_kernel, pooling)
{
    for (int64_t n = first(); n < p->n; n += step()) {
        pixel o = pixel_of(n, p->h / p->size, p->w / p->size, p->c);
        wide sum = 0;

        for (int64_t y = o.y * p->size; y < (o.y + 1) * p->size; y++)
            for (int64_t x = o.x * p->size; x < (o.x + 1) * p->size; x++)
                sum += get(p->x[((o.b * p->h + y) * p->w + x) * p->c + o.k]);
        p->y[n] = put(sum);
    }
}

/* x and y are operands of the call, larger and smaller those whose maps are larger and smaller. */
static pooling pooling_of(const dg_args *a, int x, int y, int larger_map, int smaller_map)
{
    const pool_attr *f = (const pool_attr *)a->attr;
    pooling p = { .x = reals(a, x), .y = reals(a, y), .n = elements(a, y) };

    p.h = dim(a, larger_map, 1);
    p.w = dim(a, larger_map, 2);
    p.c = dim(a, larger_map, 3);
    p.out_h = dim(a, smaller_map, 1);
    p.out_w = dim(a, smaller_map, 2);
    p.size = f->size;
    p.stride = f->stride;
    p.pad = f->pad;
    return p;
}

static int max_pool(const dg_cuda_call *c)
{
    pooling p = pooling_of(c->a, DG_MAX_POOL_X, DG_MAX_POOL_Y, DG_MAX_POOL_X, DG_MAX_POOL_Y);

    p.to_at = (uint8_t *)c->a->t[DG_MAX_POOL_AT].data;
    return LAUNCH(c, max_pool_kernel, grid_of(p.n), &p);
}

static int max_pool_grad(const dg_cuda_call *c)
{
    pooling p = pooling_of(c->a, DG_MAX_POOL_GRAD_DY, DG_MAX_POOL_GRAD_DX, DG_MAX_POOL_GRAD_DX,
                           DG_MAX_POOL_GRAD_DY);

    p.at = (const uint8_t *)c->a->t[DG_MAX_POOL_GRAD_AT].data;
    return LAUNCH(c, max_pool_grad_kernel, grid_of(p.n), &p);
}

static int avg_pool(const dg_cuda_call *c)
{
    pooling p = pooling_of(c->a, DG_AVG_POOL_X, DG_AVG_POOL_Y, DG_AVG_POOL_X, DG_AVG_POOL_Y);

    return LAUNCH(c, avg_pool_kernel, grid_of(p.n), &p);
}

static int avg_pool_grad(const dg_cuda_call *c)
{
    pooling p = pooling_of(c->a, DG_AVG_POOL_GRAD_DY, DG_AVG_POOL_GRAD_DX, DG_AVG_POOL_GRAD_DX,
                           DG_AVG_POOL_GRAD_DY);

    return LAUNCH(c, avg_pool_grad_kernel, grid_of(p.n), &p);
}

static int upsample(const dg_cuda_call *c)
{
    pooling p = pooling_of(c->a, DG_UPSAMPLE_X, DG_UPSAMPLE_Y, DG_UPSAMPLE_Y, DG_UPSAMPLE_X);

    return LAUNCH(c, upsample_kernel, grid_of(p.n), &p);
}

static int upsample_grad(const dg_cuda_call *c)
{
    pooling p = pooling_of(c->a, DG_UPSAMPLE_GRAD_DY, DG_UPSAMPLE_GRAD_DX, DG_UPSAMPLE_GRAD_DY,
                           DG_UPSAMPLE_GRAD_DX);

    return LAUNCH(c, upsample_grad_kernel, grid_of(p.n), &p);
}

DG_CUDA(max_pool, NULL, max_pool);
DG_CUDA(max_pool_grad, NULL, max_pool_grad);
DG_CUDA(avg_pool, NULL, avg_pool);
DG_CUDA(avg_pool_grad, NULL, avg_pool_grad);
DG_CUDA(upsample, NULL, upsample);
DG_CUDA(upsample_grad, NULL, upsample_grad);
