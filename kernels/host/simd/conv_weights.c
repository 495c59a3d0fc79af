/* conv_weights.c: the gradient of a convolution's weights where the CPU multiplies pairs of bf16;
 * formula as in kernels/ref/conv.c. dW [O,I,kh,kw] is a sum over the pixels of dY [B,H,W,O]: each
 * of its O channels times each of the I channels that a tap (place in the kernel) sees of X.
 *
 * A pair is two neighbours in a row of dY, or what a tap sees of X there. So that every tap finds
 * its pairs, rows of X are packed twice, from an even column on and from an odd one; with a stride
 * S, for each of the S x S phases of rows and columns. Maps are packed by LANES channels:
 * [C / LANES,image,row,pair,LANES]. The sums of a tile, 64 channels of dY times 5 or 6 of X, stay
 * in registers for a band of rows.
 *
 * Each thread has a share of dY's channels and a group of the bands. Groups have sums of their own,
 * which are added in their order: results depend on the number of threads by rounding. */
#include "kernels/host/simd/simd.h"

#include <stdlib.h>

enum {
    LANES = W,
    /* a tile: all its sums fit into the registers */
    VECTORS = 4, /* of dY's channels */
    FEW = 6,     /* channels of X */
    MANY = 8,    /* the same, for one or two vectors */
    BLOCK = VECTORS * LANES,
    BAND_BYTES = 640 << 10, /* of a band's maps, what is read again and again: fits into L2 cache */
};

/* Rows of dY that are packed and multiplied at a time: of several whole images, or of one. */
typedef struct band {
    int64_t image, images, row, rows;
} band;

typedef struct sums {
    int64_t images, height, width, out;  /* of dY */
    int64_t seen_height, seen_width, in; /* of X */
    int64_t kh, kw, stride, pad;
    int64_t pairs, seen_pairs; /* in a row of dY, in one of X's grids */
    int *grid; /* [stride,stride,2]: which of X's grids has that phase and evenness, or -1: none */
    int64_t grids;
    int64_t splits, split, groups; /* shares of dY's channels; channels of one, in whole LANES;
                                    * groups of bands */
    int64_t band_images, band_rows, bands;
    /* a band's dY stays in the cache while X passes, LANES channels at a time; otherwise X stays
     * while dY passes, BLOCK channels at a time */
    bool dy_stays;
    int64_t x_words, dy_words; /* of a packed band */
    int64_t sums_at; /* bytes of workspace before the sums: [group][O / LANES,I,kh,kw,LANES] */
} sums;

static int64_t up(int64_t n, int64_t to)
{
    return (n + to - 1) / to;
}

/* ---- packing --------------------------------------------------------------------------------- */

/* A map's rows as pairs of its columns first + k * stride, k = 0, 1, ...; zero beyond the row. */
typedef struct packing {
    const uint16_t *row;
    int64_t pixels, channels; /* of the row; of each pixel, to take `taken` of */
    int64_t taken, first, stride, pairs;
    int64_t block; /* words from LANES channels to the next ones */
} packing;

/* The 32 channels of two pixels, as pairs. */
ALWAYS void pack_pair(const uint16_t *a, const uint16_t *b, __mmask32 which, uint32_t *to,
                      uint32_t *then)
{
    const __m512i low = _mm512_set_epi16(47, 15, 46, 14, 45, 13, 44, 12, 43, 11, 42, 10, 41, 9, 40,
                                         8, 39, 7, 38, 6, 37, 5, 36, 4, 35, 3, 34, 2, 33, 1, 32, 0);
    const __m512i high = _mm512_add_epi16(low, _mm512_set1_epi16(LANES));
    __m512i x = a ? _mm512_maskz_loadu_epi16(which, a) : _mm512_setzero_si512(),
            y = b ? _mm512_maskz_loadu_epi16(which, b) : _mm512_setzero_si512();

    _mm512_storeu_si512(to, _mm512_permutex2var_epi16(x, low, y));
    if (then)
        _mm512_storeu_si512(then, _mm512_permutex2var_epi16(x, high, y));
}

