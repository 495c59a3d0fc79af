/* bmp.c: reads Windows bitmaps: 1, 4, 8, 16, 24 and 32 bits, upside down or not, uncompressed or in
 * run lengths (RLE4, RLE8). Alpha is dropped. Embedded JPEG and PNG are refused. */
#include "media/image.h"

#include "base/diag.h"

enum { RGB, RLE8, RLE4, BITFIELDS, ALPHABITFIELDS = 6 }; /* compression */

typedef struct bitmap {
    const uint8_t *p;
    size_t n;
    const char *name;
    dg_diag *d;
    int64_t w, h;
    bool down; /* the first row is the upper one */
    int bits, compression;
    size_t palette, n_colours, colour_bytes, pixels; /* offsets in p */
    uint32_t mask[3];
} bitmap;

static int refuse(const bitmap *b, const char *why)
{
    return dg_fail(b->d, DG_EINPUT, (dg_where){ .file = b->name }, "bmp-data", "BMP: %s", why);
}

static uint32_t word(const bitmap *b, size_t at, int bytes)
{
    uint32_t v = 0;

    for (int i = 0; i < bytes; i++)
        v |= (uint32_t)b->p[at + (size_t)i] << (8 * i);
    return v;
}

bool dg_is_bmp(const uint8_t *p, size_t n)
{
    return n >= 26 && p[0] == 'B' && p[1] == 'M' && !p[6] && !p[7];
}

static int check_form(const bitmap *b)
{
    const bool plain = b->bits == 1 || b->bits == 4 || b->bits == 8 || b->bits == 16 ||
                       b->bits == 24 || b->bits == 32;
    const bool fields = b->compression == BITFIELDS || b->compression == ALPHABITFIELDS;

    if (!plain)
        return refuse(b, "its number of bits is not 1, 4, 8, 16, 24 or 32");
    if (b->compression == RGB || (fields && (b->bits == 16 || b->bits == 32)) ||
        (b->compression == RLE8 && b->bits == 8 && !b->down) ||
        (b->compression == RLE4 && b->bits == 4 && !b->down))
        return 0;
    return refuse(b, "its compression is not read: save it as PNG");
}

static int read_header(bitmap *b)
{
    const uint32_t size = word(b, 14, 4);
    const bool old = size == 12; /* OS/2 */
    int32_t h;

    if ((!old && size < 40) || size > 124 || b->n < 14 + (size_t)size)
        return refuse(b, "the header is cut, or of an unknown kind");
    b->pixels = word(b, 10, 4);
    b->w = (int32_t)word(b, 18, old ? 2 : 4);
    h = (int32_t)word(b, old ? 20 : 22, old ? 2 : 4);
    b->down = h < 0;
    b->h = b->down ? -(int64_t)h : h;
    b->bits = (int)word(b, old ? 24 : 28, 2);
    b->compression = old ? RGB : (int)word(b, 30, 4);
    b->palette = 14 + (size_t)size;
    b->colour_bytes = old ? 3 : 4;
    b->n_colours = old ? 0 : word(b, 46, 4);
    if (check_form(b) < 0)
        return -DG_EINPUT;
    if (b->bits == 16 || b->bits == 32) {
        const bool fields = b->compression != RGB;

        if (fields && b->n < 66)
            return refuse(b, "its masks are cut off");
        for (int i = 0; i < 3; i++)
            b->mask[i] = fields ? word(b, 54 + 4 * (size_t)i, 4)
                                : (b->bits == 16 ? 0x1fu << 5 * (2 - i) : 0xffu << 8 * (2 - i));
    }
    if (b->bits <= 8 && (!b->n_colours || b->n_colours > (size_t)1 << b->bits))
        b->n_colours = (size_t)1 << b->bits;
    if (b->bits <= 8 && b->palette + b->n_colours * b->colour_bytes > b->n)
        return refuse(b, "its palette is cut off");
    return dg_image_check_size(b->w, b->h, b->name, b->d);
}

/* The bits of a mask as 0..255. */
static uint8_t masked(uint32_t v, uint32_t mask)
{
    int shift = 0;

    if (!mask)
        return 0;
    while (!(mask >> shift & 1))
        shift++;
    return (uint8_t)((uint64_t)((v & mask) >> shift) * 255 / (mask >> shift));
}

static void put_colour(const bitmap *b, uint8_t rgb[3], uint32_t index)
{
    const size_t at = b->palette + (index < b->n_colours ? index : 0) * b->colour_bytes;

    for (size_t k = 0; k < 3; k++)
        rgb[k] = b->p[at + 2 - k];
}

