/* data.h: images, objects and samples; COCO data sets and COCO scores. For writing loader, augment,
 * batch and evaluate nodes.
 *
 * Pixels are 8-bit RGB, rows top down without gaps. Boxes are x1, y1, x2, y2 in pixels of their
 * image; a pixel's left edge is its index, so a whole image is 0, 0, w, h. Functions that change an
 * image in place cannot fail; functions that make one take the scratch that will own it. None draws
 * random numbers: the caller passes factors and offsets. */
#ifndef DETRGRAPH_DATA_H
#define DETRGRAPH_DATA_H

#include <detrgraph/core.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- memory ---------------------------------------------------------------------------------- */

/* Memory of one sample or one batch: grows while nodes work, is reset as a whole and reused. One
 * thread at a time. */
typedef struct dg_scratch dg_scratch;

/* max_bytes: limit; 0: none. NULL if out of memory. */
DG_PUBLIC dg_scratch *dg_scratch_open(size_t max_bytes);
DG_PUBLIC void dg_scratch_close(dg_scratch **s);
/* Frees every allocation; keeps the memory for the next sample. */
DG_PUBLIC void dg_scratch_reset(dg_scratch *s);
/* Not zeroed, aligned to 64; NULL at the limit or when out of memory. */
DG_PUBLIC void *dg_scratch_alloc(dg_scratch *s, size_t bytes) DG_MUST_USE;
DG_PUBLIC size_t dg_scratch_bytes(const dg_scratch *s);

/* ---- images ---------------------------------------------------------------------------------- */

typedef struct dg_image {
    int w, h;
    uint8_t *rgb; /* h rows of 3 w bytes; owned by the scratch */
} dg_image;

enum { DG_IMAGE_MAX_SIDE = 32768, DG_IMAGE_MAX_PIXELS = 256 << 20 };

/* A black image of w x h. Fails with "image-size" or "image-memory". */
DG_PUBLIC int dg_image_new(dg_image *out, dg_scratch *s, int w, int h, dg_diag *d) DG_MUST_USE;
DG_PUBLIC int dg_image_copy(dg_image *out, dg_scratch *s, const dg_image *in, dg_diag *d)
    DG_MUST_USE;

/* Reads a JPEG, PNG, BMP, WebP or TIFF, recognised by content, and turns it upright (EXIF
 * orientation). Gray, palette, alpha (dropped), 16 bit (high byte), CMYK and YCCK become RGB as in
 * Pillow's convert("RGB"). */
DG_PUBLIC int dg_image_read(dg_image *out, dg_scratch *s, const char *path, dg_diag *d) DG_MUST_USE;
/* The same from memory; errors call it `name`. */
DG_PUBLIC int dg_image_decode(dg_image *out, dg_scratch *s, const void *bytes, size_t n,
                              const char *name, dg_diag *d) DG_MUST_USE;
/* Width and height of the upright image; reads only the file's header. */
DG_PUBLIC int dg_image_size(int *w, int *h, const char *path, dg_diag *d) DG_MUST_USE;

/* Antialiased bilinear (triangle filter scaled by the reduction), with the same bits as Pillow. */
DG_PUBLIC int dg_image_resize(dg_image *out, dg_scratch *s, const dg_image *in, int w, int h,
                              dg_diag *d) DG_MUST_USE;
DG_PUBLIC int dg_image_resize_nearest(dg_image *out, dg_scratch *s, const dg_image *in, int w,
                                      int h, dg_diag *d) DG_MUST_USE;
/* Source index of output i when n_in pixels become n_out: floor(i * n_in / n_out) with the ratio in
 * single precision, as in the reference's collate. That ratio rounds down for some sizes (640 ->
 * 736: output 69 takes 59, not 60). */
DG_PUBLIC int dg_nearest_index(int i, int n_in, int n_out);

DG_PUBLIC int dg_image_crop(dg_image *out, dg_scratch *s, const dg_image *in, int x, int y, int w,
                            int h, dg_diag *d) DG_MUST_USE;
/* A w x h canvas of one colour with the image at (x, y), which must fit inside. */
DG_PUBLIC int dg_image_paste(dg_image *out, dg_scratch *s, const dg_image *in, int w, int h, int x,
                             int y, const uint8_t fill[3], dg_diag *d) DG_MUST_USE;
DG_PUBLIC void dg_image_flip(dg_image *im); /* mirrors left and right */

