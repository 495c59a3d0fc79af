/* rle.h: masks from COCO's forms; data.h has what is public. */
#ifndef DG_MEDIA_RLE_H
#define DG_MEDIA_RLE_H

#include <detrgraph/data.h>

/* The pixels of polygons and run lengths are collected column by column: [w][h]. */
typedef struct dg_columns {
    int w, h;
    uint8_t *on; /* zeroed; w*h bytes of dg_try_alloc */
} dg_columns;
bool dg_columns_open(dg_columns *c, int w, int h); /* false: out of memory */
void dg_columns_close(dg_columns *c);
/* Adds the inside of a polygon of n points x, y in pixels: the same pixels as the official tools.
 */
void dg_columns_polygon(dg_columns *c, const double *xy, int n);
int dg_columns_encode(dg_rle *out, const dg_columns *c, dg_diag *d) DG_MUST_USE;

/* Run lengths from their text: 6 bits a character, from '0', differences from the run before the
 * last one. False: it is no such text, or does not cover w*h pixels. *no_memory tells why else. */
bool dg_rle_parse(dg_rle *out, const char *text, int w, int h, bool *no_memory);
/* NUL-terminated text of dg_try_alloc; NULL: out of memory. */
char *dg_rle_text(const dg_rle *r);

/* Byte of a JSON text of n bytes where the mask stands that a reader found at this offset (behind a
 * byte order mark); 0: there is none. */
size_t dg_mask_place(const char *text, size_t n, size_t offset);

/* A mask that stands at byte `at` of a JSON text of n bytes: polygons or run lengths, of an image
 * of w x h pixels. name, noun and id are for errors: the file, and whose mask it is. */
typedef struct dg_mask_text {
    const char *text;
    size_t n, at;
    const char *name, *noun;
    int64_t id;
    int w, h;
    dg_diag *d;
} dg_mask_text;
/* Errors: "mask-form", "image-memory". */
int dg_mask_read(dg_rle *out, const dg_mask_text *from) DG_MUST_USE;

#endif