static void pack_row(const packing *p, uint32_t *to)
{
    for (int64_t q = 0; q < p->pairs; q++) {
        int64_t at = p->first + 2 * q * p->stride, next = at + p->stride;
        const uint16_t *a = at >= 0 && at < p->pixels ? p->row + at * p->channels : NULL;
        const uint16_t *b = next >= 0 && next < p->pixels ? p->row + next * p->channels : NULL;

        for (int64_t c = 0; c < p->taken; c += 2 * LANES) {
            int64_t n = min64(p->taken - c, 2 * LANES);
            uint32_t *first = to + c / LANES * p->block + q * LANES;

            pack_pair(a ? a + c : NULL, b ? b + c : NULL, (__mmask32)((1ull << n) - 1), first,
                      n > LANES ? first + p->block : NULL);
        }
    }
}

/* Rows of X's grids that a band's rows see. */
static int64_t rows_seen(const sums *s, int64_t rows)
{
    return rows + (s->kh - 1) / s->stride;
}

static void pack_x(const sums *s, const dg_tensor *x, const band *b, uint32_t *to)
{
    int64_t rows = rows_seen(s, b->rows), step = s->seen_pairs * LANES;
    packing p = { .channels = s->in,
                  .taken = s->in,
                  .stride = s->stride,
                  .pairs = s->seen_pairs,
                  .block = b->images * rows * step };

    for (int64_t g = 0; g < 2 * s->stride * s->stride; g++) {
        int64_t phase = g / 2;

        p.first = g % 2 * s->stride + phase % s->stride - s->pad;
        for (int64_t k = 0; k < b->images * rows && s->grid[g] >= 0; k++) {
            int64_t row = (b->row + k % rows) * s->stride + phase / s->stride - s->pad;

            p.pixels = row < 0 || row >= s->seen_height ? 0 : s->seen_width;
            row = p.pixels ? (b->image + k / rows) * s->seen_height + row : 0;
            p.row = (const uint16_t *)x->data + row * s->seen_width * s->in;
            pack_row(&p, to + s->grid[g] * up(s->in, LANES) * p.block + k * step);
        }
    }
}

/* Channels begin..end-1. */
static void pack_dy(const sums *s, const dg_tensor *dy, const band *b, int64_t begin, int64_t end,
                    uint32_t *to)
{
    packing p = { .pixels = s->width,
                  .channels = s->out,
                  .taken = end - begin,
                  .stride = 1,
                  .pairs = s->pairs,
                  .block = b->images * b->rows * s->pairs * LANES };

    for (int64_t k = 0; k < b->images * b->rows; k++) {
        int64_t row = (b->image + k / b->rows) * s->height + b->row + k % b->rows;

        p.row = (const uint16_t *)dy->data + row * s->width * s->out + begin;
        pack_row(&p, to + k * s->pairs * LANES);
    }
}

/* ---- tiles ----------------------------------------------------------------------------------- */

typedef struct tile {
    const uint32_t *x, *dy; /* of the first pair */
    float *to;
    int64_t pairs, rows, images;
    int64_t x_row, x_image, dy_block, to_channel, to_block; /* words, floats to the next one */
    bool add;
} tile;

