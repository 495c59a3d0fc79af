/* yolo.h: data sets in YOLO's form; data.h declares dg_yolo_open. */
#ifndef DG_MEDIA_YOLO_H
#define DG_MEDIA_YOLO_H

#include "media/index.h"

/* One line of a label file: class, and box as fractions of the image's sides. Polygons become their
 * bounding boxes. */
typedef struct dg_yolo_label {
    int label, line;
    double cx, cy, w, h;
    const double *xy; /* n_points of a polygon, as fractions; NULL: a box */
    int n_points;
} dg_yolo_label;
typedef struct dg_yolo_labels {
    DG_VEC(dg_yolo_label) of;
} dg_yolo_labels;

/* Parses a label file. n_points: numbers after each box that describe keypoints, skipped. Fails
 * with "yolo-label". */
int dg_yolo_parse(dg_yolo_labels *out, dg_arena *a, const char *text, size_t n, int n_points,
                  const char *name, dg_diag *d) DG_MUST_USE;

/* dg_yolo_open; with faults, errors are noted and reading continues. */
int dg_yolo_read(dg_coco **out, const dg_data_source *from, dg_faults *faults, dg_diag *d)
    DG_MUST_USE;

/* Names of root's splits, as `split` takes them; empty if images/ and labels/ have no subfolders.
 * False: root is not in YOLO's form. */
bool dg_yolo_splits(dg_listing *splits, dg_arena *a, const char *root);

/* The .yaml file of a data set folder, or NULL; root may be that file itself. */
const char *dg_yolo_file(dg_arena *a, const char *root);

/* Without a .yaml file. */
/* a/images/b.jpg -> a/labels/b.txt, else the file beside it */
const char *dg_yolo_labels_of(dg_arena *a, const char *path);
/* True if the folder has both of these folders. */
bool dg_yolo_both(dg_arena *a, const char *folder, const char *images, const char *labels);
/* True if folder is as labelImg leaves it: images, labels beside them, and classes.txt. */
bool dg_yolo_beside(dg_arena *a, const char *folder);
/* Splits: folders in both images/ and labels/, folders that have both, or folders with images and
 * labels side by side. */
void dg_yolo_folders(dg_listing *out, dg_arena *a, const char *root);

#endif
