/* resize.c: bilinear resizing with antialiasing, in Pillow's fixed-point arithmetic; nearest; and
 * bilinear without antialiasing.
 *
 * Output i of n_out samples the source around c = (i + 1/2) r with r = n_in / n_out. Its weights
 * are a triangle of half-width f = max(r, 1), over source pixels j whose centres lie within f of c:
 *     t(j) = max(0, 1 - |j + 1/2 - c| / f),   k(j) = round(2^22 t(j) / sum t),
 *     out = (sum k(j) in(j) + 2^21) >> 22
 * Columns first, rounded to 8 bits, then rows: both roundings are part of the definition. */
#include "media/image.h"

#include <math.h>
#include <string.h>

enum { BITS = 22, BLOCK = 96 };

typedef struct taps {
    int n;      /* weights per output; some may be 0 */
    int *first; /* [n_out] source index of the first weight */
    int *count; /* [n_out] */
    int32_t *k; /* [n_out][n] weights, scaled by 2^22 */
} taps;

static int no_memory_to_resize(dg_diag *d, int w, int h)
{
    return dg_fail(d, DG_EMEMORY, DG_NOWHERE, "image-memory",
                   "no memory to resize an image to %d x %d", w, h);
}

static double triangle(double x)
{
    x = fabs(x);
    return x < 1.0 ? 1.0 - x : 0.0;
}

static bool make_taps(taps *t, dg_scratch *s, int n_in, int n_out)
{
    const double ratio = (double)n_in / n_out, half = ratio > 1.0 ? ratio : 1.0,
                 inverse = 1.0 / half;
    double *weight;

    t->n = (int)ceil(half) * 2 + 1;
    t->first = dg_scratch_alloc(s, sizeof(int) * (size_t)n_out);
    t->count = dg_scratch_alloc(s, sizeof(int) * (size_t)n_out);
    t->k = dg_scratch_alloc(s, sizeof(int32_t) * (size_t)n_out * (size_t)t->n);
    weight = dg_scratch_alloc(s, sizeof(double) * (size_t)t->n);
    if (!t->first || !t->count || !t->k || !weight)
        return false;
    for (int i = 0; i < n_out; i++) {
        const double centre = (i + 0.5) * ratio;
        int lo = (int)(centre - half + 0.5), hi = (int)(centre + half + 0.5);
        int32_t *k = t->k + (size_t)i * (size_t)t->n;
        double sum = 0.0;

        lo = lo < 0 ? 0 : lo;
        hi = hi > n_in ? n_in : hi;
        t->first[i] = lo;
        t->count[i] = hi - lo;
        for (int j = 0; j < hi - lo; j++)
            sum += weight[j] = triangle((j + lo - centre + 0.5) * inverse);
        for (int j = 0; j < hi - lo; j++)
            k[j] = (int32_t)(0.5 + weight[j] / sum * (1 << BITS));
    }
    return true;
}

static uint8_t to_byte(int32_t sum)
{
    sum >>= BITS;
    return (uint8_t)(sum > 255 ? 255 : sum);
}

static void resize_columns(dg_image *out, const dg_image *in, const taps *t)
{
    for (int y = 0; y < out->h; y++) {
        const uint8_t *row = in->rgb + (size_t)y * (size_t)in->w * 3;
        uint8_t *dst = out->rgb + (size_t)y * (size_t)out->w * 3;

        for (int x = 0; x < out->w; x++, dst += 3) {
            const uint8_t *src = row + (size_t)t->first[x] * 3;
            const int32_t *k = t->k + (size_t)x * (size_t)t->n;
            int32_t r = 1 << (BITS - 1), g = r, b = r;

            for (int j = 0; j < t->count[x]; j++, src += 3) {
                r += k[j] * src[0];
                g += k[j] * src[1];
                b += k[j] * src[2];
            }
            dst[0] = to_byte(r);
            dst[1] = to_byte(g);
            dst[2] = to_byte(b);
        }
    }
}

/* Resizes part of a row, so that the sums stay in registers or L1 cache. */
static void resize_block(uint8_t *dst, const uint8_t *src, size_t stride, const int32_t *k,
                         int count, size_t n)
{
    int32_t sum[BLOCK];

    for (size_t x = 0; x < n; x++)
        sum[x] = 1 << (BITS - 1);
    for (int j = 0; j < count; j++, src += stride)
        for (size_t x = 0; x < n; x++)
            sum[x] += k[j] * src[x];
    for (size_t x = 0; x < n; x++)
        dst[x] = to_byte(sum[x]);
}

