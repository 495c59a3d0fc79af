/* marks.h: data sets whose marks (boxes with names) stand in files that list them by image: a file
 * for each image (VOC, LabelMe), or one for many (CVAT, CSV). A parser fills dg_marked_image; what
 * follows is the same for all: classes, sizes, splits, the index. */
#ifndef DG_MEDIA_MARKS_H
#define DG_MEDIA_MARKS_H

#include "base/map.h"
#include "media/index.h"

typedef struct dg_marked_object {
    const char *name;
    double x1, y1, x2, y2; /* as written, px */
    double difficult, truncated;
    int line;
    uint32_t has; /* for parsers: bits of present fields: xmin 1, ymin 2, xmax 4, ymax 8 */
} dg_marked_object;

typedef struct dg_marked_image {
    const char *file_name; /* NULL: absent */
    double w, h;           /* 0: absent */
    DG_VEC(dg_marked_object) objects;
} dg_marked_image;

typedef struct dg_marks_entry {
    const char *file, *image; /* relative to root; image NULL: not known yet */
    const char *images;       /* the folder of its image */
    dg_marked_image marks;
    bool read, wanted;
} dg_marks_entry;

typedef struct dg_marks {
    const dg_data_source *from;
    dg_faults *faults;
    dg_diag *d;
    dg_arena *arena;
    dg_coco *c;
    DG_VEC(dg_marks_entry *) entries; /* all files, for the classes */
    DG_VEC(dg_marks_entry *) wanted;  /* images of the split */
    dg_map *by_name;                  /* of marks_table.c */
} dg_marks;

void dg_marks_open(dg_marks *r, const dg_data_source *from, dg_faults *faults, dg_diag *d);
/* Passes the index on if rc >= 0; frees everything else. Returns rc. */
int dg_marks_close(dg_marks *r, int rc, dg_coco **out);
const char *dg_marks_path(dg_marks *r, const char *relative);

/* Reads the classes that the caller or classes.txt lists, if there are such. */
int dg_marks_classes(dg_marks *r) DG_MUST_USE;
/* Fills r->c from the entries that were read. Fails with "mark-class", "mark-empty". */
int dg_marks_index(dg_marks *r) DG_MUST_USE;

/* A form with a file for each image. */
typedef struct dg_marks_form {
    const char *end;       /* of the files' names: ".xml" */
    const char *folder[4]; /* where they stand, unless beside the images; NULL: the end */
    void (*prepare)(void); /* before `parse` runs on threads; or NULL */
    int (*parse)(dg_marked_image *out, dg_arena *a, const char *text, size_t n, const char *name,
                 dg_diag *d);
    /* does a file of that ending show that a folder is of this form? */
    bool (*is)(const char *path);
} dg_marks_form;
/* True if the word stands in the first 64 KiB of the file. */
bool dg_marks_begins(const char *path, const char *word);

int dg_marks_files_read(dg_coco **out, const dg_marks_form *form, const dg_data_source *from,
                        dg_faults *faults, dg_diag *d) DG_MUST_USE;
/* Names of root's splits, as `split` takes them; empty for a flat folder of files. False: root is
 * not in this form. */
bool dg_marks_files_splits(dg_listing *splits, dg_arena *a, const dg_marks_form *form,
                           const char *root);

extern const dg_marks_form dg_voc_form, dg_labelme_form;

/* A form with files for many images. */
typedef struct dg_marks_table {
    const char *end;
    /* calls dg_marks_add for each image; file: relative to root; path: for messages */
    int (*parse)(dg_marks *r, const char *text, size_t n, const char *file, const char *path);
    /* does a file that begins so belong to the form? NULL: all do */
    bool (*is)(const char *text, size_t n);
} dg_marks_table;

int dg_marks_table_read(dg_coco **out, const dg_marks_table *form, const dg_data_source *from,
                        dg_faults *faults, dg_diag *d) DG_MUST_USE;
bool dg_marks_table_splits(dg_listing *splits, dg_arena *a, const dg_marks_table *form,
                           const char *root);
/* Files that have the ending and stand where tables do, but are not of the form. */
void dg_marks_table_others(dg_listing *out, dg_arena *a, const dg_marks_table *form,
                           const char *root);
/* The entry of an image by the name that the file gives it; known: it was there. */
dg_marks_entry *dg_marks_add(dg_marks *r, const char *file, const char *image, bool *known);

extern const dg_marks_table dg_cvat_form, dg_csv_form;

#endif
