/* draw.h: draws boxes with names and scores on pictures, and mosaics of pictures. */
#ifndef DG_MEDIA_DRAW_H
#define DG_MEDIA_DRAW_H

#include <detrgraph/data.h>

typedef struct dg_mark {
    dg_box box; /* in pixels of the image */
    int label;
    double score; /* negative: not shown */
} dg_mark;

typedef struct dg_tile {
    const dg_image *image;
    const dg_mark *marks; /* drawn in order: best last */
    int n_marks;
    const char *caption; /* NULL: none */
} dg_tile;

/* Names by label; a label past the end or a NULL name shows as "class 7". */
typedef struct dg_labels {
    const char *const *name;
    int n;
} dg_labels;

/* Draws the picture with its marks, enlarged by a whole factor until its longer side has at least
 * min_side pixels, so that names on small pictures are legible; 0: never enlarged. */
int dg_draw_picture(dg_image *out, dg_scratch *s, const dg_tile *tile, dg_labels names,
                    int min_side, dg_diag *d) DG_MUST_USE;

/* Draws n >= 1 tiles in rows of `columns` >= 1, each fitted into tile_w x tile_h px, with captions
 * below. */
int dg_draw_mosaic(dg_image *out, dg_scratch *s, const dg_tile *tiles, int n, int columns,
                   int tile_w, int tile_h, dg_labels names, dg_diag *d) DG_MUST_USE;

/* Warns, with "font-missing", of names whose letters no font of this machine has. */
void dg_draw_check_names(const dg_coco_class *classes, int n, dg_diag *d);

/* Tints the pixels of a mask, which is as large as the image, in the colour of its class. */
void dg_draw_mask(dg_image *im, const dg_mask *m, int label);

/* The colour (R, G, B) of a class; neighbouring labels differ clearly. */
void dg_draw_color(uint8_t rgb[3], int label);

#endif