ALWAYS void multiply(const tile *t, int vectors, int channels)
{
    const uint32_t *dy = t->dy, *image = t->x;
    vf sum[MANY][VECTORS];

    for (int i = 0; i < channels; i++)
        for (int v = 0; v < vectors; v++)
            sum[i][v] = (vf){ 0 };
    for (int64_t k = 0, row = 0; k < t->images * t->rows; k++) {
        const uint32_t *x = image + row * t->x_row;

        if (++row == t->rows) {
            row = 0;
            image += t->x_image;
        }
        for (int64_t q = 0; q < t->pairs; q++, x += LANES, dy += LANES) {
            __m512bh d[VECTORS];

            for (int v = 0; v < vectors; v++)
                memcpy(&d[v], dy + v * t->dy_block, sizeof d[v]);
            for (int i = 0; i < channels; i++) {
                __m512bh same = (__m512bh)_mm512_set1_epi32((int)x[i]);

                for (int v = 0; v < vectors; v++)
                    sum[i][v] = (vf)_mm512_dpbf16_ps((__m512)sum[i][v], same, d[v]);
            }
        }
    }
    for (int i = 0; i < channels; i++)
        for (int v = 0; v < vectors; v++) {
            float *to = t->to + i * t->to_channel + v * t->to_block;

            vf_store(to, t->add ? vf_load(to) + sum[i][v] : sum[i][v]);
        }
}

ALWAYS void multiply_channels(const tile *t, int vectors, int64_t channels)
{
    if (channels == 1)
        multiply(t, vectors, 1);
    else if (channels == 2)
        multiply(t, vectors, 2);
    else if (channels == 3)
        multiply(t, vectors, 3);
    else if (channels == 4)
        multiply(t, vectors, 4);
    else if (channels == 5)
        multiply(t, vectors, 5);
    else if (channels == FEW || vectors > 2)
        multiply(t, vectors, FEW);
    else if (channels == 7)
        multiply(t, vectors, 7);
    else
        multiply(t, vectors, MANY);
}

static void multiply_any(const tile *t, int64_t vectors, int64_t channels)
{
    if (vectors == 1)
        multiply_channels(t, 1, channels);
    else if (vectors == 2)
        multiply_channels(t, 2, channels);
    else if (vectors == 3)
        multiply_channels(t, 3, channels);
    else
        multiply_channels(t, VECTORS, channels);
}

/* All taps of `channels` <= LANES channels of X times `vectors` <= VECTORS of dY. t.x, t.to: of the
 * first channel and tap. */
static void multiply_taps(const sums *s, tile t, int64_t vectors, int64_t channels, int64_t x_grid)
{
    int64_t pieces = up(channels, vectors > 2 ? FEW : MANY), taps = s->kh * s->kw;
    tile one = t;

    for (int64_t piece = 0; piece < pieces; piece++) {
        int64_t begin = piece * channels / pieces, end = (piece + 1) * channels / pieces;

        for (int64_t k = 0; k < taps; k++) {
            int64_t h = k / s->kw, w = k % s->kw, column = w / s->stride;
            int g = s->grid[(h % s->stride * s->stride + w % s->stride) * 2 + column % 2];

            one.x = t.x + g * x_grid + h / s->stride * t.x_row + column / 2 * LANES + begin;
            one.to = t.to + begin * t.to_channel + k * LANES;
            multiply_any(&one, vectors, end - begin);
        }
    }
}

/* ---- shares ---------------------------------------------------------------------------------- */

static band band_of(const sums *s, int64_t k)
{
    int64_t pieces = up(s->height, s->band_rows), image = k / pieces * s->band_images,
            row = k % pieces * s->band_rows;

    return (band){ image, min64(s->band_images, s->images - image), row,
                   min64(s->band_rows, s->height - row) };
}

/* The sums of a group of bands. */
static int64_t group_floats(const sums *s)
{
    return up(s->out, LANES) * LANES * s->in * s->kh * s->kw;
}

static float *sums_of(const sums *s, const dg_args *a, int64_t group)
{
    return (float *)((char *)a->workspace + s->sums_at) + group * group_floats(s);
}

