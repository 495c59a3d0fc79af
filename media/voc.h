/* voc.h: data sets in the form of Pascal VOC; dg_voc_open stands in data.h. */
#ifndef DG_MEDIA_VOC_H
#define DG_MEDIA_VOC_H

#include "media/index.h"

typedef struct dg_voc_object {
    const char *name;
    double      x1, y1, x2, y2; /* as written */
    double      difficult, truncated;
    int         line;
    uint32_t    has; /* xmin 1, ymin 2, xmax 4, ymax 8 */
} dg_voc_object;

typedef struct dg_voc_file {
    const char *file_name; /* NULL: none is given */
    double      w, h;      /* 0: not given */
    DG_VEC(dg_voc_object) objects;
} dg_voc_file;

/* One .xml file, through libxml2. What lies in it beside these is passed over; boxes of parts
 * too. Fails with "voc-syntax", "voc-value", "voc-object". Any threads at once, after dg_voc_prepare. */
int  dg_voc_parse(dg_voc_file *out, dg_arena *a, const char *text, size_t n, const char *name,
                  dg_diag *d) DG_MUST_USE;
void dg_voc_prepare(void);

/* dg_voc_open; with faults it goes on where that would end. */
int dg_voc_read(dg_coco **out, const dg_data_source *from, dg_faults *faults, dg_diag *d) DG_MUST_USE;

/* Names of the splits that root has, as `split` takes them; none where it is a folder of files that stand side by
 * side. False: root is not in this form. */
bool dg_voc_splits(dg_listing *splits, dg_arena *a, const char *root);

#endif