static uint8_t *row_of(const bitmap *b, const dg_image *out, int64_t y)
{
    return out->rgb + 3 * (b->down ? y : b->h - 1 - y) * b->w;
}

static size_t stride_of(const bitmap *b)
{
    return ((size_t)b->w * (size_t)b->bits + 31) / 32 * 4;
}

static bool has_rows(const bitmap *b)
{
    return b->pixels <= b->n && (b->n - b->pixels) / stride_of(b) >= (size_t)b->h;
}

static int read_rows(const bitmap *b, dg_image *out)
{
    const size_t stride = stride_of(b);

    if (!has_rows(b))
        return refuse(b, "it is cut off");
    for (int64_t y = 0; y < b->h; y++) {
        const size_t row = b->pixels + (size_t)y * stride;
        uint8_t *to = row_of(b, out, y);

        for (size_t x = 0; x < (size_t)b->w; x++, to += 3) {
            if (b->bits <= 8) {
                const size_t bit = x * (size_t)b->bits;
                const uint32_t byte = b->p[row + bit / 8];

                put_colour(b, to, byte >> (8 - (size_t)b->bits - bit % 8) & ((1u << b->bits) - 1));
            } else if (b->bits == 24) {
                for (size_t k = 0; k < 3; k++)
                    to[k] = b->p[row + 3 * x + 2 - k];
            } else {
                const uint32_t v = word(b, row + x * (size_t)b->bits / 8, b->bits / 8);

                for (int k = 0; k < 3; k++)
                    to[k] = masked(v, b->mask[k]);
            }
        }
    }
    return 0;
}

static bool in_runs(const bitmap *b)
{
    return b->compression == RLE8 || b->compression == RLE4;
}

/* Run lengths; pixels that are left out have colour 0. out NULL: only looks for their end. */
static int read_runs(const bitmap *b, dg_image *out)
{
    const bool half = b->bits == 4;
    size_t at = b->pixels;
    int64_t x = 0, y = 0;

    for (int64_t i = 0; out && i < b->w * b->h; i++)
        put_colour(b, out->rgb + 3 * i, 0);
    while (at + 2 <= b->n && y < b->h) {
        const uint32_t n = b->p[at], v = b->p[at + 1];
        const bool raw = n == 0 && v >= 3;
        const size_t bytes = raw ? ((half ? (v + 1) / 2 : v) + 1) / 2 * 2 : 0;

        at += 2;
        if (n == 0 && v == 1)
            return 0;
        if (n == 0 && v == 0) {
            x = 0;
            y++;
            continue;
        }
        if (at + (n == 0 && v == 2 ? 2 : bytes) > b->n)
            break;
        if (n == 0 && v == 2) {
            x += b->p[at];
            y += b->p[at + 1];
            at += 2;
            continue;
        }
        for (uint32_t i = 0; out && i < (raw ? v : n); i++, x++) {
            const uint32_t byte = raw ? b->p[at + (half ? i / 2 : i)] : v;

            if (x < b->w)
                put_colour(b, row_of(b, out, y) + 3 * x,
                           !half   ? byte
                           : i % 2 ? byte & 15
                                   : byte >> 4);
        }
        at += bytes;
    }
    return y >= b->h ? 0 : refuse(b, "it is cut off");
}

int dg_bmp_decode(dg_image *out, dg_image_header *header, dg_scratch *s, const uint8_t *p, size_t n,
                  const char *name, dg_diag *d)
{
    bitmap b = { .p = p, .n = n, .name = name, .d = d };
    dg_image im;
    int rc = read_header(&b);

    if (rc < 0)
        return rc;
    *header = (dg_image_header){ (int)b.w, (int)b.h, 1 };
    if (!out)
        return 0;
    rc = dg_image_alloc(&im, s, (int)b.w, (int)b.h, d);
    if (rc == 0)
        rc = in_runs(&b) ? read_runs(&b, &im) : read_rows(&b, &im);
    if (rc == 0)
        *out = im;
    return rc;
}

bool dg_bmp_is_whole(const uint8_t *p, size_t n)
{
    dg_diag *quiet = dg_diag_open();
    bitmap b = { .p = p, .n = n, .name = "", .d = quiet };
    bool whole = read_header(&b) == 0 && (in_runs(&b) ? read_runs(&b, NULL) == 0 : has_rows(&b));

    dg_diag_close(&quiet);
    return whole;
}