/* Adds a band's sums of dY's channels begin..end-1 to `to`. */
static void add_band(const dg_args *a, const band *b, int64_t begin, int64_t end, uint32_t *words,
                     float *to, bool add)
{
    const sums *s = a->handle;
    int64_t rows = rows_seen(s, b->rows), blocks = up(end - begin, BLOCK), lanes = up(s->in, LANES),
            x_block = b->images * rows * s->seen_pairs * LANES;
    tile t = { .pairs = s->pairs,
               .rows = b->rows,
               .images = b->images,
               .x_row = s->seen_pairs * LANES,
               .x_image = rows * s->seen_pairs * LANES,
               .dy_block = b->images * b->rows * s->pairs * LANES,
               .to_channel = s->kh * s->kw * LANES,
               .to_block = s->in * s->kh * s->kw * LANES,
               .add = add };

    pack_x(s, &a->t[0], b, words);
    pack_dy(s, &a->t[1], b, begin, end, words + s->x_words);
    for (int64_t k = 0; k < lanes * blocks; k++) {
        int64_t i = s->dy_stays ? k / blocks : k % lanes,
                block = s->dy_stays ? k % blocks : k / lanes;
        int64_t o = begin + block * BLOCK;

        t.x = words + i * x_block;
        t.dy = words + s->x_words + block * VECTORS * t.dy_block;
        t.to = to + o / LANES * t.to_block + i * LANES * t.to_channel;
        multiply_taps(s, t, up(min64(end - o, BLOCK), LANES), min64(s->in - i * LANES, LANES),
                      lanes * x_block);
    }
}

static void add_parts(void *ctx, int64_t begin, int64_t end, int thread)
{
    const dg_args *a = ctx;
    const sums *s = a->handle;

    (void)thread;
    for (int64_t part = begin; part < end; part++) {
        int64_t group = part / s->splits, o = part % s->splits * s->split;
        int64_t first = group * s->bands / s->groups, after = (group + 1) * s->bands / s->groups;
        uint32_t *words = (uint32_t *)a->workspace + part * (s->x_words + s->dy_words);

        for (int64_t k = first; k < after; k++) {
            band b = band_of(s, k);

            add_band(a, &b, o, min64(o + s->split, s->out), words, sums_of(s, a, group), k > first);
        }
    }
}

/* ---- the result ------------------------------------------------------------------------------ */

/* dW for LANES output channels each. */
static void arrange(void *ctx, int64_t begin, int64_t end, int thread)
{
    const dg_args *a = ctx;
    const sums *s = a->handle;
    int64_t length = s->in * s->kh * s->kw;

    (void)thread;
    for (int64_t o = begin * LANES; o < end * LANES; o += LANES)
        for (int64_t k = 0; k < length; k += LANES) {
            int64_t n = min64(length - k, LANES);
            float *to = (float *)a->t[2].data + o * length + k;
            vf r[LANES];

            for (int64_t i = 0; i < LANES; i++) {
                r[i] = (vf){ 0 };
                for (int64_t g = 0; g < s->groups && i < n; g++)
                    r[i] += vf_load(sums_of(s, a, g) + o * length + (k + i) * LANES);
            }
            vf_transpose(r);
            for (int64_t i = 0; i < min64(s->out - o, LANES); i++)
                vf_store_n(to + i * length, r[i], n);
        }
}

static int run(const dg_args *a)
{
    const sums *s = a->handle;

    dg_parallel_for(a->threads, s->splits * s->groups, add_parts, (void *)a);
    dg_parallel_for(a->threads, up(s->out, LANES), arrange, (void *)a);
    return 0;
}

/* ---- layout ---------------------------------------------------------------------------------- */

static int number_grids(sums *s)
{
    s->grid = malloc((size_t)(2 * s->stride * s->stride) * sizeof *s->grid);
    if (!s->grid)
        return -DG_EMEMORY;
    for (int64_t g = 0; g < 2 * s->stride * s->stride; g++) {
        int64_t h = g / 2 / s->stride, w = g / 2 % s->stride + g % 2 * s->stride;

        s->grid[g] = h < s->kh && w < s->kw ? (int)s->grids++ : -1;
    }
    return 0;
}

/* Chooses the shares by which a thread has the least to do: products, elements to be packed (each
 * worth 8 products), and sums to be added. */