/* Photometric changes in Pillow's 8-bit arithmetic; factor 1 (hue: shift 0) changes nothing. */
/* scales the distance from black */
DG_PUBLIC void dg_image_brightness(dg_image *im, double factor);
DG_PUBLIC void dg_image_contrast(dg_image *im, double factor);   /* from the image's mean gray */
DG_PUBLIC void dg_image_saturation(dg_image *im, double factor); /* from each pixel's gray */
/* shift: -0.5..0.5 of the colour circle, truncated to steps of 1/255. */
DG_PUBLIC void dg_image_hue(dg_image *im, double shift);
/* New channel k becomes old channel order[k]. */
DG_PUBLIC void dg_image_channels(dg_image *im, const int order[3]);

/* value / 255 in single precision, correctly rounded; out [h, w, 3]. */
DG_PUBLIC void dg_image_to_f32(float *out, const dg_image *im);
/* f32 [h,w,channels] to [to_h,to_w,channels]: bilinear between the centres of pixels, without
 * antialiasing, as PyTorch's interpolate with align_corners=False. */
DG_PUBLIC void dg_resize_f32(float *out, int to_w, int to_h, const float *in, int w, int h,
                             int channels);

/* ---- samples --------------------------------------------------------------------------------- */

typedef struct dg_box {
    double x1, y1, x2, y2;
} dg_box;

typedef struct dg_object {
    dg_box box;
    int label; /* 0 .. classes - 1 */
    bool crowd;
    double area; /* of the object or its mask, in pixels of the original image, as in the file */
} dg_object;

/* The pixels of an object, a byte each: 1 or 0; h rows of w. Owned by the sample's scratch. */
typedef struct dg_mask {
    int w, h;
    uint8_t *on;
} dg_mask;

/* A mask as COCO's run lengths, column by column: runs of 0 and 1 alternate, 0 first. */
typedef struct dg_rle {
    int w, h;
    int64_t n;
    uint32_t *runs; /* from malloc; dg_rle_free frees them */
} dg_rle;
/* Fails with "image-memory". */
DG_PUBLIC int dg_rle_make(dg_rle *out, const dg_mask *m, dg_diag *d) DG_MUST_USE;
DG_PUBLIC void dg_rle_free(dg_rle *r);
DG_PUBLIC void dg_rle_draw(dg_mask *out, const dg_rle *r); /* fills a mask of its size */
DG_PUBLIC double dg_rle_area(const dg_rle *r);             /* pixels */
/* Intersection over union; crowd: over a's area. 0 if nothing is common. */
DG_PUBLIC double dg_rle_iou(const dg_rle *a, const dg_rle *b, bool crowd);

/* One image with its objects; the scratch owns all memory. */
typedef struct dg_sample {
    size_t size;      /* sizeof(dg_sample), set by the creator */
    uint64_t index;   /* global number of the sample in the run: the key of random draws */
    int item;         /* index in the data set */
    int64_t image_id; /* as in the annotation file */
    const char *path;
    int orig_w, orig_h; /* upright, before any augmentation */
    dg_image image;
    int n_objects;
    dg_object *objects;
    dg_scratch *scratch;
    /* masks[i] is that of objects[i], as large as the image; NULL: the data has none. Code that
     * moves or drops objects must do the same with masks. */
    dg_mask *masks;
    /* where an item node gets further images; NULL: there are none (dg_sample_further in node.h) */
    const struct dg_further *further;
    /* Width and height of the upper left part of the image that shows something; the rest is
     * filling, which a batch that keeps proportions takes for padding. 0: the whole image. Code
     * that moves pixels other than by the functions below sets both to 0. */
    int part_w, part_h;
} dg_sample;
/* The same as a rectangle: the whole image, or what is left of the part in it. */
DG_PUBLIC void dg_sample_part(const dg_sample *sm, int *w, int *h);

/* Resizes and pastes image, boxes and masks together; masks by nearest pixels. */
DG_PUBLIC int dg_sample_resize(dg_sample *sm, int w, int h, dg_diag *d) DG_MUST_USE;
DG_PUBLIC int dg_sample_paste(dg_sample *sm, int w, int h, int x, int y, const uint8_t fill[3],
                              dg_diag *d) DG_MUST_USE;
/* Cuts image, boxes and masks. Boxes whose centre is not strictly inside become 0,0,0,0, as in the
 * reference, for sanitize to drop. */