static void resize_rows(dg_image *out, const dg_image *in, const taps *t)
{
    const size_t stride = (size_t)in->w * 3;

    for (int y = 0; y < out->h; y++) {
        const uint8_t *src = in->rgb + (size_t)t->first[y] * stride;
        uint8_t *dst = out->rgb + (size_t)y * stride;
        const int32_t *k = t->k + (size_t)y * (size_t)t->n;
        size_t x = 0;

        for (; x + BLOCK <= stride; x += BLOCK)
            resize_block(dst + x, src + x, stride, k, t->count[y], BLOCK);
        resize_block(dst + x, src + x, stride, k, t->count[y], stride - x);
    }
}

int dg_image_resize(dg_image *out, dg_scratch *s, const dg_image *in, int w, int h, dg_diag *d)
{
    dg_image wide = *in, done;
    taps t;
    int rc = 0;

    if (w == in->w && h == in->h)
        return dg_image_copy(out, s, in, d);
    if (w != in->w) {
        DG_TRY(dg_image_alloc(&wide, s, w, in->h, d));
        if (!make_taps(&t, s, in->w, w))
            return no_memory_to_resize(d, w, h);
        resize_columns(&wide, in, &t);
    }
    done = wide;
    if (h != in->h) {
        DG_TRY(dg_image_alloc(&done, s, w, h, d));
        if (!make_taps(&t, s, in->h, h))
            return no_memory_to_resize(d, w, h);
        resize_rows(&done, &wide, &t);
    }
    *out = done;
out:
    return rc;
}

int dg_nearest_index(int i, int n_in, int n_out)
{
    int j;

    if (n_in == n_out)
        return i;
    if (n_out == 2 * n_in)
        return i / 2;
    j = (int)floorf((float)i * ((float)n_in / (float)n_out));
    return j < n_in ? j : n_in - 1;
}

int dg_image_resize_nearest(dg_image *out, dg_scratch *s, const dg_image *in, int w, int h,
                            dg_diag *d)
{
    dg_image done;
    int *column = dg_scratch_alloc(s, sizeof(int) * (size_t)(w > 0 ? w : 1));
    int rc;

    if (!column)
        return no_memory_to_resize(d, w, h);
    DG_TRY(dg_image_alloc(&done, s, w, h, d));
    for (int x = 0; x < w; x++)
        column[x] = 3 * dg_nearest_index(x, in->w, w);
    for (int y = 0; y < h; y++) {
        const uint8_t *src = in->rgb + (size_t)dg_nearest_index(y, in->h, h) * (size_t)in->w * 3;
        uint8_t *dst = done.rgb + (size_t)y * (size_t)w * 3;

        for (int x = 0; x < w; x++)
            memcpy(dst + 3 * x, src + column[x], 3);
    }
    *out = done;
out:
    return rc;
}

/* Where output i of n lies among `from` samples: between *low and *high, at share *t. */
static void between(int i, int n, int from, int *low, int *high, float *t)
{
    float at = fmaxf(((float)i + 0.5F) * ((float)from / (float)n) - 0.5F, 0);

    *low = (int)at < from - 1 ? (int)at : from - 1;
    *high = *low + 1 < from ? *low + 1 : *low;
    *t = fminf(at - (float)*low, 1);
}

void dg_resize_f32(float *out, int to_w, int to_h, const float *in, int w, int h, int channels)
{
    const size_t row = (size_t)w * (size_t)channels;

    for (int y = 0; y < to_h; y++) {
        int top, bottom;
        float down;

        between(y, to_h, h, &top, &bottom, &down);
        for (int x = 0; x < to_w; x++) {
            int left, right;
            float across;

            between(x, to_w, w, &left, &right, &across);
            for (int c = 0; c < channels; c++) {
                const float *a = in + (size_t)top * row + c, *b = in + (size_t)bottom * row + c;
                size_t l = (size_t)left * (size_t)channels, r = (size_t)right * (size_t)channels;
                float up = a[l] + (a[r] - a[l]) * across, low = b[l] + (b[r] - b[l]) * across;

                *out++ = up + (low - up) * down;
            }
        }
    }
}