static void share_out(sums *s, int threads)
{
    double pixels = (double)(s->images * s->height * s->width), least = INFINITY;
    double weights = (double)(s->in * s->kh * s->kw);

    s->split = up(s->out, LANES) * LANES;
    s->splits = s->groups = 1;
    for (int64_t n = 1; n <= threads && (n == 1 || n * BLOCK <= s->out); n++) {
        int64_t split = up(up(s->out, n), LANES) * LANES, splits = up(s->out, split);
        int64_t groups = max64(min64(threads / splits, s->images * s->height), 1);
        double each = pixels / (double)groups;
        double packed = each * (double)(s->in * s->grids + split);
        double cost =
            each * (double)split * weights / 8 + packed + 2 * (double)(groups * s->out) * weights;

        if (cost < least) {
            least = cost;
            s->split = split;
            s->splits = splits;
            s->groups = groups;
        }
    }
}

/* Bands that fit into the cache; smaller ones where the groups' shares of them would be unequal. */
static void cut_bands(sums *s)
{
    int64_t extra = rows_seen(s, 0);
    int64_t dy = s->pairs * s->split * 4, dy_block = s->pairs * min64(s->split, BLOCK) * 4,
            x_block = s->seen_pairs * LANES * s->grids * 4, x = x_block * up(s->in, LANES);
    int64_t most, pieces;

    s->dy_stays = dy + x_block < dy_block + x;
    if (s->dy_stays)
        x = x_block;
    else
        dy = dy_block;
    most = max64((BAND_BYTES - extra * x) / (dy + x), 1); /* rows */
    s->band_images = max64(min64(most / (s->height + extra), s->images / s->groups), 1);
    pieces = up(s->height, most); /* of an image */
    while (s->band_images == 1 && pieces < s->height && s->images * pieces % s->groups &&
           s->images * pieces < 16 * s->groups)
        pieces++;
    s->band_rows = up(s->height, pieces);
    s->bands = up(s->images, s->band_images) * up(s->height, s->band_rows);
    s->groups = min64(s->groups, s->bands);
}

static sums *maps_of(const dg_prepare *p)
{
    const conv_attr *at = p->attr;
    const int64_t *x = p->t[0].shape.d, *dy = p->t[1].shape.d;
    sums *s = calloc(1, sizeof *s);

    if (!s)
        return NULL;
    s->images = dy[0];
    s->height = dy[1];
    s->width = dy[2];
    s->out = dy[3];
    s->seen_height = x[1];
    s->seen_width = x[2];
    s->in = x[3];
    s->kh = at->h;
    s->kw = at->w;
    s->stride = at->stride;
    s->pad = at->pad;
    s->pairs = up(s->width, 2);
    s->seen_pairs = s->pairs + (s->kw - 1) / s->stride / 2;
    return s;
}

static void release(void *handle)
{
    sums *s = handle;

    if (s)
        free(s->grid);
    free(s);
}

static int prepare(dg_prepare *p)
{
    sums *s = maps_of(p);
    int rc = s ? number_grids(s) : -DG_EMEMORY;

    if (rc < 0) {
        release(s);
        return rc;
    }
    share_out(s, p->threads);
    cut_bands(s);
    s->x_words = s->grids * up(s->in, LANES) * LANES * s->seen_pairs * s->band_images *
                 rows_seen(s, s->band_rows);
    s->dy_words = s->split * s->pairs * s->band_images * s->band_rows;
    s->sums_at = s->splits * s->groups * (s->x_words + s->dy_words) * (int64_t)sizeof(uint32_t);
    p->handle = s;
    p->workspace_bytes = (size_t)s->sums_at + (size_t)(s->groups * group_floats(s)) * sizeof(float);
    return 0;
}

extern const dg_kernel DG_SIMD_SYMBOL(conv_weights);
const dg_kernel DG_SIMD_SYMBOL(conv_weights) = { prepare, run, release };
