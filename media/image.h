/* image.h: what media adds to the images of data.h: decoding with options, orientation, writers. */
#ifndef DG_MEDIA_IMAGE_H
#define DG_MEDIA_IMAGE_H

#include <detrgraph/data.h>

typedef struct dg_decode {
    bool stored; /* leave the pixels as stored: no EXIF orientation */
    int  reduce; /* JPEG: decode at 1/1, 1/2, 1/4 or 1/8 of the size; 0 is 1. PNG: ignored */
} dg_decode;

/* dg_image_decode and dg_image_read with options. */
int dg_image_decode_as(dg_image *out, dg_scratch *s, const void *bytes, size_t n, const char *name,
                       dg_decode how, dg_diag *d) DG_MUST_USE;
int dg_image_read_as(dg_image *out, dg_scratch *s, const char *path, dg_decode how, dg_diag *d)
    DG_MUST_USE;

/* What a file's header says: size as stored and EXIF orientation, 1 to 8. */
typedef struct dg_image_header {
    int w, h, orientation;
} dg_image_header;
int dg_image_header_decode(dg_image_header *out, const void *bytes, size_t n, const char *name,
                           dg_diag *d) DG_MUST_USE;
int dg_image_header_read(dg_image_header *out, const char *path, dg_diag *d) DG_MUST_USE;

/* Is this what an image's file is called? Also kinds that cannot be read, so that they are not passed over in silence. */
bool dg_image_named(const char *path);

/* The image as it is to be looked at. Orientation 1 (and 0) leaves *im; others allocate. */
int dg_image_turn(dg_image *im, dg_scratch *s, int orientation, dg_diag *d) DG_MUST_USE;

/* Whole or not at all; by the name's ending (.png, .jpg, .jpeg). */
int dg_image_write(const char *path, const dg_image *im, dg_diag *d) DG_MUST_USE;

/* dg_image_new without the black; on failure *out stays as it was. */
int dg_image_alloc(dg_image *out, dg_scratch *s, int w, int h, dg_diag *d) DG_MUST_USE;

/* "image-size" unless 1..DG_IMAGE_MAX_SIDE a side and at most DG_IMAGE_MAX_PIXELS. */
int dg_image_check_size(int64_t w, int64_t h, const char *name, dg_diag *d) DG_MUST_USE;

/* ---- codecs, one foreign library a file; called through the above only --------------------- */

/* An encoded file in memory, freed with free(). */
typedef struct dg_encoded {
    uint8_t *p;
    size_t   n;
} dg_encoded;

bool dg_is_jpeg(const uint8_t *p, size_t n);
bool dg_is_png(const uint8_t *p, size_t n);
/* Both: out NULL reads the header only. */
int dg_jpeg_decode(dg_image *out, dg_image_header *header, dg_scratch *s, const uint8_t *p,
                   size_t n, const char *name, int reduce, dg_diag *d) DG_MUST_USE;
int dg_png_decode(dg_image *out, dg_image_header *header, dg_scratch *s, const uint8_t *p, size_t n,
                  const char *name, dg_diag *d) DG_MUST_USE;
int dg_jpeg_encode(dg_encoded *out, const dg_image *im, int quality, const char *name, dg_diag *d)
    DG_MUST_USE;
int dg_png_encode(dg_encoded *out, const dg_image *im, const char *name, dg_diag *d) DG_MUST_USE;
/* Orientation 1 to 8 out of an EXIF block that begins with "Exif\0\0"; 1 where it says nothing
 * valid. */
int dg_exif_orientation(const uint8_t *p, size_t n);

#endif
