/* image.c: the images of data.h: allocated, decoded, turned upright, written.
 *
 * EXIF orientation o tells where the stored row 0 and column 0 belong. The upright pixel (x, y) of
 * a w x h result comes from source pixel
 *    1: (x, y)          2: (w-1-x, y)         3: (w-1-x, h-1-y)        4: (x, h-1-y)
 *    5: (y, x)          6: (y, w-1-x)         7: (h-1-y, w-1-x)        8: (h-1-y, x)
 * where w and h are the result's; 5 to 8 exchange the sides. */
#include "media/image.h"

#include <stdlib.h>
#include <string.h>

#include "base/file.h"

static dg_where in_file(const char *name)
{
    return (dg_where){ name, 0, 0, NULL };
}

int dg_image_check_size(int64_t w, int64_t h, const char *name, dg_diag *d)
{
    if (w >= 1 && h >= 1 && w <= DG_IMAGE_MAX_SIDE && h <= DG_IMAGE_MAX_SIDE &&
        w * h <= DG_IMAGE_MAX_PIXELS)
        return 0;
    return dg_fail(
        d, DG_EINPUT, in_file(name), "image-size",
        "an image of %lld x %lld pixels; sides from 1 to %d and at most %d pixels are accepted",
        (long long)w, (long long)h, DG_IMAGE_MAX_SIDE, DG_IMAGE_MAX_PIXELS);
}

int dg_image_alloc(dg_image *out, dg_scratch *s, int w, int h, dg_diag *d)
{
    uint8_t *rgb;
    int rc = dg_image_check_size(w, h, NULL, d);

    if (rc < 0)
        return rc;
    rgb = dg_scratch_alloc(s, (size_t)w * (size_t)h * 3);
    if (!rgb)
        return dg_fail(d, DG_EMEMORY, DG_NOWHERE, "image-memory",
                       "no memory for an image of %d x %d pixels", w, h);
    *out = (dg_image){ w, h, rgb };
    return 0;
}

int dg_image_new(dg_image *out, dg_scratch *s, int w, int h, dg_diag *d)
{
    int rc = dg_image_alloc(out, s, w, h, d);

    if (rc == 0)
        memset(out->rgb, 0, (size_t)w * (size_t)h * 3);
    return rc;
}

int dg_image_copy(dg_image *out, dg_scratch *s, const dg_image *in, dg_diag *d)
{
    const uint8_t *rgb = in->rgb; /* read before out is written: out may be in */
    int rc = dg_image_alloc(out, s, in->w, in->h, d);

    if (rc == 0)
        memcpy(out->rgb, rgb, (size_t)out->w * (size_t)out->h * 3);
    return rc;
}

/* ---- reading --------------------------------------------------------------------------------- */

static int decode(dg_image *out, dg_image_header *header, dg_scratch *s, const void *bytes,
                  size_t n, const char *name, int reduce, dg_diag *d)
{
    if (dg_is_jpeg(bytes, n))
        return dg_jpeg_decode(out, header, s, bytes, n, name, reduce, d);
    if (dg_is_png(bytes, n))
        return dg_png_decode(out, header, s, bytes, n, name, d);
    if (dg_is_bmp(bytes, n))
        return dg_bmp_decode(out, header, s, bytes, n, name, d);
    if (dg_is_webp(bytes, n))
        return dg_webp_decode(out, header, s, bytes, n, name, d);
    if (dg_is_tiff(bytes, n))
        return dg_tiff_decode(out, header, s, bytes, n, name, d);
    if (n == 0)
        return dg_fail(d, DG_EINPUT, in_file(name), "image-unknown",
                       "the file is empty, expected a JPEG, PNG, BMP, WebP or TIFF image");
    return dg_fail(
        d, DG_EINPUT, in_file(name), "image-unknown",
        "not a JPEG, PNG, BMP, WebP or TIFF file (its first byte is 0x%02x); other formats must "
        "be converted",
        ((const uint8_t *)bytes)[0]);
}

int dg_image_decode_as(dg_image *out, dg_scratch *s, const void *bytes, size_t n, const char *name,
                       dg_decode how, dg_diag *d)
{
    dg_image_header header = { 0 };
    int rc = decode(out, &header, s, bytes, n, name, how.reduce, d);

    if (rc < 0 || how.stored)
        return rc;
    return dg_image_turn(out, s, header.orientation, d);
}

int dg_image_decode(dg_image *out, dg_scratch *s, const void *bytes, size_t n, const char *name,
                    dg_diag *d)
{
    return dg_image_decode_as(out, s, bytes, n, name, (dg_decode){ 0 }, d);
}

