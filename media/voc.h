/* voc.h: data sets in Pascal VOC's form; data.h declares dg_voc_open. */
#ifndef DG_MEDIA_VOC_H
#define DG_MEDIA_VOC_H

#include "media/index.h"

typedef struct dg_voc_object {
    const char *name;
    double x1, y1, x2, y2; /* as written, px */
    double difficult, truncated;
    int line;
    uint32_t has; /* bits of present fields: xmin 1, ymin 2, xmax 4, ymax 8 */
} dg_voc_object;

typedef struct dg_voc_file {
    const char *file_name; /* NULL: absent */
    double w, h;           /* 0: absent */
    DG_VEC(dg_voc_object) objects;
} dg_voc_file;

/* Parses one .xml file with libxml2. Other elements are skipped, boxes of <part>s too. Fails with
 * "voc-syntax", "voc-value", "voc-object". Thread-safe after dg_voc_prepare. */
int dg_voc_parse(dg_voc_file *out, dg_arena *a, const char *text, size_t n, const char *name,
                 dg_diag *d) DG_MUST_USE;
void dg_voc_prepare(void);

/* dg_voc_open; with faults, errors are noted and reading continues. */
int dg_voc_read(dg_coco **out, const dg_data_source *from, dg_faults *faults, dg_diag *d)
    DG_MUST_USE;

/* Names of root's splits, as `split` takes them; empty for a flat folder of files. False: root is
 * not in VOC's form. */
bool dg_voc_splits(dg_listing *splits, dg_arena *a, const char *root);

#endif