DG_PUBLIC int dg_sample_crop(dg_sample *sm, int x, int y, int w, int h, dg_diag *d) DG_MUST_USE;
/* Mirrors left and right; a part stays in its corner. */
DG_PUBLIC void dg_sample_flip(dg_sample *sm);
/* Drops objects narrower or lower than min_size pixels or reaching outside the image; returns their
 * number. */
DG_PUBLIC int dg_sample_sanitize(dg_sample *sm, double min_size);

DG_PUBLIC double dg_box_iou(dg_box a, dg_box b); /* 0 if both are empty */
/* Nearest pixels, as dg_image_resize_nearest takes them. Fails with "image-memory". */
DG_PUBLIC int dg_mask_resize(dg_mask *out, dg_scratch *s, const dg_mask *in, int w, int h,
                             dg_diag *d) DG_MUST_USE;

/* ---- data sets ------------------------------------------------------------------------------- */

/* The index of a data set, in COCO's terms whatever its form; read-only after opening, shared by
 * threads. */
typedef struct dg_coco dg_coco;

typedef struct dg_coco_class {
    int64_t id; /* the file's category id */
    const char *name;
} dg_coco_class;

typedef struct dg_coco_image {
    int64_t id;
    const char *file_name;
    int w, h;
    int64_t first; /* its annotations are first .. first + n - 1 */
    int n;
} dg_coco_image;

typedef struct dg_coco_annotation {
    int64_t id;
    int image, label;
    double x, y, w, h; /* as in the file: left, top, width, height */
    double area;
    /* many objects, or one too difficult: not trained on, ignored in scores */
    bool crowd;
    bool truncated; /* in VOC's sense: cut off by the image's edge, or occluded */
} dg_coco_annotation;

/* Opens a COCO annotation file. Images are in ascending order of id, classes in ascending order of
 * category id (label = position), annotations by image in the file's order. Images without
 * annotations are kept. Errors name file, line and the value found. */
DG_PUBLIC int dg_coco_open(dg_coco **out, const char *path, dg_diag *d) DG_MUST_USE;
/* The same with masks: dg_coco_sample gives them. An object to train on without a mask is the error
 * "mask-missing". */
DG_PUBLIC int dg_coco_open_masks(dg_coco **out, const char *path, dg_diag *d) DG_MUST_USE;
DG_PUBLIC bool dg_coco_has_masks(const dg_coco *c);
/* The mask of an annotation of an index with masks. Errors: "mask-form", "image-memory". */
DG_PUBLIC int dg_coco_mask(dg_rle *out, const dg_coco *c, int64_t annotation, dg_diag *d)
    DG_MUST_USE;
DG_PUBLIC void dg_coco_close(dg_coco **c);
/* Opens a file whose images may lack width and height, which the headers of the images in folder
 * then give. An unreadable image with objects is an error, or with `replace` only counted. masks:
 * as dg_coco_open_masks. */
DG_PUBLIC int dg_coco_open_in(dg_coco **out, const char *path, const char *folder, bool replace,
                              bool masks, dg_diag *d) DG_MUST_USE;

/* Data sets of other forms. Images are ordered by name, ids count from 1; file_name is relative to
 * dg_coco_folder. */
typedef struct dg_data_source {
    size_t size;       /* sizeof(dg_data_source), set by the caller */
    const char *root;  /* a folder; for YOLO also a .yaml file */
    const char *split; /* "train"; NULL: the data set has no splits */
    /* "nut,bolt": names in the order of labels; NULL: from the data set */
    const char *classes;
    bool difficult; /* VOC: train on difficult objects too; false: treat them as crowds */
    bool from_one;  /* VOC: pixels count from 1, and the last one belongs to the box */
    /* keep an image of unreadable size without its objects and count them in a warning; false:
     * error */
    bool replace;
    /* YOLO: keep polygons as masks; a box without one is the error "mask-missing" */
    bool masks;
} dg_data_source;

/* VOC: ROOT/JPEGImages, ROOT/Annotations and ImageSets/Main/SPLIT.txt, or a folder of .xml files
 * and images. Unless listed, the classes are those of all its .xml files, in alphabetical order. */
