/* faults.h: faults of data sets. Without a dg_faults, readers are strict: the first fault is an
 * error. With one they note each fault, leave out the record and read on. */
#ifndef DG_MEDIA_FAULTS_H
#define DG_MEDIA_FAULTS_H

#include "base/arena.h"

typedef enum dg_fault_kind {
    /* errors: they stop a run, or make it learn or count wrong data */
    DG_FAULT_ANNOTATION, /* an unreadable annotation file, or record in one */
    DG_FAULT_IMAGE_MISSING,
    DG_FAULT_IMAGE_UNREADABLE,
    DG_FAULT_IMAGE_CUT, /* the file ends too early */
    DG_FAULT_IMAGE_SIZE,
    DG_FAULT_IMAGE_TWICE, /* listed twice, by id or by file */
    DG_FAULT_ID_TWICE,    /* two boxes share an id */
    DG_FAULT_CLASS_TWICE,
    DG_FAULT_CLASS_UNKNOWN,
    DG_FAULT_IMAGE_UNKNOWN,
    DG_FAULT_CLASSES_DIFFER, /* splits list different classes */
    DG_FAULT_LEAK,           /* an image is in two splits */
    DG_FAULT_BOX_NORMALIZED, /* shares of the image instead of pixels */
    DG_FAULT_BOX_FORM,       /* the four numbers mean something else */
    DG_FAULT_NO_OBJECTS,     /* in no split */
    /* warnings: a run continues, but people should look */
    DG_FAULT_BOX_EMPTY,
    DG_FAULT_BOX_OUTSIDE,
    DG_FAULT_BOX_CUT, /* reaches outside the image */
    DG_FAULT_BOX_TWICE,
    DG_FAULT_IMAGE_COPY,  /* two files of one split have the same content */
    DG_FAULT_UNLISTED,    /* an image in no split, or labels without an image */
    DG_FAULT_CSV_COLUMNS, /* guessed */
    DG_FAULT_CLASS_ALIKE, /* two names that differ in case or blanks */
    DG_FAULT_CLASS_EMPTY,
    DG_FAULT_CLASS_UNTRAINED, /* has objects, but none to train on */
    DG_N_FAULTS,
} dg_fault_kind;

typedef struct dg_fault_row {
    const char *id, *title, *help;
    bool error;
} dg_fault_row;
const dg_fault_row *dg_fault_row_of(dg_fault_kind kind);

typedef struct dg_fault {
    dg_where at;
    const char *text;
    int split, image; /* -1: none */
} dg_fault;

enum { DG_FAULTS_KEPT = 200 }; /* per kind; further ones are only counted */

typedef struct dg_faults dg_faults;
struct dg_faults {
    dg_arena *arena;
    int split; /* the split being read, or -1 */
    struct {
        int64_t n;
        DG_VEC(dg_fault) kept;
    } of[DG_N_FAULTS];
};

/* faults NULL: dg_fail with this id (negative). Else notes the fault and returns 1: leave the
 * record out. */
int dg_fault_or_fail(dg_faults *f, dg_diag *d, dg_fault_kind kind, dg_where at, const char *id,
                     const char *fmt, ...) DG_PRINTF(6, 7);
/* Notes a fault of image number `image`; -1: of no image. */
void dg_fault_note(dg_faults *f, dg_fault_kind kind, int image, dg_where at, const char *fmt, ...)
    DG_PRINTF(5, 6);
/* Turns the reader's error in d into a fault, and warnings that have a kind's id into that kind. */
void dg_fault_take(dg_faults *f, dg_fault_kind kind, int image, dg_diag *d);

int64_t dg_faults_errors(const dg_faults *f);
int64_t dg_faults_warnings(const dg_faults *f);

#endif
