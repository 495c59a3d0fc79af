/* color.c: photometric changes in the 8-bit arithmetic of Pillow, in which the reference trains.
 *
 * Blending (ImageEnhance): out = a + f (b - a), where a is the degenerate image (black, mean gray
 * or gray); in single precision, clamped to 0..255, fraction dropped.
 *
 * Gray: (19595 R + 38470 G + 7471 B + 2^15) >> 16.
 *
 * Hue: to HSV with hue and saturation in 0..255 (fractions dropped), hue shifted modulo 256, and
 * back with rounding; Travis' hexagon formulas (Python's colorsys). */
#include "media/image.h"

static size_t n_bytes(const dg_image *im)
{
    return (size_t)im->w * (size_t)im->h * 3;
}

static uint8_t gray(const uint8_t *p)
{
    return (uint8_t)((19595u * p[0] + 38470u * p[1] + 7471u * p[2] + 0x8000u) >> 16);
}

static uint8_t blend(uint8_t from, uint8_t to, float f)
{
    float v = (float)from + f * (float)((int)to - (int)from);

    return v <= 0.0F ? 0 : v >= 255.0F ? 255 : (uint8_t)v;
}

/* Blends with one value for all pixels, through a table of the 256 cases. */
static void blend_all(dg_image *im, uint8_t from, float f)
{
    uint8_t table[256];

    for (int v = 0; v < 256; v++)
        table[v] = blend(from, (uint8_t)v, f);
    for (size_t i = 0, n = n_bytes(im); i < n; i++)
        im->rgb[i] = table[im->rgb[i]];
}

void dg_image_brightness(dg_image *im, double factor)
{
    blend_all(im, 0, (float)factor);
}

void dg_image_contrast(dg_image *im, double factor)
{
    uint64_t sum = 0, n = (uint64_t)im->w * (uint64_t)im->h;

    for (size_t i = 0; i < n; i++)
        sum += gray(im->rgb + 3 * i);
    blend_all(im, (uint8_t)((double)sum / (double)n + 0.5), (float)factor);
}

void dg_image_saturation(dg_image *im, double factor)
{
    for (size_t i = 0, n = n_bytes(im); i < n; i += 3) {
        uint8_t *p = im->rgb + i, g = gray(p);

        for (int c = 0; c < 3; c++)
            p[c] = blend(g, p[c], (float)factor);
    }
}

static uint8_t clip(int v)
{
    return (uint8_t)(v < 0 ? 0 : v > 255 ? 255 : v);
}

static int nearest(double v) /* v >= 0 */
{
    return (int)(v + 0.5);
}

static void to_hsv(uint8_t hsv[3], const uint8_t p[3])
{
    const uint8_t r = p[0], g = p[1], b = p[2];
    const uint8_t hi = r > g ? (r > b ? r : b) : (g > b ? g : b);
    const uint8_t lo = r < g ? (r < b ? r : b) : (g < b ? g : b);
    float span, hue, rc, gc, bc;
    double turn;

    hsv[2] = hi;
    if (hi == lo) {
        hsv[0] = hsv[1] = 0;
        return;
    }
    span = (float)(hi - lo);
    rc = (float)(hi - r) / span;
    gc = (float)(hi - g) / span;
    bc = (float)(hi - b) / span;
    if (r == hi)
        hue = bc - gc;
    else if (g == hi)
        hue = (float)(2.0 + (double)rc - (double)bc);
    else
        hue = (float)(4.0 + (double)gc - (double)rc);
    turn = (double)hue / 6.0 + 1.0; /* in [5/6, 2] */
    hue = (float)(turn < 1.0 ? turn : turn - 1.0);
    hsv[0] = clip((int)((double)hue * 255.0));
    hsv[1] = clip((int)((double)(span / (float)hi) * 255.0));
}

static void from_hsv(uint8_t p[3], const uint8_t hsv[3])
{
    const float v = hsv[2], s = (float)(hsv[1] / 255.0);
    const double place = (double)hsv[0] * 6.0 / 255.0;
    const int sector = (int)place;
    const float f = (float)(place - sector);
    const uint8_t whole = hsv[2];
    const uint8_t low = clip(nearest((double)v * (1.0 - (double)s)));
    const uint8_t fall = clip(nearest((double)v * (1.0 - (double)(s * f))));
    const uint8_t rise = clip(nearest((double)v * (1.0 - (double)s * (1.0 - (double)f))));
    const uint8_t wheel[6][3] = {
        { whole, rise, low }, { fall, whole, low }, { low, whole, rise },
        { low, fall, whole }, { rise, low, whole }, { whole, low, fall },
    };

    for (int c = 0; c < 3; c++)
        p[c] = hsv[1] == 0 ? whole : wheel[sector % 6][c];
}

void dg_image_hue(dg_image *im, double shift)
{
    /* truncated towards zero, then modulo 256 */
    const uint8_t step = (uint8_t)(int)(shift * 255.0);
    uint8_t hsv[3];

    for (size_t i = 0, n = n_bytes(im); i < n; i += 3) {
        to_hsv(hsv, im->rgb + i);
        hsv[0] = (uint8_t)(hsv[0] + step);
        from_hsv(im->rgb + i, hsv);
    }
}

void dg_image_channels(dg_image *im, const int order[3])
{
    for (size_t i = 0, n = n_bytes(im); i < n; i += 3) {
        uint8_t *p = im->rgb + i, old[3] = { p[0], p[1], p[2] };

        for (int c = 0; c < 3; c++)
            p[c] = old[order[c]];
    }
}

void dg_image_to_f32(float *out, const dg_image *im)
{
    for (size_t i = 0, n = n_bytes(im); i < n; i++)
        out[i] = (float)im->rgb[i] / 255.0F;
}
