/* convert.h: a data set in another form. */
#ifndef DG_MEDIA_CONVERT_H
#define DG_MEDIA_CONVERT_H

#include "media/layout.h"

typedef struct dg_convert_options {
    const char *splits; /* parted by commas; NULL: those that belong together */
    dg_form     to;     /* not plain */
    bool        copy;   /* images are copied, else links to where they are */
    void      (*progress)(void *ctx, const char *what, int64_t done, int64_t all); /* or NULL */
    void       *ctx;
} dg_convert_options;

/* What was written, and what the form cannot hold. */
typedef struct dg_converted {
    dg_form from;
    int     n_splits;
    int64_t n_images, n_objects;
    int64_t n_crowd;     /* YOLO: crowd regions and difficult objects, left out */
    int64_t n_dropped;   /* YOLO: boxes without a side, or outside, left out */
    int64_t n_cut;       /* YOLO: boxes cut to their image */
    int64_t n_truncated; /* not VOC: marks left out */
    int64_t n_areas;     /* not COCO: areas of masks, which are not those of boxes, left out */
    int64_t n_renamed;   /* images whose name another one had, or which the form cannot hold */
} dg_converted;

/* The new folder appears whole or not at all. What a loader would refuse ends it. Fails with "convert-classes" where
 * splits list other classes, "convert-plain" where there are no labels, "convert-twice" where an image has two lists of
 * objects, "convert-split" and "convert-class" where the form has no word for a name. Nothing is written outside of the new folder,
 * whatever the annotations call their files. */
int dg_convert(dg_converted *out, const char *from, const char *to, const dg_convert_options *o, dg_diag *d) DG_MUST_USE;

#endif
