/* faults.h: what may be wrong with a data set. Readers of data sets are strict where no dg_faults
 * is given: the first fault ends them with an error. With one they note it, leave out what is
 * wrong, and read on. */
#ifndef DG_MEDIA_FAULTS_H
#define DG_MEDIA_FAULTS_H

#include "base/arena.h"

typedef enum dg_fault_kind {
    /* errors: a run stops at them, or learns or counts what is not so */
    DG_FAULT_ANNOTATION, /* an annotation file, or a record of one, that cannot be read */
    DG_FAULT_IMAGE_MISSING,
    DG_FAULT_IMAGE_UNREADABLE,
    DG_FAULT_IMAGE_CUT, /* the file ends too early */
    DG_FAULT_IMAGE_SIZE,
    DG_FAULT_IMAGE_TWICE, /* listed twice: by id, or by file */
    DG_FAULT_ID_TWICE,    /* two boxes of one id */
    DG_FAULT_CLASS_TWICE,
    DG_FAULT_CLASS_UNKNOWN,
    DG_FAULT_IMAGE_UNKNOWN,
    DG_FAULT_CLASSES_DIFFER, /* between splits */
    DG_FAULT_LEAK,           /* one image in two splits */
    /* warnings: a run goes on, people should look */
    DG_FAULT_BOX_EMPTY,
    DG_FAULT_BOX_OUTSIDE,
    DG_FAULT_BOX_CUT, /* reaches outside */
    DG_FAULT_BOX_TWICE,
    DG_FAULT_IMAGE_COPY, /* the same content in one split */
    DG_FAULT_UNLISTED,   /* an image that no split lists, labels without an image */
    DG_FAULT_CLASS_EMPTY,
    DG_FAULT_CLASS_UNTRAINED, /* has objects, but none for training */
    DG_N_FAULTS,
} dg_fault_kind;

typedef struct dg_fault_row {
    const char *id, *title, *help;
    bool        error;
} dg_fault_row;
const dg_fault_row *dg_fault_row_of(dg_fault_kind kind);

typedef struct dg_fault {
    dg_where    at;
    const char *text;
    int         split, image; /* -1: of none */
} dg_fault;

enum { DG_FAULTS_KEPT = 200 }; /* of each kind; more are counted */

typedef struct dg_faults dg_faults;
struct dg_faults {
    dg_arena *arena;
    int       split; /* that is being read; -1 */
    struct {
        int64_t n;
        DG_VEC(dg_fault) kept;
    } of[DG_N_FAULTS];
};

/* faults NULL: dg_fail with this id, hence negative. Else 1: what is wrong is to be left out. */
int dg_fault_or_fail(dg_faults *f, dg_diag *d, dg_fault_kind kind, dg_where at, const char *id,
                     const char *fmt, ...) DG_PRINTF(6, 7);
/* image -1: of none. */
void dg_fault_note(dg_faults *f, dg_fault_kind kind, int image, dg_where at, const char *fmt, ...)
    DG_PRINTF(5, 6);
/* What a reader said when it gave up, as a fault. */
void dg_fault_take(dg_faults *f, dg_fault_kind kind, int image, dg_diag *d);

int64_t dg_faults_errors(const dg_faults *f);
int64_t dg_faults_warnings(const dg_faults *f);

#endif
