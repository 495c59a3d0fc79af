/* index.h: a data set in memory: images, classes, boxes. coco.c, voc.c and yolo.c build it from
 * their files. data.h calls it dg_coco, after the form whose terms it uses. */
#ifndef DG_MEDIA_INDEX_H
#define DG_MEDIA_INDEX_H

#include "base/dir.h"
#include "base/file.h"
#include "media/coco.h"
#include "media/faults.h"

/* Where an annotation's mask comes from: byte `at` of the annotation file, if that is not 0, or a
 * polygon of n points in pixels. */
typedef struct dg_mask_source {
    size_t at;
    const double *xy;
    int n;
} dg_mask_source;

struct dg_coco {
    dg_arena *arena; /* owns everything but the annotations */
    char *path;
    const char *folder; /* of the images; NULL: unknown */
    dg_coco_class *classes;
    dg_coco_image *images;
    dg_coco_annotation *annotations; /* from dg_try_alloc; with lent, borrowed and read-only */
    bool lent;
    dg_mask_source *masks; /* by annotation, from dg_try_alloc; NULL: masks are not read */
    dg_mapping file;       /* with masks: the annotation file */
    int n_classes, n_images;
    int64_t n_annotations;
    /* images of unknown size, and the number of their objects, which are dropped */
    int64_t n_unsized, n_lost;
    dg_data_report report;
    int64_t *per_class;
};

dg_coco *dg_index_open(const char *path); /* empty; free with dg_coco_close */

bool dg_index_nameless(const char *name); /* nothing but blanks: no class can be called so */
/* Adds class names, numbered from 1, separated by `separator`; surrounding blanks are trimmed.
 * Errors: "class-nameless" (an empty one before others, which would be numbered anew),
 * "class-twice" (repeated), "class-encoding" (not UTF-8). */
int dg_index_classes(dg_coco *c, const char *text, char separator, dg_where at, dg_diag *d)
    DG_MUST_USE;
/* An error if the text holds a NUL, which would end it. */
int dg_index_no_nul(const char *text, size_t n, const char *path, dg_diag *d) DG_MUST_USE;
/* Reads a file of lines, as dg_file_read; one with a NUL, which would end the text, is an error. */
int dg_index_text(char **text, size_t *n, const char *path, size_t max, dg_diag *d) DG_MUST_USE;
/* one name per line */
int dg_index_classes_file(dg_coco *c, const char *path, dg_diag *d) DG_MUST_USE;
int dg_index_label(const dg_coco *c, const char *name); /* -1: unknown */

/* Copies lists[i], the n[i] annotations of image i (image and label set), for all images into
 * c->annotations; sets each image's range and numbers the ids. Fills the report. */
int dg_index_join(dg_coco *c, const dg_coco_annotation *const *lists, const int *n, dg_diag *d)
    DG_MUST_USE;
void dg_index_count(dg_coco *c);

/* Uses `truths` as the annotations of images and classes already in c. Borrowed if ordered by
 * image; otherwise copied. Fills the report. False: out of memory. */
bool dg_index_over(dg_coco *c, const dg_coco_annotation *truths, int64_t n) DG_MUST_USE;

/* Reads the size of an image that has n objects. Unreadable: *w and *h are 0, and it is an error,
 * or only counted with `replace`. */
int dg_index_size(dg_coco *c, int *w, int *h, const char *path, int n, bool replace, dg_diag *d)
    DG_MUST_USE;

/* Rounds to a billionth of a pixel, so that decimals survive sums and divisions. */
double dg_index_round(double pixels);

/* Reads many small files on several threads. `read` runs in any order; do what depends on order
 * afterwards, on one thread. */
enum { DG_INDEX_THREADS = 8 };
typedef struct dg_index_files {
    /* reads file i; what it allocates lives in a */
    int (*read)(void *ctx, int64_t i, dg_arena *a, dg_diag *d);
    /* with faults: file i was refused and keeps no objects */
    void (*drop)(void *ctx, int64_t i);
    void *ctx;
    dg_arena *arenas[DG_INDEX_THREADS];
} dg_index_files;

/* Without faults the first refused file is an error. The arenas stay open until
 * dg_index_files_close. */
int dg_index_files_read(dg_index_files *f, int64_t n, dg_faults *faults, dg_diag *d) DG_MUST_USE;
void dg_index_files_close(dg_index_files *f);

/* Fails with "data-split": `what`, then the splits that root has. */
int dg_index_no_split(const char *root, const dg_listing *has, dg_diag *d, const char *what);

#endif