DG_PUBLIC int dg_voc_open(dg_coco **out, const dg_data_source *from, dg_diag *d) DG_MUST_USE;
/* LabelMe: as VOC, with .json files. CVAT: annotations.xml ("for images 1.1"); CSV: a table with a
 * row for each box. Several such files, or folders with one each, are splits. */
DG_PUBLIC int dg_labelme_open(dg_coco **out, const dg_data_source *from, dg_diag *d) DG_MUST_USE;
DG_PUBLIC int dg_cvat_open(dg_coco **out, const dg_data_source *from, dg_diag *d) DG_MUST_USE;
DG_PUBLIC int dg_csv_open(dg_coco **out, const dg_data_source *from, dg_diag *d) DG_MUST_USE;
/* YOLO: a .yaml file with path, train, val, names, or a folder with images/ and labels/. An
 * unreadable image is an error if it has objects; else its size is 1 x 1 until a probe reads it. */
DG_PUBLIC int dg_yolo_open(dg_coco **out, const dg_data_source *from, dg_diag *d) DG_MUST_USE;
/* The folder that file names are relative to, for dg_coco_sample; NULL after dg_coco_open, which
 * does not know it. */
DG_PUBLIC const char *dg_coco_folder(const dg_coco *c);

/* Keeps only the images held out for evaluation (held), or only the others; call before sharing the
 * index. Holds out a share of the images, at least one, and of each class's objects, chosen by file
 * name without folders: the same on every machine, in any form and order. Files of the same content
 * in `folder` (NULL: files are not read) stay together. Fails with "data-hold-out" if a part would
 * be empty. */
DG_PUBLIC int dg_coco_hold_out_in(dg_coco *c, const char *folder, double share, bool held,
                                  dg_diag *d) DG_MUST_USE;
/* The same, in dg_coco_folder(c). */
DG_PUBLIC int dg_coco_hold_out(dg_coco *c, double share, bool held, dg_diag *d) DG_MUST_USE;

DG_PUBLIC const char *dg_coco_path(const dg_coco *c);
DG_PUBLIC int dg_coco_n_images(const dg_coco *c);
DG_PUBLIC int dg_coco_n_classes(const dg_coco *c);
DG_PUBLIC int64_t dg_coco_n_annotations(const dg_coco *c);
DG_PUBLIC const dg_coco_image *dg_coco_image_at(const dg_coco *c, int i);
DG_PUBLIC const dg_coco_class *dg_coco_class_at(const dg_coco *c, int label);
DG_PUBLIC const dg_coco_annotation *dg_coco_annotation_at(const dg_coco *c, int64_t i);
DG_PUBLIC int dg_coco_find_image(const dg_coco *c, int64_t id); /* -1 if unknown */
DG_PUBLIC int dg_coco_find_class(const dg_coco *c, int64_t id); /* label, or -1 if unknown */

/* The objects to train on in image i: no crowds, boxes cut to the image, empty ones dropped.
 * Returns their number; out must have room for dg_coco_image_at(i)->n. */
DG_PUBLIC int dg_coco_objects(dg_object *out, const dg_coco *c, int i);

/* Reads image i from folder, with its objects, into *out; the caller sets out->index. Turns the
 * image upright, unless the annotated width and height match the stored, unturned pixels; any other
 * mismatch is the error "image-differs". */
DG_PUBLIC int dg_coco_sample(dg_sample *out, dg_scratch *s, const dg_coco *c, int i,
                             const char *folder, dg_diag *d) DG_MUST_USE;
/* The checks of dg_coco_sample, reading only the file's header. */
DG_PUBLIC int dg_coco_probe(const dg_coco *c, int i, const char *folder, dg_diag *d) DG_MUST_USE;

/* What a data set contains, and what the training rule does to it. */
typedef enum dg_box_fault { DG_BOX_EMPTY, DG_BOX_OUTSIDE, DG_BOX_CUT } dg_box_fault;

typedef struct dg_bad_box {
    dg_box_fault fault;
    int64_t annotation; /* index of the annotation */
} dg_bad_box;

enum { DG_REPORT_NAMED = 10 };

typedef struct dg_data_report {
    size_t size;
    int n_images, n_empty; /* empty: without an object to train on */
    int n_classes;
    int64_t n_objects;    /* objects to train on */
    int64_t n_crowd;      /* used in evaluation only */
    int64_t n_degenerate; /* zero width or height: dropped */
    int64_t n_outside;    /* entirely outside the image: dropped */
    int64_t n_cut;        /* more than a pixel outside: cut to the image */
    int n_named;
    dg_bad_box named[DG_REPORT_NAMED];
    int most_objects, most_objects_image;
    const int64_t *per_class; /* objects to train on, by label; owned by the index */
} dg_data_report;