int dg_image_read_as(dg_image *out, dg_scratch *s, const char *path, dg_decode how, dg_diag *d)
{
    char *bytes = NULL;
    size_t n = 0;
    int rc;

    DG_TRY(dg_file_read(&bytes, &n, path, DG_IMAGE_MAX_PIXELS, d));
    DG_TRY(dg_image_decode_as(out, s, bytes, n, path, how, d));
out:
    dg_free(bytes);
    return rc;
}

int dg_image_read(dg_image *out, dg_scratch *s, const char *path, dg_diag *d)
{
    return dg_image_read_as(out, s, path, (dg_decode){ 0 }, d);
}

const char *dg_image_ending(const void *bytes, size_t n)
{
    return dg_is_png(bytes, n)    ? "png"
           : dg_is_bmp(bytes, n)  ? "bmp"
           : dg_is_webp(bytes, n) ? "webp"
           : dg_is_tiff(bytes, n) ? "tif"
                                  : "jpg";
}

int dg_image_header_decode(dg_image_header *out, const void *bytes, size_t n, const char *name,
                           dg_diag *d)
{
    return decode(NULL, out, NULL, bytes, n, name, 0, d);
}

int dg_image_header_read(dg_image_header *out, const char *path, dg_diag *d)
{
    dg_mapping m = { 0 };
    int rc;

    DG_TRY(dg_file_map(&m, path, d));
    DG_TRY(dg_image_header_decode(out, m.p, m.n, path, d));
out:
    dg_file_unmap(&m);
    return rc;
}

int dg_image_size(int *w, int *h, const char *path, dg_diag *d)
{
    dg_image_header header = { 0 };
    int rc = dg_image_header_read(&header, path, d);

    if (rc < 0)
        return rc;
    *w = header.orientation >= 5 ? header.h : header.w;
    *h = header.orientation >= 5 ? header.w : header.h;
    return 0;
}

bool dg_image_named(const char *path)
{
    static const char *const ends[] = { ".jpg", ".jpeg", ".png",  ".bmp",
                                        ".gif", ".tif",  ".tiff", ".webp" };

    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++)
        if (dg_path_ends(path, ends[i]))
            return true;
    return false;
}

/* ---- turning --------------------------------------------------------------------------------- */

int dg_image_turn(dg_image *im, dg_scratch *s, int orientation, dg_diag *d)
{
    const dg_image in = *im;
    const bool swap = orientation >= 5;
    const bool right = orientation == 2 || orientation == 3 || orientation == 6 || orientation == 7;
    const bool down = orientation == 3 || orientation == 4 || orientation == 7 || orientation == 8;
    ptrdiff_t row = (ptrdiff_t)in.w * 3, dx, dy;
    const uint8_t *start = in.rgb;
    int rc;

    if (orientation <= 1 || orientation > 8)
        return 0;
    rc = dg_image_alloc(im, s, swap ? in.h : in.w, swap ? in.w : in.h, d);
    if (rc < 0)
        return rc;
    /* Source offsets, in bytes, of one step right and one step down in the result; mirrored axes
     * start at their end. */
    dx = swap ? row : 3;
    dy = swap ? 3 : row;
    if (right)
        start += dx * (im->w - 1);
    if (down)
        start += dy * (im->h - 1);
    dx = right ? -dx : dx;
    dy = down ? -dy : dy;
    for (int y = 0; y < im->h; y++) {
        const uint8_t *src = start + dy * y;
        uint8_t *dst = im->rgb + (ptrdiff_t)y * im->w * 3;

        for (int x = 0; x < im->w; x++, src += dx, dst += 3)
            memcpy(dst, src, 3);
    }
    return 0;
}

/* ---- writing --------------------------------------------------------------------------------- */

int dg_image_write(const char *path, const dg_image *im, dg_diag *d)
{
    dg_encoded file = { 0 };
    int rc;

    if (dg_path_ends(path, ".png"))
        rc = dg_png_encode(&file, im, path, d);
    else if (dg_path_ends(path, ".jpg") || dg_path_ends(path, ".jpeg"))
        rc = dg_jpeg_encode(&file, im, 90, path, d);
    else
        rc = dg_fail(d, DG_EINPUT, in_file(path), "image-kind",
                     "cannot tell how to write this image; "
                     "end its name in .png or .jpg");
    if (rc == 0)
        rc = dg_file_write(path, file.p, file.n, d);
    free(file.p);
    return rc;
}
