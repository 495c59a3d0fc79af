/* coco.h: what media adds to the COCO data sets of data.h: truth for scoring alone, and
 * detections in COCO's result form. */
#ifndef DG_MEDIA_COCO_H
#define DG_MEDIA_COCO_H

#include <detrgraph/data.h>

#include "base/str.h"
#include "media/image.h"

/* dg_coco_open for files that only score: images need nothing but an id. max_bytes: what the
 * index may take ("coco-memory" beyond), 0 for no limit; for_training: width, height and
 * file_name are needed. */
int dg_coco_open_as(dg_coco **out, const char *path, bool for_training, size_t max_bytes,
                    dg_diag *d) DG_MUST_USE;
/* The same from text in memory; name is what errors call it. */
int dg_coco_parse(dg_coco **out, const char *text, size_t n, const char *name, bool for_training,
                  size_t max_bytes, dg_diag *d) DG_MUST_USE;

typedef struct dg_faults dg_faults; /* media/faults.h */

/* Like dg_coco_open, but what is wrong is noted in faults and left out. Fails where the file cannot be read at all. */
int dg_coco_survey(dg_coco **out, const char *path, dg_faults *faults, dg_diag *d) DG_MUST_USE;

/* What an annotation is to training: its box cut to the image. False: nothing to train on. *fault is a dg_box_fault,
 * or -1 where there is nothing to say. */
bool dg_coco_box(dg_box *out, int *fault, const dg_coco_annotation *x, const dg_coco_image *im);

/* Which orientation makes the file's image the one that the annotations describe; "image-differs" if none does. */
int dg_coco_turn(int *orientation, const dg_image_header *h, const dg_coco_image *im, const char *path,
                 dg_diag *d) DG_MUST_USE;

/* Fills the report; per_class: zeroed, one count a class. dg_coco_open has done it. */
void dg_coco_count(dg_data_report *r, int64_t *per_class, const dg_coco *c);

/* Detections of a file in COCO's result form: [{image_id, category_id, bbox, score}, ...]. An
 * image that the truth lacks is an error; categories it lacks are left out and counted in a
 * warning. */
typedef struct dg_found {
    dg_detection *items;
    int64_t       n;
} dg_found;
int dg_detections_read(dg_found *out, const char *path, const dg_coco *truth, dg_diag *d)
    DG_MUST_USE;
int  dg_detections_parse(dg_found *out, const char *text, size_t n, const char *name,
                         const dg_coco *truth, dg_diag *d) DG_MUST_USE;
void dg_detections_free(dg_found *x);

#endif
