/* pool.c: pooling and nearest upsampling of feature maps [B,H,W,C], vectors along C; rules as in
 * kernels/ref/pool.c. Gradients gather: each pixel of dx sums the contributions of the windows over
 * it, in window order. */
#include "kernels/host/simd/simd.h"

typedef uint8_t vb __attribute__((vector_size(W)));

typedef struct span {
    int64_t begin, end;
} span;

/* Pixels of window o inside 0..size-1. */
static inline span window(const pool_attr *f, int64_t o, int64_t size)
{
    int64_t at = o * f->stride - f->pad;

    return (span){ max64(at, 0), min64(at + f->size, size) };
}

/* Windows (of n) that contain pixel i. */
static inline span windows_over(const pool_attr *f, int64_t i, int64_t n)
{
    int64_t first = i + f->pad - f->size + 1;

    return (span){ first <= 0 ? 0 : (first + f->stride - 1) / f->stride,
                   min64((i + f->pad) / f->stride + 1, n) };
}

/* Mask of the lanes whose byte in `at`, a position in the window, equals `place`. */
ALWAYS vm is_place(const uint8_t *at, int64_t place, int64_t w)
{
    vb b = { 0 };

    if (w == W)
        memcpy(&b, at, W);
    else
        memcpy(&b, at, (size_t)w);
#ifdef __AVX512F__
    return _mm_cmpeq_epi8_mask((__m128i)b, _mm_set1_epi8((char)place));
#else
    return __builtin_convertvector(b, vi) == (int32_t)place;
#endif
}

ALWAYS void put_places(uint8_t *at, vf place, int64_t w)
{
    vb b = __builtin_convertvector(__builtin_convertvector(place, vi), vb);

    if (w == W)
        memcpy(at, &b, W);
    else
        memcpy(at, &b, (size_t)w);
}

/* ---- W channels from k on of one pixel ------------------------------------------------------- */

typedef struct spot {
    int64_t n, b, y, x, h, w, c;
} spot; /* n: index of the pixel over b, y, x */

typedef void pixel_fn(const dg_args *a, const spot *o, int64_t k, int64_t w, bool low, bool whole);

static inline spot spot_of(const dg_args *a, int i, int64_t n)
{
    const int64_t *d = a->t[i].shape.d;

    return (spot){ n, n / (d[1] * d[2]), n / d[2] % d[1], n % d[2], d[1], d[2], d[3] };
}

ALWAYS void max_pixel(const dg_args *a, const spot *o, int64_t k, int64_t w, bool low, bool whole)
{
    const pool_attr *f = a->attr;
    int64_t h = a->t[DG_MAX_POOL_X].shape.d[1], width_x = a->t[DG_MAX_POOL_X].shape.d[2];
    span sy = window(f, o->y, h), sx = window(f, o->x, width_x);
    vf best = { 0 }, at = { 0 };
    bool found = false;

    for (int64_t y = sy.begin; y < sy.end; y++)
        for (int64_t x = sx.begin; x < sx.end; x++) {
            vf v = ld_k(a->t[DG_MAX_POOL_X].data, ((o->b * h + y) * width_x + x) * o->c + k, w, low,
                        whole);
            vf place = vf_set(
                (float)((y - o->y * f->stride + f->pad) * f->size + x - o->x * f->stride + f->pad));
            vm keep = vf_le(v, best), number = vf_eq(best, best);

            at = found ? vf_pick(number, vf_pick(keep, at, place), at) : place;
            best = found ? vf_pick(number, vf_pick(keep, best, v), best) : v;
            found = true;
        }
    st_k(a->t[DG_MAX_POOL_Y].data, o->n * o->c + k, best, w, low, whole);
    put_places((uint8_t *)a->t[DG_MAX_POOL_AT].data + o->n * o->c + k, at, whole ? W : w);
}

/* dy at -> dx */
ALWAYS void max_grad_pixel(const dg_args *a, const spot *o, int64_t k, int64_t w, bool low,
                           bool whole)
{
    const pool_attr *f = a->attr;
    int64_t h = a->t[DG_MAX_POOL_GRAD_DY].shape.d[1],
            width_y = a->t[DG_MAX_POOL_GRAD_DY].shape.d[2];
    span sy = windows_over(f, o->y, h), sx = windows_over(f, o->x, width_y);
    vf sum = { 0 };

    for (int64_t y = sy.begin; y < sy.end; y++)
        for (int64_t x = sx.begin; x < sx.end; x++) {
            int64_t at = ((o->b * h + y) * width_y + x) * o->c + k;
            int64_t place =
                (o->y - y * f->stride + f->pad) * f->size + o->x - x * f->stride + f->pad;
            vm here = is_place((const uint8_t *)a->t[DG_MAX_POOL_GRAD_AT].data + at, place,
                               whole ? W : w);

            sum +=
                vf_pick(here, ld_k(a->t[DG_MAX_POOL_GRAD_DY].data, at, w, low, whole), vf_set(0));
        }
    st_k(a->t[DG_MAX_POOL_GRAD_DX].data, o->n * o->c + k, sum, w, low, whole);
}

