/* pool.c: pooling and nearest upsampling of feature maps [B,H,W,C], vectors along C; rules as in kernels/ref/pool.c.
 * Gradients are gathered: every pixel of dx sums what the windows over it send, in the order of the windows. */
#include "kernels/host/simd/simd.h"

typedef uint8_t vb __attribute__((vector_size(W)));

typedef struct span { int64_t begin, end; } span;

/* Pixels of window o that lie inside 0..size-1. */
static inline span window(const pool_attr *f, int64_t o, int64_t size)
{
    int64_t at = o * f->stride - f->pad;

    return (span){ max64(at, 0), min64(at + f->size, size) };
}

/* Windows (of n) that hold pixel i. */
static inline span windows_over(const pool_attr *f, int64_t i, int64_t n)
{
    int64_t first = i + f->pad - f->size + 1;

    return (span){ first <= 0 ? 0 : (first + f->stride - 1) / f->stride, min64((i + f->pad) / f->stride + 1, n) };
}

/* `at` holds a place in the window as a byte; among vectors it is a float. */
ALWAYS vf places(const uint8_t *at, int64_t w)
{
    vb b = { 0 };

    memcpy(&b, at, (size_t)w);
    return __builtin_convertvector(__builtin_convertvector(b, vi), vf);
}

ALWAYS void put_places(uint8_t *at, vf place, int64_t w)
{
    vb b = __builtin_convertvector(__builtin_convertvector(place, vi), vb);

    memcpy(at, &b, (size_t)w);
}

/* ---- one pixel: n counts pixels of the output; low and whole are constants ----------------------------------- */

typedef void pixel_fn(const dg_args *a, int64_t n, int64_t k, int64_t w, bool low, bool whole);

typedef struct spot { int64_t b, y, x, h, w, c; } spot; /* a pixel of operand i, and the size of its map */

static inline spot spot_of(const dg_args *a, int i, int64_t n)
{
    const int64_t *d = a->t[i].shape.d;

    return (spot){ n / (d[1] * d[2]), n / d[2] % d[1], n % d[2], d[1], d[2], d[3] };
}

ALWAYS void max_pixel(const dg_args *a, int64_t n, int64_t k, int64_t w, bool low, bool whole)
{
    const pool_attr *f = a->attr;
    spot             o = spot_of(a, 1, n);
    int64_t          h = a->t[0].shape.d[1], width_x = a->t[0].shape.d[2];
    span             sy = window(f, o.y, h), sx = window(f, o.x, width_x);
    vf               best = { 0 }, at = { 0 };
    bool             found = false;

    for (int64_t y = sy.begin; y < sy.end; y++)
        for (int64_t x = sx.begin; x < sx.end; x++) {
            vf v = ld_k(a->t[0].data, ((o.b * h + y) * width_x + x) * o.c + k, w, low, whole);
            vf place = vf_set((float)((y - o.y * f->stride + f->pad) * f->size + x - o.x * f->stride + f->pad));
            vm keep = vf_le(v, best), number = vf_eq(best, best);

            at = found ? vf_pick(number, vf_pick(keep, at, place), at) : place;
            best = found ? vf_pick(number, vf_pick(keep, best, v), best) : v;
            found = true;
        }
    st_k(a->t[1].data, n * o.c + k, best, w, low, whole);
    put_places((uint8_t *)a->t[2].data + n * o.c + k, at, whole ? W : w);
}

/* dy at -> dx */
ALWAYS void max_grad_pixel(const dg_args *a, int64_t n, int64_t k, int64_t w, bool low, bool whole)
{
    const pool_attr *f = a->attr;
    spot             i = spot_of(a, 2, n);
    int64_t          h = a->t[0].shape.d[1], width_y = a->t[0].shape.d[2];
    span             sy = windows_over(f, i.y, h), sx = windows_over(f, i.x, width_y);
    vf               sum = { 0 };

    for (int64_t y = sy.begin; y < sy.end; y++)
        for (int64_t x = sx.begin; x < sx.end; x++) {
            int64_t at = ((i.b * h + y) * width_y + x) * i.c + k;
            float   place = (float)((i.y - y * f->stride + f->pad) * f->size + i.x - x * f->stride + f->pad);
            vm      here = vf_eq(places((const uint8_t *)a->t[1].data + at, whole ? W : w), vf_set(place));

            sum += vf_pick(here, ld_k(a->t[0].data, at, w, low, whole), vf_set(0));
        }
    st_k(a->t[2].data, n * i.c + k, sum, w, low, whole);
}

