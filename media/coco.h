/* coco.h: what media adds to the COCO data sets of data.h: ground truth for scoring only, and
 * detections in COCO's result form. */
#ifndef DG_MEDIA_COCO_H
#define DG_MEDIA_COCO_H

#include <detrgraph/data.h>

#include "base/str.h"
#include "media/image.h"

/* dg_coco_open with limits. for_training: images need width, height and file_name; false (scoring
 * only): they need only an id. max_bytes: largest size of the index ("coco-memory" beyond it); 0:
 * no limit. */
int dg_coco_open_as(dg_coco **out, const char *path, bool for_training, size_t max_bytes,
                    dg_diag *d) DG_MUST_USE;
/* The same from text in memory; errors call it `name`. */
int dg_coco_parse(dg_coco **out, const char *text, size_t n, const char *name, bool for_training,
                  size_t max_bytes, dg_diag *d) DG_MUST_USE;

typedef struct dg_faults dg_faults; /* media/faults.h */

/* dg_coco_open for files whose images may lack width and height, which are 0 then; and what reads
 * those from the images' headers. With faults, unreadable images keep 0; otherwise one with objects
 * is an error, or counted with `replace`. */
int dg_coco_open_unsized(dg_coco **out, const char *path, dg_diag *d) DG_MUST_USE;
int dg_coco_take_sizes(dg_coco *c, const char *folder, bool replace, const dg_faults *faults,
                       dg_diag *d) DG_MUST_USE;

/* Like dg_coco_open, but notes errors in faults and leaves the records out. Fails only when the
 * file cannot be read at all. */
int dg_coco_survey(dg_coco **out, const char *path, dg_faults *faults, dg_diag *d) DG_MUST_USE;

/* Cuts an annotation's box to the image. False: nothing is left to train on. *fault: what is wrong
 * with the box, a dg_box_fault, or -1. */
bool dg_coco_box(dg_box *out, int *fault, const dg_coco_annotation *x, const dg_coco_image *im);

/* Finds the EXIF orientation under which the file has the annotated width and height;
 * "image-differs" if none does. */
int dg_coco_turn(int *orientation, const dg_image_header *h, const dg_coco_image *im,
                 const char *path, dg_diag *d) DG_MUST_USE;

/* Gives a sample of image i its masks, if the index has any. */
int dg_coco_sample_masks(dg_sample *sm, const dg_coco *c, int i, dg_diag *d) DG_MUST_USE;

/* Fills the report; per_class: one count per class, zeroed by the caller. dg_coco_open calls it. */
void dg_coco_count(dg_data_report *r, int64_t *per_class, const dg_coco *c);

/* Detections in COCO's result form: [{image_id, category_id, bbox, score}, ...]. An image that the
 * truth lacks is an error; detections of unknown categories are skipped and counted in a
 * warning. */
typedef struct dg_found {
    dg_detection *items;
    dg_rle *masks; /* of items; NULL: they were not read */
    int64_t n;
} dg_found;
int dg_detections_read(dg_found *out, const char *path, const dg_coco *truth, dg_diag *d)
    DG_MUST_USE;
int dg_detections_parse(dg_found *out, const char *text, size_t n, const char *name,
                        const dg_coco *truth, dg_diag *d) DG_MUST_USE;
/* With their masks, against a truth with masks; boxes may be missing and are 0 then. Also
 * "mask-missing", "mask-form". */
int dg_detections_read_masks(dg_found *out, const char *path, const dg_coco *truth, dg_diag *d)
    DG_MUST_USE;
void dg_detections_free(dg_found *x);

#endif
