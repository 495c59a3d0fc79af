/* yolo.h: data sets in the form of YOLO; dg_yolo_open stands in data.h. */
#ifndef DG_MEDIA_YOLO_H
#define DG_MEDIA_YOLO_H

#include "media/index.h"

/* Lines of labels: class and box as shares of the image's sides; polygons become their boxes. */
typedef struct dg_yolo_label {
    int    label, line;
    double cx, cy, w, h;
} dg_yolo_label;
typedef struct dg_yolo_labels {
    DG_VEC(dg_yolo_label) of;
} dg_yolo_labels;

/* n_points: numbers of keypoints that stand behind each box and are passed over. Fails with "yolo-label". */
int dg_yolo_parse(dg_yolo_labels *out, dg_arena *a, const char *text, size_t n, int n_points, const char *name,
                  dg_diag *d) DG_MUST_USE;

/* dg_yolo_open; with faults it goes on where that would end. */
int dg_yolo_read(dg_coco **out, const dg_data_source *from, dg_faults *faults, dg_diag *d) DG_MUST_USE;

/* Names of the splits that root has, as `split` takes them; none where images/ and labels/ hold all. False: root is not
 * in this form. */
bool dg_yolo_splits(dg_listing *splits, dg_arena *a, const char *root);

/* The .yaml file of a data set's folder, or NULL; root may be that file itself. */
const char *dg_yolo_file(dg_arena *a, const char *root);

#endif