ALWAYS void avg_pixel(const dg_args *a, int64_t n, int64_t k, int64_t w, bool low, bool whole)
{
    spot    o = spot_of(a, 1, n);
    int64_t h = a->t[0].shape.d[1], width_x = a->t[0].shape.d[2];
    span    sy = window(a->attr, o.y, h), sx = window(a->attr, o.x, width_x);
    vf      sum = { 0 };

    for (int64_t y = sy.begin; y < sy.end; y++)
        for (int64_t x = sx.begin; x < sx.end; x++)
            sum += ld_k(a->t[0].data, ((o.b * h + y) * width_x + x) * o.c + k, w, low, whole);
    st_k(a->t[1].data, n * o.c + k, sum / (float)((sy.end - sy.begin) * (sx.end - sx.begin)), w, low, whole);
}

ALWAYS void avg_grad_pixel(const dg_args *a, int64_t n, int64_t k, int64_t w, bool low, bool whole)
{
    spot    i = spot_of(a, 1, n);
    int64_t h = a->t[0].shape.d[1], width_y = a->t[0].shape.d[2];
    span    sy = windows_over(a->attr, i.y, h), sx = windows_over(a->attr, i.x, width_y);
    vf      sum = { 0 };

    for (int64_t y = sy.begin; y < sy.end; y++)
        for (int64_t x = sx.begin; x < sx.end; x++) {
            span v = window(a->attr, y, i.h), u = window(a->attr, x, i.w);

            sum += ld_k(a->t[0].data, ((i.b * h + y) * width_y + x) * i.c + k, w, low, whole) /
                   (float)((v.end - v.begin) * (u.end - u.begin));
        }
    st_k(a->t[1].data, n * i.c + k, sum, w, low, whole);
}

ALWAYS void up_pixel(const dg_args *a, int64_t n, int64_t k, int64_t w, bool low, bool whole)
{
    const pool_attr *f = a->attr;
    spot             o = spot_of(a, 1, n);
    int64_t          h = a->t[0].shape.d[1], width_x = a->t[0].shape.d[2];
    int64_t          from = (o.b * h + o.y / f->size) * width_x + o.x / f->size;

    st_k(a->t[1].data, n * o.c + k, ld_k(a->t[0].data, from * o.c + k, w, low, whole), w, low, whole);
}

ALWAYS void up_grad_pixel(const dg_args *a, int64_t n, int64_t k, int64_t w, bool low, bool whole)
{
    const pool_attr *f = a->attr;
    spot             i = spot_of(a, 1, n);
    int64_t          h = a->t[0].shape.d[1], width_y = a->t[0].shape.d[2];
    vf               sum = { 0 };

    for (int64_t y = i.y * f->size; y < (i.y + 1) * f->size; y++)
        for (int64_t x = i.x * f->size; x < (i.x + 1) * f->size; x++)
            sum += ld_k(a->t[0].data, ((i.b * h + y) * width_y + x) * i.c + k, w, low, whole);
    st_k(a->t[1].data, n * i.c + k, sum, w, low, whole);
}

/* ---- all pixels of output `y` ----------------------------------------------------------------------------------- */

ALWAYS void each_pixel(const dg_args *a, int y, int64_t begin, int64_t end, pixel_fn *f)
{
    int64_t c = width(a, y);
    bool    low = is_low(a, y);

    for (int64_t n = begin; n < end; n++)
        for (int64_t k = 0; k < c; k += W)
            if (c % W)
                f(a, n, k, min64(c - k, W), low, false);
            else if (low)
                f(a, n, k, W, true, true);
            else
                f(a, n, k, W, false, true);
}

#define KERNEL(name, pixel, y, work)                                                    \
    static void name##_body(void *ctx, int64_t begin, int64_t end, int thread)          \
    {                                                                                   \
        (void)thread;                                                                   \
        each_pixel(ctx, y, begin, end, pixel);                                          \
    }                                                                                   \
    static int name##_(const dg_args *a)                                                \
    {                                                                                   \
        dg_args copy = *a;                                                              \
                                                                                        \
        parallel(a, rows(a, y), work * width(a, y), name##_body, &copy);                \
        return 0;                                                                       \
    }                                                                                   \
    DG_SIMD(name, NULL, name##_)

KERNEL(max_pool, max_pixel, 1, 4);
KERNEL(max_pool_grad, max_grad_pixel, 2, 4);
KERNEL(avg_pool, avg_pixel, 1, 2);
KERNEL(avg_pool_grad, avg_grad_pixel, 1, 2);
KERNEL(upsample, up_pixel, 1, 1);
KERNEL(upsample_grad, up_grad_pixel, 1, 2);