DG_PUBLIC const dg_data_report *dg_coco_report(const dg_coco *c);

/* ---- COCO scores ----------------------------------------------------------------------------- */

typedef struct dg_detection {
    int image, label;
    double x, y, w, h;
    double score;
} dg_detection;

/* Indices of the 12 numbers; dg_score_name gives "AP", "AP50", "AP75", "APs", ... */
enum {
    DG_AP,
    DG_AP50,
    DG_AP75,
    DG_AP_SMALL,
    DG_AP_MEDIUM,
    DG_AP_LARGE,
    DG_AR1,
    DG_AR10,
    DG_AR100,
    DG_AR_SMALL,
    DG_AR_MEDIUM,
    DG_AR_LARGE,
    DG_N_SCORES,
};
enum { DG_SCORE_IOUS = 10, DG_SCORE_RECALLS = 101, DG_SCORE_AREAS = 4 };

typedef struct dg_score dg_score;

/* COCO bbox evaluation, equal to the official evaluator's. Truths: n_truths annotations in any
 * order (image, label, box, area and crowd are read). Detections of equal score keep their order. A
 * number without any truth is -1. */
DG_PUBLIC int dg_score_open(dg_score **out, int n_images, int n_classes,
                            const dg_coco_annotation *truths, int64_t n_truths,
                            const dg_detection *detections, int64_t n_detections, dg_diag *d)
    DG_MUST_USE;
/* The same for masks (COCO's "segm"): truth_masks[i] is truths[i]'s, masks[i] is detections[i]'s. A
 * detection's area is that of its mask. */
DG_PUBLIC int dg_score_open_masks(dg_score **out, int n_images, int n_classes,
                                  const dg_coco_annotation *truths, const dg_rle *truth_masks,
                                  int64_t n_truths, const dg_detection *detections,
                                  const dg_rle *masks, int64_t n_detections, dg_diag *d)
    DG_MUST_USE;
DG_PUBLIC void dg_score_close(dg_score **s);
DG_PUBLIC const char *dg_score_name(int which);
DG_PUBLIC double dg_score_number(const dg_score *s, int which);
DG_PUBLIC double dg_score_class_ap(const dg_score *s, int label); /* AP of one class, or -1 */
DG_PUBLIC double dg_score_class_ap50(const dg_score *s, int label);
/* Interpolated precision of a class at recall 0, 0.01, .. 1 (101 numbers); iou 0..9 is 0.50 ..
 * 0.95; area 0..3 is all, small, medium, large. All -1 if the class has no truth. */
DG_PUBLIC const double *dg_score_curve(const dg_score *s, int label, int iou, int area);

/* Writes each class's precision over recall, at IoU 0.50, 0.75 and 0.90, as one JSON object:
 * {"step", "recall": number of points from 0 to 1, "classes": [{"id", "name", "AP", "AP50",
 * "precision": {"0.50": [..], ..}}]}. -1 is undefined. The file appears whole or not at all. */
DG_PUBLIC int dg_score_write_curves(const char *path, const dg_score *s,
                                    const dg_coco_class *classes, int n_classes, int64_t step,
                                    dg_diag *d) DG_MUST_USE;

/* The same with masks (or NULL), COCO's "segmentation" with run lengths as text. */
DG_PUBLIC int dg_results_write_masks(const char *path, const dg_detection *detections,
                                     const dg_rle *masks, int64_t n, const int64_t *image_ids,
                                     const dg_coco_class *classes, dg_diag *d) DG_MUST_USE;

/* All annotations of an index, for dg_score_open. */
DG_PUBLIC const dg_coco_annotation *dg_coco_annotations(const dg_coco *c);

/* Writes detections as a COCO result file, one object per line, with the data set's image and
 * category ids: image_ids is indexed by dg_detection.image, classes by label. The file appears
 * whole or not at all. */
DG_PUBLIC int dg_results_write(const char *path, const dg_detection *detections, int64_t n,
                               const int64_t *image_ids, const dg_coco_class *classes, dg_diag *d)
    DG_MUST_USE;

#ifdef __cplusplus
}
#endif
#endif