ALWAYS void avg_pixel(const dg_args *a, const spot *o, int64_t k, int64_t w, bool low, bool whole)
{
    int64_t h = a->t[DG_AVG_POOL_X].shape.d[1], width_x = a->t[DG_AVG_POOL_X].shape.d[2];
    span sy = window(a->attr, o->y, h), sx = window(a->attr, o->x, width_x);
    vf sum = { 0 };

    for (int64_t y = sy.begin; y < sy.end; y++)
        for (int64_t x = sx.begin; x < sx.end; x++)
            sum += ld_k(a->t[DG_AVG_POOL_X].data, ((o->b * h + y) * width_x + x) * o->c + k, w, low,
                        whole);
    st_k(a->t[DG_AVG_POOL_Y].data, o->n * o->c + k,
         sum / (float)((sy.end - sy.begin) * (sx.end - sx.begin)), w, low, whole);
}

ALWAYS void avg_grad_pixel(const dg_args *a, const spot *o, int64_t k, int64_t w, bool low,
                           bool whole)
{
    int64_t h = a->t[DG_AVG_POOL_GRAD_DY].shape.d[1],
            width_y = a->t[DG_AVG_POOL_GRAD_DY].shape.d[2];
    span sy = windows_over(a->attr, o->y, h), sx = windows_over(a->attr, o->x, width_y);
    vf sum = { 0 };

    for (int64_t y = sy.begin; y < sy.end; y++)
        for (int64_t x = sx.begin; x < sx.end; x++) {
            span v = window(a->attr, y, o->h), u = window(a->attr, x, o->w);

            sum += ld_k(a->t[DG_AVG_POOL_GRAD_DY].data, ((o->b * h + y) * width_y + x) * o->c + k,
                        w, low, whole) /
                   (float)((v.end - v.begin) * (u.end - u.begin));
        }
    st_k(a->t[DG_AVG_POOL_GRAD_DX].data, o->n * o->c + k, sum, w, low, whole);
}

ALWAYS void up_pixel(const dg_args *a, const spot *o, int64_t k, int64_t w, bool low, bool whole)
{
    const pool_attr *f = a->attr;
    int64_t h = a->t[DG_UPSAMPLE_X].shape.d[1], width_x = a->t[DG_UPSAMPLE_X].shape.d[2];
    int64_t from = (o->b * h + o->y / f->size) * width_x + o->x / f->size;

    st_k(a->t[DG_UPSAMPLE_Y].data, o->n * o->c + k,
         ld_k(a->t[DG_UPSAMPLE_X].data, from * o->c + k, w, low, whole), w, low, whole);
}

ALWAYS void up_grad_pixel(const dg_args *a, const spot *o, int64_t k, int64_t w, bool low,
                          bool whole)
{
    const pool_attr *f = a->attr;
    int64_t h = a->t[DG_UPSAMPLE_GRAD_DY].shape.d[1],
            width_y = a->t[DG_UPSAMPLE_GRAD_DY].shape.d[2];
    vf sum = { 0 };

    for (int64_t y = o->y * f->size; y < (o->y + 1) * f->size; y++)
        for (int64_t x = o->x * f->size; x < (o->x + 1) * f->size; x++)
            sum += ld_k(a->t[DG_UPSAMPLE_GRAD_DY].data, ((o->b * h + y) * width_y + x) * o->c + k,
                        w, low, whole);
    st_k(a->t[DG_UPSAMPLE_GRAD_DX].data, o->n * o->c + k, sum, w, low, whole);
}

/* ---- all pixels of output `y` ---------------------------------------------------------------- */

ALWAYS void each_pixel(const dg_args *a, int y, int64_t begin, int64_t end, pixel_fn *f)
{
    int64_t c = width(a, y);
    bool low = is_low(a, y);

    for (int64_t n = begin; n < end; n++) {
        spot o = spot_of(a, y, n);

        for (int64_t k = 0; k < c; k += W)
            if (c % W)
                f(a, &o, k, min64(c - k, W), low, false);
            else if (low)
                f(a, &o, k, W, true, true);
            else
                f(a, &o, k, W, false, true);
    }
}

#define KERNEL(name, pixel, y, work)                                           \
    static void name##_body(void *ctx, int64_t begin, int64_t end, int thread) \
    {                                                                          \
        (void)thread;                                                          \
        each_pixel(ctx, y, begin, end, pixel);                                 \
    }                                                                          \
    static int name##_(const dg_args *a)                                       \
    {                                                                          \
        dg_args copy = *a;                                                     \
                                                                               \
        parallel(a, rows(a, y), work *width(a, y), name##_body, &copy);        \
        return 0;                                                              \
    }                                                                          \
    DG_SIMD(name, NULL, name##_)

KERNEL(max_pool, max_pixel, DG_MAX_POOL_Y, 4);
KERNEL(max_pool_grad, max_grad_pixel, DG_MAX_POOL_GRAD_DX, 4);
KERNEL(avg_pool, avg_pixel, DG_AVG_POOL_Y, 2);
KERNEL(avg_pool_grad, avg_grad_pixel, DG_AVG_POOL_GRAD_DX, 2);
KERNEL(upsample, up_pixel, DG_UPSAMPLE_Y, 1);
KERNEL(upsample_grad, up_grad_pixel, DG_UPSAMPLE_GRAD_DX, 2);
