/* convert.h: converts a data set to another form (`detrgraph data convert`). */
#ifndef DG_MEDIA_CONVERT_H
#define DG_MEDIA_CONVERT_H

#include "media/layout.h"

typedef struct dg_convert_options {
    const char *splits; /* comma-separated; NULL: the splits that belong together */
    dg_form to;         /* not DG_FORM_PLAIN */
    bool copy;          /* copy the images; false: link to them */
    double hold_out;    /* of a set without splits this share becomes "val"; 0: none */
    void (*progress)(void *ctx, const char *what, int64_t done, int64_t all); /* may be NULL */
    void *ctx;
} dg_convert_options;

/* What was written, and what the new form could not hold. */
typedef struct dg_converted {
    dg_form from;
    int n_splits;
    bool has_val; /* one of the splits is for validation */
    int64_t n_images, n_objects;
    int64_t n_crowd;     /* YOLO: crowd regions and difficult objects, dropped */
    int64_t n_dropped;   /* YOLO: boxes that are empty or outside the image, dropped */
    int64_t n_cut;       /* YOLO: boxes cut to the image */
    int64_t n_truncated; /* not VOC: "truncated" marks dropped */
    int64_t n_areas;     /* not COCO: mask areas (differing from the box's) dropped */
    int64_t n_renamed;   /* images renamed: name taken, or not allowed by the form */
} dg_converted;

/* Converts `from` into the new folder `to`, which appears whole or not at all. Anything that a
 * loader would refuse is an error. Fails with "convert-classes" (splits list different classes),
 * "convert-hold-out" (there are splits already), "convert-plain" (no labels), "convert-twice" (an
 * image has two lists of objects), "convert-split" and "convert-class" (a name that the form cannot
 * express). Never writes outside the new folder, whatever file names the annotations contain. */
int dg_convert(dg_converted *out, const char *from, const char *to, const dg_convert_options *o,
               dg_diag *d) DG_MUST_USE;

#endif
