/* index.h: a data set in memory: images, classes, boxes. What coco.c, voc.c and yolo.c make of
 * their files; data.h calls it dg_coco, for it keeps to COCO's terms. */
#ifndef DG_MEDIA_INDEX_H
#define DG_MEDIA_INDEX_H

#include "base/dir.h"
#include "media/coco.h"
#include "media/faults.h"

struct dg_coco {
    dg_arena           *arena; /* of all but the annotations */
    char               *path;
    const char         *folder; /* of the images; NULL: not known */
    dg_coco_class      *classes;
    dg_coco_image      *images;
    dg_coco_annotation *annotations; /* dg_try_alloc; lent: another's, only read here */
    bool                lent;
    int                 n_classes, n_images;
    int64_t             n_annotations;
    int64_t             n_unsized, n_lost; /* images whose size cannot be read, and their objects, which are left out */
    dg_data_report      report;
    int64_t            *per_class;
};

dg_coco *dg_index_open(const char *path); /* empty; dg_coco_close */

/* Names of classes, which readers number from 1, parted by commas or by lines; blanks around them
 * do not count. A name that stands twice is an error ("class-twice"), or is no UTF-8 ("class-encoding"). */
int dg_index_classes(dg_coco *c, const char *text, char separator, dg_where at, dg_diag *d) DG_MUST_USE;
int dg_index_classes_file(dg_coco *c, const char *path, dg_diag *d) DG_MUST_USE; /* one a line */
int dg_index_label(const dg_coco *c, const char *name); /* -1: there is none */

/* Gives each image its place in the annotations, which are taken together from `lists`: list i,
 * of n[i], has those of image i, whose number and label they have; ids are given. Counts the report. */
int dg_index_join(dg_coco *c, const dg_coco_annotation *const *lists, const int *n, dg_diag *d) DG_MUST_USE;
void dg_index_count(dg_coco *c);

/* Images and classes are there; truths, in any order, stay their owner's, and are copied only where images are mixed up in
 * them. Counts the report. False: no memory. */
bool dg_index_over(dg_coco *c, const dg_coco_annotation *truths, int64_t n) DG_MUST_USE;

/* The size of an image that has n objects. One that cannot be read is an error, or counted; *w is 0 then. */
int dg_index_size(dg_coco *c, int *w, int *h, const char *path, int n, bool replace, dg_diag *d) DG_MUST_USE;

/* To a billionth of a pixel: decimals that went through sums and shares come back as they were. */
double dg_index_round(double pixels);

/* Many small files, read on several threads; everything that depends on order happens afterwards, on one. */
enum { DG_INDEX_THREADS = 8 };
typedef struct dg_index_files {
    int  (*read)(void *ctx, int64_t i, dg_arena *a, dg_diag *d); /* file i, in any order; what it finds lives in a */
    void (*drop)(void *ctx, int64_t i); /* faults are noted, and file i, which read refuses, stays without objects */
    void     *ctx;
    dg_arena *arenas[DG_INDEX_THREADS];
} dg_index_files;

/* Without faults the first file that is refused ends it. The arenas stay open until dg_index_files_close. */
int  dg_index_files_read(dg_index_files *f, int64_t n, dg_faults *faults, dg_diag *d) DG_MUST_USE;
void dg_index_files_close(dg_index_files *f);

/* "data-split": what, and which splits root has. */
int dg_index_no_split(const char *root, const dg_listing *has, dg_diag *d, const char *what);

#endif
