/* image.h: what media adds to the images of data.h: decoding options, orientation, writers. */
#ifndef DG_MEDIA_IMAGE_H
#define DG_MEDIA_IMAGE_H

#include <detrgraph/data.h>

typedef struct dg_decode {
    bool stored; /* keep the stored pixels: ignore EXIF orientation */
    int reduce;  /* JPEG: decode at 1/1, 1/2, 1/4 or 1/8 of the size; 0: 1. Ignored for others */
} dg_decode;

/* dg_image_decode and dg_image_read with options. */
int dg_image_decode_as(dg_image *out, dg_scratch *s, const void *bytes, size_t n, const char *name,
                       dg_decode how, dg_diag *d) DG_MUST_USE;
int dg_image_read_as(dg_image *out, dg_scratch *s, const char *path, dg_decode how, dg_diag *d)
    DG_MUST_USE;

/* The header of an image file: width and height as stored, EXIF orientation 1..8. */
typedef struct dg_image_header {
    int w, h, orientation;
} dg_image_header;
int dg_image_header_decode(dg_image_header *out, const void *bytes, size_t n, const char *name,
                           dg_diag *d) DG_MUST_USE;
int dg_image_header_read(dg_image_header *out, const char *path, dg_diag *d) DG_MUST_USE;

/* "png", "bmp", "webp", "tif" or "jpg": the ending that files of these bytes have. */
const char *dg_image_ending(const void *bytes, size_t n);

/* True if the name has an image's extension, including kinds that cannot be decoded, so that those
 * give an error instead of being skipped silently. */
bool dg_image_named(const char *path);

/* Turns the image upright. Orientations 0 and 1 leave *im unchanged; others allocate. */
int dg_image_turn(dg_image *im, dg_scratch *s, int orientation, dg_diag *d) DG_MUST_USE;

/* Writes PNG or JPEG by the extension (.png, .jpg, .jpeg); the file appears whole or not at all. */
int dg_image_write(const char *path, const dg_image *im, dg_diag *d) DG_MUST_USE;

/* dg_image_new without clearing the pixels; on failure *out is unchanged. */
int dg_image_alloc(dg_image *out, dg_scratch *s, int w, int h, dg_diag *d) DG_MUST_USE;

/* Fails with "image-size" unless both sides are 1..DG_IMAGE_MAX_SIDE and w * h <=
 * DG_IMAGE_MAX_PIXELS. */
int dg_image_check_size(int64_t w, int64_t h, const char *name, dg_diag *d) DG_MUST_USE;

/* ---- codecs: one file per foreign library; call them through the functions above ------------- */

/* An encoded file in memory, freed with free(). */
typedef struct dg_encoded {
    uint8_t *p;
    size_t n;
} dg_encoded;

bool dg_is_jpeg(const uint8_t *p, size_t n);
bool dg_is_png(const uint8_t *p, size_t n);
bool dg_is_bmp(const uint8_t *p, size_t n);
bool dg_is_webp(const uint8_t *p, size_t n);
bool dg_is_tiff(const uint8_t *p, size_t n);
/* True if the file holds all pixels that its header promises. */
bool dg_bmp_is_whole(const uint8_t *p, size_t n);
bool dg_webp_is_whole(const uint8_t *p, size_t n);
bool dg_tiff_is_whole(const uint8_t *p, size_t n);
/* out NULL: read only the header. */
int dg_jpeg_decode(dg_image *out, dg_image_header *header, dg_scratch *s, const uint8_t *p,
                   size_t n, const char *name, int reduce, dg_diag *d) DG_MUST_USE;
int dg_png_decode(dg_image *out, dg_image_header *header, dg_scratch *s, const uint8_t *p, size_t n,
                  const char *name, dg_diag *d) DG_MUST_USE;
int dg_bmp_decode(dg_image *out, dg_image_header *header, dg_scratch *s, const uint8_t *p, size_t n,
                  const char *name, dg_diag *d) DG_MUST_USE;
/* In builds without their libraries these fail with "image-unsupported", which names the package.
 */
int dg_webp_decode(dg_image *out, dg_image_header *header, dg_scratch *s, const uint8_t *p,
                   size_t n, const char *name, dg_diag *d) DG_MUST_USE;
int dg_tiff_decode(dg_image *out, dg_image_header *header, dg_scratch *s, const uint8_t *p,
                   size_t n, const char *name, dg_diag *d) DG_MUST_USE;
int dg_jpeg_encode(dg_encoded *out, const dg_image *im, int quality, const char *name, dg_diag *d)
    DG_MUST_USE;
int dg_png_encode(dg_encoded *out, const dg_image *im, const char *name, dg_diag *d) DG_MUST_USE;
/* Orientation 1..8 from an EXIF block that begins with "Exif\0\0"; 1 if absent or invalid. */
int dg_exif_orientation(const uint8_t *p, size_t n);
/* The same of a block without these bytes, as PNG and WebP have it; of one with them, too. */
int dg_exif_orientation_bare(const uint8_t *p, size_t n);

#endif
